"""ftf: finish-time fairness (Themis); no job ends much later than with 1/M of the cluster of its own.

Definitions
    age_m, left_m     seconds since the arrival of job m; steps that it still has to do.
    isolated          x_mj = N_j / M / sf_m, at most all of the job's time (constraints.py).
    isolated_m        seconds that the steps done so far would have taken under the isolated allocations of their time.
    D_m               isolated_m + left_m / throughput(m, isolated): its whole time with 1/M of the cluster, seconds.
    rho_m(x)          (age_m + left_m / throughput(m, x)) / D_m, without unit; 1 = as if it had been alone on its part.

Principle
    min over x of  max over m of  rho_m(x)        under the constraints of constraints.py. Weights are not used.

    For a given rho, above age_m / D_m for all m, it is the question whether throughput(m, x) >= need_m(rho) for all m,
    with need_m(rho) = left_m / (rho D_m - age_m). The linear program "maximise s where throughput(m, x) >= s need_m"
    (max_min.py) answers it twice: its x has a greatest rho_m(x), which is an upper bound of the optimum; its prices say
    that no x has sum(price_m throughput(m, x)) above s, so that every rho' that can be reached has
    sum(price_m need_m(rho')) <= s, and the rho' with equality is a lower bound. There the next program is set. The
    search ends when the bounds are within `TOLERANCE` of each other, mostly after two to six programs; halving would
    need twenty.

Worked example
    One V100 and one K80. Jobs a and b do 4 and 1 steps/s on them, have 1000 steps left and have just arrived. Isolated:
    half of each type, 2.5 steps/s, D = 400 s. Each gets half of both types: rho = 400 / 400 = 1.
    If a has waited 200 s without anything done, its rho is (200 + 1000 / throughput) / 400. With 0.697 of the V100 and
    0.303 of the K80 it does 3.09 steps/s: 200 + 324 = 524 s. b does 1.91, 524 s as well: rho = 1.309 for both.

Parameters
    aware      False (`ftf-agnostic`): as if a job were as fast as on the reference type wherever it fits.
    sharing    True (`ftf-sharing`): pairs of jobs may share accelerators.

Source
    Narayanan et al., OSDI 2020, section 4.2. rho: Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling",
    NSDI 2020. Bounds from the prices: Kelley, "The cutting-plane method for solving convex programs", 1960.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.allocators.constraints import Combinations, isolated
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.max_min import highest
from tesched_policies.gavel.allocators.problem import Allocation, Problem

#: How far the upper bound of rho may be above the lower, as a part of it.
TOLERANCE = 1e-6
#: Most linear programs of one answer, and most steps of Newton's method between two. What was best is answered.
MOST_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTimeFairness:
    """The policy; see the head of this file. Its objective is the greatest rho; 0 if no job has anything left."""

    name: str = "ftf"
    aware: bool = True
    sharing: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation with the smallest greatest rho."""

        def solve(space: Combinations) -> Allocation:
            counted = space.unfinished(problem)
            if not len(counted):
                return space.nobody(0.0)
            alone = (problem.speed(aware=self.aware) * isolated(problem)).sum(axis=1)[counted]
            left, fastest = problem.steps_left[counted], space.fastest()[counted]
            ends = RhoTerms(
                age=problem.age_s[counted], left=left, whole=problem.isolated_s[counted] + left / alone, fastest=fastest
            )
            return _search(space, counted, ends)

        return solved(problem, solve, aware=self.aware, sharing=self.sharing)


@dataclass(frozen=True, slots=True, kw_only=True)
class RhoTerms:
    """Terms of rho, for the jobs that count."""

    #: Seconds since arrival.
    age: NDArray[np.float64]
    #: Steps left, above 0.
    left: NDArray[np.float64]
    #: D: seconds from arrival to end with 1/M of the cluster, above 0.
    whole: NDArray[np.float64]
    #: The greatest steps per second of each.
    fastest: NDArray[np.float64]

    def rho(self, speed: NDArray[np.float64]) -> float:
        """Return the greatest rho at these steps per second."""
        return float(((self.age + self.left / speed) / self.whole).max())

    def time(self, rho: float) -> NDArray[np.float64]:
        """Return the seconds that each job has left for this rho, for which no job needs more than all its time."""
        return np.maximum(rho * self.whole - self.age, self.left / self.fastest)

    def bound(self, rho: float, share: NDArray[np.float64]) -> float:
        """Return the rho' above `rho` at which sum(share need(rho')) = 1; `rho` itself if the sum is not above 1."""
        for _ in range(MOST_STEPS):
            time = self.time(rho)
            over = float(share @ (self.left / time)) - 1
            if over <= 0:
                break
            # Newton's method from the left on a convex function that falls: it never passes the root.
            rho += over / float(share @ (self.left * self.whole / time**2))
        return rho


def _search(space: Combinations, counted: NDArray[np.int64], ends: RhoTerms) -> Allocation:
    """Return the best allocation, by bounds on its rho that close in; each job alone at its fastest is the first."""
    lower, best, answer = ends.rho(ends.fastest), np.inf, space.nobody(np.inf)
    near: NDArray[np.float64] | None = None
    for _ in range(MOST_STEPS):
        need = ends.left / ends.time(lower)
        found = highest(space, counted, need, near=near)
        near = found.z
        upper = ends.rho(space.speeds(found.z)[counted])
        if upper < best:
            best, answer = upper, space.answer(found.z, upper)
        bound = ends.bound(lower, found.price / found.level)
        if bound <= lower or best - bound <= TOLERANCE * best:
            return answer
        lower = bound
    return answer
