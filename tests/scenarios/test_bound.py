"""The bound: TE jobs start, and have victims, only where no BE job is delayed by more than guard.bound allows.

Everywhere: KillWait is 30 s and Slurm's requeue delay 121 s, a TE job is ended within 60 s of its time limit, and polls
take no time; so one preemption costs 211 s and the grace period, beside the lost run and the TE job.

Over 400 lines: one bound, with each way in which it may be broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tesched_core.model.actions import ReasonCode, SetMarks, holds, releases, sets
from tesched_core.model.cluster import Job, PluginSettings, Reservation
from tesched_core.model.decision import Admission, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Bound, Limits, YieldBy
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo
from tesched_core.step import step

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

#: seconds that any job may be delayed by where TE jobs have 600 s at most: 211 s more, and 60 s of guard.min_run_time_s
LEAST_S = 871
WAITS, LATER = JobId(20), JobId(30)


def limits(slowdown: float = 1.5) -> Limits:
    """Return limits with a bound, and none on how often a job is preempted."""
    bound = Bound(slowdown=slowdown, te_time_limit_s=600)
    return Limits(bound=bound, cool_down_s=0, max_preemptions_per_job=100, max_lost_runs_per_job=100, max_slowdown=1e6)


def full(*jobs: Job, ran_s: float = 100, run_s: float | None = None, slowdown: float = 1.5, te_s: int = 600) -> Driver:
    """Return a node that BE fills, which has run for `ran_s` of `run_s`; TE wants half of it for up to `te_s`."""
    be = running(BE, share("n1", 32), start_time=NOW - ran_s, submit_time=NOW - ran_s, user="bob")
    te = waiting(TE, cpus=16, time_limit_s=te_s, user="ada")
    run_times = {} if run_s is None else {BE: run_s}
    return Driver([node("n1")], [be, te, *jobs], graces={BE: 0}, limits=limits(slowdown=slowdown), run_times=run_times)


def queue(*jobs: Job, delayed_s: float, te: Job | None = None) -> Driver:
    """Return half a node that a TE job holds, for which WAITS has waited so long; TE wants the other half."""
    drive = Driver(
        [node("n1")],
        [
            waiting(8, cpus=16, time_limit_s=600, user="ada", submit_time=NOW - 5),
            waiting(WAITS, cpus=24, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
            te or waiting(TE, cpus=16, time_limit_s=100, user="ada"),
            *jobs,
        ],
        limits=limits(),
        run_times={WAITS: 100},
        graces={WAITS: 0},
    )
    drive.change(TE, reason="None")
    drive.cycle(0)
    drive.starts(8, HALF, at_s=0)
    drive.cycle(1)
    drive.cycle(delayed_s)
    return drive


def held(drive: Driver) -> list[JobId]:
    """Return the jobs that the last cycle has held."""
    return [one.job_id for one in drive.decision.actions if holds(one)]


def comes_back(drive: Driver) -> None:
    """Let BE leave for TE at 0, and run again from 203 on."""
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, HALF, at_s=2)
    drive.cycle(3)
    drive.ends(TE)
    drive.starts(BE, share("n1", 32), at_s=203)
    drive.cycle(204)
    assert drive.victim().state is VictimState.BACK


@pytest.mark.parametrize(
    ("ran_s", "run_s", "te_s", "may"),
    [
        (60, None, 600, True),
        (61, None, 600, False),
        (160, None, 500, True),
        (161, None, 500, False),
        # 600 s for its run time of 1,200 are less than any job may be delayed by; 1,000 for 2,000 are more.
        (61, 1200, 600, False),
        (189, 2000, 600, True),
        (190, 2000, 600, False),
    ],
)
def test_victim_has_enough_left_for_its_lost_run_the_te_job_and_its_way_back(
    ran_s: float, run_s: float | None, te_s: int, may: bool
) -> None:
    drive = full(ran_s=ran_s, run_s=run_s, te_s=te_s)
    drive.cycle(0)
    assert bool(drive.open_orders()) is may
    refused = {one.code for one in drive.decision.refusals if one.job_id == BE}
    assert (RefusalCode.BOUND in refused) is not may


def test_what_a_job_has_run_is_its_run_time_where_nothing_else_is_known() -> None:
    # With a bound of 3 it may be delayed by twice of that.
    drive = full(ran_s=810, slowdown=3)
    drive.cycle(0)
    assert drive.open_orders() == []
    drive.cycle(1)
    assert drive.open_orders() == [1]


def test_its_longest_run_so_far_is_its_run_time_while_it_waits() -> None:
    drive = full(ran_s=2000, slowdown=3)
    drive.obeys(*drive.cycle(0))
    drive.cycle(1)
    assert drive.decision.bound is not None
    # Seen to have left at 1, it ran for 2,000 s until its requeue: of 4,000 s it has lost 2,000 and was away for 1.
    assert [(one.delayed_s, one.bound_s) for one in drive.decision.bound.jobs] == [(2001, 4000)]


def test_no_bound_protects_a_job_from_te_jobs_of_its_own_user() -> None:
    drive = full(ran_s=5000)
    drive.change(BE, user="ada")
    drive.cycle(0)
    assert drive.open_orders() == [1]


def test_nor_is_it_delayed_by_them() -> None:
    drive = full(ran_s=60)
    drive.change(BE, user="ada")
    comes_back(drive)
    assert by_job(drive.memory, "past")[JobId(BE)].delayed_s == 0


@pytest.mark.parametrize(("other_s", "may"), [(100, True), (101, False)])
def test_a_victim_is_away_until_the_slowest_of_its_order_has_left(other_s: float, may: bool) -> None:
    drive = Driver(
        [node("n1")],
        [
            running(BE, HALF, start_time=NOW - 60, submit_time=NOW - 60, user="bob"),
            # Its owner's word lets it be delayed for long.
            running(2, HALF, start_time=NOW - 60, submit_time=NOW - 60, user="bob"),
            waiting(TE, cpus=32, time_limit_s=500, user="ada"),
        ],
        graces={BE: 0, 2: other_s},
        limits=limits(),
        run_times={2: 10_000},
    )
    drive.cycle(0)
    assert bool(drive.open_orders()) is may
    assert (drive.why_not(TE) is RefusalCode.BOUND) is not may


def test_te_job_without_a_time_limit_has_no_victims() -> None:
    drive = full(ran_s=5000, slowdown=100)
    drive.change(TE, time_limit_s=None)
    drive.cycle(0)
    assert drive.open_orders() == []


def test_without_a_bound_it_is_a_victim_at_any_time() -> None:
    drive = full(ran_s=5000)
    drive.limits = replace(drive.limits, bound=Bound())
    drive.cycle(0)
    assert drive.open_orders() == [1]
    assert drive.decision.admission is None


@pytest.mark.parametrize(("at_s", "may"), [(263, True), (264, False)])
def test_a_preemption_that_is_over_counts_for_the_next_one(at_s: float, may: bool) -> None:
    drive = full(ran_s=60)
    comes_back(drive)
    assert by_job(drive.memory, "past")[JobId(BE)].delayed_s == 60 + 203
    # At 263 it has lost 60 s again; with 263 s of 871 that leaves 337 s for a TE job, less 211 s.
    drive.jobs[LATER] = waiting(LATER, cpus=16, time_limit_s=337, user="ada")
    drive.start = drive.start.with_traits({**drive.start.traits, LATER: drive.start.traits[JobId(TE)]})
    drive.cycle(at_s)
    assert drive.open_orders() == ([2] if may else [])


@pytest.mark.parametrize(
    ("reason", "eligible_s", "is_held"),
    [
        ("BeginTime", 130, True),
        ("Priority", 0, True),
        ("JobHeldUser", 0, False),
        ("AssocGrpCPUMinutesLimit", 0, False),
        ("Dependency", 0, False),
        ("BeginTime", 10_000, False),
    ],
)
def test_no_te_job_waits_for_a_victim_that_could_not_start_anyway(
    reason: str, eligible_s: float, is_held: bool
) -> None:
    drive = full(waiting(LATER, cpus=32, time_limit_s=600, user="ada"), ran_s=60)
    drive.limits = replace(drive.limits, order_timeout_s=1000)
    drive.obeys(*drive.cycle(0))
    drive.cycle(10)
    priority = 0 if reason == "JobHeldUser" else 100
    drive.change(BE, reason=reason, eligible_time=NOW + eligible_s, priority=priority)
    for at_s in range(20, 180, 10):
        drive.cycle(at_s)
    assert (LATER in held(drive) or LATER in drive.memory.changes_of("hold")) is is_held
    # What it could not start for is no delay by TE jobs: 60 s lost and 10 s away are.
    assert drive.decision.bound is not None
    assert [one.delayed_s for one in drive.decision.bound.jobs] == [60 + 170 if is_held else 60 + 10]


@pytest.mark.parametrize("state", ["DOWN", "IDLE"])
def test_no_te_job_waits_for_a_job_that_would_not_fit_if_nothing_else_ran(state: str) -> None:
    drive = queue(delayed_s=800)
    drive.obeys(*drive.decision.actions)
    drive.nodes["n2"] = replace(node("n2"), state=state)
    partition = drive.start.partitions["p"]
    drive.start = replace(drive.start, partitions={"p": replace(partition, nodes=partition.nodes | {"n2"})})
    request = replace(drive.jobs[WAITS].request, tasks=2, min_nodes=2, max_nodes=2)
    drive.change(WAITS, request=request)
    drive.cycle(801)
    is_released = [one.job_id for one in drive.decision.actions if releases(one)] == [TE]
    assert is_released is (state == "DOWN")


def test_a_due_job_stays_at_the_head_where_it_shows_a_limit() -> None:
    drive = queue(delayed_s=700)
    drive.jobs[LATER] = waiting(LATER, cpus=24, user="cyd", priority=500)
    drive.start = drive.start.with_traits({**drive.start.traits, LATER: drive.start.traits[WAITS]})
    drive.obeys(*drive.cycle(800))
    drive.change(WAITS, reason="AssocGrpCpuLimit")
    drive.obeys(*drive.cycle(802))
    assert drive.jobs[JobId(TE)].priority > 0, "it waits for no job that a limit keeps waiting"
    for at_s in range(810, 1200, 10):
        drive.obeys(*drive.cycle(at_s))
        assert drive.jobs[WAITS].nice < 0
        assert held(drive) == []


def test_what_undo_withdraws_counts_until_then() -> None:
    drive = full(ran_s=60)
    drive.obeys(*drive.cycle(0))
    drive.cycle(2)
    for at_s in (50, 51):
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        drive.obeys(*drive.decision.actions)
    assert drive.open_orders() == []
    assert by_job(drive.memory, "past")[JobId(BE)].delayed_s == 60 + 51


@pytest.mark.parametrize(("delayed_s", "is_held"), [(711, False), (712, True)])
def test_te_job_that_might_end_after_a_waiting_jobs_deadline_is_held(delayed_s: float, is_held: bool) -> None:
    drive = queue(delayed_s=delayed_s)
    assert held(drive) == ([TE] if is_held else [])
    assert (drive.why_not(TE) is RefusalCode.BOUND) is is_held
    if is_held:
        (why,) = (one.text for one in drive.decision.refusals if one.job_id == TE)
        assert "job 20 of bob" in why
        assert "712 s of at most 871 s (guard.bound)" in why


def test_the_waiting_job_is_next_in_line_while_a_te_job_waits_for_it() -> None:
    other = waiting(LATER, cpus=24, user="cyd", priority=500)
    drive = queue(delayed_s=700)
    drive.jobs[LATER] = other
    drive.start = drive.start.with_traits({**drive.start.traits, LATER: drive.start.traits[WAITS]})
    drive.cycle(710)
    assert [one for one in drive.decision.actions if one.job_id == WAITS] == []
    drive.obeys(*drive.cycle(800))
    assert [one.reason.code for one in drive.decision.actions if one.job_id == WAITS] == [ReasonCode.DUE]
    assert drive.jobs[WAITS].priority > 500
    drive.ends(8)
    drive.starts(WAITS, share("n1", 24), at_s=802)
    drive.obeys(*drive.cycle(803))
    assert drive.jobs[WAITS].nice == 0


def test_it_is_released_when_the_waiting_job_has_started() -> None:
    drive = queue(delayed_s=800)
    drive.obeys(*drive.decision.actions)
    drive.ends(8)
    drive.starts(WAITS, share("n1", 24), at_s=802)
    drive.cycle(803)
    assert [one.job_id for one in drive.decision.actions if releases(one)] == [TE]


def test_it_stays_held_while_the_daemon_is_paused() -> None:
    drive = queue(delayed_s=800)
    drive.obeys(*drive.decision.actions)
    _, decision = step(drive.memory, drive.snapshot(801), drive.entries(), drive.limits, paused="maintenance")
    assert not any(releases(one) for one in decision.actions)


@pytest.mark.parametrize(
    "te",
    [
        waiting(TE, cpus=16, time_limit_s=100, user="bob"),
        waiting(TE, cpus=16, time_limit_s=100, user="ada", partitions=("q",)),
    ],
    ids=["of the same user", "on other nodes"],
)
def test_te_job_that_can_not_delay_it_is_not_held(te: Job) -> None:
    drive = queue(delayed_s=800, te=te)
    drive.nodes["n2"] = replace(node("n2"), partitions=frozenset({"q"}))
    drive.start = replace(
        drive.start,
        partitions={
            **drive.start.partitions,
            "q": replace(drive.start.partitions["p"], name="q", nodes=frozenset({"n2"})),
        },
    )
    drive.cycle(801)
    last = drive.memory.changes_of("hold")
    released = [one.job_id for one in drive.decision.actions if releases(one)]
    assert TE not in last or released == [TE]


def test_te_job_is_not_stopped_when_its_victims_have_had_their_notice() -> None:
    drive = full(waiting(LATER, cpus=32, time_limit_s=600, user="ada"), ran_s=60)
    drive.limits = replace(drive.limits, order_timeout_s=1000)
    drive.obeys(*drive.cycle(0))
    drive.cycle(150)
    assert held(drive) == []
    # BE is away, and has been delayed by 60 s and 151 of 871: 600 s more, and 60, are too much.
    drive.cycle(152)
    assert drive.open_orders() == [1]
    assert held(drive) == [LATER]
    assert drive.why_not(TE) is RefusalCode.ORDER_OPEN


def test_what_undo_resumes_was_delayed() -> None:
    drive = full(ran_s=60)
    drive.limits = replace(drive.limits, lever=YieldBy.AUTO)
    drive.obeys(*drive.cycle(0))
    drive.cycle(1)
    for at_s in (400, 401, 402, 403):
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        # The order ends once its priority is seen to be put back, which takes longer than the victim.
        is_late = at_s < 402
        drive.obeys(*[one for one in drive.decision.actions if not (is_late and sets(one, Field.NICE))])
    assert drive.memory.open_orders() == ()
    assert by_job(drive.memory, "past")[JobId(BE)].delayed_s == pytest.approx(400, abs=2)


def test_after_undo_a_victim_that_waits_is_delayed_on() -> None:
    drive = full(ran_s=60, te_s=100)
    drive.obeys(*drive.cycle(0))
    drive.cycle(2)
    for at_s in (50, 51):
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        drive.obeys(*drive.decision.actions)
    drive.change(BE, reason="Resources", eligible_time=NOW + 60, submit_time=NOW + 1)
    drive.starts(TE, HALF, at_s=100)
    drive.cycle(101)
    drive.cycle(301)
    assert drive.decision.bound is not None
    assert [one.delayed_s for one in drive.decision.bound.jobs] == [60 + 51 + 201]


@pytest.mark.parametrize(("suspended_s", "is_held"), [(711, False), (712, True)])
def test_no_te_job_keeps_a_suspended_victim_suspended_after_its_deadline(suspended_s: float, is_held: bool) -> None:
    drive = full(waiting(LATER, cpus=32, time_limit_s=100, user="cyd"), ran_s=60)
    drive.limits = replace(drive.limits, lever=YieldBy.AUTO)
    drive.change(LATER, reason="Priority")
    drive.obeys(*drive.cycle(0))
    drive.cycle(1)
    assert drive.victim().state is VictimState.SUSPENDED
    drive.starts(TE, HALF, at_s=1)
    drive.cycle(1 + suspended_s)
    assert held(drive) == ([LATER] if is_held else [])


@pytest.mark.parametrize(("delayed_s", "left_s"), [(0, 211 + 60), (500, 871 - 500 - 660)])
def test_te_jobs_may_start_by_themselves_until_the_first_deadline(delayed_s: float, left_s: float) -> None:
    drive = queue(delayed_s=delayed_s) if delayed_s else full(ran_s=61)  # no job may be a victim
    if not delayed_s:
        drive.cycle(0)
    assert drive.decision.admission == Admission(until=NOW + delayed_s + left_s, most_s=600)


def marks(drive: Driver, at_s: float) -> Sequence[tuple[int, int]]:
    """Return which jobs Slurm's plugin may preempt, and until when, seconds after NOW."""
    written = [one for one in drive.cycle(at_s) if isinstance(one, SetMarks)]
    drive.obeys(*written)
    return [(mark.job_id, mark.until - int(NOW)) for one in written for mark in one.marks]


def marked(ran_s: float) -> Driver:
    """Return a site with Slurm's plugin; the job there declares no signal."""
    drive = full(ran_s=ran_s, run_s=2000)
    drive.limits = replace(drive.limits, lever=YieldBy.PLUGIN, mark_for_s=900)
    drive.plugin = PluginSettings(te_partitions=frozenset({"p"}))
    drive.start = drive.start.with_traits(
        {**drive.start.traits, JobId(BE): replace(drive.start.traits[JobId(BE)], notice_signal="")}
    )
    return drive


def test_marks_end_with_the_time_in_which_a_job_may_be_a_victim() -> None:
    assert marks(marked(60), 0) == [(BE, 1000 - 60 - 211 - 600)]
    assert marks(marked(189), 0) == [(BE, 0)]
    assert marks(marked(190), 0) == []


def test_a_job_counts_that_ends_before_a_reservation_though_one_like_it_would_not() -> None:
    waits = waiting(WAITS, cpus=24, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10, time_limit_s=36_000)
    short = replace(waits, job_id=LATER, time_limit_s=60)
    te = waiting(TE, cpus=16, time_limit_s=100, user="ada", reason="None")
    runs = waiting(8, cpus=16, time_limit_s=600, user="ada", submit_time=NOW - 5)
    run_times: dict[int, float] = dict.fromkeys((WAITS, LATER), 30.0)
    drive = Driver([node("n1")], [runs, waits, short, te], limits=limits(), run_times=run_times)
    drive.cycle(0)
    drive.starts(8, HALF, at_s=0)
    drive.cycle(1)
    drive.cycle(700)
    at = NOW + 700 + 3600
    one = Reservation(name="maintenance", nodes=frozenset({"n1"}), start_time=at, end_time=at + 3600)
    drive.start = replace(drive.start, reservations={"maintenance": one})
    drive.cycle(800)
    assert held(drive) == [TE]
    (why,) = (one.text for one in drive.decision.refusals if one.job_id == TE)
    assert why.startswith(f"job {LATER} of bob comes first")
