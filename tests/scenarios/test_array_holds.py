"""Holds of job arrays: a TE array's waiting tasks are held and released apart from those with records of their own.

Everywhere: a BE array has waited for 300 s of the 811 s by which any job may be delayed, so that a TE job of 600 s
waits and one of 60 s may start.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.hold import MOST_HELD
from tesched_core.model.actions import Status, kind_of, sets
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import HALF, TE, Driver
from tests.scenarios.test_bound_arrays import ARRAY, FIRST, LIMITS, be_array, delayed, with_limit

TASK = 10
#: Slurm gives out ascending ids.
LATE = 1000


def rest(limit_s: int = 600) -> Job:
    """Return the record of a TE array of which a task has one of its own."""
    return waiting(TE, cpus=32, time_limit_s=limit_s, user="ada", array_job_id=JobId(TE), array_tasks="2-3")


def task(limit_s: int = 600) -> Job:
    return replace(rest(limit_s), job_id=JobId(TASK), array_tasks="", array_task_id=1)


def done(drive: Driver, at_s: float) -> list[tuple[str, int]]:
    """Let Slurm do what a cycle asks for, and return it."""
    actions = drive.cycle(at_s)
    drive.obeys(*actions)
    return [(kind_of(one), one.job_id) for one in actions if sets(one, Field.HOLD)]


def let_through() -> Driver:
    """Return a task that an operator has let through, and its array, which may start as well."""
    drive = delayed(seconds=300)
    drive.submits(rest(), like=FIRST)
    drive.submits(task(), like=FIRST)
    for at_s in (310, 320, 330, 340):
        done(drive, at_s)
    drive.change(TASK, priority=100, reason="Resources")
    assert done(drive, 350) == []
    with_limit(drive, TE, 60)
    with_limit(drive, TASK, 60)
    assert drive.memory.is_let_through(drive.jobs[JobId(TASK)])
    return drive


def test_task_that_is_let_through_stays_so_when_its_array_is_held_again() -> None:
    drive = let_through()
    assert done(drive, 360) == [("release", TE)]
    done(drive, 370)
    with_limit(drive, TE, 600)
    with_limit(drive, TASK, 600)
    assert done(drive, 380) == [("hold", TE)]
    for at_s in (390, 400, 410):
        assert done(drive, at_s) == []
        assert drive.why_not(TASK) is RefusalCode.LET_THROUGH
    assert (drive.jobs[JobId(TE)].held, drive.jobs[JobId(TASK)].held) == (True, False)


def splits_off(drive: Driver) -> None:
    """Give a waiting task a record of its own, with all that its array's shows, as Slurm does when it is changed."""
    whole = drive.jobs[JobId(TE)]
    alone = replace(whole, job_id=JobId(LATE), array_tasks="", array_task_id=2)
    drive.submits(alone, like=FIRST)
    drive.change(TE, array_tasks="3")


def held_array(*more: Job) -> Driver:
    """Return a TE array that is held as long as a TE job of 600 s waits, and tasks of it that are there before."""
    drive = delayed(seconds=300)
    drive.submits(rest(), like=FIRST)
    for one in more:
        drive.submits(one, like=FIRST)
    assert ("hold", TE) in done(drive, 310)
    assert done(drive, 320) == []
    return drive


@pytest.mark.parametrize("last", ["released", "undone", "killed"])
def test_task_that_leaves_a_held_array_is_released_as_the_others_are(last: str) -> None:
    drive = held_array()
    splits_off(drive)
    assert done(drive, 330) == []
    if last == "undone":
        _, decision = undo(drive.memory, drive.snapshot(340), drive.limits)
        drive.obeys(*decision.actions)
    else:
        if last == "killed":
            # The array is gone, its task waits.
            del drive.jobs[JobId(TE)]
        for job_id in drive.jobs.keys() & {JobId(TE), JobId(LATE)}:
            with_limit(drive, job_id, 60)
        done(drive, 340)
    assert not any(job.held for job in drive.jobs.values())


def test_task_that_an_operator_held_before_stays_held_when_its_array_is_released() -> None:
    drive = held_array(replace(task(), priority=0, reason="JobHeldAdmin"))
    for job_id in (TE, TASK):
        with_limit(drive, job_id, 60)
    assert done(drive, 340) == [("release", TE)]
    assert done(drive, 350) == []
    assert (drive.jobs[JobId(TE)].held, drive.jobs[JobId(TASK)].held) == (False, True)


def test_task_that_leaves_a_held_array_and_is_held_by_its_user_stays_so() -> None:
    drive = held_array()
    splits_off(drive)
    drive.change(LATE, reason="JobHeldUser")
    for job_id in (TE, LATE):
        with_limit(drive, job_id, 60)
    assert done(drive, 340) == [("release", TE)]
    assert done(drive, 350) == []
    assert drive.jobs[JobId(LATE)].held


@pytest.mark.parametrize("how", ["gone", "let through"])
def test_task_that_leaves_a_held_array_is_released_though_the_rest_is_no_longer_held(how: str) -> None:
    drive = held_array()
    for at_s in (325, 330):
        done(drive, at_s)
    # All of it between two polls.
    splits_off(drive)
    if how == "gone":
        drive.forgets(TE)
    else:
        drive.change(TE, priority=100, reason="Resources")
    with_limit(drive, LATE, 60)
    assert done(drive, 340) == [("release", LATE)]


@pytest.mark.parametrize(
    ("reason", "restarts"), [("JobHeldUser", 0), ("job_requeued_in_held_state", 1), ("JobHeldAdmin", 1)]
)
def test_task_of_a_held_array_that_others_hold_is_left(reason: str, restarts: int) -> None:
    drive = held_array()
    drive.submits(replace(task(60), job_id=JobId(LATE), priority=0, reason=reason, restarts=restarts), like=FIRST)
    assert done(drive, 330) == []
    assert JobId(LATE) not in drive.memory.changes_of(Field.HOLD)


def test_in_shadow_mode_no_task_of_an_array_is_held() -> None:
    drive = delayed(seconds=300)
    drive.submits(rest(), like=FIRST)
    actions = drive.cycle(310)
    assert ("hold", TE) in [(kind_of(one), one.job_id) for one in actions]
    drive.says(Status.WOULD, *actions)
    # An administrator holds a task of it.
    drive.submits(replace(task(), job_id=JobId(LATE), priority=0, reason="JobHeldAdmin"), like=FIRST)
    drive.says(Status.WOULD, *drive.cycle(320))
    held = drive.memory.changes_of(Field.HOLD)
    assert [job_id for job_id, one in held.items() if not one.dry] == []
    assert JobId(LATE) not in held


def test_task_with_the_hooks_mark_is_held_apart_from_its_array() -> None:
    drive = delayed(seconds=300)
    for job in (rest(60), task(60)):
        drive.submits(replace(job, admin_comment=HOOK_MARK, priority=0, reason="JobHeldUser"), like=FIRST)
    for at_s in (310, 320, 330, 340):
        done(drive, at_s)
    with_limit(drive, TE, 600)
    assert done(drive, 350) == [("hold", TE)]
    assert done(drive, 360) == []
    assert not drive.jobs[JobId(TASK)].held


def test_of_more_tasks_than_are_held_in_a_poll_none_stays_held_once_its_array_is_gone() -> None:
    drive = delayed(seconds=300)
    drive.submits(rest(), like=FIRST)
    for number in range(MOST_HELD + 10):
        drive.submits(replace(task(), job_id=JobId(TASK + 100 + number), array_task_id=10 + number), like=FIRST)
    for at_s in (310, 320, 330):
        done(drive, at_s)
    del drive.jobs[JobId(TE)]
    drive.ends(FIRST)
    drive.starts(ARRAY, share("n1", 32))
    for at_s in (340, 350, 360, 370):
        done(drive, at_s)
    assert not any(job.held for job in drive.jobs.values())


@pytest.mark.parametrize("grace_s", [0, 100])
def test_array_is_held_while_victims_leave_for_a_task_of_it(grace_s: int) -> None:
    first = waiting(FIRST, cpus=16, time_limit_s=600, user="ada", submit_time=NOW - 5)
    victim = running(40, share("n2", 32), user="eve", start_time=NOW - 50, submit_time=NOW - 100)
    drive = Driver(
        [node("n1"), node("n2")],
        [be_array(), first, victim],
        limits=LIMITS,
        run_times={ARRAY: 10, 40: 100_000},
        graces={ARRAY: 0, 40: grace_s},
    )
    drive.cycle(0)
    drive.starts(FIRST, HALF, at_s=0)
    drive.cycle(1)
    drive.cycle(300)
    drive.submits(replace(task(60), reason="Resources"), like=FIRST)
    drive.submits(replace(rest(), priority=0, reason="JobHeldUser"), like=FIRST)
    done(drive, 301)
    assert drive.victim(2).state in {VictimState.NOTICED, VictimState.REQUEUING}
    # Its user releases the array.
    drive.change(TE, priority=100, reason="Resources")
    assert done(drive, 306) == [("hold", TE)]
    assert done(drive, 311) == []
    assert drive.open_orders() == [2]
    assert not drive.jobs[JobId(TASK)].held


def test_array_does_not_wait_for_a_task_that_is_let_through() -> None:
    drive = let_through()
    with_limit(drive, TASK, 600)
    assert done(drive, 360) == [("release", TE)]
    assert drive.why_not(TASK) is RefusalCode.LET_THROUGH
