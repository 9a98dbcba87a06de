"""The victims of an order leave together: one that loses all by its requeue is not notified while another one saves.

Everywhere: job 1 and job 2 hold half of n1 each, job 9 wants all of it. Job 1 has a grace period of 60 s; job 2 has
declared no signal. KillWait is 30 s, and a requeued job may start again after 121 s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, Notify, kind_of, sets
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, Order, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, Extra, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

QUICK = 2
OTHER_HALF = share("n1", 16)


def two(*, graces: dict[int, float] | None = None, leave_s: float | None = None) -> Driver:
    """Return the case right after the order was made; jobs like job 2 are known to take so long to leave."""
    drive = Driver(
        [node("n1")], [running(BE, HALF), running(QUICK, OTHER_HALF), waiting(TE, cpus=32)], graces=graces or {BE: 60}
    )
    quick = drive.start.traits[JobId(QUICK)]
    if graces is None:
        quick = replace(quick, notice_signal="", grace_period_s=0.0)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(QUICK): quick})
    if leave_s is not None:
        job = drive.jobs[JobId(QUICK)]
        drive.memory = replace(drive.memory, leave_times={(job.user, job.name): (leave_s,)})
    drive.obeys(*[one for one in drive.cycle(0) if not isinstance(one, Notify)])
    return drive


def asked(actions: tuple[Action, ...]) -> list[tuple[str, int]]:
    return [(kind_of(one), one.job_id) for one in actions if not sets(one, Field.NICE, Field.NODES)]


def state_of(drive: Driver, job_id: int) -> VictimState:
    order: Order = drive.order()
    return next(victim.state for victim in order.victims if victim.job_id == job_id)


def has_paid(drive: Driver) -> bool:
    """Return whether job 2 counts as preempted, for itself or towards any limit."""
    return JobId(QUICK) in by_job(drive.memory, "preemptions") or any(one.job_id == QUICK for one in drive.memory.paid)


@pytest.mark.parametrize("left", [Driver.requeued, Driver.ends])
def test_a_victim_without_a_signal_is_requeued_when_the_other_has_left(left: Callable[[Driver, int], None]) -> None:
    drive = two()
    assert asked(drive.decision.actions) == [("notify", BE)]
    assert asked(drive.cycle(10)) == []
    left(drive, BE)
    assert asked(drive.cycle(11)) == [("requeue", QUICK)]
    assert state_of(drive, QUICK) is VictimState.REQUEUING


@pytest.mark.parametrize(("state", "again"), [(JobState.FAILED, [("rerun", BE)]), (JobState.COMPLETED, [])])
def test_one_without_a_signal_does_not_wait_for_the_others_epilog_where_nothing_is_known_of_it(
    state: JobState, again: list[tuple[str, int]]
) -> None:
    drive = two()
    drive.completing(BE, state)
    assert set(asked(drive.cycle(11))) == {*again, ("requeue", QUICK)}


@pytest.mark.parametrize(
    ("leave_s", "delay_s", "lead_s"),
    [(None, 121, 30), (4.0, 121, 4), (None, 1, 1), (4.0, 0, 0)],
    ids=["unknown: KillWait", "as jobs like it", "no sooner than it could come back", "at once"],
)
def test_a_victim_is_requeued_so_long_before_the_end_of_the_others_grace_period(
    leave_s: float | None, delay_s: int, lead_s: float
) -> None:
    drive = two(leave_s=leave_s)
    drive.requeue_delay_s = delay_s
    assert asked(drive.cycle(60 - lead_s - 0.5)) == []
    assert ("requeue", QUICK) in asked(drive.cycle(60 - lead_s))


def test_two_that_save_have_their_notice_at_once_however_long_each_may_take() -> None:
    drive = two(graces={BE: 60, QUICK: 5})
    assert sorted(job_id for kind, job_id in asked(drive.decision.actions) if kind == "notify") == [BE, QUICK]


@pytest.mark.parametrize("ends", [JobState.CANCELLED, JobState.FAILED])
def test_a_te_job_that_waits_no_more_has_cost_it_nothing(ends: JobState) -> None:
    drive = two()
    drive.ends(TE, ends)
    assert asked(drive.cycle(5)) == []
    assert state_of(drive, QUICK) is VictimState.SPARED
    drive.cycle(70)
    assert (drive.order().state, drive.order().ending) == (OrderState.ENDED, Ending.PREEMPTOR_GONE)
    assert not has_paid(drive)


def test_it_ends_by_itself_before_it_is_requeued_and_has_paid_nothing() -> None:
    drive = two()
    drive.ends(QUICK)
    drive.cycle(5)
    assert state_of(drive, QUICK) is VictimState.LEFT
    assert not has_paid(drive)


def test_an_only_victim_without_a_signal_is_requeued_at_once() -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)])
    drive.start = drive.start.with_traits(
        {
            job_id: replace(one, notice_signal="", grace_period_s=0.0) if job_id == BE else one
            for job_id, one in drive.start.traits.items()
        }
    )
    assert asked(drive.cycle(0)) == [("requeue", BE)]


def test_an_epilog_that_takes_longer_than_slurm_keeps_a_requeued_job_is_waited_for() -> None:
    """It would be eligible again before that one's node is free. What the last Epilog there took counts."""
    drive = two(leave_s=4.0)
    drive.memory = replace(drive.memory, ending_times={"n1": (20.0, 100.0)})
    drive.completing(BE, JobState.FAILED)
    assert asked(drive.cycle(11)) == [("rerun", BE)]
    drive.change(BE, state=JobState.UNKNOWN, restarts=1)
    for at_s in (12, 60, 106):
        assert asked(drive.cycle(at_s)) == [], at_s
    assert asked(drive.cycle(107)) == [("requeue", QUICK)]


def test_a_saving_victim_that_one_answer_does_not_show_has_not_left() -> None:
    drive = two()
    shown = drive.jobs[JobId(BE)]
    drive.forgets(BE)
    assert asked(drive.cycle(5)) == []
    drive.jobs[JobId(BE)] = shown
    assert asked(drive.cycle(6)) == []
    assert state_of(drive, QUICK) is VictimState.PLANNED


def test_while_an_admin_has_the_saving_one_suspended_no_other_leaves_for_it() -> None:
    drive = two()
    drive.change(BE, state=JobState.SUSPENDED)
    assert asked(drive.cycle(59)) == []
    assert state_of(drive, QUICK) is VictimState.PLANNED


def test_a_victim_that_others_requeue_before_its_turn_has_paid_nothing() -> None:
    drive = two()
    drive.requeued(QUICK)
    drive.cycle(5)
    assert state_of(drive, QUICK) is VictimState.SPARED
    assert not has_paid(drive)


@pytest.mark.parametrize("change", [{"deadline": NOW + 1e6}, {"requeueable": False}])
def test_a_victim_that_would_not_start_again_by_then_is_released(change: Extra) -> None:
    drive = two()
    drive.change(QUICK, **change)
    drive.requeued(BE)
    assert asked(drive.cycle(11)) == []
    assert state_of(drive, QUICK) is VictimState.SPARED


def test_a_victim_that_a_reload_protects_before_its_turn_stays() -> None:
    drive = two()
    drive.change(QUICK, qos="kept")
    drive.limits = replace(drive.limits, protected_qos=("kept",))
    drive.requeued(BE)
    assert asked(drive.cycle(11)) == []
    assert state_of(drive, QUICK) is VictimState.SPARED
