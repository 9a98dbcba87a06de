"""Jobs, machines and random numbers for the tests of PD-ORS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import Machines, Placement, Sigmoid, TrainingJob

#: worth 10 whenever it ends
ANY_TIME = Sigmoid(height=20.0, steepness=0.0, patience=1.0)


def training(**changes: Any) -> TrainingJob:
    """Return a job of 8 worker-slots if internal, 16 if external: tau 0.5, exchange 0.5 or 1.5 slots a sample."""
    fields: dict[str, Any] = {
        "job_id": JobId(1),
        "arrival": 0,
        "samples": 8.0,
        "batch": 4,
        "sample_slots": 0.5,
        "model_mb": 1.0,
        "workers_per_server": 2,
        "internal_mb_per_slot": 2.0,
        "external_mb_per_slot": 2.0 / 3.0,
        "worker": np.array([1.0, 2.0]),
        "server": np.array([0.0, 2.0]),
        "utility": ANY_TIME,
    }
    return TrainingJob(**{**fields, **changes})


def machines(*capacity: Sequence[float]) -> Machines:
    """Return machines of GPUs and CPUs."""
    return Machines.of(("gpu", "cpu"), np.array(capacity, dtype=np.float64))


class Drawn:
    """Random numbers of a seed, the same for the same slot and number of workers."""

    def __init__(self, seed: int) -> None:
        """Keep the seed."""
        self.seed = seed

    def __call__(self, slot: int, workers: int) -> np.random.Generator:
        """Return the generator."""
        return np.random.default_rng([self.seed, slot, workers])


def taken(job: TrainingJob, placements: Sequence[Placement], shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Return what placements take, (T, H, R), added up one worker and one server at a time."""
    total = np.zeros(shape)
    for placement in placements:
        for row, workers, servers in zip(placement.machines, placement.workers, placement.servers, strict=True):
            for _ in range(int(workers)):
                total[placement.slot, row] += job.worker
            for _ in range(int(servers)):
                total[placement.slot, row] += job.server
    return total


def samples_done(job: TrainingJob, placement: Placement) -> float:
    """Return what a placement gets done, from the paper's formulas; 0 if it breaks one of its constraints."""
    workers, servers = int(placement.workers.sum()), int(placement.servers.sum())
    if workers > job.batch or servers * job.workers_per_server < workers:
        return 0.0
    if placement.internal and len(placement.machines) != 1:
        return 0.0
    bandwidth = job.internal_mb_per_slot if placement.internal else job.external_mb_per_slot
    exchange = 2 * job.model_mb * job.workers_per_server / (bandwidth * job.batch)
    return workers / (job.sample_slots + exchange * (workers if job.speed == "batch" else 1))
