"""sjf: the job that can end first runs first, on what is fastest for it.

Definitions
    left_m           steps that job m still has to do.
    throughput(m,x)  its steps per second under the allocation x (constraints.py).

Principle
    min over x of  min over m of  left_m / throughput(m, x)

    The optimum gives one job all that makes it fastest and says nothing of the others. What is left of the accelerators
    is divided by the same rule among the other jobs, again and again, until no accelerator is left that some job fits
    on. For one job alone the optimum is plain: all its time on the fastest type of which there is enough, what does not
    fit there on the next. No linear program is needed. Of equals the one that came first is first.

Worked example
    One V100 and one K80. Job a does 4 and 1 steps/s on them and has 1000 steps left, b does 3 and 1 and has 600.
    a could end in 250 s, b in 200 s: b has the V100. Then a has the K80 and 1000 s to go. The objective is 200 s.

Parameters
    aware      False (`sjf-agnostic`): as if a job were as fast as on the reference type wherever it fits.

Source
    Narayanan et al., OSDI 2020, section 4.2, has the objective. The rule for the rest is tesched's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.problem import Allocation, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestFirst:
    """The policy; see the head of this file. Its objective is the first end, in seconds from now; 0 if none is left."""

    name: str = "sjf"
    aware: bool = True

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation in which the shortest job ends as early as can be, then the next."""

        def solve(space: Combinations) -> Allocation:
            if not len(space.unfinished(problem)):
                return space.nobody(0.0)
            x, first_s = _shortest_first(problem, problem.speed(aware=self.aware))
            return Allocation(x=x, objective=first_s)

        return solved(problem, solve, aware=self.aware)


def _shortest_first(problem: Problem, speed: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return x, (M, T), and the seconds until the first job ends."""
    unassigned = problem.capacity.astype(np.float64)
    waits = np.flatnonzero(problem.steps_left > 0)
    x, first_s = np.zeros(speed.shape), np.inf
    while len(waits):
        best = _alone(speed[waits], problem.scale_factor[waits], unassigned)
        reached = (best * speed[waits]).sum(axis=1)
        remaining_s = np.where(reached > 0, problem.steps_left[waits] / reached, np.inf)
        winner = int(remaining_s.argmin())
        if not remaining_s[winner] < np.inf:
            break
        first_s = min(first_s, float(remaining_s[winner]))
        x[waits[winner]] = best[winner]
        unassigned = np.maximum(unassigned - problem.scale_factor[waits[winner]] * best[winner], 0.0)
        # A job that has nothing now has nothing later: free resources only shrink.
        keep = reached > 0
        keep[winner] = False
        waits = waits[keep]
    return x, first_s


def _alone(
    speed: NDArray[np.float64], scale_factor: NDArray[np.int64], unassigned: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Fastest share of each job if it alone has all resources, (M, T): the fastest type first, then the next."""
    best = np.zeros(speed.shape)
    free = np.ones(len(speed))
    rows = np.arange(len(speed))
    for column in np.argsort(-speed, axis=1, kind="stable").T:
        taken = np.where(speed[rows, column] > 0, np.minimum(free, unassigned[column] / scale_factor), 0.0)
        best[rows, column] = taken
        free -= taken
    return best
