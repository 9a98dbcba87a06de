"""fill: long queues and many nodes, with as little work as short ones.

Nodes have 32 CPUs; as in `test_fill.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tesched_core.model.cluster import Job, Request
from tesched_core.model.columns import Waiting
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import View
from tesched_policies import fill, queue_heads
from tesched_policies.fill import MOST_WEIGHED
from tesched_policies.patient import Patient
from tesched_policies.queue_heads import MOST_KINDS, WantedNodes

from tests.builders import traits, waiting
from tests.scenarios.driver import Driver
from tests.scenarios.test_fill import brought, drive, holder, queued
from tests.scenarios.test_fill_heads import LONG_S, first


def array(cpus: int, tasks: int, *, nodes: int = 1) -> Job:
    """Return an array that waits before all others."""
    request = Request(cpus=cpus * nodes, min_nodes=nodes, max_nodes=nodes, mem_per_node_mib=1)
    return first(request, array_job_id=JobId(2), array_tasks=f"0-{tasks - 1}")


@pytest.mark.parametrize("nodes", [1, 2])
def test_tasks_of_an_array_are_placed_together(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    calls: list[int] = []
    place = WantedNodes.place

    def counted(wanted: WantedNodes, free: NDArray[np.int64], among: NDArray[np.bool_] | None = None) -> Any:
        calls.append(1)
        return place(wanted, free, among)

    monkeypatch.setattr(WantedNodes, "place", counted)
    jobs = (holder(1, name="n1"), holder(1, name="n2", job_id=5), array(1, 3000, nodes=nodes), queued(3, 32))
    driver = drive(*jobs, nodes=2, j2=60, j3=60)
    driver.cycle(0)
    assert 1 <= len(calls) < 10


@pytest.mark.parametrize("nodes", [1, 2, 7])
def test_however_many_nodes_it_is_weighed_once(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    calls: list[int] = []
    times = WantedNodes.times

    def counted(wanted: WantedNodes, free: NDArray[np.int64], where: tuple[int, ...]) -> Any:
        calls.append(1)
        return times(wanted, free, where)

    monkeypatch.setattr(WantedNodes, "times", counted)
    monkeypatch.setattr(WantedNodes, "place", lambda *_: pytest.fail("a task is placed by itself"))
    free = np.full((700, 1), 4)
    wanted = WantedNodes(
        job_id=JobId(1), nodes=nodes, each=np.array([3]), allowed=np.ones(700, dtype=np.bool_), tasks=20_000
    )
    assert queue_heads._places(wanted, free, None)[0] == 700 // nodes
    assert len(calls) == 1


def test_what_fits_now_is_found_for_all_waiting_jobs_at_once_as_for_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(30):
        jobs, free = 40, rng.integers(-1, 12, size=(6, 2))
        line = Waiting(
            job_id=np.arange(jobs),
            since=np.zeros(jobs),
            run_s=np.ones(jobs),
            may_run_s=np.ones(jobs),
            nodes=rng.integers(1, 4, size=jobs),
            demand=rng.integers(0, 8, size=(jobs, 2)),
            kind=rng.integers(0, 3, size=jobs),
            allowed=rng.random((3, 6)) < 0.7,
            others=(),
        )
        rows = np.flatnonzero(rng.random(jobs) < 0.7)
        fits = [queue_heads.of_row(line, row).place(free) is not None for row in rows.tolist()]
        assert fill._fitting(line, rows, free).tolist() == fits
        found += sum(fits)
    assert 100 < found < 700


def trials(count: int, *, alike: bool) -> Driver:
    """Return a cluster in which so many TE jobs wait on n1 for resources to be released, and a BE job on n2."""
    names = ("n1", "n2")
    holders = [holder(24, ends_in=60, name=name, job_id=50 + number) for number, name in enumerate(names)]
    waits = [
        waiting(
            1000 + number,
            Request(cpus=32, mem_per_node_mib=1 if alike else 1 + number, required_nodes=("n1",)),
            priority=50,
        )
        for number in range(count)
    ]
    drives = drive(*holders, queued(2, 32), queued(3, 8), *waits, nodes=2, policy=Patient(), j2=60, j3=60)
    drives.start = drives.start.with_traits(
        {**drives.start.traits, **{one.job_id: traits(JobClass.TE) for one in waits}}
    )
    return drives


def test_of_many_trials_those_that_want_the_same_are_weighed_once_and_few_different_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weighed: list[JobId] = []
    of_job = queue_heads._of_job

    def counted(job: Job, view: View) -> WantedNodes | None:
        weighed.append(job.job_id)
        return of_job(job, view)

    monkeypatch.setattr(queue_heads, "_of_job", counted)
    assert brought(trials(3 * MOST_KINDS, alike=True)) == [3]
    assert len([one for one in weighed if one >= 1000]) == 1
    weighed.clear()
    assert brought(trials(MOST_KINDS, alike=False)) == [3]
    assert len([one for one in weighed if one >= 1000]) == MOST_KINDS
    weighed.clear()
    assert brought(trials(MOST_KINDS + 1, alike=False)) == [], "any part of its partition's nodes may be wanted"
    assert len([one for one in weighed if one >= 1000]) == MOST_KINDS


def one_by_one(wanted: WantedNodes, free: NDArray[np.int64]) -> int:
    """Place tasks one after the other; return how many."""
    for count in range(wanted.tasks):
        nodes = wanted.place(free)
        if nodes is None:
            return count
        wanted.take(nodes, free)
    return wanted.tasks


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("tasks", [1, 3, 7, 500])
def test_tasks_that_are_placed_together_are_where_they_would_be_one_by_one(nodes: int, tasks: int) -> None:
    rng = np.random.default_rng(7 * nodes + tasks)
    for _ in range(30):
        free = rng.integers(-1, 12, size=(6, 2))
        each = rng.integers(0, 4, size=2 if rng.random() < 0.5 else (6, 2))
        each[..., 0] += 1
        wanted = WantedNodes(job_id=JobId(1), nodes=nodes, each=each, allowed=rng.random(6) < 0.8, tasks=tasks)
        slow, fast = free.copy(), free.copy()
        placed, starts = queue_heads._places(wanted, fast, None)
        assert placed == one_by_one(wanted, slow)
        assert (fast == slow).all()
        taken = np.zeros_like(free)
        for start in starts:
            taken[list(start.nodes)] += start.takes
        assert (free - taken == slow).all()


def pinned(count: int, *, on_last_alone: bool = False) -> Driver:
    """Return a cluster in which each node has a first job of its own; a short one waits behind."""
    names = [f"n{number}" for number in range(1, count + 1)]
    holders = [holder(name=name, job_id=50 + number) for number, name in enumerate(names)]
    heads = [
        first(Request(cpus=32, mem_per_node_mib=1, required_nodes=(name,)), job_id=10 + number, priority=1000 - number)
        for number, name in enumerate(names)
    ]
    elsewhere = tuple(names[:-1]) if on_last_alone else ()
    short = first(Request(cpus=16, mem_per_node_mib=1, excluded_nodes=elsewhere), job_id=3, priority=98)
    run_times = {f"j{head.job_id}": LONG_S for head in heads}
    return drive(*holders, *heads, short, nodes=count, policy=None, j3=60, **run_times)


def test_of_many_first_jobs_some_are_weighed_and_nodes_of_the_others_are_left_alone() -> None:
    assert brought(pinned(MOST_WEIGHED, on_last_alone=True)) == [3]
    assert brought(pinned(MOST_WEIGHED + 1, on_last_alone=True)) == []
    assert brought(pinned(MOST_WEIGHED + 1)) == [3]


def test_ends_are_sorted_once_for_all_first_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    lexsort = np.lexsort

    def counted(keys: Any) -> Any:
        calls.append(1)
        return lexsort(keys)

    monkeypatch.setattr(np, "lexsort", counted)
    assert brought(pinned(5)) == [3]
    assert len(calls) == 1
