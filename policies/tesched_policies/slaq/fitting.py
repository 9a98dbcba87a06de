"""Weighted least squares of loss curves, bounded, for thousands of jobs at once.

Principle
    A curve is amplitude * part(x; form) + asymptote. For a form, amplitude and asymptote follow in closed form, so only
    the form is searched (variable projection): from the best of a coarse grid, or from an earlier fit, by steps of
    Levenberg-Marquardt, each job with a damping of its own, all jobs at once. Bounds are held by projection: what is at
    a bound and is pushed beyond it does not move.

        sublinear   part = 1 / (r + (1 - r) ((1 - s) x + s x^2)), form (r, s), each in [0, 1];  x = k / newest k
        linear      part = exp(-rate x), form (rate);                                           x = k - oldest k

    So a, b, c >= 0, amplitude >= 0, rate > 0, asymptote >= floor hold. Losses are brought to 0..1 first: their unit
    does not change what is found.

    SciPy's `curve_fit` finds the same curves one by one; benchmarks/slaq.py prints how long it takes, and a test
    compares them.

Source
    Weights, families, bounds: SLAQ, section 4. Golub, Pereyra, "The differentiation of pseudo-inverses and nonlinear
    least squares problems whose variables separate", SIAM J. Numer. Anal. 1973; Kaufman, "A variable projection method
    for solving separable nonlinear least squares problems", BIT 1975 (the shorter derivative). Marquardt 1963.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tesched_policies.slaq.curves import Bools, Curves, Family, Floats, Ints, flat

#: Jobs that are fitted together: their columns stay in the processor's cache.
BLOCK = 256
#: Steps at most; a fit that needs more has failed.
MOST_STEPS = 60
#: A step that improves the sum of squares by less than this part is the last one.
LITTLE = 1e-5
#: A mean square that is this small, in units of the window, is rounding.
ROUNDING = 1e-29
#: One this small is good enough, should the steps run out.
ENOUGH = 1e-10
#: Forms to start from.
SUBLINEAR_GRID = tuple((r, s) for s in (0.0, 0.3, 0.9) for r in (0.0002, 0.003, 0.03, 0.1, 0.3, 0.6, 0.9))
LINEAR_GRID = tuple((float(rate),) for rate in np.geomspace(1e-3, 3.0, 16))
#: The least a form may be away from that of a straight line, which is no curve of the family.
MARGIN = 1e-6
#: The highest rate: of what there was, 1e-22 is left after one iteration.
MOST_RATE = 50.0


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Input of a fit: the newest losses of each job, the newest in the last column."""

    #: [jobs, points] iterations, ascending in each row; where there is none it repeats the first
    iteration: Floats
    #: [jobs, points]
    loss: Floats
    #: [jobs, points] weight of each square; 0 where there is none
    weight: Floats
    #: [jobs] no asymptote is lower
    floor: Floats

    def take(self, rows: Ints | slice) -> Windows:
        """Return the windows of these rows."""
        return Windows(self.iteration[rows], self.loss[rows], self.weight[rows], self.floor[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """The curves that were found."""

    curves: Curves
    #: [jobs] root of the weighted mean square of what is left, in the unit of the loss
    rms: Floats
    #: [jobs] it came to rest
    found: Bools


def fit(windows: Windows, family: Family, start: Curves | None = None) -> Fitted:
    """Return the curve of a family for each window.

    `start`, if given, has one curve a window to begin with; where its family is another one, the grid is used. A window
    whose losses are all the same has a flat curve.
    """
    count = len(windows.floor)
    curves = flat(windows.iteration[:, -1], windows.loss[:, -1])
    rms, found = np.zeros(count), np.zeros(count, dtype=np.bool_)
    for first in range(0, count, BLOCK):
        rows = np.arange(first, min(first + BLOCK, count))
        done = _fit_block(
            windows.take(slice(first, first + BLOCK)), family, None if start is None else start.take(rows)
        )
        curves.put(rows, done.curves)
        rms[rows], found[rows] = done.rms, done.found
    return Fitted(curves, rms, found)


def _fit_block(windows: Windows, family: Family, start: Curves | None) -> Fitted:
    there = windows.weight > 0
    low = np.where(there, windows.loss, np.inf).min(axis=1)
    high = np.where(there, windows.loss, -np.inf).max(axis=1)
    size = high - low
    level = size <= 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
    size = np.where(level, 1.0, size)
    x, most = _x(windows, family)
    problem = _Problem(
        family=family,
        x=x,
        y=np.where(there, (windows.loss - low[:, None]) / size[:, None], 0.0),
        weight=windows.weight / windows.weight.sum(axis=1, keepdims=True),
        # A user's target may lie above losses that were reached; the curve must still be able to.
        floor=np.minimum((windows.floor - low) / size, 0.0),
        least=MARGIN / np.maximum(x[:, -1], 1.0)[:, None] if family is Family.LINEAR else np.zeros((len(x), 2)),
        most=most,
    )
    if start is None:
        forms = problem.from_grid()
    else:
        forms, usable = _forms_of(start, family, windows)
        cold = np.flatnonzero(~usable)
        forms[cold] = problem.take(cold).from_grid()
        forms = problem.clipped(forms)
    forms, projected, rest = _descend(problem, forms)
    curves = _curves(family, forms, projected, windows, low=low, size=size)
    curves.put(np.flatnonzero(level), flat(windows.iteration[:, -1], windows.loss[:, -1]).take(np.flatnonzero(level)))
    found = np.isfinite(curves.shape).all(axis=1) & np.isfinite(curves.asymptote) & (rest | level)
    return Fitted(curves, np.where(level, 0.0, np.sqrt(projected.cost) * size), found)


def _x(windows: Windows, family: Family) -> tuple[Floats, Floats]:
    """Return iterations as the family is fitted [jobs, points], and the highest form [jobs, 1 or 2]."""
    count = len(windows.floor)
    if family is Family.SUBLINEAR:
        return windows.iteration / windows.iteration[:, -1:], np.tile([1 - MARGIN, 1.0], (count, 1))
    return windows.iteration - windows.iteration[:, :1], np.full((count, 1), MOST_RATE)


def _forms_of(start: Curves, family: Family, windows: Windows) -> tuple[Floats, Bools]:
    """Return the forms [jobs, 1 or 2] of curves, and which curves have one [jobs]."""
    usable = (start.family == family) & (start.shape > 0).any(axis=1)
    if family is Family.LINEAR:
        return start.shape[:, 1:2].copy(), usable & (start.shape[:, 1] > 0)
    newest = windows.iteration[:, -1]
    a, b, c = np.maximum(start.moved(np.zeros(len(start))).shape, 0.0).T
    square, plain = a * newest**2, b * newest
    total = square + plain + c
    with np.errstate(divide="ignore", invalid="ignore"):
        forms = np.stack([c / total, square / (square + plain)], axis=1)
    return np.nan_to_num(forms), usable & (total > 0)


def _curves(
    family: Family, forms: Floats, projected: _Projected, windows: Windows, *, low: Floats, size: Floats
) -> Curves:
    """Return the curves in the losses' own unit, written from the newest iterations."""
    newest = windows.iteration[:, -1]
    amplitude, asymptote = size * projected.amplitude, low + size * projected.asymptote
    kind = np.full(len(newest), family, dtype=np.int8)
    if family is Family.LINEAR:
        shape = np.stack([amplitude, forms[:, 0], np.zeros_like(amplitude)], axis=1)
        return Curves(kind, windows.iteration[:, 0], shape, asymptote).moved(newest)
    r, s = forms.T
    shape = np.stack([(1 - r) * s / newest**2, (1 - r) * (1 - s) / newest, r], axis=1)
    falls = amplitude > 0
    with np.errstate(over="ignore"):
        shape /= np.where(falls, amplitude, 1.0)[:, None]
    curves = Curves(kind, np.zeros(len(newest)), shape, asymptote).moved(newest)
    curves.put(np.flatnonzero(~falls), flat(newest, asymptote).take(np.flatnonzero(~falls)))
    return curves


@dataclass(frozen=True, slots=True, eq=False)
class _Projected:
    """Values that follow from the forms."""

    #: [jobs]
    amplitude: Floats
    asymptote: Floats
    #: [jobs] weighted mean square
    cost: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """Windows, losses in 0..1."""

    family: Family
    #: [jobs, points]
    x: Floats
    y: Floats
    #: [jobs, points] sums to 1 in each row
    weight: Floats
    #: [jobs] lower bound of the asymptote
    floor: Floats
    #: [jobs, 1 or 2] bounds of the forms
    least: Floats
    most: Floats

    def take(self, rows: Ints) -> _Problem:
        return _Problem(
            family=self.family,
            x=self.x[rows],
            y=self.y[rows],
            weight=self.weight[rows],
            floor=self.floor[rows],
            least=self.least[rows],
            most=self.most[rows],
        )

    def clipped(self, forms: Floats) -> Floats:
        """Return the forms, brought within their bounds."""
        return np.clip(forms, self.least, self.most)

    def part(self, forms: Floats) -> Floats:
        """Return the parts [jobs, points]."""
        if self.family is Family.LINEAR:
            linear: Floats = np.exp(-forms * self.x)
            return linear
        r, s = forms[:, :1], forms[:, 1:]
        sublinear: Floats = 1 / (r + (1 - r) * self.x * (1 - s + s * self.x))
        return sublinear

    def slopes(self, forms: Floats, part: Floats) -> list[Floats]:
        """Return the derivatives of the parts, one [jobs, points] for each number of the form."""
        if self.family is Family.LINEAR:
            return [-self.x * part]
        r, s = forms[:, :1], forms[:, 1:]
        square = part * part
        return [-square * (1 - self.x * (1 - s + s * self.x)), -square * ((1 - r) * self.x * (self.x - 1))]

    def mean(self, values: Floats) -> Floats:
        """Return the weighted means [jobs, 1]."""
        means: Floats = np.vecdot(self.weight, values)
        return means[:, None]

    def project(self, part: Floats) -> tuple[_Projected, Floats, Floats, Floats]:
        """Project the losses on the parts [jobs, points]: amplitude, asymptote and cost [jobs].

        With it, what the curve is above the losses [jobs, points], the parts without what the asymptote can take up
        [jobs, points], and their weighted squares [jobs, 1].
        """
        middle, mean = self.mean(part), self.mean(self.y)
        centred = part - middle
        square = np.maximum(self.mean(centred * centred), 1e-300)
        amplitude = np.maximum(self.mean(centred * self.y) / square, 0.0)
        asymptote = mean - amplitude * middle
        floor = self.floor[:, None]
        held = asymptote < floor
        if held.any():
            own_square = np.maximum(self.mean(part * part), 1e-300)
            own = np.maximum(self.mean(part * (self.y - floor)) / own_square, 0.0)
            centred, square = np.where(held, part, centred), np.where(held, own_square, square)
            amplitude, asymptote = np.where(held, own, amplitude), np.where(held, floor, asymptote)
        above = amplitude * part + asymptote - self.y
        cost = self.mean(above * above)
        return _Projected(amplitude[:, 0], asymptote[:, 0], cost[:, 0]), above, centred, square

    def step(self, forms: Floats, damping: Floats) -> Floats:
        """Return the damped steps [jobs, 1 or 2] to be taken off the forms; 0 for what would leave its bounds."""
        part = self.part(forms)
        projected, above, centred, square = self.project(part)
        columns = []
        for slope in self.slopes(forms, part):
            # A constant is in reach of the asymptote, unless that is held; `centred` has the same mean then.
            inner = slope - self.mean(slope) * (projected.asymptote > self.floor)[:, None]
            columns.append(projected.amplitude[:, None] * (inner - centred * (self.mean(centred * inner) / square)))
        gradient = np.concatenate([self.mean(column * above) for column in columns], axis=1)
        diagonal = np.concatenate([self.mean(column * column) for column in columns], axis=1)
        stuck = ((forms <= self.least) & (gradient > 0)) | ((forms >= self.most) & (gradient < 0)) | (diagonal <= 0)
        scale = np.where(stuck, 0.0, 1 / np.sqrt(np.where(stuck, 1.0, diagonal)))
        right = gradient * scale
        stiff = 1 + damping
        if len(columns) == 1:
            return right / stiff[:, None] * scale
        cross = self.mean(columns[0] * columns[1])[:, 0] * scale[:, 0] * scale[:, 1]
        determinant = np.maximum(stiff * stiff - cross * cross, 1e-300)
        solved = np.stack(
            [stiff * right[:, 0] - cross * right[:, 1], stiff * right[:, 1] - cross * right[:, 0]], axis=1
        )
        return solved / determinant[:, None] * scale

    def from_grid(self) -> Floats:
        """Return the best form of the grid for each [jobs, 1 or 2]."""
        grid = np.array(SUBLINEAR_GRID if self.family is Family.SUBLINEAR else LINEAR_GRID)
        jobs, forms = len(self.floor), len(grid)
        every = self.take(np.repeat(np.arange(jobs), forms))
        costs = every.project(every.part(np.tile(grid, (jobs, 1))))[0].cost.reshape(jobs, forms)
        return self.clipped(grid[costs.argmin(axis=1)])


def _descend(problem: _Problem, start: Floats) -> tuple[Floats, _Projected, Bools]:
    """Return the best forms [jobs, 1 or 2], what follows from them, and which came to rest [jobs]."""
    best, cost = start.copy(), problem.project(problem.part(start))[0].cost
    rest = cost <= ROUNDING
    damping = np.full(len(cost), 1e-3)
    rows, part = np.flatnonzero(~rest), problem.take(np.flatnonzero(~rest))
    for _ in range(MOST_STEPS):
        if not len(rows):
            break
        tried = part.clipped(best[rows] - part.step(best[rows], damping[rows]))
        now = part.project(part.part(tried))[0].cost
        better = now < cost[rows]
        gain = cost[rows] - now
        rest[rows] = (better & ((gain <= LITTLE * cost[rows]) | (now <= ROUNDING))) | (damping[rows] > 1e8)
        rest[rows] |= (tried == best[rows]).all(axis=1)
        best[rows[better]] = tried[better]
        cost[rows[better]] = now[better]
        damping[rows] = np.maximum(damping[rows] * np.where(better, 0.1, 10.0), 1e-12)
        kept = np.flatnonzero(~rest[rows])
        if len(kept) < len(rows):
            rows, part = rows[kept], part.take(kept)
    projected = problem.project(problem.part(best))[0]
    return best, projected, rest | (projected.cost <= ENOUGH)
