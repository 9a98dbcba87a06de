"""PD-ORS: at its arrival a job gets the schedule that is worth most after its price, or is left to the queue.

Definitions
    ledger         what is reserved of each machine's resources in each slot.
    payoff         what the end of a job is worth minus the price of what its schedule takes.

Principle
    Prices rise exponentially with what is reserved (prices.py). The best schedule at today's prices is searched for
    (schedule.py). If its payoff is above 0 it is committed, and what it takes becomes dearer for all later jobs. A
    committed schedule is kept; a job that was turned away is not considered again.

Worked example
    One machine of 4 GPUs, one slot, U = 8 and L = 0.5 a GPU. A job that takes 2 GPUs and is worth 3 pays 2 * 0.5 = 1:
    accepted. Then a GPU costs 0.5 * 16 ** 0.5 = 2; the next one like it would pay 4 for what is worth 3: left.

Parameters
    `PriceBounds` (what jobs are expected), `Settings` (how long to search), the horizon (how many slots are planned).

Source
    PD-ORS (model.py), its online algorithm.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_policies.pdors.model import SLACK, Machines, ModelError, TrainingJob
from tesched_policies.pdors.prices import PriceBounds

from tesched_papers.pdors.algorithm.schedule import NoSchedule, Schedule, Settings, best_schedule
from tesched_papers.pdors.algorithm.slot import Draws, SlotView


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """Decision for a job, and its reason."""

    job_id: JobId
    #: the schedule committed for it, or why it is left to the queue
    outcome: Schedule | NoSchedule

    @property
    def schedule(self) -> Schedule | None:
        """Schedule that is committed for it, if any."""
        return self.outcome if isinstance(self.outcome, Schedule) else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """Ledger of commitments. It is never changed: a commitment makes a new one."""

    #: (T, H, R)
    used: NDArray[np.float64]

    @classmethod
    def empty(cls, machines: Machines, horizon: int) -> Ledger:
        """Return a ledger without commitments, for slots 0 to `horizon` - 1."""
        return cls(used=np.zeros((horizon, *machines.capacity.shape)))

    def with_schedule(self, job: TrainingJob, schedule: Schedule, machines: Machines) -> Ledger:
        """Return the ledger with a schedule committed. Raises ModelError if a machine would be reserved twice."""
        used = self.used.copy()
        for placement in schedule.placements:
            used[placement.slot, placement.machines] += placement.demand(job)
            if (used[placement.slot] > machines.capacity * (1 + SLACK)).any():
                raise ModelError(f"job {job.job_id}: slot {placement.slot} does not hold its schedule")
        return Ledger(used=used)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PdOrs:
    """The policy; see the head of this file."""

    machines: Machines
    bounds: PriceBounds
    settings: Settings = field(default_factory=Settings)

    def arrive(self, ledger: Ledger, job: TrainingJob, draws: Draws) -> tuple[Ledger, Answer]:
        """Return what becomes of a job, and the ledger after it. Raises ModelError if it arrives after the horizon."""
        horizon = len(ledger.used)
        if job.arrival >= horizon:
            raise ModelError(f"job {job.job_id}: it arrives in slot {job.arrival}, the last slot is {horizon - 1}")
        if job.worker.shape != (len(self.machines.resources),):
            wanted = ", ".join(self.machines.resources)
            raise ModelError(f"job {job.job_id}: worker and server must say how much they take of {wanted}")
        outcome = best_schedule(job, self.views(ledger, job), draws, self.settings)
        if isinstance(outcome, NoSchedule):
            return ledger, Answer(job_id=job.job_id, outcome=outcome)
        promised = ledger.with_schedule(job, outcome, self.machines)
        return promised, Answer(job_id=job.job_id, outcome=outcome)

    def arrive_all(
        self, ledger: Ledger, jobs: Iterable[TrainingJob], draws: Draws
    ) -> tuple[Ledger, tuple[Answer, ...]]:
        """Return what becomes of several jobs, one after the other in the order given, and the ledger after them."""
        answers = []
        for job in jobs:
            ledger, answer = self.arrive(ledger, job, draws)
            answers.append(answer)
        return ledger, tuple(answers)

    def views(self, ledger: Ledger, job: TrainingJob) -> list[SlotView]:
        """Return what the job sees of each slot from its arrival on."""
        used = ledger.used[job.arrival :]
        prices = self.bounds.price(used, self.machines.capacity)
        free = np.maximum(self.machines.capacity - used, 0.0)
        worker_prices = np.where(self.machines.takes_workers, prices @ job.worker, np.inf)
        server_prices = np.where(self.machines.takes_servers, prices @ job.server, np.inf)
        return [
            SlotView(slot=job.arrival + place, free=free[place], worker_price=worker, server_price=server)
            for place, (worker, server) in enumerate(zip(worker_prices, server_prices, strict=True))
        ]
