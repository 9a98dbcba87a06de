"""makespan: the last job ends as early as can be.

Definitions
    left_m           steps that job m still has to do.
    throughput(m,x)  its steps per second under the allocation x (constraints.py).
    H                the horizon, seconds: if x stays as it is, every job has ended H seconds from now.

Principle
    min over x of  max over m of  left_m / throughput(m, x)

    With t = 1 / H it is a linear program: maximise t where throughput(m, x) >= left_m t (max_min.py). So it is solved
    exactly and once, where the paper's authors search H by halving, to 5 %. Jobs that have nothing left, or that fit
    nowhere, do not count.

Worked example
    One V100 and one K80. Job a does 4 and 1 steps/s on them and has 1000 steps left, b does 3 and 1 and has 500.
    a has the V100 for 5/7 of the time and the K80 for the rest: 4 5/7 + 1 2/7 = 22/7 steps/s, 1000 / (22/7) = 318 s.
    b has the V100 for 2/7 of the time and the K80 for the rest: 3 2/7 + 1 5/7 = 11/7 steps/s,  500 / (11/7) = 318 s.

Parameters
    aware      False (`makespan-agnostic`): as if a job were as fast as on the reference type wherever it fits.
    sharing    True (`makespan-sharing`): pairs of jobs may share accelerators.

Source
    Narayanan et al., OSDI 2020, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.max_min import highest
from tesched_policies.gavel.allocators.problem import Allocation, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Makespan:
    """The policy; see the head of this file. Its objective is H, seconds; 0 if no job has anything left."""

    name: str = "makespan"
    aware: bool = True
    sharing: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation with the nearest horizon."""

        def solve(space: Combinations) -> Allocation:
            counted = space.unfinished(problem)
            if not len(counted):
                return space.nobody(0.0)
            found = highest(space, counted, problem.steps_left[counted])
            return space.answer(found.z, 1 / found.level)

        return solved(problem, solve, aware=self.aware, sharing=self.sharing)
