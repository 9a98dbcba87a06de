"""An optimum of Gavel's max-min program from the middle of all optima, as interior-point solvers find it.

Program
    maximise t  where  sum_j gain_mj x_mj >= t    for each job m,
                       sum_j x_mj         <= 1    for each job m,
                       sum_m size_m x_mj  <= N_j  for each type j,  x >= 0.

Why this and not a simplex method's optimum: there are many optima, and which one is taken shows in the figures. The
authors' solver (ECOS) is an interior-point method: it ends inside the set of optima, where each job has a little time
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
#: what stands against x, (M, T), and t
_Cost = tuple[_Array, float]
#: dx, (M, T), dt, and dz of all rows
_Answer = tuple[_Array, float, _Array]
#: It ends when the level and its bound differ by this part, and no row is off by more than that.
_CLOSE, _OFF = 1e-8, 1e-5
#: So near is near enough where rounding lets it come no nearer: as many jobs as accelerators leave one price open.
_NEAR = 1e-5
_STEPS = 100
#: how often rows and columns are scaled before the start
_SCALINGS = 3
#: of the way to the boundary
_AS_FAR = 0.99


def centre(gain: _Array, size: NDArray[np.int64], capacity: NDArray[np.int64]) -> _Array:
    """Return x, (M, T), each from 0 to 1.

    `gain`, (M, T), is what a unit of time on a type brings a job, at least 0, above 0 on some type with free time;
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
        #: what of each job's part of the system does not change, and how it is coupled to the others
        self.block = np.zeros((self.jobs, self.types + 2, self.types + 2))
        self.block[:, : self.types, self.types] = self.block[:, self.types, : self.types] = -gain
        self.block[:, : self.types, self.types + 1] = self.block[:, self.types + 1, : self.types] = 1.0
        self.couples = -np.concatenate([np.repeat(size[:, None], self.types, axis=1), np.ones((self.jobs, 1))], axis=1)
        self.couples = self.couples[:, None, :]
        self.bounds = np.concatenate([np.zeros(self.jobs), np.ones(self.jobs), capacity, np.zeros(gain.size)])

    def split(self, rows: _Array) -> tuple[_Array, _Array, _Array, _Array]:
        """Return views of the parts of a vector of rows: (M,), (M,), (T,), (M, T)."""
        two, three = 2 * self.jobs, 2 * self.jobs + self.types
        return (
            rows[: self.jobs],
            rows[self.jobs : two],
            rows[two:three],
            rows[three:].reshape(self.jobs, self.types),
        )

    def cost(self, of_t: float) -> _Cost:
        """Return what stands against x, nothing, and against t."""
        return np.zeros_like(self.gain), of_t

    def units(self) -> _Array:
        """Return the unit of each row in which, with one for each column, no entry of G is far from 1 (Ruiz)."""
        size = self.size[:, None]
        level, time = np.ones((self.jobs, 1)), np.ones((self.jobs, 1))
        supply, least = np.ones(self.types), np.ones_like(self.gain)
        column, column_t = np.ones_like(self.gain), 1.0
        for _ in range(_SCALINGS):
            of_level, in_t = self.gain / (level * column), 1.0 / (level * column_t)
            of_time, of_supply, of_least = 1.0 / (time * column), size / (supply * column), 1.0 / (least * column)
            level = level * np.sqrt(np.maximum(of_level.max(axis=1, keepdims=True), in_t))
            time = time * np.sqrt(of_time.max(axis=1, keepdims=True))
            supply = supply * np.sqrt(of_supply.max(axis=0))
            least = least * np.sqrt(of_least)
            largest = np.maximum(np.maximum(of_level, of_time), np.maximum(of_supply, of_least))
            column, column_t = column * np.sqrt(largest), column_t * float(np.sqrt(in_t.max()))
        return np.concatenate([level.ravel(), time.ravel(), supply, least.ravel()])

    def times(self, x: _Array, t: float) -> _Array:
        """Return G (x, t)."""
        return np.concatenate([t - (self.gain * x).sum(axis=1), x.sum(axis=1), self.size @ x, -x.ravel()])

    def transposed(self, rows: _Array) -> tuple[_Array, float]:
        """Return G' times a vector of rows: of x, and of t."""
        level, time, supply, least = self.split(rows)
        return time[:, None] - self.gain * level[:, None] + self.size[:, None] * supply - least, float(level.sum())


class _Solver:
    """The state. x, t, slacks and prices are `scale` times what they stand for; `certificate` is its counterpart."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        unit = rows.units()
        start = _System(rows, unit**2)
        nothing, by_t = rows.cost(0.0), rows.cost(1.0)
        ((self.x, self.t, short), (_, _, price)) = start.solve((nothing, rows.bounds), (by_t, np.zeros_like(unit)))
        self.slack = unit * _shifted(-short * unit)
        self.price = _shifted(price * unit) / unit
        self.scale = self.certificate = 1.0

    def solved(self) -> _Array:
        """Return the optimal x, as far from 0 and 1 as the method leaves it. Raises WorkloadError."""
        near = None
        try:
            for _ in range(_STEPS):
                rest = _Rest(self)
                if rest.off <= _OFF and rest.apart <= _NEAR:
                    near = self.x / self.scale
                    if rest.apart <= _CLOSE:
                        return near
                elif near is not None:
                    return near  # rounding has begun to undo what was reached
                self._step(rest)
        except np.linalg.LinAlgError:
            if near is not None:
                return near
        raise WorkloadError(f"the interior-point method did not converge for {self.rows.jobs} jobs")

    def _step(self, left: _Rest) -> None:
        """Go one step."""
        rows, slack, price, scale, certificate = self.rows, self.slack, self.price, self.scale, self.certificate
        primal, dual_x, dual_t, apart = left.primal, left.dual_x, left.dual_t, float(slack @ price)
        both = certificate - self.t + float(rows.bounds @ price)
        system = _System(rows, slack / price)
        # How all answers to `scale`; and where to without centring.
        unit, guess = system.solve((rows.cost(1.0), rows.bounds), ((-dual_x, -dual_t), slack - primal))
        slope = float(rows.bounds @ unit[2]) - unit[1] - certificate / scale

        def by_scale(open_part: float, found: _Answer, wanted: float) -> float:
            """Return by how much the scale changes, of what is open, for certificate times scale to change by this."""
            return (found[1] - float(rows.bounds @ found[2]) - open_part * both - wanted / scale) / slope

        by = by_scale(1.0, guess, -scale * certificate)
        dz = guess[2] + by * unit[2]
        ds = -slack - slack / price * dz
        opposite = -certificate - certificate / scale * by
        reach = min(1.0, _reach(slack, ds), _reach(price, dz), _least(scale, by), _least(certificate, opposite))
        centring = (1.0 - reach) ** 3
        target = centring * (apart + scale * certificate) / (len(slack) + 1)
        wanted, wanted_scale = target - slack * price - ds * dz, target - scale * certificate - by * opposite
        rest = 1.0 - centring
        (sure,) = system.solve(((-rest * dual_x, -rest * dual_t), -rest * primal - wanted / price))
        by = by_scale(rest, sure, wanted_scale)
        dz = sure[2] + by * unit[2]
        ds = (wanted - slack * dz) / price
        opposite = (wanted_scale - certificate * by) / scale
        reach = min(_reach(slack, ds), _reach(price, dz), _least(scale, by), _least(certificate, opposite))
        reach = min(1.0, _AS_FAR * reach)
        self.x, self.t = self.x + reach * (sure[0] + by * unit[0]), self.t + reach * (sure[1] + by * unit[1])
        self.slack, self.price = slack + reach * ds, price + reach * dz
        self.scale, self.certificate = scale + reach * by, certificate + reach * opposite


class _Rest:
    """Residuals at a point."""

    def __init__(self, at: _Solver) -> None:
        rows = at.rows
        self.primal = rows.times(at.x, at.t) + at.slack - at.scale * rows.bounds
        self.dual_x, dual_t = rows.transposed(at.price)
        self.dual_t = dual_t - at.scale
        worst = max(float(np.abs(self.primal).max()), float(np.abs(self.dual_x).max()), abs(self.dual_t))
        #: by how much a row or a column is off
        self.off = worst / at.scale
        #: by which part of the level it and its bound differ
        self.apart = float(at.slack @ at.price) / (at.scale * max(abs(at.t), np.finfo(np.float64).tiny))


class _System:
    """G' dz = a, G (dx, dt) - weight dz = b, for weights that are all above 0."""

    def __init__(self, rows: _Rows, weight: _Array) -> None:
        self.rows = rows
        types = rows.types
        level, time, supply, self.least = rows.split(weight)
        block = rows.block.copy()
        diagonal = block.reshape(rows.jobs, -1)[:, :: types + 3]
        diagonal[:, :types] = 1.0 / self.least
        diagonal[:, types] = -level
        diagonal[:, types + 1] = -time
        self.inverse = np.linalg.inv(block)
        # How a job answers to dz of the accelerators, the first T columns, and to dt, the last.
        self.answers = self.inverse[:, :, : types + 1] * rows.couples
        coupling = np.empty((types + 1, types + 1))
        coupling[:types] = (rows.size @ self.answers[:, :types].reshape(rows.jobs, -1)).reshape(types, -1)
        coupling.reshape(-1)[: types * (types + 2) : types + 2] -= supply
        coupling[types] = self.answers[:, types].sum(axis=0)
        self.coupled = np.linalg.inv(coupling)

    def solve(self, *sides: tuple[_Cost, _Array]) -> list[_Answer]:
        """Return dx, dt and dz for each pair of a and b."""
        rows, types = self.rows, self.rows.types
        right = np.empty((rows.jobs, types + 2, len(sides)))
        known = np.empty((types + 1, len(sides)))
        least = []
        for place, ((of_x, of_t), of_rows) in enumerate(sides):
            right[:, types, place], right[:, types + 1, place], known[:types, place], of_least = rows.split(of_rows)
            known[types, place] = of_t
            right[:, :types, place] = of_x - of_least / self.least
            least.append(of_least)
        alone = np.einsum("mij,mjk->mik", self.inverse, right)
        known[:types] -= (rows.size @ alone[:, :types].reshape(rows.jobs, -1)).reshape(types, -1)
        known[types] -= alone[:, types].sum(axis=0)
        coupled = self.coupled @ known
        found = alone + (self.answers.reshape(-1, types + 1) @ coupled).reshape(alone.shape)
        answers = []
        for place, of_least in enumerate(least):
            dx = found[:, :types, place]
            last = (-(of_least + dx) / self.least).ravel()
            dz = np.concatenate([found[:, types, place], found[:, types + 1, place], coupled[:types, place], last])
            answers.append((dx, float(coupled[types, place]), dz))
        return answers


def _shifted(values: _Array) -> _Array:
    """Return them if all are above 0, else raised until the least is 1."""
    least = float(values.min())
    return values if least > 0 else values + (1.0 - least)


def _reach(value: _Array, by: _Array) -> float:
    """Return how far one may go until the first value is 0; infinite if none gets there."""
    fastest = float((by / value).min())
    return -1.0 / fastest if fastest < 0 else np.inf


def _least(value: float, by: float) -> float:
    """Return how far one may go until the value is 0; infinite if it does not get there."""
    return -value / by if by < 0 else np.inf
