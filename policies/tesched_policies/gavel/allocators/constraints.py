"""Constraints of every policy of Gavel, and the two allocations that they measure themselves by.

Constraints (section 3.1 of the paper; with pairs: 3.2)
    A combination k is a job alone or a pair; x_kj >= 0 is the fraction of the time that it spends on type j.
        for each job m     sum over the combinations k that hold m, and j, of x_kj  <= 1
        for each type j    sum over k of scale_factor_k x_kj                        <= capacity_j
        throughput(m, x) = sum over the combinations k that hold m, and j, of T^m_kj x_kj
    with T^m_kj the speed of m inside k. A pair of jobs that need different numbers of accelerators gets nothing.

What is left out, without loss
    - a combination on a type where one of its jobs does not fit (its speed is 0, or there are too few accelerators);
    - a pair (a, b) on type j with T^a_kj / T_aj + T^b_kj / T_bj <= 1. Proof: instead of x for the pair give
      x T^a_kj / T_aj to a alone and x T^b_kj / T_bj to b alone. Both have the throughput that they had; each spends no
      more of its time than x, and the accelerators are held for at most scale_factor x.

Reference allocations
    equal      x_mj = capacity_j / sum of capacity; it does not shrink with the number of jobs.
    isolated   x_mj = capacity_j / M / scale_factor_m, divided by the row's sum if that is above 1: 1/M of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tesched_policies.gavel.allocators.problem import Allocation, Pairs, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Combinations:
    """The variables that may be above 0, as columns: first those of single jobs, then those of pairs."""

    #: The shape of the answer: jobs, types, pairs (None = a policy without space sharing).
    jobs: int
    types: int
    pairs: int | None
    #: Row of each column in x (a job) or in pairs_x (a pair), (n,).
    row: NDArray[np.int64]
    #: Type of each column, (n,).
    column: NDArray[np.int64]
    #: How many of the columns are of single jobs.
    singles: int
    #: The job, and the other job of a pair (for a single job the same), (n,).
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    #: Steps per second of the one and of the other (for a single job 0), (n,).
    speed: NDArray[np.float64]
    second_speed: NDArray[np.float64]
    #: Accelerators that each job needs at once, (M,).
    scale_factor: NDArray[np.int64]
    #: Steps per second of each job per unit of each column, (M, n).
    throughput: sparse.csc_array
    #: One row for each job's time, then one for each type's accelerators, (M + T, n).
    limits: sparse.csc_array
    #: (M + T,)
    bounds: NDArray[np.float64]

    def counted(self) -> NDArray[np.int64]:
        """Return the jobs that can run at all."""
        return np.unique(self.row[: self.singles])

    def unfinished(self, problem: Problem) -> NDArray[np.int64]:
        """Return those of them that have steps left."""
        counted = self.counted()
        return counted[problem.steps_left[counted] > 0]

    def fastest(self) -> NDArray[np.float64]:
        """Return the most steps per second that each job can have, (M,)."""
        return np.asarray(self.throughput.max(axis=1).toarray()).ravel()

    def speeds(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each job's steps per second under the columns' values z, (M,)."""
        return np.asarray(self.throughput @ z)

    def feasible(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return z without what a solver's tolerance left above the limits or below 0."""
        z = np.maximum(z, 0.0)
        used = np.asarray(self.limits @ z)
        over = np.where(used > self.bounds, used / np.maximum(self.bounds, np.finfo(np.float64).tiny), 1.0)
        return np.asarray(z / over.max(initial=1.0))

    def nobody(self, objective: float) -> Allocation:
        """Return the allocation that gives no job anything."""
        return self.answer(np.zeros(len(self.row)), objective)

    def answer(self, z: NDArray[np.float64], objective: float, note: str | None = None) -> Allocation:
        """Return the allocation that the columns' values mean."""
        x = np.zeros((self.jobs, self.types))
        x[self.row[: self.singles], self.column[: self.singles]] = z[: self.singles]
        pairs_x = None
        if self.pairs is not None:
            pairs_x = np.zeros((self.pairs, self.types))
            pairs_x[self.row[self.singles :], self.column[self.singles :]] = z[self.singles :]
        return Allocation(x=x, pairs_x=pairs_x, objective=objective, fallback=note)


def combinations(problem: Problem, speed: NDArray[np.float64], *, sharing: bool) -> Combinations:
    """Return the columns for these speeds of the jobs alone, (M, T), with the pairs' columns if they may share."""
    jobs, types = speed.shape
    job, column = np.nonzero(speed)
    first, second, row = job, job, job
    value, second_value = speed[job, column], np.zeros(len(job))
    pairs = problem.pairs if sharing else None
    if pairs is not None:
        pair, pair_column = _useful(problem, speed, pairs)
        row, column = np.concatenate((job, pair)), np.concatenate((column, pair_column))
        first, second = np.concatenate((job, pairs.first[pair])), np.concatenate((job, pairs.second[pair]))
        value = np.concatenate((value, pairs.first_throughput[pair, pair_column]))
        second_value = np.concatenate((second_value, pairs.second_throughput[pair, pair_column]))
    count, singles = len(row), len(job)
    place = np.arange(count)
    holder, held = np.concatenate((first, second[singles:])), np.concatenate((place, place[singles:]))
    limits = sparse.csc_array(
        (
            np.concatenate((np.ones(len(holder)), problem.scale_factor[first].astype(np.float64))),
            (np.concatenate((holder, jobs + column)), np.concatenate((held, place))),
        ),
        shape=(jobs + types, count),
    )
    steps = np.concatenate((value, second_value[singles:]))
    return Combinations(
        jobs=jobs,
        types=types,
        pairs=(0 if pairs is None else len(pairs.first)) if sharing else None,
        row=row,
        column=column,
        singles=singles,
        first=first,
        second=second,
        speed=value,
        second_speed=second_value,
        scale_factor=problem.scale_factor,
        throughput=sparse.csc_array((steps, (holder, held)), shape=(jobs, count)),
        limits=limits,
        bounds=np.concatenate((np.ones(jobs), problem.capacity.astype(np.float64))),
    )


def equal(problem: Problem) -> NDArray[np.float64]:
    """Return the equal allocation of a job, (T,); zeros if there are no accelerators."""
    capacity = problem.capacity.astype(np.float64)
    return capacity / max(float(capacity.sum()), 1.0)


def isolated(problem: Problem) -> NDArray[np.float64]:
    """Return the isolated allocation, (M, T)."""
    share = problem.capacity / max(len(problem.scale_factor), 1) / problem.scale_factor[:, None]
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1.0))


def fall_back(problem: Problem, why: str, *, sharing: bool) -> Allocation:
    """Return the safe allocation: the isolated one, without the time on types where a job does not fit."""
    pairs_x = np.zeros((0 if problem.pairs is None else len(problem.pairs.first), len(problem.capacity)))
    x = np.where(problem.fitting() > 0, isolated(problem), 0.0)
    return Allocation(x=x, pairs_x=pairs_x if sharing else None, objective=np.nan, fallback=why)


def _useful(problem: Problem, speed: NDArray[np.float64], pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and types of the pairs that may be worth it; see the head of this file."""
    alone_first, alone_second = speed[pairs.first], speed[pairs.second]
    fits = (alone_first > 0) & (alone_second > 0)
    fits &= (problem.scale_factor[pairs.first] == problem.scale_factor[pairs.second])[:, None]
    together = np.divide(pairs.first_throughput, alone_first, out=np.zeros_like(alone_first), where=fits)
    together += np.divide(pairs.second_throughput, alone_second, out=np.zeros_like(alone_second), where=fits)
    pair, column = np.nonzero(together > 1)
    return pair, column
