"""SLAQ's allocation: each core goes where it lowers the loss most.

Definitions
    epoch          seconds from one allocation to the next, T.
    reach(j, a)    iterations that job j does in an epoch on a cores: a T / w_j. Need not be whole.
    gain(j, a)     (f_j(k_j) - f_j(k_j + reach(j, a))) / largest drop of j, without unit.
    least          cores that every job gets, so that none starves.

Principle
    Every job gets the least. Then each further core goes to the job that gains most by it, until none is left.
    Where every gain is concave, as it is for curves that fall ever more slowly, the greedy choice is the best there is.
    A job of which too little is known has its fair share, cores / jobs rounded down, at least the least. Of jobs that
    gain the same, the one with fewer cores is next, then the one that comes first.

    A sublinear curve with b^2 < a c falls faster at first. Its gain is taken as a straight line, to where the mean gain
    is highest; else the few cores that it has now would never be enough to show what more would bring.

    Under `max-min` each further core goes to the job of which most would be left at the end of the epoch.

    Where the cores are not enough for every job's least, they go round in the order given; the last get none.

Worked example
    Epoch 1 s, 4 cores, least 1. Job 0 would gain 0.50, 0.75, 0.88 on 1, 2, 3 cores, job 1 0.10, 0.20, 0.30. After one
    core each, a second would bring job 0 0.25 and job 1 0.10: job 0. A third would bring it 0.13, still more than 0.10:
    3 and 1.

Parameters
    epoch_s, least, most cores of a job, objective.

Source
    SLAQ, section 3 and 4.3. Iterations stay fractions, as in the authors' code: rounding them down would leave slow
    jobs without any gain. Greedy is best for concave gains: Fox, "Discrete optimization via marginal analysis",
    Management Science 1966.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from heapq import heapify, heappop, heapreplace
from math import exp, expm1, inf, sqrt

import numpy as np

from tesched_policies.slaq.curves import Family, Ints
from tesched_policies.slaq.forecast import Forecasts

#: A drop that is smaller counts as this, so that no gain is beyond all numbers.
LEAST_DROP = 1e-100
#: Iterations that a core does in an epoch, at most; a job that claims more has forged its reports.
MOST_REACH = 1e9

#: what one more core is worth to a job that has so many
Worth = Callable[[int], float]


class Objective(StrEnum):
    """Objective of the allocation."""

    TOTAL = "total"
    MAX_MIN = "max-min"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSettings:
    """Settings of the allocation."""

    epoch_s: float = 3.0
    #: the paper's 1
    least: int = 1
    objective: Objective = Objective.TOTAL

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not 0 < self.epoch_s < inf:
            raise ValueError(f"epoch: more than 0 seconds, not {self.epoch_s:g}")
        if self.least < 0:
            raise ValueError(f"least cores of a job: 0 or more, not {self.least}")


def allocate(
    forecasts: Forecasts, cores: int, shares: AllocationSettings = AllocationSettings(), most: Ints | None = None
) -> Ints:
    """Return the cores [jobs] that each job gets in the next epoch.

    `most` [jobs], if given, is what each can use. They sum to `cores`, unless no job can use more.
    """
    count = len(forecasts.curves)
    limit = np.full(count, cores, dtype=np.int64) if most is None else np.minimum(most, cores)
    given = _first_round(forecasts, cores, shares.least, limit)
    left = cores - int(given.sum())
    if left and count:
        known = np.flatnonzero(forecasts.known)
        left = _greedy(forecasts, shares, given, limit, left) if len(known) else left
        _spread(given, limit, left)
    return given


def fair(count: int, cores: int, most: Ints | None = None) -> Ints:
    """Return equal cores [jobs] for so many jobs, as far as they can be equal; the first get one more."""
    given = np.zeros(count, dtype=np.int64)
    limit = np.full(count, cores, dtype=np.int64) if most is None else np.minimum(most, cores)
    if count:
        _spread(given, limit, cores)
    return given


def _first_round(forecasts: Forecasts, cores: int, least: int, limit: Ints) -> Ints:
    count = len(limit)
    if least * count > cores:
        given = np.clip(cores - least * np.arange(count), 0, least)
        return np.minimum(given, limit)
    share = max(cores // max(count, 1), least)
    return np.minimum(np.where(forecasts.known, least, share), limit)


def _spread(given: Ints, limit: Ints, left: int) -> None:
    """Give what is left to the job with the fewest cores, one core at a time."""
    counts, most = given.tolist(), limit.tolist()
    heap = [(held, row) for row, held in enumerate(counts) if held < most[row]]
    heapify(heap)
    while left and heap:
        held, row = heap[0]
        counts[row], left = held + 1, left - 1
        if held + 1 < most[row]:
            heapreplace(heap, (held + 1, row))
        else:
            heappop(heap)
    given[:] = counts


def _greedy(forecasts: Forecasts, shares: AllocationSettings, given: Ints, limit: Ints, left: int) -> int:
    """Give what is left to the jobs that gain by it; return what no job can use or gains by."""
    worth = _worths(forecasts, shares)
    counts, most = given.tolist(), limit.tolist()
    rows = [row for row in np.flatnonzero(forecasts.known).tolist() if counts[row] < most[row]]
    heap = [(-worth[row](counts[row]), counts[row], row) for row in rows]
    heapify(heap)
    while left and heap and heap[0][0] < 0:
        _, held, row = heap[0]
        held += 1
        counts[row], left = held, left - 1
        if held < most[row]:
            heapreplace(heap, (-worth[row](held), held, row))
        else:
            heappop(heap)
    given[:] = counts
    return left


def _worths(forecasts: Forecasts, shares: AllocationSettings) -> list[Worth]:
    """Return for each job what one more core is worth, given how many it has; 0 or less: nothing."""
    curves = forecasts.curves
    now = curves.above(forecasts.iteration)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        reach = np.minimum(np.nan_to_num(shares.epoch_s / forecasts.cost_core_s), MOST_REACH)
        if shares.objective is Objective.MAX_MIN:
            scale = np.where(now > 0, forecasts.remaining / now, 0.0)
        else:
            scale = np.where(forecasts.largest_drop > 0, 1 / np.maximum(forecasts.largest_drop, LEAST_DROP), 0.0)
    make = _left_over if shares.objective is Objective.MAX_MIN else _marginal
    columns = (curves.family, curves.shape, reach, np.nan_to_num(scale))
    return [make(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _marginal(family: int, shape: list[float], reach: float, scale: float) -> Worth:
    """Marginal gain of one more core, from the straight line where that stands in for the curve's beginning."""
    first, second, third = shape
    if family == Family.LINEAR:
        # above(a) - above(a + 1) = amplitude * q^a * (1 - q), q = exp(-rate * reach)
        rate, lost = second * reach, first * scale * -expm1(-second * reach)
        return lambda held: lost * exp(-rate * held)
    # Of a n^2 + b n + c: the mean gain (a n + b) / (c (a n^2 + b n + c)) is highest at n = (sqrt(a c) - b) / a.
    bend = max((sqrt(first * third) - second) / first, 0.0) if first > 0 else 0.0
    steepest = (first * bend + second) / (third * ((first * bend + second) * bend + third))

    def sublinear(held: int) -> float:
        here, there = held * reach, (held + 1) * reach
        if there <= bend:
            return scale * steepest * reach
        beyond = (first * there + second) * there + third
        if here < bend:
            return scale * ((first * there + second) * there / (third * beyond) - steepest * here)
        # 1/below - 1/beyond, without the loss of digits
        below = (first * here + second) * here + third
        return scale * reach * (first * (here + there) + second) / (below * beyond)

    return sublinear


def _left_over(family: int, shape: list[float], reach: float, scale: float) -> Worth:
    """Loss left at the end of the epoch, as a part of the first loss."""
    first, second, third = shape
    if family == Family.LINEAR:
        return lambda held: scale * first * exp(-second * reach * held)
    return lambda held: scale / ((first * held * reach + second) * held * reach + third)
