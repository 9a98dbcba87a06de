"""Schedulers that share the machines again when a job comes or goes: FIFO, DRF and Dorm.

FIFO    a fixed number of workers each, drawn from 1 to 30; in the order of arrival, and no job overtakes.
DRF     max-min fairness of dominant shares: the next worker goes to the job with the smallest share of its scarcest
        resource, until no job's next worker fits. Ghodsi et al., NSDI 2011.
Dorm    as much as possible is used, while shares stay near DRF's and few running jobs are adjusted: an integer program.
        Sun et al., "Towards distributed machine learning in shared clusters", 2017. Ours: the program is about numbers
        of workers, and machines are found afterwards; its two limits are remembered, not checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import Placement, TrainingJob

from tesched_papers.pdors.baseline_placement import BaselinePlacement, FreeResources
from tesched_papers.pdors.workload import Instance

#: FIFO's number of workers is drawn from 1 to this
FIFO_WORKERS = 30
#: Dorm's limits: of the sum of shares' differences to DRF's, as a part of twice the resources; of adjusted jobs
DORM_FAIRNESS, DORM_ADJUSTED = 0.1, 0.1
#: gap and nodes of the search with which Dorm's integer program may stop; not seconds, which differ from run to run
DORM_LIMITS = {"mip_rel_gap": 0.01, "node_limit": 100}


def share(job: TrainingJob, capacity: NDArray[np.float64]) -> float:
    """Return the dominant share of one worker with its part of a server."""
    each = job.worker + job.server / job.workers_per_server
    return float((each[capacity > 0] / capacity[capacity > 0]).max())


class Fifo:
    """Jobs start in the order of arrival and keep their machines until they finish."""

    def __init__(self, instance: Instance, manner: BaselinePlacement) -> None:
        """Draw the numbers of workers."""
        random = np.random.default_rng([instance.seed, 1])
        self.instance = instance
        self.manner = manner
        self.workers = {job.job_id: min(int(random.integers(1, FIFO_WORKERS + 1)), job.batch) for job in instance.jobs}
        self.running: dict[JobId, Placement] = {}
        self.free = FreeResources(instance.machines, manner)

    def place(self, slot: int, active: Sequence[TrainingJob]) -> Mapping[JobId, Placement]:
        """Return the placements of the running jobs, and of those that start now."""
        held = {job.job_id: self.running[job.job_id] for job in active if job.job_id in self.running}
        turn = self.free.turn
        self.free = FreeResources(self.instance.machines, self.manner)
        self.free.turn = turn
        for job in active:
            if job.job_id in held:
                self.free.hold(job, held[job.job_id])
        for job in active:
            if job.job_id not in held:
                found = self.free.take(job, self.workers[job.job_id], slot)
                if found is None:
                    break
                held[job.job_id] = found
        self.running = held
        return held


class _Sharing(ABC):
    """Shares the machines again when a job came or went."""

    def __init__(self, instance: Instance, manner: BaselinePlacement) -> None:
        self.machines = instance.machines
        self.manner = manner
        self.capacity = instance.machines.capacity.sum(axis=0)
        self.running: dict[JobId, Placement] = {}
        self.known: tuple[JobId, ...] = ()

    def place(self, slot: int, active: Sequence[TrainingJob]) -> Mapping[JobId, Placement]:
        """Return the placement of each job."""
        now = tuple(job.job_id for job in active)
        if now != self.known:
            self.known = now
            self.running = self.shared(slot, active)
        return self.running

    @abstractmethod
    def shared(self, slot: int, active: Sequence[TrainingJob]) -> dict[JobId, Placement]:
        """Return the placement of each job from this slot on."""


class Drf(_Sharing):
    """Max-min fairness of dominant shares."""

    def shared(self, slot: int, active: Sequence[TrainingJob]) -> dict[JobId, Placement]:
        """Return placements of as many workers as progressive filling gives, fewer where machines are too cut up."""
        return _placed(slot, active, fair_workers(active, self.capacity), FreeResources(self.machines, self.manner))


class Dorm(_Sharing):
    """Utilisation under limits of unfairness and of adjustments."""

    def shared(self, slot: int, active: Sequence[TrainingJob]) -> dict[JobId, Placement]:
        """Keep the jobs with an unchanged number of workers, and place the others."""
        before = {job_id: int(one.workers.sum()) for job_id, one in self.running.items()}
        workers = dorm_workers(active, self.capacity, before)
        free = FreeResources(self.machines, self.manner)
        kept = {job.job_id: self.running[job.job_id] for job in active if workers[job.job_id] == before.get(job.job_id)}
        for job in active:
            if job.job_id in kept:
                free.hold(job, kept[job.job_id])
        moved = [job for job in active if job.job_id not in kept]
        return {**kept, **_placed(slot, moved, workers, free)}


def fair_workers(active: Sequence[TrainingJob], capacity: NDArray[np.float64]) -> dict[JobId, int]:
    """Return DRF's numbers of workers, as if all machines were one: progressive filling, a worker at a time."""
    workers = dict.fromkeys((job.job_id for job in active), 0)
    shares = np.zeros(len(active))
    each = np.array([share(job, capacity) for job in active])
    free = capacity.copy()
    while np.isfinite(shares).any():
        place = int(np.argmin(shares))
        job = active[place]
        count = workers[job.job_id]
        # With this worker a further server may be needed.
        needed = job.worker + (job.server if count % job.workers_per_server == 0 else 0.0)
        if count == job.batch or (needed > free).any():
            shares[place] = np.inf
            continue
        free -= needed
        workers[job.job_id] = count + 1
        shares[place] = each[place] * (count + 1)
    return workers


def dorm_workers(
    active: Sequence[TrainingJob], capacity: NDArray[np.float64], before: Mapping[JobId, int]
) -> dict[JobId, int]:
    """Return Dorm's numbers of workers; as they were, and none for those that came, if its limits can't be kept.

    Variables for each of n jobs: workers (whole), whether it is adjusted (0 or 1), difference to DRF's share.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - only Dorm needs it

    jobs = len(active)
    if not jobs:
        return {}
    there = capacity > 0
    each = np.array([job.worker + job.server / job.workers_per_server for job in active])[:, there] / capacity[there]
    shares = each.max(axis=1)
    fair = fair_workers(active, capacity)
    fair_shares = shares * np.array([fair[job.job_id] for job in active])
    most = np.array([job.batch for job in active], dtype=np.float64)
    had = np.array([before.get(job.job_id, 0) for job in active], dtype=np.float64)
    ran = np.array([job.job_id in before for job in active])
    nothing, own = np.zeros((jobs, jobs)), np.eye(jobs)
    rows = (
        LinearConstraint(np.hstack([each.T, np.zeros((each.shape[1], 2 * jobs))]), -np.inf, 1.0),
        LinearConstraint(np.hstack([np.diag(shares), nothing, -own]), -np.inf, fair_shares),
        LinearConstraint(np.hstack([np.diag(shares), nothing, own]), fair_shares, np.inf),
        LinearConstraint(
            np.hstack([np.zeros(2 * jobs), np.ones(jobs)]), -np.inf, ceil(DORM_FAIRNESS * 2 * len(capacity))
        ),
        # A job that runs and keeps its number is not adjusted.
        LinearConstraint(np.hstack([own[ran], -np.diag(most)[ran], nothing[ran]]), -np.inf, had[ran]),
        LinearConstraint(np.hstack([own[ran], np.diag(most)[ran], nothing[ran]]), had[ran], np.inf),
        LinearConstraint(
            np.hstack([np.zeros(jobs), ran.astype(np.float64), np.zeros(jobs)]),
            -np.inf,
            ceil(DORM_ADJUSTED * ran.sum()),
        ),
    )
    found = milp(
        np.concatenate([-each.sum(axis=1), np.zeros(2 * jobs)]),
        integrality=np.concatenate([np.ones(2 * jobs), np.zeros(jobs)]),
        bounds=Bounds(
            np.concatenate([np.where(ran, 1.0, 0.0), np.zeros(2 * jobs)]),
            np.concatenate([most, np.ones(jobs), np.full(jobs, np.inf)]),
        ),
        constraints=[row for row in rows if row.A.shape[0]],
        options=DORM_LIMITS,
    )
    if found.x is None:
        return {job.job_id: before.get(job.job_id, 0) for job in active}
    return {job.job_id: int(count) for job, count in zip(active, np.rint(found.x[:jobs]), strict=True)}


def _placed(
    slot: int, jobs: Sequence[TrainingJob], workers: Mapping[JobId, int], free: FreeResources
) -> dict[JobId, Placement]:
    """Return placements of so many workers each, or of as many as the machines' cut-up resources let."""
    placed: dict[JobId, Placement] = {}
    for job in jobs:
        found = next(
            (one for count in _fewer(workers[job.job_id]) if (one := free.take(job, count, slot)) is not None),
            None,
        )
        if found is not None:
            placed[job.job_id] = found
    return placed


def _fewer(count: int) -> list[int]:
    """Return the number and ever smaller ones, a tenth less each time: 30, 27, 24, ..., 1."""
    counts = []
    while count > 0:
        counts.append(count)
        count = min(count - 1, count * 9 // 10)
    return counts
