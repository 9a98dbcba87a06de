"""An optimum of Gavel's max-min program from the middle of all optima, as interior-point solvers find it.

Program
    maximise t  where  sum_j gain_mj x_mj >= t    for each job m,
                       sum_j x_mj         <= 1    for each job m,
                       sum_m size_m x_mj  <= N_j  for each type j,  x >= 0.

Why this and not a simplex method's optimum: there are many optima, and which one is taken shows in the figures. The
authors' solver (ECOS) is an interior-point method: it ends inside the set of optima, where everybody has a little time
on many types. A simplex method ends in a corner of it: fewer types a job, and fewer restarts. Here it is the authors'
figures that are to be met, so here it is done as they do.

Method
    Mehrotra's predictor and corrector from the usual start, which is infeasible: least squares for the slacks s and for
    the prices z of all rows, G (x, t) + s = h, shifted until they are above 0. Step length, centring and start decide
    where among the optima it ends; they are those of CVXOPT and ECOS. A step solves

        G' dz = a,    G (dx, dt) - (s / z) dz = b,

    which has T + 2 unknowns for each job (dx, and dz of its level and its time) and T + 1 that couple the jobs (dt, and
    dz of the accelerators). So its cost grows as M, not as M cubed.

Source
    Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2(4), 1992. Start and step:
    Vandenberghe, "The CVXOPT linear and quadratic cone program solvers", 2010, sections 5.3 and 7; Domahidi, Chu, Boyd,
    "ECOS: an SOCP solver for embedded systems", ECC 2013. Program: OSDI 2020, section 4.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tesched_sim.workload import WorkloadError

_Array = NDArray[np.float64]
#: It ends when the level and its bound differ by this part, and no row is off by more than this.
_CLOSE = 1e-8
_STEPS = 100
#: of the way to the boundary
_AS_FAR = 0.99


def centre(gain: _Array, size: NDArray[np.int64], capacity: NDArray[np.int64]) -> _Array:
    """Return x, (M, T), each from 0 to 1.

    `gain`, (M, T), is what a unit of time on a type brings a job, at least 0, above 0 somewhere that there is room;
    `size`, (M,), its accelerators; `capacity`, (T,), those that there are. Raises WorkloadError if it does not
    converge.
    """
    found = np.zeros(gain.shape)
    there = np.flatnonzero(capacity > 0)
    if len(gain):
        rows = _Rows(gain[:, there], size.astype(np.float64), capacity[there].astype(np.float64))
        found[:, there] = np.clip(_Solver(rows).solved(), 0.0, 1.0)
    return found


class _Rows:
    """G and h. A vector of all rows has first the jobs' levels, then their time, the accelerators, and x >= 0."""

    def __init__(self, gain: _Array, size: _Array, capacity: _Array) -> None:
        self.gain, self.size = gain, size
        self.jobs, self.types = gain.shape
        self.bounds = np.concatenate([np.zeros(self.jobs), np.ones(self.jobs), capacity, np.zeros(gain.size)])

    def split(self, rows: _Array) -> tuple[_Array, _Array, _Array, _Array]:
        """Return the parts of a vector of rows: (M,), (M,), (T,), (M, T)."""
        two, three = 2 * self.jobs, 2 * self.jobs + self.types
        return (
            rows[: self.jobs],
            rows[self.jobs : two],
            rows[two:three],
            rows[three:].reshape(self.jobs, self.types),
        )

    def times(self, x: _Array, t: float) -> _Array:
        """Return G (x, t)."""
        return np.concatenate([t - (self.gain * x).sum(axis=1), x.sum(axis=1), self.size @ x, -x.ravel()])

    def transposed(self, rows: _Array) -> tuple[_Array, float]:
        """Return G' times a vector of rows: of x, and of t."""
        level, time, room, least = self.split(rows)
        return time[:, None] - self.gain * level[:, None] + self.size[:, None] * room - least, float(level.sum())


class _Solver:
    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        start = _System(rows, np.ones(len(rows.bounds)))
        nothing = np.zeros((rows.jobs, rows.types))
        self.x, self.t, short = start.solve(nothing, 0.0, rows.bounds)
        self.slack = _shifted(-short)
        self.price = _shifted(start.solve(nothing, 1.0, np.zeros(len(rows.bounds)))[2])

    def solved(self) -> _Array:
        """Return the optimal x, as far from 0 and 1 as the method leaves it. Raises WorkloadError."""
        for _ in range(_STEPS):
            if self._step():
                return self.x
        raise WorkloadError(f"the interior-point method did not converge for {self.rows.jobs} jobs")

    def _step(self) -> bool:
        """Go one step, unless it is solved; say whether it is."""
        rows, slack, price = self.rows, self.slack, self.price
        primal = rows.times(self.x, self.t) + slack - rows.bounds
        dual_x, dual_t = rows.transposed(price)
        dual_t -= 1.0
        apart = float(slack @ price)
        off = max(float(np.abs(primal).max()), float(np.abs(dual_x).max()), abs(dual_t))
        if apart <= _CLOSE * abs(self.t) and off <= _CLOSE:
            return True
        system = _System(rows, slack / price)
        guess = system.solve(-dual_x, -dual_t, slack - primal)[2]
        # Of slack ds + price dz = -slack price: where to without centring.
        moved = -slack - (slack / price) * guess
        reach = min(1.0, _reach(slack, moved), _reach(price, guess))
        centring = (1.0 - reach) ** 3
        wanted = centring * apart / len(slack) - slack * price - moved * guess
        rest = 1.0 - centring
        dx, dt, by = system.solve(-rest * dual_x, -rest * dual_t, -rest * primal - wanted / price)
        moved = (wanted - slack * by) / price
        reach = min(1.0, _AS_FAR * min(_reach(slack, moved), _reach(price, by)))
        self.x, self.t = self.x + reach * dx, self.t + reach * dt
        self.slack, self.price = slack + reach * moved, price + reach * by
        return False


class _System:
    """G' dz = a, G (dx, dt) - weight dz = b, for weights that are all above 0."""

    def __init__(self, rows: _Rows, weight: _Array) -> None:
        self.rows = rows
        jobs, types = rows.jobs, rows.types
        level, time, room, self.least = rows.split(weight)
        self.block = np.zeros((jobs, types + 2, types + 2))
        self.block[:, range(types), range(types)] = 1.0 / self.least
        self.block[:, :types, types] = self.block[:, types, :types] = -rows.gain
        self.block[:, :types, types + 1] = self.block[:, types + 1, :types] = 1.0
        self.block[:, types, types] = -level
        self.block[:, types + 1, types + 1] = -time
        # How a job answers to dz of the accelerators, the first T columns, and to dt, the last.
        right = np.zeros((jobs, types + 2, types + 1))
        right[:, range(types), range(types)] = -rows.size[:, None]
        right[:, types, types] = -1.0
        self.answers = np.linalg.solve(self.block, right)
        self.coupling = np.empty((types + 1, types + 1))
        self.coupling[:types] = np.tensordot(rows.size, self.answers[:, :types], axes=1)
        self.coupling[range(types), range(types)] -= room
        self.coupling[types] = self.answers[:, types].sum(axis=0)

    def solve(self, of_x: _Array, of_t: float, of_rows: _Array) -> tuple[_Array, float, _Array]:
        """Return dx, dt and dz."""
        rows, types = self.rows, self.rows.types
        level, time, room, least = rows.split(of_rows)
        right = np.empty((rows.jobs, types + 2, 1))
        right[:, :types, 0] = of_x - least / self.least
        right[:, types, 0] = level
        right[:, types + 1, 0] = time
        alone = np.linalg.solve(self.block, right)[:, :, 0]
        known = np.append(room - rows.size @ alone[:, :types], of_t - alone[:, types].sum())
        coupled = np.linalg.solve(self.coupling, known)
        found = alone + self.answers @ coupled
        dx = found[:, :types]
        dz = np.concatenate(
            [found[:, types], found[:, types + 1], coupled[:types], (-(least + dx) / self.least).ravel()]
        )
        return dx, float(coupled[types]), dz


def _shifted(values: _Array) -> _Array:
    """Return them if all are above 0, else raised until the least is 1."""
    least = float(values.min())
    return values if least > 0 else values + (1.0 - least)


def _reach(value: _Array, by: _Array) -> float:
    """Return how far one may go until the first value is 0; infinite if none gets there."""
    fastest = float((-by / value).max())
    return 1.0 / fastest if fastest > 0 else np.inf
