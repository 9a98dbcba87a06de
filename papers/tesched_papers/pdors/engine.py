"""The slotted cluster: in each slot a scheduler places the jobs, the cluster checks it and the work advances."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import SLACK, Machines, Placement, TrainingJob

from tesched_papers.pdors.workload import Instance


class PlacementError(RuntimeError):
    """A scheduler placed more than there is: a fault of the scheduler, never of the input."""


class Scheduler(Protocol):
    """Places the jobs in each slot."""

    def place(self, slot: int, active: Sequence[TrainingJob]) -> Mapping[JobId, Placement]:
        """Return the placements of a slot; `active` have come and are not finished, in the order of arrival."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of one job."""

    job_id: JobId
    #: slot of its end; None: it did not finish
    end: int | None
    utility: float
    #: end - arrival, slots; the horizon if it did not finish
    training_slots: int
    started: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Results of all jobs."""

    jobs: tuple[JobResult, ...]
    #: part of all worker-slots that were on one machine with all of their job
    internal: float
    #: part of the tightest resource's machine-slots that was taken
    used: float
    #: seconds of real time that the scheduler took
    took_s: float

    @property
    def utility(self) -> float:
        """Return the sum of all jobs' utilities."""
        return sum(job.utility for job in self.jobs)

    @property
    def finished(self) -> int:
        """Return how many finished."""
        return sum(job.end is not None for job in self.jobs)

    @property
    def started(self) -> int:
        """Return how many were given anything."""
        return sum(job.started for job in self.jobs)

    @property
    def mean_training(self) -> float:
        """Return the mean time of training, slots."""
        return float(np.mean([job.training_slots for job in self.jobs]))

    @property
    def median_training(self) -> float:
        """Return the median time of training, slots."""
        return float(np.median([job.training_slots for job in self.jobs]))


@dataclass(slots=True, kw_only=True, eq=False)
class _Tally:
    left: dict[JobId, float]
    ends: dict[JobId, int] = field(default_factory=dict)
    started: set[JobId] = field(default_factory=set)
    workers: int = 0
    internal_workers: int = 0


def simulate(instance: Instance, scheduler: Scheduler) -> Result:
    """Return what becomes of an instance's jobs. Raises PlacementError if a placement does not fit."""
    by_id = {job.job_id: job for job in instance.jobs}
    tally = _Tally(left={job.job_id: job.samples for job in instance.jobs})
    taken = np.zeros(len(instance.machines.resources))
    took_s = 0.0
    for slot in range(instance.horizon):
        active = [job for job in instance.jobs if job.arrival <= slot and tally.left[job.job_id] > 0]
        before = time.perf_counter()
        placements = scheduler.place(slot, active)
        took_s += time.perf_counter() - before
        used = np.zeros_like(instance.machines.capacity)
        for job_id, placement in placements.items():
            _advance(by_id[job_id], placement, slot, tally)
            used[placement.machines] += placement.demand(by_id[job_id])
        _check(used, instance.machines, slot)
        taken += used.sum(axis=0)
    there = instance.machines.capacity.sum(axis=0) * instance.horizon
    return Result(
        jobs=tuple(_result(job, tally, instance.horizon) for job in instance.jobs),
        internal=tally.internal_workers / max(tally.workers, 1),
        used=float((taken[there > 0] / there[there > 0]).max()),
        took_s=took_s,
    )


def _advance(job: TrainingJob, placement: Placement, slot: int, tally: _Tally) -> None:
    workers, servers = int(placement.workers.sum()), int(placement.servers.sum())
    if slot < job.arrival or workers > job.batch or servers * job.workers_per_server < workers:
        raise PlacementError(f"job {job.job_id}, slot {slot}: {workers} workers and {servers} servers cannot be")
    # Whatever was planned: what is on one machine is as fast as one machine is.
    internal = len(placement.machines) == 1
    tally.started.add(job.job_id)
    tally.workers += workers
    tally.internal_workers += workers * internal
    tally.left[job.job_id] -= job.samples_per_slot(workers, internal=internal)
    if tally.left[job.job_id] <= job.samples * SLACK and job.job_id not in tally.ends:
        tally.left[job.job_id] = 0.0
        tally.ends[job.job_id] = slot


def _check(used: np.ndarray, machines: Machines, slot: int) -> None:
    over = np.argwhere(used > machines.capacity * (1 + SLACK))
    if len(over):
        machine, resource = over[0]
        raise PlacementError(f"slot {slot}: machine {machine} has too little {machines.resources[resource]}")


def _result(job: TrainingJob, tally: _Tally, horizon: int) -> JobResult:
    end = tally.ends.get(job.job_id)
    return JobResult(
        job_id=job.job_id,
        end=end,
        utility=0.0 if end is None else float(job.utility.worth(np.array(end - job.arrival))),
        training_slots=horizon if end is None else end - job.arrival,
        started=job.job_id in tally.started,
    )
