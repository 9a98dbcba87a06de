"""Training jobs and machines of PD-ORS: how fast workers are, what they take, what an end is worth.

Definitions
    slot           the unit of time. A job's placement may change from slot to slot, not within one.
    worker         holds a copy of the model and computes gradients.
    server         a parameter server; workers push gradients to it and pull the model from it.
    internal       all workers and servers of a job are on one machine in a slot. Otherwise its slot is external: the
                   slowest link sets the pace of all (bulk synchronous training), so one worker elsewhere slows all.
    delay          the slot in which a job ends minus the slot in which it arrived. Ending at once has delay 0.

Source
    Yu, Liu, Wu, Ji, Bentley, "Toward Efficient Online Scheduling for Distributed Machine Learning Systems", IEEE TNSE
    2021, arXiv 2108.02917, section 3. docs/discussion/pdors.md says what is the paper's and what is ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.resources import JobId

#: relative slack of a comparison of amounts: 0.1 + 0.2 fits into 0.3
SLACK = 1e-9


class ModelError(ValueError):
    """A job or a cluster that cannot be. The text names the job and the field, and what would be right."""


class Speed(StrEnum):
    """Models of the time of a sample by the number of workers."""

    #: The paper's: each sample takes a worker tau + 2 g gamma / (b F), however many workers there are.
    LINEAR = "linear"
    #: A batch is F samples whatever works on it, so each worker's share shrinks and its exchange of gradients does not:
    #: W workers do W / (tau + W * 2 g gamma / (b F)) samples in a slot.
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sigmoid:
    """The worth of an end: height / (1 + exp(steepness * (delay - patience))), which never rises with the delay."""

    #: theta1: twice the worth of an end exactly at `patience`; the worth of an end at once, if patience is long
    height: float
    #: theta2, per slot; 0: the end's time does not matter, the worth is always height / 2
    steepness: float
    #: theta3, slots
    patience: float

    def __post_init__(self) -> None:
        """Raise ModelError for a worth that is not positive or rises with the delay."""
        if not (isfinite(self.height) and self.height > 0):
            raise ModelError(f"utility: height must be above 0, not {self.height}")
        if not (isfinite(self.steepness) and self.steepness >= 0 and isfinite(self.patience)):
            raise ModelError(f"utility: steepness must be at least 0 and finite, not {self.steepness}")

    def worth(self, delay: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the worth of ending with these delays (slots)."""
        # exp(700) is about the largest number that a float holds.
        exponent = np.minimum(self.steepness * (delay - self.patience), 700.0)
        return np.asarray(self.height / (1.0 + np.exp(exponent)), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingJob:
    """One job. Amounts are in the order of the machines' resources."""

    job_id: JobId
    #: slot, from 0
    arrival: int
    #: V: samples to process, each counted as often as there are epochs
    samples: float
    #: F: samples of a batch; also the largest number of workers at a time
    batch: int
    #: tau: slots that one worker needs for one sample
    sample_slots: float
    #: g: MB of gradients that a worker pushes, and of model that it pulls, each iteration
    model_mb: float
    #: gamma: workers that one server serves
    workers_per_server: int
    #: b: MB a slot between a worker and a server on one machine, and on two
    internal_mb_per_slot: float
    external_mb_per_slot: float
    #: alpha and beta, (R,): what one worker, and one server, takes
    worker: NDArray[np.float64]
    server: NDArray[np.float64]
    utility: Sigmoid
    speed: Speed = Speed.LINEAR

    def __post_init__(self) -> None:
        """Raise ModelError for what is no job."""
        for name in ("samples", "sample_slots", "internal_mb_per_slot", "external_mb_per_slot"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0):
                raise ModelError(f"job {self.job_id}: {name} must be above 0, not {value}")
        for name, least in (("arrival", 0), ("batch", 1), ("workers_per_server", 1), ("model_mb", 0)):
            if not getattr(self, name) >= least:
                raise ModelError(f"job {self.job_id}: {name} must be at least {least}, not {getattr(self, name)}")
        for name in ("worker", "server"):
            amounts = getattr(self, name)
            if not (np.isfinite(amounts).all() and (amounts >= 0).all() and amounts.any()):
                raise ModelError(f"job {self.job_id}: {name} must take at least one resource, and no amount below 0")
        if self.worker.shape != self.server.shape:
            raise ModelError(f"job {self.job_id}: worker and server must name the same resources")
        if self.external_mb_per_slot > self.internal_mb_per_slot:
            raise ModelError(f"job {self.job_id}: external_mb_per_slot must not be above internal_mb_per_slot")

    def exchange_slots(self, *, internal: bool) -> float:
        """Return 2 g gamma / (b F): slots of push and pull a sample."""
        bandwidth = self.internal_mb_per_slot if internal else self.external_mb_per_slot
        return 2.0 * self.model_mb * self.workers_per_server / (bandwidth * self.batch)

    def samples_per_slot(self, workers: int, *, internal: bool) -> float:
        """Number of samples that so many workers process in one slot."""
        together = workers if self.speed is Speed.BATCH else 1
        return workers / (self.sample_slots + together * self.exchange_slots(internal=internal))

    def workers_for(self, samples: NDArray[np.float64], *, internal: bool) -> NDArray[np.int64]:
        """Return the fewest workers that process so many samples in one slot; `batch` + 1 where no number does.

        The inverse of `samples_per_slot`, which is linear in W under both models: W >= v (tau + x), or
        W >= v tau / (1 - v x) as long as v x < 1.
        """
        exchange = self.exchange_slots(internal=internal)
        if self.speed is Speed.LINEAR:
            exact = samples * (self.sample_slots + exchange)
        else:
            left = 1.0 - samples * exchange
            exact = np.where(left > 0, samples * self.sample_slots / np.where(left > 0, left, 1.0), np.inf)
        # Work that is a whole number of workers must not become one more by rounding.
        whole = np.ceil(np.minimum(exact, self.batch + 1.0) * (1.0 - SLACK))
        return np.asarray(whole, dtype=np.int64)

    def servers_for(self, workers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return S = ceil(W / gamma)."""
        return -(-workers // self.workers_per_server)

    @property
    def shortest(self) -> int:
        """Return the smallest delay that is possible, slots: all workers on one machine from the first slot on."""
        slots = self.samples / self.samples_per_slot(self.batch, internal=True)
        return max(int(np.ceil(slots * (1.0 - SLACK))) - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Machines:
    """The cluster: H machines, R resources."""

    #: R names, for messages and reports: "gpu", "cpu", "mem_gib"
    resources: tuple[str, ...]
    #: (H, R)
    capacity: NDArray[np.float64]
    #: (H,): where workers, and servers, may be
    takes_workers: NDArray[np.bool_]
    takes_servers: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Raise ModelError if shapes differ or an amount is below 0."""
        machines = len(self.capacity)
        if self.capacity.shape != (machines, len(self.resources)) or not machines:
            raise ModelError(f"machines: capacity must have a column for each of {', '.join(self.resources)}")
        if not (np.isfinite(self.capacity).all() and (self.capacity >= 0).all() and self.capacity.any()):
            raise ModelError("machines: at least one capacity must be above 0, and none below 0")
        if self.takes_workers.shape != (machines,) or self.takes_servers.shape != (machines,):
            raise ModelError("machines: takes_workers and takes_servers must have a row for each machine")

    @classmethod
    def of(cls, resources: tuple[str, ...], capacity: NDArray[np.float64]) -> Machines:
        """Return machines that take workers and servers alike. Raises ModelError."""
        anywhere = np.ones(len(capacity), dtype=np.bool_)
        return cls(resources=resources, capacity=capacity, takes_workers=anywhere, takes_servers=anywhere)

    def __len__(self) -> int:
        """Count them."""
        return len(self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """A job's workers and servers in one slot."""

    slot: int
    #: (n,): rows of the machines that hold any
    machines: NDArray[np.int64]
    #: (n,) each
    workers: NDArray[np.int64]
    servers: NDArray[np.int64]
    #: whether the slot's speed may be reckoned as internal
    internal: bool

    def demand(self, job: TrainingJob) -> NDArray[np.float64]:
        """Demand on each of its machines, (n, R)."""
        return np.outer(self.workers, job.worker) + np.outer(self.servers, job.server)
