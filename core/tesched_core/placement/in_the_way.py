"""TE jobs in the way of a pending job: the newest ones without which it would fit.

Definition
    TE jobs are in the way of a job that does not fit into what is free, and would fit if they had not started. The
    newest go first: of those that started after the job became eligible, as few as possible are in the way.

Worked example
    Two nodes with a TE job each, started at 100 and 200. A job of one node has the second in its way, if it became
    eligible before 200; a job of both nodes has both, if it became eligible before 100, and else none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.capacity_of import freed_by
from tesched_core.placement.demand import Demand
from tesched_core.placement.spread import spreads

#: TE jobs that are tried one by one for whether they are needed; of more, the rest counts as in the way, too
MOST_TRIED = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TeHeld:
    """Resources that TE jobs hold, one entry a job, the newest start first; and their shares, one a job and node."""

    jobs: tuple[Job, ...]
    #: [jobs] start of the present run, Unix seconds
    started: NDArray[np.float64]
    #: [shares] the job's row above, and the node's row
    share_job: NDArray[np.intp]
    share_node: NDArray[np.intp]
    #: [shares, resources] what becomes free there when the job goes
    frees: NDArray[np.int64]

    def free_without(self, gone: NDArray[np.bool_], capacity: Capacity) -> Capacity:
        """Free resources as if the jobs of `gone` [jobs] held nothing."""
        shares = np.flatnonzero(gone[self.share_job])
        return capacity.changed(self.share_node[shares], self.frees[shares])


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    """TE jobs in the way of a job, at one instant."""

    jobs: tuple[Job, ...]
    #: a job that was eligible before then has them in its way: the start of the oldest of them
    eligible_before: UnixSeconds


def te_jobs(snapshot: Snapshot) -> list[Job]:
    """Return the TE jobs that hold nodes, in any order."""
    return [
        job
        for job_id, job in snapshot.jobs.items()
        if job.allocation and job.start_time is not None and snapshot.job_class(job_id) is JobClass.TE
    ]


def te_held(te: Sequence[Job], snapshot: Snapshot, capacity: Capacity) -> TeHeld:
    """Resources that these TE jobs hold.

    CPUs that a suspended job of another class will take back are not free when a TE job goes.
    """
    jobs = sorted(te, key=lambda job: (-(job.start_time or 0.0), -job.job_id))
    shares = [
        (row, capacity.index[share.node], freed_by(job, share, capacity))
        for row, job in enumerate(jobs)
        for share in job.allocation
        if share.node in capacity.index
    ]
    if jobs:
        taken_back = _suspended_cpus(snapshot, capacity)
        for _, node, frees in shares:
            mine = min(int(taken_back[node]), int(frees[0]))
            frees[0] -= mine
            taken_back[node] -= mine
    return TeHeld(
        jobs=tuple(jobs),
        started=np.array([job.start_time for job in jobs], dtype=np.float64),
        share_job=np.array([row for row, _, _ in shares], dtype=np.intp),
        share_node=np.array([node for _, node, _ in shares], dtype=np.intp),
        frees=np.array([frees for _, _, frees in shares], dtype=np.int64).reshape(len(shares), len(capacity.resources)),
    )


def in_the_way(
    demands: Sequence[Demand],
    held: TeHeld,
    capacity: Capacity,
    *,
    demands_without: Callable[[frozenset[JobId]], Sequence[Demand]] | None = None,
) -> InTheWay | None:
    """Return the TE jobs in the way of a job; None: it fits, or would not fit without them either.

    `demands` are what it wants in each of its partitions. `demands_without` are those as if some jobs were gone, where
    it may run elsewhere then; None: where it may run now.
    """

    def fits_without(gone: NDArray[np.bool_]) -> bool:
        free, wanted = held.free_without(gone, capacity), demands
        if demands_without is not None:
            wanted = demands_without(frozenset(held.jobs[row].job_id for row in np.flatnonzero(gone).tolist()))
        return fits_now(wanted, free)

    count = len(held.jobs)
    places = np.arange(count)
    if not count or fits_now(demands, capacity) or not fits_without(places >= 0):
        return None
    newest = 1 + bisect_left(range(1, count), True, key=lambda first: fits_without(places < first))
    gone = places < newest
    for place in range(newest - 2, max(newest - 2 - MOST_TRIED, -1), -1):
        gone[place] = False
        if not fits_without(gone):
            gone[place] = True
    rows = np.flatnonzero(gone).tolist()
    return InTheWay(
        jobs=tuple(held.jobs[row] for row in rows),
        eligible_before=float(held.started[newest - 1]),
    )


def fits_now(demands: Sequence[Demand], capacity: Capacity) -> bool:
    """Check whether a job fits into what is free, in one of its partitions, evenly spread or not."""
    for demand in demands:
        fits = demand.fits(capacity)
        if int(fits.sum()) >= demand.nodes and fits[list(demand.required)].all():
            return True
        if demand.uneven is not None and next(spreads(demand, capacity), None) is not None:
            return True
    return False


def _suspended_cpus(snapshot: Snapshot, capacity: Capacity) -> NDArray[np.int64]:
    """Return [nodes] the CPUs that suspended jobs of no TE class will take back."""
    cpus = np.zeros(len(capacity.names), dtype=np.int64)
    for job in snapshot.jobs.values():
        if job.state is JobState.SUSPENDED and snapshot.job_class(job.job_id) is not JobClass.TE:
            for share in job.allocation:
                if share.node in capacity.index:
                    cpus[capacity.index[share.node]] += share.tres.cpus
    return cpus
