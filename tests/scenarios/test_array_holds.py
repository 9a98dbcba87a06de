"""Holds of job arrays: Slurm holds and releases a TE array's tasks with it, whatever is known of each.

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


def held_with_its_array() -> Driver:
    """Return that task when Slurm has held it with its array."""
    drive = let_through()
    assert done(drive, 360) == [("release", TE)]
    done(drive, 370)
    with_limit(drive, TE, 600)
    with_limit(drive, TASK, 600)
    assert done(drive, 380) == [("hold", TE)]
    assert drive.jobs[JobId(TASK)].held
    return drive


def test_task_that_is_let_through_and_held_with_its_array_is_released_and_stays_let_through() -> None:
    drive = held_with_its_array()
    assert done(drive, 390) == [("release", TASK)]
    for at_s in (391, 400, 410):
        assert done(drive, at_s) == []
        assert drive.why_not(TASK) is RefusalCode.LET_THROUGH
    assert drive.jobs[JobId(TE)].held


def test_hold_of_the_array_that_is_late_to_show_is_not_taken_for_over() -> None:
    drive = held_with_its_array()
    drive.change(TASK, priority=100, reason="Resources")
    assert done(drive, 381) == []
    drive.change(TASK, priority=0, reason="JobHeldAdmin")
    assert done(drive, 383) == [("release", TASK)]


def test_task_that_is_let_through_is_released_though_its_array_is_gone() -> None:
    drive = held_with_its_array()
    del drive.jobs[JobId(TE)]
    assert done(drive, 390) == [("release", TASK)]


def test_undo_releases_a_task_that_was_held_with_its_array() -> None:
    drive = held_with_its_array()
    _, decision = undo(drive.memory, drive.snapshot(390), drive.limits)
    assert ("release", TASK) in [(kind_of(one), one.job_id) for one in decision.actions]


def test_in_shadow_mode_nothing_is_held_with_an_array() -> None:
    drive = delayed(seconds=300)
    drive.submits(rest(600), like=FIRST)
    drive.submits(task(60), like=FIRST)
    actions = drive.cycle(310)
    assert ("hold", TE) in [(kind_of(one), one.job_id) for one in actions]
    assert TASK in drive.memory.changes_of(Field.HOLD)
    drive.says(Status.WOULD, *actions)
    assert [one for one in drive.memory.changes_of(Field.HOLD).values() if not one.dry] == []


def test_in_shadow_mode_a_task_that_is_let_through_is_not_held_with_its_array() -> None:
    drive = let_through()
    assert done(drive, 360) == [("release", TE)]
    done(drive, 370)
    with_limit(drive, TE, 600)
    with_limit(drive, TASK, 600)
    before = drive.memory.changes_of(Field.HOLD)[JobId(TASK)]
    drive.says(Status.WOULD, *drive.cycle(380))
    assert drive.memory.changes_of(Field.HOLD)[JobId(TASK)].restored
    assert before.restored
    assert drive.memory.is_let_through(drive.jobs[JobId(TASK)])


def test_task_with_the_hooks_mark_that_is_held_with_its_array_is_released() -> None:
    drive = delayed(seconds=300)
    for job in (rest(60), task(60)):
        drive.submits(replace(job, admin_comment=HOOK_MARK, priority=0, reason="JobHeldUser"), like=FIRST)
    for at_s in (310, 320, 330, 340):
        done(drive, at_s)
    with_limit(drive, TE, 600)
    assert done(drive, 350) == [("hold", TE)]
    assert ("release", TASK) in done(drive, 360)
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
    assert done(drive, 306) == [("hold", TE), ("release", TASK)]
    assert done(drive, 311) == []
    assert drive.open_orders() == [2]
    assert not drive.jobs[JobId(TASK)].held


def test_array_does_not_wait_for_a_task_that_is_let_through() -> None:
    drive = let_through()
    with_limit(drive, TASK, 600)
    assert done(drive, 360) == [("release", TE)]
    assert drive.why_not(TASK) is RefusalCode.LET_THROUGH
