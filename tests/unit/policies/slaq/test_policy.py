"""slaq on a snapshot: the trainings that take part, their unit, the cost of an iteration, what there is to share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.request import tasks_in
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_policies.slaq.allocation import counted
from tesched_policies.slaq.jobs import SlaqJob, managed_jobs
from tesched_policies.slaq.policy import Slaq

from tests.builders import NOW, cluster, node, running, share, view_of, waiting

ELASTIC = Traits(job_class=JobClass.BE, rule="test", grace_period_s=0, grace_source="test", elastic=True)


def elastic(*jobs: Job, gpus: int = 0, told: Mapping[int, Curve] | None = None, at_s: float = 0) -> Snapshot:
    """Return one node of 8 CPUs with these jobs, all of them elastic."""
    seen = cluster([node("n1", cpus=8, gres={"gpu": gpus} if gpus else None)], jobs, at=NOW + at_s)
    seen = seen.with_traits({job.job_id: ELASTIC for job in jobs})
    return replace(seen, reported_by_array={JobId(key): Reported(curve=one) for key, one in (told or {}).items()})


def head(job_id: int, *, cpus: int = 1, gpus: int = 0, tasks: str = "0-99") -> Job:
    gres = (("gpu", gpus),) if gpus else ()
    request = Request(cpus=cpus, mem_per_node_mib=1, gres_per_node=gres)
    return waiting(job_id, request, array_job_id=JobId(job_id), array_tasks=tasks)


def task(array: int, number: int, *, cpus: int = 1, state: JobState = JobState.RUNNING) -> Job:
    held = share("n1", cpus, 1)
    return running(array + number, held, array_job_id=JobId(array), array_task_id=number, state=state)


def points(*rows: tuple[int, float, float]) -> Curve:
    """Return a curve of (iteration, loss, seconds after NOW)."""
    return Curve.of([[iteration, loss, NOW + at_s, np.nan] for iteration, loss, at_s in rows])


def shares(snapshot: Snapshot) -> dict[int, int]:
    state = Slaq().propose(view_of(snapshot), None).state
    assert state is not None
    return {int(array): share for array, share in state.shares.items()}


def members(snapshot: Snapshot) -> tuple[SlaqJob, ...]:
    return managed_jobs(view_of(snapshot))


@pytest.mark.parametrize(("tasks", "count"), [("3-9%2", 7), ("0-99", 100), ("1,3,5-9:2%4", 5), ("", 1)])
def test_a_waiting_record_stands_for_so_many_tasks(tasks: str, count: int) -> None:
    assert tasks_in(head(1, tasks=tasks)) == count


def test_workers_of_different_sizes_share_cpus() -> None:
    # Four CPUs each: one worker of three, and the CPU that it cannot use goes to the others.
    assert shares(elastic(head(10), head(20, cpus=3))) == {10: 5, 20: 1}


def test_jobs_that_want_gpus_share_gpus() -> None:
    snapshot = elastic(head(10, gpus=1), head(20, gpus=1), head(30), gpus=4)
    assert shares(snapshot) == {10: 2, 20: 2, 30: 8}


def test_memory_may_be_what_there_is_least_of() -> None:
    large = replace(head(10), request=Request(cpus=1, mem_per_node_mib=20_000))
    assert shares(elastic(large)) == {10: 3}


def test_no_job_has_more_workers_than_tasks_and_each_has_one() -> None:
    assert shares(elastic(head(10, tasks="0-2"), head(20))) == {10: 3, 20: 5}
    assert shares(elastic(head(10, cpus=9), *(head(job_id) for job_id in range(20, 30)))) == {
        10: 1,
        **dict.fromkeys(range(20, 30), 1),
    }


def test_an_iteration_costs_what_was_held_meanwhile() -> None:
    told = points((0, 8.0, -100), (4, 4.0, 0))
    first = elastic(head(10), task(10, 1, cpus=2), told={10: told})
    state = counted(None, members(first), NOW)
    # Two CPUs for ten seconds, then one more iteration two seconds before the poll: it took 16 CPU-seconds of the 20.
    later = elastic(head(10), task(10, 1, cpus=2), told={10: points((0, 8, -100), (4, 4, 0), (5, 3, 8))}, at_s=10)
    known = counted(state, members(later), NOW + 10).trainings[JobId(10)]
    assert (known.first_iteration, known.iteration, known.used_s, known.since_s) == (4, 5, 16.0, 4.0)
    assert (known.first_loss, known.largest_drop) == (8.0, 1.0)


def test_a_suspended_worker_uses_nothing() -> None:
    snapshot = elastic(head(10), task(10, 1), task(10, 2, state=JobState.SUSPENDED))
    (member,) = members(snapshot)
    assert (member.held, member.running) == (1, 1)


def test_a_training_that_starts_anew_is_a_new_one() -> None:
    state = counted(None, members(elastic(head(10), told={10: points((50, 1.0, 0))})), NOW)
    again = elastic(head(10), told={10: points((0, 9.0, 5))}, at_s=5)
    known = counted(state, members(again), NOW + 5).trainings[JobId(10)]
    assert (known.iteration, known.first_loss, known.used_s) == (0, 9.0, 0.0)
