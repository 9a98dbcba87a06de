"""An operator lets a TE job through that tesched holds: it is not held again, and its time counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.levers.other_hand import SAVED_S
from tesched_core.model.actions import FailureKind, Hold, Release, Status
from tesched_core.model.change import PRIORITY, Change, Field
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo

from tests.builders import NOW, node, share, waiting
from tests.scenarios.driver import BE, TE, Driver
from tests.scenarios.test_held_by_hook import BE_WAITS, TOO_LONG_S
from tests.scenarios.test_held_by_hook import site as bounded

ONE_EACH = Limits(te=TeLimits(max_running_per_user=1), max_preemptions_per_job=0)
FIRST, SECOND, THIRD = 11, 12, 13
#: when the hold of the first cycle stands
STOOD_S = SAVED_S + 2


def trial(job_id: int, *, tasks: str = "") -> Job:
    """Return a TE job that waits; with tasks, a job array."""
    job = waiting(job_id, cpus=1, user="te", time_limit_s=60, submit_time=NOW - 100 + job_id)
    return replace(job, array_job_id=JobId(job_id), array_tasks=tasks) if tasks else job


def site(*more: Job, until_s: float = STOOD_S) -> Driver:
    """Return a TE job that runs, and further ones of its user that are held meanwhile."""
    drive = Driver([node("n1")], [trial(FIRST), *(more or (trial(SECOND),))], limits=ONE_EACH)
    drive.starts(FIRST, share("n1", 1), at_s=0)
    drive.obeys(*drive.cycle(1))
    assert all(drive.jobs[job.job_id].held for job in more)
    for at_s in (2.0, until_s):
        assert holds(drive, at_s) == []
    return drive


def holds(drive: Driver, at_s: float) -> list[int]:
    """Return the jobs that are held in a cycle; Slurm is not told."""
    return sorted(one.job_id for one in drive.cycle(at_s) if isinstance(one, Hold))


def is_released_by_another(drive: Driver, job_id: int = SECOND, *, nice: int = 0) -> None:
    drive.change(job_id, priority=100, reason="", nice=nice)


def test_one_that_another_hand_releases_is_not_held_again() -> None:
    drive = site()
    is_released_by_another(drive)
    assert holds(drive, 20) == []
    assert drive.why_not(SECOND) is RefusalCode.LET_THROUGH
    (why,) = (one.text for one in drive.decision.refusals if one.job_id == SECOND)
    assert why.startswith("released by another hand, not held again")
    assert "guard.te.max_running_per_user is 1" in why
    # It runs and comes back to the queue: that is for good.
    drive.starts(SECOND, share("n1", 1), at_s=21)
    assert holds(drive, 22) == []
    drive.requeued(SECOND)
    drive.change(SECOND, reason="Resources")
    assert holds(drive, 40) == []


def test_one_that_starts_before_the_next_poll_was_released_too() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.starts(SECOND, share("n1", 1), at_s=19)
    assert holds(drive, 20) == []
    drive.requeued(SECOND)
    drive.change(SECOND, reason="Resources")
    assert holds(drive, 40) == []


def test_others_are_held_on_while_one_is_let_through() -> None:
    drive = site(trial(SECOND), trial(THIRD))
    is_released_by_another(drive, THIRD)
    drive.ends(FIRST)
    assert holds(drive, 20) == []
    # It may start at any time: the second, which came before it, would be one too many.
    assert not [one for one in drive.decision.actions if isinstance(one, Release)]


def test_what_it_holds_counts_for_the_others_also_above_the_limit() -> None:
    drive = site(trial(SECOND), trial(THIRD, tasks="0-1"))
    drive.limits = Limits(te=TeLimits(max_running_per_user=2), max_preemptions_per_job=0)
    is_released_by_another(drive, THIRD)
    # One runs, and two tasks may start: another one would be the fourth.
    assert holds(drive, 20) == []
    assert drive.why_not(SECOND) is RefusalCode.TE_LIMIT
    assert "with it 4 TE jobs" in next(one.text for one in drive.decision.refusals if one.job_id == SECOND)


def test_a_bound_is_measured_while_one_is_let_through() -> None:
    drive = bounded(waiting(TE, cpus=16, user="te", time_limit_s=60), delayed_s=TOO_LONG_S)
    drive.change(BE_WAITS, eligible_time=NOW - 10)
    drive.obeys(*drive.cycle(0))
    for at_s in (1.0, STOOD_S):
        drive.cycle(at_s)
    is_released_by_another(drive, TE)
    drive.ends(BE)
    drive.starts(TE, share("n1", 16), at_s=20)
    assert holds(drive, 21) == []
    assert holds(drive, 31) == []
    drive.at_s = 40
    drive.ends(TE)
    drive.cycle(41)
    assert drive.memory.bystanders[JobId(BE_WAITS)].delayed_s == pytest.approx(20, abs=2)


@pytest.mark.parametrize("until_s", [3.0, SAVED_S])
def test_a_hold_that_slurmctld_may_have_lost_is_set_again(until_s: float) -> None:
    # It died, and has read a state from before the hold.
    drive = site(until_s=until_s)
    is_released_by_another(drive)
    assert holds(drive, until_s + 5) == [SECOND]


def test_a_hold_that_did_not_arrive_is_set_again() -> None:
    drive = Driver([node("n1")], [trial(FIRST), trial(SECOND)], limits=ONE_EACH)
    drive.starts(FIRST, share("n1", 1), at_s=0)
    assert holds(drive, 1) == [SECOND]
    assert holds(drive, 20) == [SECOND]
    assert holds(drive, 40) == [SECOND]


def test_what_its_user_does_with_the_nice_value_lets_none_through() -> None:
    drive = site()
    is_released_by_another(drive, nice=100)
    assert holds(drive, 20) == [SECOND]


@pytest.mark.parametrize("mark", [HOOK_MARK, ""])
def test_what_another_tesched_undoes_lets_none_through(mark: str) -> None:
    drive = site(replace(trial(SECOND), admin_comment=HOOK_MARK))
    is_released_by_another(drive)
    # It removes the mark, and an operator does not.
    drive.change(SECOND, admin_comment=mark)
    assert holds(drive, 20) == ([] if mark else [SECOND])


def test_what_tesched_sets_of_its_priority_lets_none_through() -> None:
    drive = site()
    raised = Change(
        lever=PRIORITY, job_id=JobId(SECOND), field=Field.NICE, previous=0, value=-9, at=NOW, since=NOW, restored=True
    )
    drive.memory = replace(drive.memory, changes={**drive.memory.changes, PRIORITY: {JobId(SECOND): raised}})
    is_released_by_another(drive)
    assert holds(drive, 20) == [SECOND]


def test_tescheds_own_release_is_none_of_another_hand_also_after_a_crash() -> None:
    drive = site()
    drive.ends(FIRST)
    (release,) = (one for one in drive.cycle(20) if isinstance(one, Release))
    # The daemon is killed after the command: what it has written before it says so.
    drive.obeys(release)
    drive.submits(trial(THIRD), like=SECOND)
    drive.starts(THIRD, share("n1", 1), at_s=20)
    assert holds(drive, 21) == [SECOND]


def test_nor_is_that_of_undo() -> None:
    drive = site()
    drive.memory, decision = undo(drive.memory, drive.snapshot(20), drive.limits)
    drive.obeys(*decision.actions)
    assert holds(drive, 21) == [SECOND]


def test_after_undo_one_that_was_let_through_is_known_still() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.cycle(20)
    drive.memory, _ = undo(drive.memory, drive.snapshot(21), drive.limits)
    assert holds(drive, 22) == []


def test_a_release_of_tescheds_that_slurm_refuses_leaves_a_hold_that_another_hand_may_end() -> None:
    drive = site()
    drive.ends(FIRST)
    (release,) = (one for one in drive.cycle(20) if isinstance(one, Release))
    drive.says(Status.FAILED, release, kind=FailureKind.BUSY)
    drive.submits(trial(THIRD), like=SECOND)
    drive.starts(THIRD, share("n1", 1), at_s=20)
    for at_s in (21, 22 + SAVED_S):
        drive.cycle(at_s)
    is_released_by_another(drive)
    assert holds(drive, 40) == []


def test_an_array_is_let_through_with_its_tasks() -> None:
    drive = site(trial(SECOND, tasks="0-3"))
    is_released_by_another(drive)
    assert holds(drive, 20) == []
    task = replace(trial(20), array_job_id=JobId(SECOND), array_task_id=0, restarts=1)
    drive.submits(task, like=SECOND)
    assert holds(drive, 21) == []


def test_a_task_that_is_released_alone_is_let_through_alone() -> None:
    drive = site(trial(SECOND, tasks="0-3"))
    drive.submits(replace(trial(20), array_job_id=JobId(SECOND), array_task_id=0), like=SECOND)
    assert holds(drive, 20) == []
    assert drive.why_not(20) is RefusalCode.LET_THROUGH
    assert drive.why_not(SECOND) is RefusalCode.TE_LIMIT
    # One that has run was not held.
    drive.submits(replace(trial(21), array_job_id=JobId(SECOND), array_task_id=1, restarts=1), like=SECOND)
    assert holds(drive, 21) == [21]


def test_it_is_forgotten_once_slurm_does_not_know_it() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.cycle(20)
    drive.ends(SECOND)
    drive.cycle(21)
    drive.forgets(SECOND)
    for at_s in (22, 2000):
        drive.cycle(at_s)
    assert JobId(SECOND) not in drive.memory.changes_of("hold")
