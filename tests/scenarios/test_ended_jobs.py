"""What tesched had set of a job that has ended: its user may requeue it, and it is put back then.

Slurm changes nothing of a job that has ended, and requeues it with what it has (tests/cluster/test_right_before.py).
Times are seconds after the first poll.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import SetField, releases, sets
from tesched_core.model.cluster import HELD_BY_US, JobState
from tesched_core.model.field import Field, Nodes
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import HoldJob
from tesched_policies.baselines import NoPreemption

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, one_node
from tests.scenarios.test_two_raises import Wants

#: in which Slurm forgets a job that has ended, and tesched believes it
FORGOTTEN_S = 1000


def raised_and_bound() -> Driver:
    """Return one of two nodes free for a TE job that is first in its queue, and bound to it; it is 1 s later."""
    stays = replace(running(2, share("n2", 32)), requeueable=False)
    jobs = [running(BE, share("n1", 32)), stays, waiting(TE, cpus=16)]
    drive = Driver([node("n1"), node("n2")], jobs, graces={BE: 0.0}, limits=Limits(), binds=True, on_trial=True)
    for at_s in (0, 1):
        drive.obeys(*drive.cycle(at_s))
    seen = drive.jobs[JobId(TE)]
    assert (seen.nice, seen.request.required_nodes) == (-1001, ("n1",))
    return drive


def ran(*, seen: bool) -> Driver:
    """Return the same at 100 s; the TE job has failed after a run that a poll has seen, or none."""
    drive = raised_and_bound()
    drive.starts(TE, HALF, at_s=2)
    if seen:
        for at_s in (3, 5, 90):
            drive.obeys(*drive.cycle(at_s))
    drive.at_s = 91
    drive.ends(TE, JobState.FAILED)
    for at_s in (92, 100):
        assert drive.cycle(at_s) == ()
    return drive


def outstanding(drive: Driver) -> int:
    return sum(lever.outstanding(drive.memory, drive.snapshot(drive.at_s)) for lever in drive.levers)


def waits_again(drive: Driver, job_id: int, at_s: float) -> None:
    drive.at_s = at_s
    drive.requeued(job_id)
    drive.change(job_id, reason="Resources", submit_time=NOW + at_s, eligible_time=NOW + at_s)


@pytest.mark.parametrize("seen", [True, False])
def test_it_may_start_anywhere_and_has_its_own_place_once_its_user_has_requeued_it(seen: bool) -> None:
    drive = ran(seen=seen)
    waits_again(drive, TE, 101)
    for at_s in (102, 104):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(TE)].request.required_nodes == ()
    assert not drive.memory.is_bound(JobId(TE))
    drive.starts(TE, HALF, at_s=105)
    for at_s in (106, 108):
        drive.obeys(*drive.cycle(at_s))
    after = drive.jobs[JobId(TE)]
    assert (after.nice, after.priority) == (0, 100)
    assert drive.memory.changes_of(Field.NICE) == {}


@pytest.mark.parametrize("seen", [True, False])
def test_its_order_and_an_undo_do_not_wait_for_that(seen: bool) -> None:
    drive = ran(seen=seen)
    assert drive.order().ended_at is None, "its victim waits to run again"
    assert outstanding(drive) == 0
    drive.ends(BE, JobState.CANCELLED)
    drive.cycle(102)
    assert drive.order().ended_at is not None
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(104), drive.limits)
    assert (drive.decision.actions, drive.decision.summary) == ((), "undo: nothing is left to put back")


def test_an_undo_after_its_requeue_puts_it_back() -> None:
    drive = ran(seen=False)
    waits_again(drive, TE, 101)
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(102), drive.limits)
    assert changed_still(drive.memory, drive.snapshot(102)) == 2
    assert {one.field: one.value for one in drive.decision.actions if isinstance(one, SetField)} == {
        Field.NICE: 0,
        Field.NODES: Nodes(),
    }


@pytest.mark.parametrize("seen", [True, False])
def test_nothing_is_known_of_it_once_slurm_has_forgotten_it(seen: bool) -> None:
    drive = ran(seen=seen)
    drive.forgets(TE)
    drive.forgets(BE)
    drive.cycle(102)
    assert drive.memory.changes, "its record may be missing in one answer"
    drive.cycle(FORGOTTEN_S)
    assert drive.memory.changes == {}


def test_one_that_has_its_own_nice_value_at_its_end_is_done_with() -> None:
    drive = raised_and_bound()
    drive.change(TE, nice=0, priority=100)  # by its user
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(2)
    assert drive.memory.changes_of(Field.NICE) == {}


def test_raised_anew_right_after_its_requeue_it_has_its_own_nice_value_at_the_end() -> None:
    drive = ran(seen=False)
    waits_again(drive, TE, 101)
    drive.jobs[JobId(3)] = replace(waiting(3, cpus=32, priority=5000), user="cyd")
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(3): drive.start.traits[JobId(2)]})
    for at_s in (102, 104, 106, 108):
        drive.obeys(*drive.cycle(at_s))
    drive.starts(TE, HALF, at_s=109)
    for at_s in (110, 112):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(TE)].nice == 0


def test_a_victim_that_ran_between_two_polls_has_its_own_place_after_its_requeue() -> None:
    drive = one_node(waiting(5, cpus=32, priority=110), grace_s=0)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): drive.start.traits[JobId(BE)]})
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, HALF, at_s=2)
    drive.obeys(*drive.cycle(3))
    own = drive.jobs[JobId(BE)]
    assert own.nice < 0
    drive.starts(BE, HALF, at_s=10)
    drive.at_s = 11
    drive.ends(BE, JobState.FAILED)
    drive.obeys(*drive.cycle(12))
    waits_again(drive, BE, 20)
    for at_s in (21, 23):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(BE)].nice == 0


def test_a_task_of_an_array_has_its_own_place_after_its_requeue() -> None:
    """It has left its array's record to start, with the nice value that the array had."""
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 0.0})
    drive.change(TE, array_job_id=JobId(TE), array_tasks="0-1")
    drive.obeys(*drive.cycle(0))
    whole = drive.jobs[JobId(TE)]
    assert whole.nice == -1001
    task = replace(whole, job_id=JobId(20), array_task_id=0, array_tasks="")
    drive.submits(task, like=TE)
    drive.change(TE, array_tasks="1")
    drive.starts(20, HALF, at_s=2)
    drive.at_s = 3
    drive.ends(20, JobState.FAILED)
    for at_s in (4, 6, 8):
        drive.obeys(*drive.cycle(at_s))
    drive.ends(TE, JobState.CANCELLED)
    drive.obeys(*drive.cycle(10))
    assert outstanding(drive) == 0
    waits_again(drive, 20, 20)
    assert outstanding(drive) == 1
    (back,) = [action for action in drive.cycle(21) if sets(action, Field.NICE)]
    assert (back.job_id, back.value, back.previous) == (20, 0, -1001)


def held() -> Driver:
    """Return a waiting BE job that a policy wants held, and that tesched holds."""
    jobs = [running(BE, share("n1", 32)), waiting(2, cpus=8)]
    wants = Wants(intents=(HoldJob(job_id=JobId(2), why="not its turn"),))
    drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=wants, run_times={BE: 60, 2: 60})
    drive.obeys(*drive.cycle(0))
    drive.cycle(1)
    assert drive.jobs[JobId(2)].reason == HELD_BY_US
    return drive


def test_a_held_job_that_its_user_cancels_and_requeues_is_released() -> None:
    drive = held()
    drive.ends(2, JobState.CANCELLED)
    drive.best_effort = Wants()
    assert drive.cycle(2) == ()
    assert outstanding(drive) == 0
    drive.requeued(2)
    drive.change(2, reason=HELD_BY_US)
    (action,) = drive.cycle(20)
    assert releases(action)
    drive.obeys(action)
    drive.cycle(22)
    assert drive.memory.changes_of(Field.HOLD) == {}


def test_one_that_slurm_has_forgotten_is_forgotten() -> None:
    drive = held()
    drive.ends(2, JobState.CANCELLED)
    drive.cycle(2)
    drive.forgets(2)
    drive.cycle(3)
    drive.cycle(FORGOTTEN_S)
    assert drive.memory.changes_of(Field.HOLD) == {}
