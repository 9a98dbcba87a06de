"""The common part of the policies' `allocate`: the speeds that count, and the answer when there is no optimum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tesched_policies.gavel.allocators.constraints import Combinations, combinations, fall_back
from tesched_policies.gavel.allocators.lp import OUT_OF_RANGE, UnsolvedError
from tesched_policies.gavel.allocators.problem import Allocation, Problem


def solved(
    problem: Problem, solve: Callable[[Combinations], Allocation], *, aware: bool = True, sharing: bool = False
) -> Allocation:
    """Solve the columns with `solve`; the safe fall-back if it can't.

    Args:
        problem: The jobs and the accelerators.
        solve: The policy's optimisation. It is called only if some job fits somewhere; it may raise `UnsolvedError`.
        aware: Whether the policy knows the types' speeds.
        sharing: Whether pairs of jobs may share accelerators.
    """
    # Numbers that leave the range of a float show in the program or in the objective.
    with np.errstate(all="ignore"):
        space = combinations(problem, problem.speed(aware=aware), sharing=sharing)
        if not space.singles:
            return fall_back(problem, "no job fits on any type", sharing=sharing)
        try:
            answer = solve(space)
        except UnsolvedError as why:
            return fall_back(problem, str(why), sharing=sharing)
        except ArithmeticError:
            return fall_back(problem, OUT_OF_RANGE, sharing=sharing)
        return answer if np.isfinite(answer.objective) else fall_back(problem, OUT_OF_RANGE, sharing=sharing)
