"""Linear programs: maximise c z where A z <= b, z >= 0, by HiGHS through SciPy.

A program with very many columns, most of which the optimum does not use, is solved on a few of them first; those that
would improve it by the prices (duals) found are added, until none would (column generation; Gilmore, Gomory,
"A linear programming approach to the cutting-stock problem", Operations Research 1961). The optimum is that of the
whole program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

#: Seconds that HiGHS may take for one program; beyond it the safe fall-back is used.
TIME_LIMIT_S = 60.0
#: Least gain per unit of a column, as a part of the greatest in the objective, for which it is added; below it is what
#: HiGHS's own tolerance leaves.
LEAST_GAIN = 1e-8
#: Why there is no answer to a problem with numbers beyond a float's precision.
OUT_OF_RANGE = "the speeds, steps and weights are too far apart for a float"


class UnsolvedError(Exception):
    """The program has no optimum that HiGHS could find; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearProgram:
    """Maximise `gain` z where `rows` z <= `bounds` and z >= 0."""

    #: (n,)
    gain: NDArray[np.float64]
    #: (m, n), in compressed columns.
    rows: sparse.csc_array
    #: (m,)
    bounds: NDArray[np.float64]
    #: Columns to begin with, (n,); None = all.
    start: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """An optimal z, and what each row's bound is worth."""

    #: (n,)
    z: NDArray[np.float64]
    #: By how much the optimum rises per unit of the row's bound, (m,), at least 0.
    worth: NDArray[np.float64]


def maximise(program: LinearProgram) -> Optimum:
    """Return an optimum.

    Raises:
        UnsolvedError: infeasible, unbounded, out of time, or numerically hopeless.
    """
    if not all(np.isfinite(numbers).all() for numbers in (program.gain, program.rows.data, program.bounds)):
        raise UnsolvedError(OUT_OF_RANGE)
    taken = np.ones(len(program.gain), dtype=np.bool_) if program.start is None else program.start.copy()
    least = LEAST_GAIN * np.abs(program.gain).max(initial=0.0)
    while True:
        columns = np.flatnonzero(taken)
        found = _solve(program.gain[columns], program.rows[:, columns], program.bounds)
        better = np.where(taken, 0.0, program.gain - program.rows.T @ found.worth)
        added = np.flatnonzero(better > least)
        if not len(added):
            z = np.zeros(len(taken))
            z[columns] = found.z
            return Optimum(z=z, worth=found.worth)
        # The best, no more than there are rows: the rest is not worth it once these are in.
        most = len(program.bounds)
        if len(added) > most:
            added = added[np.argsort(-better[added], kind="stable")[:most]]
        taken[added] = True


def _solve(gain: NDArray[np.float64], rows: sparse.csc_array, bounds: NDArray[np.float64]) -> Optimum:
    # The interior point method is several times faster than the simplex on these programs; where it gives up, which
    # is rare, the simplex has its turn.
    for method in ("highs-ipm", "highs-ds"):
        found = linprog(
            -gain,
            A_ub=rows,
            b_ub=bounds,
            bounds=(0, None),
            method=method,
            options={"time_limit": TIME_LIMIT_S, "presolve": False},
        )
        if found.status == 0:
            return Optimum(z=np.maximum(found.x, 0.0), worth=np.maximum(-found.ineqlin.marginals, 0.0))
    raise UnsolvedError(str(found.message).split(".")[0])
