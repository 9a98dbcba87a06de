"""A start alone is no success, of a task of a job array either: each task counts for itself.

Everywhere: job 1 holds the only node, and a task of an array wants half of it.
"""

from __future__ import annotations

import pytest
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver
from tests.scenarios.test_useful_run import FREE_AGAIN, LIMITS, asked

TASK = 20


def array() -> Driver:
    """Return the smallest case, with a job array in the place of the TE job."""
    return Driver(
        [node("n1")],
        [running(BE, FREE_AGAIN), waiting(TE, cpus=16, array_job_id=JobId(TE), array_tasks="0-3")],
        graces={BE: 0.0},
        limits=LIMITS,
        on_trial=True,
    )


def new_task(drive: Driver, job_id: int, index: int) -> None:
    """Give a task of the array a record of its own, as Slurm does when it starts."""
    drive.jobs[JobId(job_id)] = waiting(job_id, cpus=16, array_job_id=JobId(TE), array_task_id=index)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(job_id): drive.start.traits[JobId(TE)]})


def task_started(drive: Driver, at_s: float, job_id: int = TASK, index: int = 0) -> None:
    """Let the victim leave, and a task start in its place 2 s later."""
    drive.change(TE, reason="Resources")
    drive.obeys(*drive.cycle(at_s))
    assert asked(drive) == [BE], drive.decision.summary
    if job_id not in drive.jobs:
        new_task(drive, job_id, index)
    drive.starts(job_id, HALF, at_s=at_s + 2)
    drive.cycle(at_s + 3)


def task_returns(drive: Driver, at_s: float, job_id: int = TASK, reason: str = "BeginTime") -> None:
    """Put the task back in the queue; its victim runs again."""
    drive.requeued(job_id)
    drive.change(job_id, submit_time=NOW + at_s, reason=reason)
    drive.starts(BE, FREE_AGAIN, at_s=at_s)
    drive.obeys(*drive.cycle(at_s + 1))


def test_a_task_of_an_array_is_on_trial_and_counts_for_itself_alone() -> None:
    drive = array()
    task_started(drive, 0)
    assert (drive.order().run_seen_at, drive.order().ending) == (NOW + 3, Ending.STARTED_HERE)
    task_returns(drive, 10)
    assert (drive.order().ending, drive.order().futile) == (Ending.NO_RUN, True)
    assert {*by_job(drive.memory, "futile")} == {TASK}
    assert by_job(drive.memory, "retry_at") == {TASK: NOW + 11 + 300}
    # The other tasks have victims as before.
    task_started(drive, 20, 21, 1)
    assert drive.order(2).ending is Ending.STARTED_HERE
    assert by_job(drive.memory, "futile")[JobId(TASK)].count == 1, "another task's start is no word on this one"


def test_a_task_that_came_back_twice_has_no_more_victims_and_the_others_have() -> None:
    drive = array()
    drive.change(TE, array_tasks="1")
    task_started(drive, 0)
    task_returns(drive, 10)
    drive.change(TE, reason="BeginTime")
    drive.change(TASK, reason="Resources")
    drive.cycle(100)
    assert (asked(drive), drive.why_not(TASK)) == ([], RefusalCode.RETRY_LATER)
    drive.obeys(*drive.cycle(312))
    assert asked(drive) == [BE]
    drive.starts(TASK, HALF, at_s=314)
    drive.cycle(315)
    task_returns(drive, 320)
    assert by_job(drive.memory, "retry_at") == {TASK: NOW + 321 + 600}
    drive.change(TASK, reason="Resources")
    for at_s in (1000, 100_000):
        drive.cycle(at_s)
        assert (asked(drive), drive.why_not(TASK)) == ([], RefusalCode.FUTILE)
    drive.change(TASK, reason="BeginTime")
    drive.change(TE, reason="Resources")
    drive.cycle(100_001)
    assert asked(drive) == [BE]


def test_a_task_is_forgotten_once_it_had_a_useful_run() -> None:
    drive = array()
    task_started(drive, 0)
    task_returns(drive, 10, reason="Resources")
    drive.change(TE, reason="BeginTime")
    drive.obeys(*drive.cycle(312))
    drive.starts(TASK, HALF, at_s=314)
    drive.cycle(315)
    drive.cycle(374)
    assert {*by_job(drive.memory, "futile")} == {TASK}
    drive.cycle(375)
    assert by_job(drive.memory, "futile") == {}


@pytest.mark.parametrize("job_id", [TASK, TE])
def test_a_task_that_started_and_came_back_between_two_polls_is_seen(job_id: int) -> None:
    """The last task bears the array's id."""
    drive = array()
    if job_id == TE:
        drive.change(TE, array_tasks="", array_task_id=3)
    drive.obeys(*drive.cycle(0))
    if job_id == TASK:
        new_task(drive, TASK, 0)
    drive.requeued(job_id)
    drive.change(job_id, submit_time=NOW + 2, reason="BeginTime")
    drive.cycle(5)
    assert drive.order().ending is Ending.NO_RUN
    assert {*by_job(drive.memory, "futile")} == {job_id}


def test_that_the_last_task_came_back_is_no_word_on_the_others() -> None:
    drive = array()
    drive.change(TE, array_tasks="", array_task_id=3)
    new_task(drive, TASK, 0)
    drive.change(TASK, reason="BeginTime")
    for at_s in (0, 312):
        drive.change(TE, reason="Resources")
        drive.obeys(*drive.cycle(at_s))
        assert asked(drive) == [BE]
        drive.starts(TE, HALF, at_s=at_s + 2)
        drive.cycle(at_s + 3)
        task_returns(drive, at_s + 5, TE)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 2
    drive.change(TE, reason="Resources")
    drive.change(TASK, reason="Resources")
    drive.cycle(1000)
    assert drive.why_not(TE) is RefusalCode.FUTILE
    assert asked(drive) == [BE], "for the other task"


def test_waits_of_tasks_without_futile_orders_become_their_arrays_and_the_longest_holds() -> None:
    drive = array()
    for index, task in enumerate((TASK, TASK + 1)):
        new_task(drive, task, index)
    drive.memory = Memory(
        jobs={JobId(TASK): JobMemory(retry_at=NOW + 500), JobId(TASK + 1): JobMemory(retry_at=NOW + 100)}
    )
    drive.cycle(0)
    assert drive.memory.jobs == {TE: JobMemory(retry_at=NOW + 500)}
