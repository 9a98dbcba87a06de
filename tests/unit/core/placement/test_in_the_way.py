"""TE jobs in the way of a pending job: as few as possible, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import InTheWay, fits_now, in_the_way, te_held, te_jobs

from tests.builders import NOW, cluster, node, running, share, waiting

WAITS = 50


def site(te: Sequence[Job], job: Job, *, be: Sequence[Job] = (), nodes: int = 2) -> Snapshot:
    """Return a cluster on which `te` are TE jobs and all others are best effort."""
    seen = cluster([node(f"n{place}") for place in range(1, nodes + 1)], [*te, *be, job])
    mine = {one.job_id for one in te}
    return seen.with_traits(
        {
            job_id: replace(one, job_class=JobClass.TE if job_id in mine else JobClass.BE)
            for job_id, one in seen.traits.items()
        }
    )


def found(seen: Snapshot) -> InTheWay | None:
    """Return what is in the way of the waiting job."""
    capacity = capacity_of(seen)
    return in_the_way(
        demands_of(seen.jobs[waiting(WAITS).job_id], seen, capacity), te_held(te_jobs(seen), seen, capacity), capacity
    )


def names(way: InTheWay | None) -> list[int]:
    """Return the ids of the jobs in the way."""
    return [] if way is None else [job.job_id for job in way.jobs]


FIRST = running(1, share("n1", 32), start_time=NOW - 100)
SECOND = running(2, share("n2", 32), start_time=NOW - 50)


def test_newest_te_job_is_in_the_way_of_a_job_of_one_node() -> None:
    way = found(site([FIRST, SECOND], waiting(WAITS, cpus=32)))
    assert names(way) == [2]
    assert way is not None
    assert way.eligible_before == NOW - 50


def test_both_te_jobs_are_in_the_way_of_a_job_of_both_nodes() -> None:
    request = Request(min_nodes=2, max_nodes=2, cpus=64, tasks=2, cpus_per_task=32, mem_per_node_mib=1)
    way = found(site([FIRST, SECOND], waiting(WAITS, request)))
    assert names(way) == [2, 1]
    assert way is not None
    assert way.eligible_before == NOW - 100


def test_nothing_is_in_the_way_of_a_job_that_fits() -> None:
    assert found(site([FIRST], waiting(WAITS, cpus=32))) is None


def test_te_jobs_are_not_in_the_way_of_a_job_that_best_effort_jobs_keep_waiting() -> None:
    other = running(3, share("n1", 17), start_time=NOW - 10)
    te = running(1, share("n1", 15), start_time=NOW - 100)
    assert found(site([te], waiting(WAITS, cpus=16), be=[other], nodes=1)) is None


def test_newer_te_job_on_a_node_that_is_no_use_is_not_in_the_way() -> None:
    job = waiting(WAITS, Request(cpus=32, mem_per_node_mib=1, required_nodes=("n1",)))
    way = found(site([FIRST, SECOND], job))
    assert names(way) == [1]
    assert way is not None
    assert way.eligible_before == NOW - 100


def test_cpus_that_a_suspended_job_takes_back_are_in_no_te_jobs_way() -> None:
    suspended = running(3, share("n1", 32), state=JobState.SUSPENDED, start_time=NOW - 500)
    assert found(site([FIRST], waiting(WAITS, cpus=32), be=[suspended], nodes=1)) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 32), st.integers(0, 99)), max_size=8),
    st.lists(st.integers(0, 20), min_size=3, max_size=3),
    st.integers(1, 40),
)
def test_in_the_way_are_those_that_started_since_and_no_more_than_needed(
    te: list[tuple[int, int, int]], taken: list[int], cpus: int
) -> None:
    free = {place: 32 - taken[place - 1] for place in (1, 2, 3)}
    jobs = []
    for number, (place, wanted, ago) in enumerate(te, start=1):
        cores = min(wanted, free[place])
        if cores:
            free[place] -= cores
            jobs.append(running(number, share(f"n{place}", cores), start_time=NOW - ago))
    be = [running(30 + place, share(f"n{place}", cores)) for place, cores in enumerate(taken, start=1) if cores]
    seen = site(jobs, waiting(WAITS, cpus=cpus), be=be, nodes=3)
    capacity = capacity_of(seen)
    held = te_held(te_jobs(seen), seen, capacity)
    demands = demands_of(seen.jobs[waiting(WAITS).job_id], seen, capacity)

    def fits_if_gone(gone: set[int]) -> bool:
        kept = [job for job in jobs if job.job_id not in gone]
        return fits_now(demands, capacity_of(site(kept, waiting(WAITS, cpus=cpus), be=be, nodes=3)))

    way = in_the_way(demands, held, capacity)
    starts = sorted({job.start_time or 0.0 for job in jobs}, reverse=True)
    expected = [
        start for start in starts if fits_if_gone({job.job_id for job in jobs if (job.start_time or 0.0) >= start})
    ]
    if way is None:
        assert fits_if_gone(set()) or not expected
        return
    assert not fits_if_gone(set())
    assert way.eligible_before == expected[0]
    gone = {int(job.job_id) for job in way.jobs}
    assert fits_if_gone(gone)
    for one in gone:
        assert not fits_if_gone(gone - {one})


@pytest.mark.parametrize("count", [1, 70])
def test_many_small_te_jobs_are_all_in_the_way_of_a_whole_node(count: int) -> None:
    te = [running(number, share("n1", 1), start_time=NOW - number) for number in range(100, 100 + count)]
    seen = cluster([node("n1", cpus=count)], [*te, waiting(WAITS, cpus=count)])
    mine = {job.job_id for job in te}
    seen = seen.with_traits(
        {
            job_id: replace(one, job_class=JobClass.TE if job_id in mine else JobClass.BE)
            for job_id, one in seen.traits.items()
        }
    )
    assert len(names(found(seen))) == count
