"""Schedulers that plan a job's whole schedule at its arrival: PD-ORS, OASiS, and PD-ORS blind to locality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import Machines, Placement, TrainingJob
from tesched_policies.pdors.prices import FLOOR, PriceBounds

from tesched_papers.pdors.algorithm.policy import Ledger, PdOrs
from tesched_papers.pdors.algorithm.schedule import Settings
from tesched_papers.pdors.workload import Instance


@dataclass(frozen=True, slots=True)
class Drawn:
    """Random numbers of a seed and a job, the same for the same slot and number of workers."""

    seed: int
    job_id: JobId

    def __call__(self, slot: int, workers: int) -> np.random.Generator:
        """Return the generator."""
        return np.random.default_rng([self.seed, self.job_id, slot, workers])


class Planned:
    """Plans at arrivals and does as planned."""

    def __init__(self, instance: Instance, *, settings: Settings, floor: float = FLOOR, blind: bool = False) -> None:
        """Make the prices for the instance's jobs, which are taken to be known in advance, as in the paper.

        `blind`: plans are made as if workers and servers on one machine were no faster than on two.
        """
        self.blind = blind
        self.seed = instance.seed
        jobs = [self._seen(job) for job in instance.jobs]
        bounds = PriceBounds.of(jobs, instance.machines, horizon=instance.horizon, floor=floor)
        self.policy = PdOrs(machines=instance.machines, bounds=bounds, settings=settings)
        self.ledger = Ledger.empty(instance.machines, instance.horizon)
        self.plans: dict[JobId, dict[int, Placement]] = {}

    def place(self, slot: int, active: Sequence[TrainingJob]) -> Mapping[JobId, Placement]:
        """Plan for those that come now, and return what was planned for this slot."""
        for job in active:
            if job.arrival != slot:
                continue
            self.ledger, answer = self.policy.arrive(self.ledger, self._seen(job), Drawn(self.seed, job.job_id))
            if answer.schedule is not None:
                self.plans[job.job_id] = {one.slot: one for one in answer.schedule.placements}
        plans = {job.job_id: self.plans.get(job.job_id, {}) for job in active}
        return {job_id: plan[slot] for job_id, plan in plans.items() if slot in plan}

    def _seen(self, job: TrainingJob) -> TrainingJob:
        return replace(job, internal_mb_per_slot=job.external_mb_per_slot) if self.blind else job


def with_roles(instance: Instance) -> Instance:
    """Return the instance with workers on every other machine and servers on those between, as OASiS has them."""
    machines = instance.machines
    even = np.arange(len(machines)) % 2 == 0
    divided = Machines(
        resources=machines.resources, capacity=machines.capacity, takes_workers=even, takes_servers=~even
    )
    return replace(instance, machines=divided)
