"""PD-ORS's synthetic workload as far as it is known, from a seed.

Each number is marked: [paper] as remembered from the paper, none could be checked against its text; [ours] a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import Machines, Sigmoid, Speed, TrainingJob
from tesched_sim.workload import WorkloadError

RESOURCES = ("gpu", "cpu", "mem_gib", "disk_gib")
#: [paper] what a worker, and a server, takes of each: least and most, whole numbers
WORKER = ((0, 4), (1, 10), (2, 32), (5, 10))
SERVER = ((0, 0), (1, 10), (2, 32), (5, 10))
#: [paper]
EPOCHS = (50, 200)
SAMPLES = (20_000, 500_000)
MODEL_MB = (30.0, 575.0)
#: [paper] slots that a worker computes for one sample
SAMPLE_SLOTS = (1e-5, 1e-4)
WORKERS_PER_SERVER = (1, 10)
#: [paper] of the worth of an end: theta1, theta3, and theta2 of jobs that are sensitive, and critical, to time
HEIGHT = (1.0, 100.0)
PATIENCE = (1.0, 15.0)
SENSITIVE = (0.01, 1.0)
CRITICAL = (4.0, 6.0)
#: [paper] arrivals in an even slot are so many times as likely as in an odd one
EVEN_SLOTS = 2.0

_MB_PER_GBIT = 125.0
_Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PdOrsWorkload:
    """The parameters."""

    #: [paper] sweeps 10 to 50
    jobs: int = 50
    #: [paper] sweeps 10 to 100
    machines: int = 100
    #: [paper] 20, with a trace up to 80
    slots: int = 20
    #: [paper] the largest batch, so also the largest number of workers; the least is 1
    batch_max: int = 200
    #: [paper] Gbit/s between machines, and within one, least and most
    external_gbps_min: float = 0.1
    external_gbps_max: float = 5.0
    internal_gbps_min: float = 5.0
    internal_gbps_max: float = 20.0
    #: how many times as fast as between machines it is within one, for every job; 0: as drawn
    link_ratio: float = 0.0
    #: [paper] parts of the jobs to which the time of their end does not matter, and to which it is critical
    insensitive: float = 0.10
    critical: float = 0.35
    #: [paper] how many workers, about, one machine holds
    machine_size: float = 18.0
    #: [ours] minutes of a slot: only bandwidth depends on it
    slot_min: float = 60.0
    #: [ours] part of epochs * samples that is really to be done: all of it would be 1,800 worker-slots a job
    work: float = 0.1
    #: [ours] no job needs more than this part of the slots with all its workers at internal speed
    longest: float = 0.25
    #: [ours] jobs arrive in this first part of the slots
    arrivals: float = 0.75
    #: linear, as in the paper, or batch (tesched_policies.pdors.model.Speed)
    speed: Speed = Speed.LINEAR

    def __post_init__(self) -> None:
        """Raise WorkloadError for what cannot be drawn."""
        for name in ("jobs", "machines", "slots", "batch_max"):
            if getattr(self, name) < 1:
                raise WorkloadError(f"workload.{name} must be at least 1")
        for name in ("external_gbps_min", "internal_gbps_min", "machine_size", "slot_min", "work"):
            if not getattr(self, name) > 0:
                raise WorkloadError(f"workload.{name} must be above 0")
        for name in ("longest", "arrivals"):
            if not 0 < getattr(self, name) <= 1:
                raise WorkloadError(f"workload.{name} must be above 0, and 1 at most")
        for name in ("external_gbps", "internal_gbps"):
            if not getattr(self, f"{name}_min") <= getattr(self, f"{name}_max"):
                raise WorkloadError(f"workload.{name}_max must not be below workload.{name}_min")
        if not (self.insensitive >= 0 and self.critical >= 0 and self.insensitive + self.critical <= 1):
            raise WorkloadError("workload.insensitive and workload.critical must be parts of 1")
        if self.link_ratio != 0 and not self.link_ratio >= 1:
            raise WorkloadError("workload.link_ratio must be at least 1, or 0")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Instance:
    """One instance of the problem: machines, jobs and slots."""

    machines: Machines
    #: in the order of their arrivals
    jobs: tuple[TrainingJob, ...]
    #: T: slots are 0 to T - 1
    horizon: int
    #: of all that is drawn while it is simulated
    seed: int


def pdors_workload(parameters: PdOrsWorkload, seed: int) -> Instance:
    """Return the instance of a seed."""
    p = parameters
    rng = np.random.default_rng(seed)
    takes = np.array([(low + high) / 2 for low, high in WORKER])
    capacity = np.tile(np.round(takes * p.machine_size), (p.machines, 1))
    last = max(int(np.ceil(p.slots * p.arrivals)), 1)
    likely = np.where(np.arange(last) % 2 == 0, EVEN_SLOTS, 1.0)
    arrivals = np.sort(rng.choice(last, size=p.jobs, p=likely / likely.sum()))
    jobs = tuple(_job(p, rng, number, int(slot)) for number, slot in enumerate(arrivals, start=1))
    return Instance(machines=Machines.of(RESOURCES, capacity), jobs=jobs, horizon=p.slots, seed=seed)


def _job(p: PdOrsWorkload, rng: np.random.Generator, number: int, arrival: int) -> TrainingJob:
    batch = int(rng.integers(1, p.batch_max + 1))
    samples = rng.integers(EPOCHS[0], EPOCHS[1] + 1) * rng.integers(SAMPLES[0], SAMPLES[1] + 1) * p.work
    external = _even(rng, (p.external_gbps_min, p.external_gbps_max))
    internal = max(_even(rng, (p.internal_gbps_min, p.internal_gbps_max)), external)
    if p.link_ratio:
        internal = external * p.link_ratio
    mb_per_slot = _MB_PER_GBIT * p.slot_min * 60.0
    kind = rng.random()
    steepness = _even(rng, CRITICAL if kind < p.critical else SENSITIVE)
    job = TrainingJob(
        job_id=JobId(number),
        arrival=arrival,
        samples=float(samples),
        batch=batch,
        sample_slots=_even(rng, SAMPLE_SLOTS),
        model_mb=_even(rng, MODEL_MB),
        workers_per_server=int(rng.integers(WORKERS_PER_SERVER[0], WORKERS_PER_SERVER[1] + 1)),
        internal_mb_per_slot=internal * mb_per_slot,
        external_mb_per_slot=external * mb_per_slot,
        worker=_amounts(rng, WORKER),
        server=_amounts(rng, SERVER),
        utility=Sigmoid(
            height=_even(rng, HEIGHT),
            steepness=0.0 if kind > 1.0 - p.insensitive else steepness,
            patience=_even(rng, PATIENCE),
        ),
        speed=p.speed,
    )
    most = p.longest * p.slots * job.samples_per_slot(batch, internal=True)
    return replace(job, samples=min(job.samples, most))


def _even(rng: np.random.Generator, span: _Range) -> float:
    return float(rng.uniform(*span))


def _amounts(rng: np.random.Generator, spans: tuple[tuple[int, int], ...]) -> NDArray[np.float64]:
    return np.array([rng.integers(low, high + 1) for low, high in spans], dtype=np.float64)
