"""Price of a machine's resource in a slot: little when it is idle, more than any job pays when it is full.

Principle
    p(used) = L * (U / L) ** (used / capacity)

    L is so low that an idle cluster turns no job away, U so high that no job pays it: one worker and its server cost
    more there than the best end is worth. In between, dp / dused = p ln(U / L) / capacity: the sum of all prices times
    capacities, which bounds the optimum from above (linear programming duality), grows by no more than ln(U / L)
    times what is paid. docs/discussion/pdors.md has the derivation.

Worked example
    U = 8, L = 0.5, capacity 4: idle 0.5, half used 0.5 * 16 ** 0.5 = 2, full 8.

Parameters
    floor    L is at least `floor` * U. Jobs for which time is everything are worth next to nothing at the horizon
             (exp(-20)); without a floor they push L, which is a minimum over all jobs, to 0 and ln(U / L) to infinity.
             With one, some job of little worth may be turned away by an idle cluster, and the ratio no longer holds.

Source
    PD-ORS (model.py), its price function and the definitions of U and L. Its sums over resources add GPUs to GiB;
    here each resource is counted in parts of what a machine has on average, so that units do not matter (ours).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.pdors.model import Machines, ModelError, TrainingJob

FLOOR = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PriceBounds:
    """L and U of each resource, in utility per unit of it."""

    #: (R,), above 0 and below `high`
    low: NDArray[np.float64]
    #: (R,)
    high: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Raise ModelError unless 0 < low < high."""
        if not ((self.low > 0) & (self.low < self.high) & np.isfinite(self.high)).all():
            raise ModelError("prices: each resource needs 0 < low < high")

    @classmethod
    def of(cls, jobs: Sequence[TrainingJob], machines: Machines, *, horizon: int, floor: float = FLOOR) -> PriceBounds:
        """Return the bounds for jobs like these, which must have arrived before slot `horizon`.

        U^r = max_i u_i(shortest delay of i) / (alpha_i^r + beta_i^r)
        L = min_i u_i(horizon - a_i) / (2 mu ceil(V_i c_i^ext) sum_r (alpha_i^r + beta_i^r)), with
        1 / mu = min_i ceil(V_i c_i^ext) sum_r (alpha_i^r + beta_i^r) / (horizon sum_hr C_h^r), at most 1.

        Raises ModelError if there is no job, or if one arrives too late.
        """
        if not jobs:
            raise ModelError("prices: at least one job must be known")
        late = next((job for job in jobs if job.arrival >= horizon), None)
        if late is not None:
            raise ModelError(f"job {late.job_id}: it arrives in slot {late.arrival}, the horizon is {horizon}")
        unit = machines.capacity.mean(axis=0)
        unit = np.where(unit > 0, unit, 1.0)
        pairs = np.array([(job.worker + job.server) / unit for job in jobs])
        best = np.array([float(job.utility.worth(np.array(job.shortest))) for job in jobs])
        last = np.array([float(job.utility.worth(np.array(horizon - job.arrival))) for job in jobs])
        with np.errstate(divide="ignore"):
            by_job = np.where(pairs > 0, best[:, np.newaxis] / pairs, 0.0)
        high = by_job.max(axis=0)
        high = np.where(high > 0, high, high.max())
        volume = np.array([_worker_slots(job) for job in jobs]) * pairs.sum(axis=1)
        everything = horizon * float((machines.capacity / unit).sum())
        per_mu = min(float(volume.min()) / everything, 1.0)
        low = float((last / volume).min()) * per_mu / 2.0
        # Below the smallest normal float a price would be 0 whatever is used.
        lows = np.clip(low, np.maximum(floor * high, 1e-300), high / 2.0)
        return cls(low=lows / unit, high=high / unit)

    def price(self, used: NDArray[np.float64], capacity: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the prices; all shapes (..., R). What a machine has none of costs as if it were full."""
        has = capacity > 0
        part = np.where(has, used / np.where(has, capacity, 1.0), 1.0)
        return np.asarray(self.low * np.exp(np.log(self.high / self.low) * part), dtype=np.float64)

    @property
    def ratio(self) -> float:
        """Return 2 max_r(1, ln(U^r / L)): so many times the utility of PD-ORS the optimum has at most."""
        return 2.0 * max(1.0, float(np.log(self.high / self.low).max()))

    def ratio_of_steps(self, largest: float) -> float:
        """Return the ratio if a job takes up to `largest` (above 0, at most 1) of a machine's resource at once.

        The proof's sum is an integral only for small steps; a step of d = `largest` raises the price's sum by
        ((U / L) ** d - 1) / d times what is paid, which is ln(U / L) for d towards 0.
        """
        return 2.0 * max(1.0, float(np.expm1(np.log(self.high / self.low) * largest).max()) / largest)


def _worker_slots(job: TrainingJob) -> float:
    """Return ceil(V c^ext), the most worker-slots that the job may need."""
    return float(np.ceil(job.samples / job.samples_per_slot(1, internal=False)))
