"""hierarchical: entities (groups, users) share by weight, and inside each entity its jobs, by water filling.

Definitions
    E, W_E           an entity and its weight; every job belongs to one.
    s(m, x)          service of job m, without unit: sf_m throughput(m, x) / throughput(m, equal), as in las.py.
    level_m          what m has been given so far, at first 0.
    bottleneck       a job that cannot have more unless another that is at its level gets less.
    rising           a job that is not yet found to be a bottleneck.

Principle
    1. Divide each entity's weight among its rising jobs: by their own weights ("fairness"), or all to the first that
       came ("fifo"). That is w_m; the other jobs have 0.
    2. Maximise c where s(m, x) >= level_m + c w_m for all jobs m: a linear program (max_min.py). Then
       level_m += c w_m.
    3. Jobs with w_m > 0 and a price above 0 of their row are bottlenecks: the row is tight in every optimum
       (complementary slackness). They stay at their level for good.
    4. Go on with what the others can still have, until none is rising.

    There is always a price above 0, so that it ends after at most M turns. A bottleneck that happens to have price 0 is
    found in a later turn, in which c is 0. So the paper's mixed-integer program for the bottlenecks is not needed.
    The result is lexicographically the greatest: no job can be lifted without pushing down one that has no more
    (per weight). It also uses what las leaves over.

Worked example
    Four equal accelerators of one type. Entity A (weight 3, fairness) has jobs a and b, entity B (weight 1, fifo)
    has c, then d. equal = 1, s = x. Turn 1: w = 1.5, 1.5, 1, 0. a and b reach all their time at c = 2/3:
    a = b = 1, c = 2/3. Turn 2: w = 0, 0, 1, 0: c rises to 1. Turn 3: d gets the last accelerator.
    With two accelerators: 4 c = 2, a = b = 0.75, c = 0.5, d = 0.

Parameters
    aware      False (`hierarchical-agnostic`): as if all types on which a job fits were equally fast.
    sharing    True (`hierarchical-sharing`): pairs of jobs may share accelerators.

Source
    Narayanan et al., OSDI 2020, section 4.3. Water filling by prices: Radunović, Le Boudec, "A unified framework for
    max-min and min-max fairness with applications", IEEE/ACM Transactions on Networking 2007.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.las import share
from tesched_policies.gavel.allocators.max_min import highest
from tesched_policies.gavel.allocators.problem import Allocation, Problem

#: Smallest part of the sum of all prices that counts as above 0.
LEAST_PRICE = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchical:
    """The policy; see the head of this file. Its objective is c of the first turn, the level of the worst off."""

    name: str = "hierarchical"
    aware: bool = True
    sharing: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the water-filled allocation."""

        def solve(space: Combinations) -> Allocation:
            counted = space.counted()
            return _fill(problem, space, counted, share(problem, aware=self.aware)[counted])

        return solved(problem, solve, aware=self.aware, sharing=self.sharing)


def _fill(
    problem: Problem, space: Combinations, counted: NDArray[np.int64], per_service: NDArray[np.float64]
) -> Allocation:
    """Return the allocation; `per_service` is the steps per second of a service of 1."""
    rising = np.ones(len(counted), dtype=np.bool_)
    level = np.zeros(len(counted))
    weight = _weights(problem, counted, rising)
    found = highest(space, counted, weight * per_service)
    first = found.level
    while True:
        # What x really gives, lest a rounding make the next program infeasible.
        reached = space.speeds(found.z)[counted] / per_service
        level = np.minimum(level + max(found.level, 0.0) * weight, reached)
        priced = found.price * weight * per_service
        bottleneck = rising & (priced > LEAST_PRICE)
        if not bottleneck.any():
            break
        rising &= ~bottleneck
        if not rising.any():
            break
        weight = _weights(problem, counted, rising)
        found = highest(space, counted, weight * per_service, floor=level * per_service, near=found.z)
    return space.answer(found.z, first)


def _weights(problem: Problem, counted: NDArray[np.int64], rising: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return each counted job's part of its entity's weight, 0 for those that do not rise."""
    weight = np.zeros(len(counted))
    entity = problem.entity[counted]
    for each in np.unique(entity[rising]):
        jobs = np.flatnonzero(rising & (entity == each))
        if problem.entity_kind[each] == "fifo":
            jobs = jobs[:1]
        own = problem.weight[counted[jobs]]
        weight[jobs] = problem.entity_weight[each] * own / own.sum()
    return weight
