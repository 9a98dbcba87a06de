"""Forecast of each job's loss, from its history; and how that is kept cheap.

Principle
    A job with LEAST_POINTS losses has a curve: the weighted fit of its family over the last `window` losses, the point
    that lies m reports back weighing decay^(2 m); with n < 50 losses decay^(2 m 50 / n), as if they were 50. If no
    family is known both are fitted, and the one that leaves less is taken. A fit that fails is tried again from the
    mean of the job's earlier curves, then with equal weights, then with twice the window. What is left, and jobs with
    two to four losses, come closer to their floor by the mean ratio that they had so far.

    A fit is kept until a twentieth as many losses have come as there are, at least one; the next begins where it ended.

    The floor of an asymptote is 0. For a job with losses below 0, it is as far below the lowest as that is below the
    first.

Non-convex jobs
    A user may give a target loss. It is the floor then, and a job that has reached it gains nothing more. A curve that
    would never get there contradicts the user: if "the target is approached by the mean ratio so far" gains more,
    that takes its place. So a job on a plateau is not given up.

Source
    SLAQ, section 4; window, decay, fall-backs and the number of points as in its authors' experiments
    (docs/discussion/slaq.md). The floor for losses below 0, the rule for a target and what is kept are tesched's own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from tesched_policies.slaq.curves import Bools, Curves, Family, Floats, Ints, flat, geometric
from tesched_policies.slaq.fitting import Fitted, Windows, fit
from tesched_policies.slaq.progress import KEPT, Progress

Job = TypeVar("Job", bound=Hashable)

#: Losses from which on a curve is fitted.
LEAST_POINTS = 5
#: Points that weigh less than this part of the newest are left out: they cost time and change nothing.
LEAST_WEIGHT = 1e-9
#: A history of fewer points is stretched to so many before its points are weighed.
STRETCHED = 50
#: A kept fit is made again when one in so many losses is new.
FRESH = 20
#: Iterations over which a curve is held against a target.
AHEAD = 10.0
#: A curve that ends this part of the way from the first loss to the target above it does get there.
NEAR = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """Settings of the fits."""

    #: newest losses that count
    window: int = 100
    #: sigma of a point that lies m reports back is decay^-m; 1: all weigh the same
    decay: float = 0.8
    #: False: no curves; the next ratio is the last one, as the authors' scheduler has it
    curves: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no sense."""
        if not LEAST_POINTS <= self.window <= KEPT // 2:
            raise ValueError(f"window: from {LEAST_POINTS} to {KEPT // 2} losses, not {self.window}")
        if not 0 < self.decay <= 1:
            raise ValueError(f"decay: above 0, at most 1, not {self.decay:g}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastJob:
    """A job that trains."""

    progress: Progress
    #: None: not known
    family: Family | None = None
    #: the loss that its user is content with; None: not said
    target: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCurve:
    """A job's newest curve, and the sum of all that it had."""

    #: as in Curves
    family: Family
    origin: float
    shape: tuple[float, float, float]
    asymptote: float
    #: reports that had been taken
    taken: int
    #: how many curves of this family it had; [a, b, c or amplitude at k = 0, rate, 0] and asymptote, added up
    count: int = 0
    total: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecasts:
    """Forecasts of the jobs, as columns; rows are the jobs in the order given."""

    curves: Curves
    #: [jobs] the newest iteration
    iteration: Floats
    #: [jobs] largest drop so far, by which gains are divided
    largest_drop: Floats
    #: [jobs] loss now above the asymptote, as a part of the first loss above it, in 0..1
    remaining: Floats
    #: [jobs] core-seconds an iteration; nan: not known
    cost_core_s: Floats
    #: [jobs] enough is known to say what another core would bring
    known: Bools
    #: [jobs] its curve was fitted now, not kept
    fresh: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCurves(Generic[Job]):
    """Curves that are kept from one forecast to the next, by job."""

    kept: Mapping[Job, KeptCurve] = field(default_factory=dict)


def forecast(
    jobs: Mapping[Job, ForecastJob], memory: KeptCurves[Job], fits: Fits = Fits()
) -> tuple[Forecasts, KeptCurves[Job]]:
    """Forecast the loss of each job, and what to remember; a job that is not among `jobs` is forgotten."""
    rows = list(jobs.values())
    names = list(jobs)
    floor = np.array([_floor(job) for job in rows], dtype=np.float64)
    taken = np.array([job.progress.taken for job in rows], dtype=np.int64)
    iteration = np.array([job.progress.iteration for job in rows], dtype=np.float64)
    newest = np.array([job.progress.losses[-1] if job.progress.taken else 0.0 for job in rows], dtype=np.float64)
    curves = _by_ratio(rows, iteration, newest, floor, last=not fits.curves)
    fresh = np.zeros(len(rows), dtype=np.bool_)
    kept: dict[Job, KeptCurve] = {}
    if fits.curves:
        old = [memory.kept.get(name) for name in names]
        wants = np.array([_wants(job, was) for job, was in zip(rows, old, strict=True)], dtype=np.bool_)
        again = np.flatnonzero(wants)
        found = _fit_rows([rows[row] for row in again], [old[row] for row in again], floor[again], fits)
        fresh[again[found.found]] = True
        curves.put(again[found.found], found.curves.take(np.flatnonzero(found.found)))
        usable = [row for row, was in enumerate(old) if was is not None and not fresh[row] and was.taken <= taken[row]]
        curves.put(np.array(usable, dtype=np.int64), _columns([old[row] for row in usable]))
        for row in np.flatnonzero(fresh).tolist():
            kept[names[row]] = _keep(curves, row, int(taken[row]), old[row])
        kept |= {names[row]: was for row in usable if (was := old[row]) is not None}
    now = curves.moved(iteration)
    first = np.array([job.progress.first_loss for job in rows], dtype=np.float64)
    _towards_targets(now, rows, iteration, newest, first)
    cost = [job.progress.cost_core_s for job in rows]
    cost_core_s = np.array([np.nan if one is None else one for one in cost], dtype=np.float64)
    low = now.asymptote
    span = np.maximum(first - low, 0)
    # Bounded before it is divided: the quotient of a large loss and a tiny span is no number.
    remaining = np.clip(newest - low, 0.0, span) / np.where(span > 0, span, 1.0)
    forecasts = Forecasts(
        curves=now,
        iteration=iteration,
        largest_drop=np.array([job.progress.largest_drop for job in rows], dtype=np.float64),
        remaining=remaining,
        cost_core_s=cost_core_s,
        known=(taken >= 2) & ~np.isnan(cost_core_s),
        fresh=fresh,
    )
    return forecasts, KeptCurves(kept=kept)


def windows_of(progresses: Sequence[Progress], floor: Floats, *, window: int, decay: float) -> Windows:
    """Return the newest losses of each with their weights, 1 for the newest (see the head of this file)."""
    points = window
    if decay < 1:
        points = min(window, int(np.log(LEAST_WEIGHT) / (2 * np.log(decay))) + 1)
    points = max(min(points, max((len(one.losses) for one in progresses), default=1)), 1)
    shape = (len(progresses), points)
    iteration, loss, weight = np.empty(shape), np.empty(shape), np.zeros(shape)
    back = 2.0 * np.arange(points - 1, -1, -1)
    for row, one in enumerate(progresses):
        count = min(len(one.losses), points)
        iteration[row, points - count :] = one.iterations[-count:]
        iteration[row, : points - count] = one.iterations[-count]
        loss[row, points - count :] = one.losses[-count:]
        loss[row, : points - count] = one.losses[-count]
        stretch = max(STRETCHED / min(len(one.losses), window), 1.0)
        weight[row, points - count :] = decay ** (stretch * back[points - count :])
    return Windows(iteration, loss, weight, floor)


def _floor(job: ForecastJob) -> float:
    lowest = job.progress.lowest
    floor = 0.0 if lowest >= 0 else lowest - max(job.progress.first_loss - lowest, 0.0)
    return floor if job.target is None else max(floor, job.target)


def _wants(job: ForecastJob, was: KeptCurve | None) -> bool:
    taken = job.progress.taken
    if taken < LEAST_POINTS:
        return False
    return was is None or was.taken > taken or taken - was.taken >= max(taken // FRESH, 1)


def _fit_rows(jobs: Sequence[ForecastJob], old: Sequence[KeptCurve | None], floor: Floats, fits: Fits) -> Fitted:
    """Return the best curve of each job, tried again where it fails."""
    progresses = [job.progress for job in jobs]
    last = np.array([one.iteration for one in progresses], dtype=np.float64)
    best = Fitted(flat(last, np.zeros(len(jobs))), np.full(len(jobs), np.inf), np.zeros(len(jobs), dtype=np.bool_))
    # What is tried: where the search starts, the weights, the window.
    attempts = (
        (_columns(list(old), last), fits.decay, fits.window),
        (_means(old, last), fits.decay, fits.window),
        (None, 1.0, fits.window),
        (None, 1.0, 2 * fits.window),
    )
    for start, decay, window in attempts:
        failed = np.flatnonzero(~best.found)
        for family in Family:
            rows = failed[[jobs[row].family in {None, family} for row in failed.tolist()]]
            if len(rows):
                windows = windows_of([progresses[row] for row in rows], floor[rows], window=window, decay=decay)
                _better(best, rows, fit(windows, family, None if start is None else start.take(rows)))
        if best.found.all():
            break
    return best


def _better(best: Fitted, rows: Ints, other: Fitted) -> None:
    """Take what is found, and better than what there is."""
    better = other.found & (~best.found[rows] | (other.rms < best.rms[rows]))
    best.curves.put(rows[better], other.curves.take(np.flatnonzero(better)))
    best.rms[rows[better]] = other.rms[better]
    best.found[rows[better]] = True


def _columns(kept: Sequence[KeptCurve | None], origin: Floats | None = None) -> Curves:
    """Return curves that were kept as columns; for None a flat one at `origin` [jobs], from which no search starts."""
    count = len(kept)
    curves = flat(np.zeros(count) if origin is None else origin, np.zeros(count))
    for row, one in enumerate(kept):
        if one is not None:
            curves.family[row], curves.origin[row] = one.family, one.origin
            curves.shape[row], curves.asymptote[row] = one.shape, one.asymptote
    return curves


def _means(kept: Sequence[KeptCurve | None], origin: Floats) -> Curves:
    """Return the mean of the curves that each had."""
    means: list[KeptCurve | None] = []
    for one in kept:
        if one is None or not one.count:
            means.append(None)
            continue
        first, second, third, asymptote = (value / one.count for value in one.total)
        means.append(replace(one, origin=0.0, shape=(first, second, third), asymptote=asymptote))
    return _columns(means, origin)


def _keep(curves: Curves, row: int, taken: int, was: KeptCurve | None) -> KeptCurve:
    family = Family(int(curves.family[row]))
    one = curves.take(np.array([row]))
    start = one.moved(np.zeros(1)).shape[0].tolist()
    added = (*start, float(one.asymptote[0]))
    total, count = added, 1
    if was is not None and was.family is family:
        total, count = tuple(old + new for old, new in zip(was.total, added, strict=True)), was.count + 1
    if not all(np.isfinite(value) for value in total):
        # A steep curve has no value at k = 0; it is not counted.
        total, count = (0.0, 0.0, 0.0, 0.0), 0
    first, second, third = one.shape[0].tolist()
    return KeptCurve(
        family=family,
        origin=float(one.origin[0]),
        shape=(first, second, third),
        asymptote=float(one.asymptote[0]),
        taken=taken,
        count=count,
        total=(total[0], total[1], total[2], total[3]),
    )


def _by_ratio(jobs: Sequence[ForecastJob], iteration: Floats, newest: Floats, floor: Floats, *, last: bool) -> Curves:
    """Return curves that come closer to their floor by the mean ratio of all reports, or of the last two."""
    ratio = np.ones(len(jobs))
    for row, job in enumerate(jobs):
        one = job.progress
        if one.taken >= 2:
            back = 2 if last else min(len(one.losses), LEAST_POINTS - 1)
            then, more = one.losses[-back] - floor[row], one.iterations[-1] - one.iterations[-back]
            if then > newest[row] - floor[row] > 0:
                ratio[row] = ((newest[row] - floor[row]) / then) ** (1 / more)
    return geometric(iteration, newest, ratio, floor)


def _towards_targets(
    curves: Curves, jobs: Sequence[ForecastJob], iteration: Floats, newest: Floats, first: Floats
) -> None:
    """Put right what the curves of jobs with a target say."""
    rows = np.array(
        [row for row, job in enumerate(jobs) if job.target is not None and job.progress.taken], dtype=np.int64
    )
    if not len(rows):
        return
    target = np.array([job.target for job in jobs if job.target is not None and job.progress.taken], dtype=np.float64)
    at, now, began = iteration[rows], newest[rows], first[rows]
    lowest = np.array([jobs[row].progress.lowest for row in rows])
    started = np.array([jobs[row].progress.first_iteration for row in rows])
    falls = (began > now) & (now > target) & (at > started)
    ratio = np.ones(len(rows))
    ratio[falls] = ((now - target)[falls] / (began - target)[falls]) ** (1 / (at - started)[falls])
    steady = geometric(at, now, ratio, np.minimum(target, now))
    mine = curves.take(rows)
    ahead = at + AHEAD
    never = mine.asymptote - target > NEAR * np.abs(began - target)
    slower = never & ((mine.above(at) - mine.above(ahead)) < (steady.above(at) - steady.above(ahead)))
    reached = lowest <= target
    curves.put(rows[slower & ~reached], steady.take(np.flatnonzero(slower & ~reached)))
    curves.put(rows[reached], flat(at, now).take(np.flatnonzero(reached)))
