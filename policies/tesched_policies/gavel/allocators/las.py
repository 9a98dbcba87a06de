"""las: least attained service; every job gets the same share of what it would have with an equal part of each type.

Definitions
    N_j, sf_m, w_m   accelerators of type j; accelerators that job m needs at once; its priority weight.
    n(m, x)          normalised throughput, without unit: throughput(m, x) / throughput(m, equal), where the equal
                     allocation is x_mj = N_j / sum of N.

Principle
    max over x of  min over m of  sf_m n(m, x) / w_m

    under the constraints of constraints.py: a linear program (max_min.py). The weight divides: a job with twice the
    weight must get twice the throughput to reach the same level. sf_m multiplies: a job on 8 accelerators gets an
    eighth of the time of one on a single accelerator. A job that fits nowhere gets nothing and does not count.

    Sharing incentive. With 1/M of the cluster each (the isolated allocation) every job is at sum of N / M, unless that
    is more than all its time. So with equal weights and sf_m >= sum of N / M for all m no job gets less than with 1/M
    of the cluster. Otherwise a job on many accelerators may get less: the level is that of the worst off.

Worked example
    One V100 and two K80. Job a does 4 and 1 steps/s on them, b 2 and 1. equal = (1/3, 2/3), so that
    throughput(a, equal) = 2 and throughput(b, equal) = 4/3.
    a has 4/9 of its time on the V100 and 5/9 on a K80: n = (4 4/9 + 1 5/9) / 2     = 7/6.
    b has 5/9 of its time on the V100 and 4/9 on a K80: n = (2 5/9 + 1 4/9) / (4/3) = 7/6. No job can have more without
    the other having less.

Parameters
    aware      False (`las-agnostic`): as if all types on which a job fits were equally fast.
    sharing    True (`las-sharing`): pairs of jobs may share accelerators; n divides by the throughput alone.

Source
    Narayanan et al., OSDI 2020, section 4.1, and section 4.4 for jobs on several accelerators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.allocators.constraints import Combinations, equal
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.max_min import highest
from tesched_policies.gavel.allocators.problem import Allocation, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Las:
    """The policy; see the head of this file. Its objective is the level, without unit."""

    name: str = "las"
    aware: bool = True
    sharing: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation with the highest level."""

        def solve(space: Combinations) -> Allocation:
            counted = space.counted()
            found = highest(space, counted, (problem.weight * share(problem, aware=self.aware))[counted])
            return space.answer(found.z, found.level)

        return solved(problem, solve, aware=self.aware, sharing=self.sharing)


def share(problem: Problem, *, aware: bool) -> NDArray[np.float64]:
    """Return throughput(m, equal) / sf_m, steps per second, (M,)."""
    return np.asarray(problem.speed(aware=aware) @ equal(problem) / problem.scale_factor)
