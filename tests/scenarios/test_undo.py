"""`undo`, by hand: what is put back, in which order it is believed, and what is left to its owner.

Everywhere: job 1 holds the only node and has 30 s of grace, job 9 wants half of it.
"""

from __future__ import annotations

import pytest
from tesched_core.model.actions import Action, Rerun, Status
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo
from tesched_policies.fill import Fill

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, nice_back, one_node


def undone(drive: Driver, at_s: float) -> tuple[Action, ...]:
    """Poll at this time and return what undo wants done."""
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
    return drive.decision.actions


def noticed() -> Driver:
    """Return the case after the notice was given at 0 s."""
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    return drive


def test_the_raise_is_put_back_and_the_victim_keeps_its_resources() -> None:
    drive = noticed()
    assert undone(drive, 5) == (nice_back(0, now=-1001),)
    assert (drive.order().ending, drive.order().state) == (Ending.WITHDRAWN, OrderState.SETTLING)
    assert undone(drive, 6) == (nice_back(0, now=-1001),), "it is believed to be back when that is seen"
    drive.obeys(*drive.decision.actions)
    assert undone(drive, 30) == ()
    assert drive.victim().state is VictimState.SPARED
    assert drive.memory.open_orders() == ()


def test_the_cool_down_of_one_that_was_let_go_holds_for_all_users() -> None:
    # An admin did that: whichever job preempts it next, it has just saved its work.
    drive = noticed()
    undone(drive, 5)
    assert by_job(drive.memory, "last_preempted") == {BE: NOW + 5}


def test_a_victim_that_waits_to_run_again_waits_with_its_own_priority() -> None:
    rival = waiting(5, cpus=32, priority=120)
    drive = Driver(
        [node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16), rival], graces={BE: 30}, run_times={5: 60}
    )
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.cycle(8)
    drive.starts(TE, HALF, at_s=8)
    drive.obeys(*drive.cycle(10))
    assert drive.jobs[JobId(BE)].nice < 0, "it is ahead of the rival"
    assert undone(drive, 12) == (nice_back(0, job=BE, preemptor=TE, now=drive.jobs[JobId(BE)].nice),)
    drive.obeys(*drive.decision.actions)
    assert undone(drive, 13) == ()
    assert drive.memory.open_orders() == ()


def test_a_job_that_was_brought_forward_and_still_waits_gets_its_place_back() -> None:
    holder = running(1, share("n1", 16), start_time=9_900.0, time_limit_s=700)
    drive = Driver(
        [node("n1")],
        [holder, waiting(2, cpus=32, priority=99), waiting(3, cpus=16, priority=98)],
        best_effort=Fill(),
        run_times={2: 60, 3: 60},
    )
    drive.obeys(*drive.cycle(0))
    assert drive.jobs[JobId(3)].nice < 0
    drive.obeys(*undone(drive, 1))
    assert drive.jobs[JobId(3)].nice == 0
    assert undone(drive, 2) == ()
    assert drive.memory.changes_of(Field.NICE) == {}


def test_a_value_that_another_user_has_set_is_left() -> None:
    drive = noticed()
    drive.change(TE, nice=7)
    assert undone(drive, 5) == ()
    assert drive.memory.changes_of(Field.NICE) == {}


def test_a_job_that_is_gone_needs_nothing() -> None:
    drive = noticed()
    drive.forgets(TE)
    drive.forgets(BE)
    assert undone(drive, 5) == ()
    assert drive.memory.open_orders() == ()


def test_what_slurm_did_not_take_is_tried_again() -> None:
    drive = noticed()
    actions = undone(drive, 5)
    drive.says(Status.FAILED, *actions)
    assert undone(drive, 6) == actions


def test_without_orders_there_is_nothing_to_do() -> None:
    drive = one_node()
    assert undone(drive, 0) == ()
    assert drive.decision.summary == "undo: nothing is left to put back"


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.CANCELLED])
def test_a_victim_that_is_ending_is_not_let_go(state: JobState) -> None:
    drive = noticed()
    drive.completing(BE, state)
    undone(drive, 40)
    assert drive.victim().state is VictimState.NOTICED, "however long its Epilog takes"
    drive.ends(BE, state)
    undone(drive, 41)
    assert drive.victim().departure is not None


def test_a_victim_that_has_died_of_its_notice_and_is_in_its_epilog_is_not_let_go() -> None:
    """It does not go on: it is put back in the queue once its Epilog is over, by this undo or by the next daemon."""
    drive = noticed()
    drive.completing(BE, JobState.FAILED)
    undone(drive, 5)
    assert drive.victim().state is VictimState.NOTICED
    drive.ends(BE, JobState.FAILED)
    actions = undone(drive, 6)
    assert [action.job_id for action in actions if isinstance(action, Rerun)] == [BE]
