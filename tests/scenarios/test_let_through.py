"""An operator lets a TE job through that tesched holds: it is not held again, and its time counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.other_hand import SAVED_S
from tesched_core.model.actions import FailureKind, Status, kind_of, releases
from tesched_core.model.change import LET_THROUGH, By, Change
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
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


def task(job_id: int, *, number: int = 0, restarts: int = 0, priority: int = 100, reason: str = "") -> Job:
    """Return a task with a record of its own, of the array with the second id."""
    one = replace(trial(job_id), array_job_id=JobId(SECOND), array_task_id=number, restarts=restarts)
    return replace(one, priority=priority, reason=reason)


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
    """Return the jobs that are held in a cycle; Slurm does not hold them."""
    return sorted(one.job_id for one in drive.cycle(at_s) if kind_of(one) == "hold")


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
    drive.starts(SECOND, share("n1", 1), at_s=21)
    assert holds(drive, 22) == []
    # Its owner may requeue it as often as it likes: the release was for one run.
    drive.requeued(SECOND)
    assert holds(drive, 40) == [SECOND]
    assert drive.why_not(SECOND) is RefusalCode.TE_LIMIT


def test_one_that_starts_before_the_next_poll_was_released_too() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.starts(SECOND, share("n1", 1), at_s=19)
    assert holds(drive, 20) == []
    assert drive.memory.is_let_through(drive.jobs[JobId(SECOND)])


def test_one_that_has_run_before_the_next_poll_has_had_its_run() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.starts(SECOND, share("n1", 1), at_s=15)
    drive.requeued(SECOND)
    assert holds(drive, 20) == [SECOND]


def test_one_that_has_had_its_run_is_named_no_more_and_may_be_released_again() -> None:
    # It may start by itself now, and keeps the mark that the daemon could not remove.
    drive = site(replace(trial(SECOND), admin_comment=HOOK_MARK))
    is_released_by_another(drive)
    drive.cycle(20)
    drive.starts(SECOND, share("n1", 1), at_s=21)
    drive.cycle(22)
    drive.requeued(SECOND)
    drive.limits = Limits(te=TeLimits(max_running_per_user=9), max_preemptions_per_job=0)
    drive.cycle(23)
    assert not [one for one in drive.memory.changes_of("hold").values() if one.value == LET_THROUGH]
    drive.limits = ONE_EACH
    drive.obeys(*[one for one in drive.cycle(24) if kind_of(one) == "hold"])
    for at_s in (25, 26 + SAVED_S):
        assert holds(drive, at_s) == []
    is_released_by_another(drive)
    assert holds(drive, 40) == []
    assert drive.why_not(SECOND) is RefusalCode.LET_THROUGH


def test_others_are_held_on_while_one_is_let_through() -> None:
    drive = site(trial(SECOND), trial(THIRD))
    is_released_by_another(drive, THIRD)
    drive.ends(FIRST)
    assert holds(drive, 20) == []
    # It may start at any time: the second, which came before it, would be one too many.
    assert not [one for one in drive.decision.actions if releases(one)]


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
        by=By.PREEMPTOR, job_id=JobId(SECOND), field=Field.NICE, previous=0, value=-9, at=NOW, since=NOW, restored=True
    )
    drive.memory = replace(drive.memory, changes={**drive.memory.changes, Field.NICE: {JobId(SECOND): raised}})
    is_released_by_another(drive)
    assert holds(drive, 20) == [SECOND]


def test_tescheds_own_release_is_none_of_another_hand_also_after_a_crash() -> None:
    drive = site()
    drive.ends(FIRST)
    (release,) = (one for one in drive.cycle(20) if releases(one))
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
    (release,) = (one for one in drive.cycle(20) if releases(one))
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
    drive.submits(task(20), like=SECOND)
    assert holds(drive, 21) == []
    # One that has had its run waits again.
    drive.submits(task(21, number=1, restarts=1), like=SECOND)
    assert holds(drive, 22) == [21]


def test_an_array_all_tasks_of_which_run_is_remembered_and_one_that_has_had_its_run_is_not() -> None:
    drive = site(trial(SECOND, tasks="0-3"))
    is_released_by_another(drive)
    drive.submits(task(20), like=SECOND)
    drive.starts(SECOND, share("n1", 1), at_s=19)
    drive.cycle(20)
    drive.requeued(SECOND)
    assert holds(drive, 21) == [SECOND]
    drive = site(trial(SECOND, tasks="0-3"))
    is_released_by_another(drive)
    drive.cycle(20)
    drive.forgets(SECOND)
    drive.submits(task(20, restarts=1), like=FIRST)
    assert holds(drive, 21) == [20]
    drive.cycle(2000)
    assert JobId(SECOND) not in drive.memory.changes_of("hold")


@pytest.mark.parametrize("reason", ["JobHeldUser", "JobHeldAdmin"])
def test_a_task_that_tesched_has_not_held_itself_is_not_let_through(reason: str) -> None:
    drive = Driver([node("n1")], [trial(FIRST), trial(SECOND, tasks="0-3")], limits=ONE_EACH)
    drive.starts(FIRST, share("n1", 1), at_s=0)
    # Its user has held it, or it is split off when a user names it.
    drive.submits(task(20, priority=0, reason=reason), like=SECOND)
    drive.obeys(*drive.cycle(1))
    for at_s in (2.0, STOOD_S):
        assert holds(drive, at_s) == []
    is_released_by_another(drive, 20)
    drive.obeys(*[one for one in drive.cycle(20) if kind_of(one) == "hold"])
    assert drive.jobs[JobId(20)].held
    assert drive.why_not(20) is RefusalCode.TE_LIMIT
    # Released again, once that hold stands, it is let through alone.
    for at_s in (21.0, 22 + SAVED_S):
        assert holds(drive, at_s) == []
    is_released_by_another(drive, 20)
    assert holds(drive, 40) == []
    assert drive.why_not(20) is RefusalCode.LET_THROUGH
    assert drive.why_not(SECOND) is RefusalCode.TE_LIMIT


def test_tescheds_own_release_of_an_array_lets_no_task_through() -> None:
    drive = site(replace(trial(SECOND, tasks="1-3%1"), array_throttle=1), task(20, priority=100))
    drive.ends(FIRST)
    (release,) = (one for one in drive.cycle(20) if releases(one))
    assert release.job_id == SECOND
    drive.obeys(release)
    drive.starts(SECOND, share("n1", 1), at_s=20)
    assert holds(drive, 21) == []
    assert drive.jobs[JobId(20)].held
    assert drive.why_not(20) is RefusalCode.TE_LIMIT


def test_the_last_task_of_an_array_is_let_through_alone() -> None:
    # It has the array's id; its user holds one that was split off, and releases it at the same time.
    drive = site(task(SECOND, number=3), task(20, priority=0, reason="JobHeldUser"))
    for job_id in (SECOND, 20):
        is_released_by_another(drive, job_id)
    assert holds(drive, 20) == [20]
    assert [drive.why_not(job_id) for job_id in (SECOND, 20)] == [RefusalCode.LET_THROUGH, RefusalCode.TE_LIMIT]


def test_an_array_a_task_of_which_is_held_on_was_not_released_as_a_whole() -> None:
    drive = site(trial(SECOND, tasks="0-1"))
    # Between two polls one task was split off, and the other one, which has the array's id, was released.
    drive.submits(task(20, priority=0, reason="JobHeldAdmin"), like=SECOND)
    is_released_by_another(drive)
    assert holds(drive, 20) == []
    is_released_by_another(drive, 20)
    assert holds(drive, 21) == [20]


def test_what_tesched_sets_of_an_arrays_priority_lets_no_task_through() -> None:
    drive = site(trial(SECOND, tasks="1-3"), task(20))
    raised = Change(
        by=By.PREEMPTOR, job_id=JobId(SECOND), field=Field.NICE, previous=0, value=-9, at=NOW, since=NOW, restored=True
    )
    drive.memory = replace(drive.memory, changes={**drive.memory.changes, Field.NICE: {JobId(SECOND): raised}})
    is_released_by_another(drive, 20)
    assert holds(drive, 20) == [20]


def test_a_hold_that_was_only_recorded_is_none_that_another_hand_ends() -> None:
    drive = Driver([node("n1")], [trial(FIRST), trial(SECOND)], limits=ONE_EACH)
    drive.starts(FIRST, share("n1", 1), at_s=0)
    for at_s in (1.0, 2.0, STOOD_S, STOOD_S + 10):
        drive.says(Status.WOULD, *drive.cycle(at_s))
        # An operator holds it, of its own.
        drive.change(SECOND, priority=0, reason="JobHeldAdmin")
    is_released_by_another(drive)
    assert holds(drive, 40) == [SECOND]
    assert not drive.memory.without_dry_runs().is_let_through(drive.jobs[JobId(SECOND)])


def test_a_hold_stands_though_the_clock_was_set_back() -> None:
    drive = site(until_s=3.0)
    for at_s in (-3600.0, -3599.0):
        assert holds(drive, at_s) == []
    is_released_by_another(drive)
    assert holds(drive, -3595) == [SECOND]
    drive = site(until_s=3.0)
    for at_s in (-3600.0, SAVED_S - 3600):
        assert holds(drive, at_s) == []
    is_released_by_another(drive)
    assert holds(drive, -3580) == []


def test_undo_sees_what_was_released_since_the_last_poll() -> None:
    drive = site()
    is_released_by_another(drive)
    drive.memory, _ = undo(drive.memory, drive.snapshot(20), drive.limits)
    assert holds(drive, 21) == []
    assert drive.why_not(SECOND) is RefusalCode.LET_THROUGH


def test_others_do_not_wait_for_all_tasks_of_an_array_that_was_let_through() -> None:
    half = Limits(te=TeLimits(max_cluster_share=0.5), max_preemptions_per_job=0)
    drive = Driver([node("n1")], [trial(SECOND, tasks="0-99")], limits=half)
    drive.obeys(*drive.cycle(1))
    for at_s in (2.0, STOOD_S):
        assert holds(drive, at_s) == []
    is_released_by_another(drive)
    drive.submits(replace(trial(THIRD), user="other"), like=SECOND)
    assert holds(drive, 20) == []
    assert [drive.why_not(job_id) for job_id in (SECOND, THIRD)] == [RefusalCode.LET_THROUGH, None]
    # What of it runs counts.
    drive.submits(task(20), like=SECOND)
    drive.starts(20, share("n1", 16), at_s=21)
    assert holds(drive, 22) == [THIRD]


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
