"""The middle of all optima of Gavel's max-min program, as interior-point solvers find it.

Program
    maximise t  where  sum_j gain_mj x_mj >= t    for each job m,
                       sum_j x_mj         <= 1    for each job m,
                       sum_m size_m x_mj  <= N_j  for each type j,  x >= 0.

Why this and not a simplex method's optimum: there are many optima, and which one is taken shows in the figures. The
authors' solver (ECOS) is an interior-point method: it ends near the analytic centre of the optima, at which everybody
has a little time on many types. A simplex method ends in a corner: fewer types a job, and fewer restarts. Here it is
the authors' figures that are to be met, so here it is the centre.

Method
    Mehrotra's primal-dual predictor and corrector. With slacks of the three kinds of rows, and prices y, u, v, z of
    these and of x >= 0, a step solves, for each job,

        -(z / x) dx + gain dy - du = size dv + …,   gain dx + (slack / y) dy = dt + …,   -sum dx + (slack / u) du = …,

    which is T + 2 unknowns; the T + 1 that couple the jobs, dv and dt, follow from (slack / v) dv - size dx = … and
    sum dy = … So a step's cost grows as M, not as M cubed. Slacks and prices are not divided out any further: near
    the end one is 1e9 times the other.

Source
    Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J. Optim. 2(4), 1992. Program: OSDI
    2020, section 4.1. ECOS: Domahidi, Chu, Boyd, ECC 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_sim.workload import WorkloadError

_Array = NDArray[np.float64]
#: It ends when the level and its bound (the sum of slacks times prices above it) differ by this part of the level.
_GAP = 1e-8
_STEPS = 100
#: of the way to the boundary
_AS_FAR = 0.99


@dataclass(frozen=True, slots=True)
class _Point:
    """Variables, slacks and prices, or the directions in which they move."""

    #: (M, T)
    x: _Array
    t: float
    #: slacks: (M,) of the level, (M,) of the time, (T,) of the accelerators
    level: _Array
    time: _Array
    room: _Array
    #: their prices, and that of x >= 0
    y: _Array
    u: _Array
    v: _Array
    z: _Array

    def products(self) -> tuple[_Array, _Array, _Array, _Array]:
        return self.level * self.y, self.time * self.u, self.room * self.v, self.x * self.z

    def apart(self) -> float:
        """Return by how much the level and its bound differ."""
        return sum(float(part.sum()) for part in self.products())

    def moved(self, by: _Point, primal: float, dual: float) -> _Point:
        return _Point(
            self.x + primal * by.x,
            self.t + primal * by.t,
            self.level + primal * by.level,
            self.time + primal * by.time,
            self.room + primal * by.room,
            self.y + dual * by.y,
            self.u + dual * by.u,
            self.v + dual * by.v,
            self.z + dual * by.z,
        )

    def steps(self, by: _Point) -> tuple[float, float]:
        """Return how far the slacks and the prices may go, at most 1."""
        primal = _reach((self.x, by.x), (self.level, by.level), (self.time, by.time), (self.room, by.room))
        dual = _reach((self.y, by.y), (self.u, by.u), (self.v, by.v), (self.z, by.z))
        return primal, dual


def centre(gain: _Array, size: NDArray[np.int64], capacity: NDArray[np.int64]) -> _Array:
    """Return x, (M, T), each from 0 to 1.

    `gain`, (M, T), is what a unit of time on a type brings a job, at least 0, above 0 somewhere that there is room;
    `size`, (M,), its accelerators; `capacity`, (T,), those that there are. Raises WorkloadError if it does not
    converge.
    """
    found = np.zeros(gain.shape)
    there = np.flatnonzero(capacity > 0)
    if len(gain) == 0:
        return found
    unit = gain[:, there] / gain[:, there].max()
    sizes = size.astype(np.float64)
    room = capacity[there].astype(np.float64)
    point = _start(unit, sizes, room)
    for _ in range(_STEPS):
        if point.apart() <= _GAP * point.t:
            found[:, there] = np.clip(point.x, 0.0, 1.0)
            return found
        point = _step(point, unit, sizes, room)
    raise WorkloadError(f"the interior-point method did not converge for {len(gain)} jobs")


def _start(gain: _Array, size: _Array, capacity: _Array) -> _Point:
    jobs, types = gain.shape
    x = np.broadcast_to(np.minimum(0.5 / types, 0.5 * capacity / size.sum()), (jobs, types)).copy()
    reached = (gain * x).sum(axis=1)
    t = float(reached.min()) / 2
    y = np.full(jobs, 1.0 / jobs)
    v = np.full(types, 1.0 / (jobs * size.mean()))
    u = gain.max(axis=1) * y + 1.0 / jobs
    z = u[:, None] + size[:, None] * v - gain * y[:, None]
    return _Point(x, t, reached - t, 1.0 - x.sum(axis=1), capacity - size @ x, y, u, v, z)


def _step(at: _Point, gain: _Array, size: _Array, capacity: _Array) -> _Point:
    """Return the next point: where to without centring, from that how much to centre, and there."""
    blocks = _Blocks(at, gain, size, capacity)
    one, two, three, four = at.products()
    count = one.size + two.size + three.size + four.size
    gap = at.apart() / count
    guess = blocks.direction(-one, -two, -three, -four)
    primal, dual = at.steps(guess)
    there = at.moved(guess, primal, dual).apart() / count
    target = gap * (there / gap) ** 3
    sure = blocks.direction(
        target - one - guess.level * guess.y,
        target - two - guess.time * guess.u,
        target - three - guess.room * guess.v,
        target - four - guess.x * guess.z,
    )
    primal, dual = at.steps(sure)
    return at.moved(sure, min(1.0, _AS_FAR * primal), min(1.0, _AS_FAR * dual))


class _Blocks:
    """The system at a point, for the guess and the step."""

    def __init__(self, at: _Point, gain: _Array, size: _Array, capacity: _Array) -> None:
        self.at, self.size = at, size
        jobs, types = gain.shape
        self.types = types
        self.block = np.zeros((jobs, types + 2, types + 2))
        self.block[:, range(types), range(types)] = -at.z / at.x
        self.block[:, :types, types] = self.block[:, types, :types] = gain
        self.block[:, :types, types + 1] = self.block[:, types + 1, :types] = -1.0
        self.block[:, types, types] = at.level / at.y
        self.block[:, types + 1, types + 1] = at.time / at.u
        # What rounding has left open: it is closed by the next step.
        self.open_x = -(gain * at.y[:, None] - at.u[:, None] - size[:, None] * at.v + at.z)
        self.open_level = at.level + at.t - (gain * at.x).sum(axis=1)
        self.open_time = at.time - 1.0 + at.x.sum(axis=1)
        self.open_room = at.room - capacity + size @ at.x
        self.open_t = 1.0 - float(at.y.sum())
        # How a job answers to dv, the first T columns, and to dt, the last.
        right = np.zeros((jobs, types + 2, types + 1))
        right[:, range(types), range(types)] = size[:, None]
        right[:, types, types] = 1.0
        self.answers = np.linalg.solve(self.block, right)
        coupling = np.zeros((types + 1, types + 1))
        coupling[:types] = -np.tensordot(size, self.answers[:, :types], axes=1)
        coupling[range(types), range(types)] += at.room / at.v
        coupling[types] = self.answers[:, types].sum(axis=0)
        self.coupling = coupling

    def direction(self, one: _Array, two: _Array, three: _Array, four: _Array) -> _Point:
        """Return where to go for slack times price to change by these much, to first order."""
        at, types = self.at, self.types
        right = np.empty((len(at.y), types + 2, 1))
        right[:, :types, 0] = self.open_x - four / at.x
        right[:, types, 0] = one / at.y + self.open_level
        right[:, types + 1, 0] = two / at.u + self.open_time
        alone = np.linalg.solve(self.block, right)[:, :, 0]
        known = np.append(
            three / at.v + self.open_room + self.size @ alone[:, :types], self.open_t - alone[:, types].sum()
        )
        coupled = np.linalg.solve(self.coupling, known)
        found = alone + self.answers @ coupled
        dx, dy, du, dv = found[:, :types], found[:, types], found[:, types + 1], coupled[:types]
        return _Point(
            dx,
            float(coupled[types]),
            (one - at.level * dy) / at.y,
            (two - at.time * du) / at.u,
            (three - at.room * dv) / at.v,
            dy,
            du,
            dv,
            (four - at.z * dx) / at.x,
        )


def _reach(*pairs: tuple[_Array, _Array]) -> float:
    """Return how far one may go until the first value is 0, at most 1."""
    fastest = max(float((-by / value).max()) for value, by in pairs)
    return 1.0 if fastest <= 1.0 else 1.0 / fastest
