"""Schedulers that Gavel's authors compare theirs with: FIFO as they have it, AlloX, and Gandiva's sharing.

Definitions
    FIFO (`fifo-greedy`)       in the order of arrival each job has the type on which it is fastest, of the free ones;
                               the first that does not fit ends it. Again at each allocation.
         (`fifo-greedy-agnostic`)  a free type at random, kept until the job ends.
    AlloX (`allox`)            a job in the k-th place from the last of an accelerator's queue delays k jobs, itself
                               among them, by its run time there. Places are assigned so that the sum is least
                               (Hungarian method); the first on an accelerator has it until it ends. One
                               accelerator a job.
    Gandiva (`gandiva`)        as long as jobs want no more accelerators than there are, all have an equal part of
                               each; else jobs of a size are paired at random, pairs that get less done than one job
                               alone are dropped, and all combinations have an equal part.

Worked example
    AlloX, one V100 and one K80. a takes 1 h on the V100 and 4 h on the K80, b 2 h and 2.5 h. Both on the V100, a first:
    a counts twice, b once, 2 x 1 + 2 = 4 h. b on the V100, a on the K80: 2 + 4 = 6 h. a on the V100, b on the K80:
    1 + 2.5 = 3.5 h, the least.

Source
    By the description of the authors' code, not by the code; seeds differ, so what is drawn at random differs, too.
    AlloX: Le, Sun, Chowdhury, Liu, EuroSys 2020. Gandiva: Xiao et al., OSDI 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.allocators.problem import Pairs
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.rounds import Division, Waiting
from tesched_papers.gavel.throughputs import measured

#: of the seed, for what is drawn here
_DRAWS = 6


@dataclass(slots=True, kw_only=True)
class GreedyFifo:
    """First come, first served."""

    aware: bool
    seed: int
    #: the type of each job that has one, by index; without knowledge of types it is kept
    on: dict[int, int] = field(default_factory=dict)
    draw: Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self.draw = Random(self.seed + _DRAWS)  # noqa: S311 - not for secrets

    def __call__(self, waiting: Waiting) -> NDArray[np.float64]:
        """Return 1 where a job has a type."""
        jobs = waiting.job.tolist()
        self.on = {} if self.aware else {job: kind for job, kind in self.on.items() if job in set(jobs)}
        unassigned = waiting.capacity.copy()
        for row, job in enumerate(jobs):
            if job in self.on:
                unassigned[self.on[job]] -= waiting.scale_factor[row]
        for row, job in enumerate(jobs):
            if job in self.on:
                continue
            speed = waiting.throughput[row]
            fits = np.flatnonzero((unassigned >= waiting.scale_factor[row]) & (speed > 0)).tolist()
            if not fits:
                break
            kind = max(fits, key=lambda kind: (speed[kind], -kind)) if self.aware else self.draw.choice(fits)
            self.on[job] = kind
            unassigned[kind] -= waiting.scale_factor[row]
        share = np.zeros_like(waiting.throughput)
        for row, job in enumerate(jobs):
            if job in self.on:
                share[row, self.on[job]] = 1.0
        return share


@dataclass(slots=True, kw_only=True)
class Allox:
    """The least sum of times."""

    #: the type of each job that has an accelerator, by index
    on: dict[int, int] = field(default_factory=dict)

    def __call__(self, waiting: Waiting) -> NDArray[np.float64]:
        """Return 1 where a job has an accelerator. Raises WorkloadError for a job that wants several."""
        if (waiting.scale_factor > 1).any():
            raise WorkloadError("allox: a job of several accelerators cannot be placed; leave --multi out")
        jobs = waiting.job.tolist()
        self.on = {job: kind for job, kind in self.on.items() if job in set(jobs)}
        unassigned = waiting.capacity.copy()
        for kind in self.on.values():
            unassigned[kind] -= 1
        rows = np.array([row for row, job in enumerate(jobs) if job not in self.on], dtype=np.int64)
        machines = np.repeat(np.arange(len(unassigned)), unassigned)
        if len(rows) and len(machines):
            for row, kind in _first(waiting, rows, machines):
                self.on[jobs[row]] = kind
        share = np.zeros_like(waiting.throughput)
        for row, job in enumerate(jobs):
            if job in self.on:
                share[row, self.on[job]] = 1.0
        return share


def _first(waiting: Waiting, rows: NDArray[np.int64], machines: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the jobs that are first on a free machine, each with its type."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - only allox needs it

    speed = waiting.throughput[rows]
    with np.errstate(divide="ignore"):
        run_s = np.where(speed > 0, waiting.steps_left[rows, None] / speed, np.inf)
    # No job is placed where it does not run: that is dearer than anything else.
    run_s = np.where(np.isfinite(run_s), run_s, 1e6 * run_s[np.isfinite(run_s)].max(initial=1.0))
    places = np.arange(1, len(rows) + 1)
    # [jobs, machines, places from the last]; how long a job has waited already is the same wherever it goes.
    cost = run_s[:, machines][:, :, None] * places
    job, place = linear_sum_assignment(cost.reshape(len(rows), -1))
    machine, back = np.divmod(place, len(places))
    first: dict[int, tuple[int, int]] = {}
    for one, where, position in zip(job.tolist(), machine.tolist(), back.tolist(), strict=True):
        if where not in first or position > first[where][0]:
            first[where] = position, one
    return [
        (int(rows[one]), int(machines[where])) for where, (_, one) in first.items() if speed[one, machines[where]] > 0
    ]


@dataclass(slots=True, kw_only=True)
class Gandiva:
    """Sharing by trial."""

    seed: int
    draw: Random = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self.draw = Random(self.seed + _DRAWS)  # noqa: S311 - not for secrets

    def __call__(self, waiting: Waiting) -> Division:
        """Return an equal part for each combination."""
        size = waiting.scale_factor
        members: list[tuple[int, int]] = []
        if size.sum() > waiting.capacity.sum():
            for each in np.unique(size).tolist():
                rows = np.flatnonzero(size == each).tolist()
                self.draw.shuffle(rows)
                members += [(one, other) for one, other in zip(rows[::2], rows[1::2], strict=False)]
        paired, row = measured().paired, waiting.row
        first = np.array([one for one, _ in members], dtype=np.int64)
        second = np.array([other for _, other in members], dtype=np.int64)
        mine, its = paired[row[first], row[second]], paired[row[second], row[first]]
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.nan_to_num(mine / waiting.throughput[first]) + np.nan_to_num(its / waiting.throughput[second])
        good = (worth >= 1.0) & (mine > 0) & (its > 0)
        kept = good.any(axis=1)
        alone = np.ones(len(size), dtype=np.bool_)
        alone[first[kept]] = alone[second[kept]] = False
        count = int(alone.sum() + kept.sum())
        x = np.where(alone[:, None], _part(waiting, size, count), 0.0)
        pairs_x = np.where(good, _part(waiting, size[first], count), 0.0)
        return Division(
            x=x,
            pairs=Pairs(first=first, second=second, first_throughput=mine, second_throughput=its),
            pairs_x=pairs_x,
        )


def _part(waiting: Waiting, size: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Return an equal part of each type for combinations of these sizes, of so many, no more than all their time."""
    part = waiting.capacity / max(count, 1) / size[:, None]
    return np.asarray(part / np.maximum(part.sum(axis=1, keepdims=True), 1.0))
