"""fifo: the job that came first is served first, as near to its fastest type as possible.

Definitions
    fastest_m        the most steps per second that job m can have on any type.
    m                the place of a job in the order of arrival, 0 for the first of M.

Principle
    max over x of  sum over m of (M - m) throughput(m, x) / fastest_m        under the constraints of constraints.py:
    a linear program. The paper divides by the throughput on the fastest type, so that the sum compares like with like:
    to move a job from its fastest type must pay for others. As in the paper a job on 8 accelerators counts for no more
    than one on a single one; so a wide job that came first may yet wait for several narrow ones.

Worked example
    One V100 and one K80. Job a, first, does 4 and 1 steps/s on them, b 3 and 2, c 4 and 4.
    Their weights are 3, 2, 1. a takes the V100: 3. On the K80 b would bring 2 2/3, c 1 4/4: b takes it, 4 1/3 in all.

Parameters
    aware      False (`fifo-agnostic`): as if all types on which a job fits were equally fast.
    sharing    True (`fifo-sharing`): pairs of jobs may share accelerators.

Source
    Narayanan et al., OSDI 2020, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.fallback import solved
from tesched_policies.gavel.allocators.lp import LinearProgram, maximise
from tesched_policies.gavel.allocators.problem import Allocation, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Fifo:
    """The policy; see the head of this file. Its objective is the sum, without unit."""

    name: str = "fifo"
    aware: bool = True
    sharing: bool = False

    def allocate(self, problem: Problem) -> Allocation:
        """Return the allocation with the greatest sum."""

        def solve(space: Combinations) -> Allocation:
            fastest = problem.speed(aware=self.aware).max(axis=1)
            weight = np.arange(space.jobs, 0, -1) / np.where(fastest > 0, fastest, np.inf)
            gain = np.asarray(weight @ space.throughput)
            program = LinearProgram(
                gain=gain / gain.max(),
                rows=space.limits,
                bounds=space.bounds,
                start=np.arange(len(gain)) < space.singles,
            )
            z = space.feasible(maximise(program).z)
            return space.answer(z, float(gain @ z))

        return solved(problem, solve, aware=self.aware, sharing=self.sharing)
