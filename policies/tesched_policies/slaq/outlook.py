"""Outlook of a training's loss, from the losses that it reported: to be shown to people.

Definitions
    outlook            the curve that SLAQ fits to a training's losses, and what follows from it.
    normalised loss    the loss above what the curve goes towards, as a part of the first loss above it: 1 at first, 0
                       when there is nothing more to gain.
    distance           iterations between two reports, the median of the newest ones.

Principle
    A reported curve is turned into a history as the policy has it (`progress.py`): iterations count from its first
    one, which is 1, since a fit does not hang on where they begin. The prediction is that of `forecast`, with nothing
    kept from before; it is made for `AHEAD` reports ahead, so AHEAD iterations for a job that reports each.

Worked example
    Losses 1/k + 2 at iterations 100, 101, ... 149: the curve ends at 2. The normalised loss is (1/50) / 1 = 0.02, and
    the loss at iteration 159 will be 1/60 + 2 = 2.017.

Parameters
    none.

Source
    SLAQ (docs/discussion/slaq.md), sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from tesched_core.model.job_report import Curve

from tesched_policies.slaq.curves import Curves, Family, Floats
from tesched_policies.slaq.forecast import LEAST_POINTS, ForecastJob, KeptCurves, forecast
from tesched_policies.slaq.progress import Progress

Name = TypeVar("Name")

#: Reports ahead for which a loss is predicted.
AHEAD = 10
#: Newest reports that count for the distance.
_NEWEST = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outlook:
    """Outlook of one training."""

    #: the newest one reported, and its loss
    iteration: int
    loss: float
    #: in 0..1 (see the head of this file)
    normalised: float
    #: `AHEAD` reports from now, and the loss then
    ahead: int
    predicted: float
    #: what the loss goes towards
    asymptote: float
    #: "sublinear" or "linear" (`curves.py`); empty: too few losses for a fit, or none succeeded, and the mean ratio of
    #: the losses so far goes on
    family: str
    _curve: Curves
    #: what is added to an iteration to get the curve's own
    _shift: float

    def at(self, iterations: Floats) -> Floats:
        """Return the fitted or expected loss at these iterations [any]."""
        losses: Floats = self._curve.loss(iterations[None, :] + self._shift)[0]
        return losses


def progress_of(curve: Curve) -> Progress:
    """History of a reported curve, without costs; its first iteration is 1."""
    if not len(curve):
        return Progress()
    iterations = (curve.iteration - curve.iteration[0] + 1).astype(np.float64)
    return Progress().with_reports(iterations, curve.loss, np.zeros(len(curve)))


def outlooks(reported: Mapping[Name, tuple[Curve, float | None]]) -> dict[Name, Outlook]:
    """Outlook of each training that reported a loss; `reported` is its curve and a target loss, or None."""
    known = {name: one for name, one in reported.items() if len(one[0])}
    names = list(known)
    trainings = {
        row: ForecastJob(progress=progress_of(curve), target=goal) for row, (curve, goal) in enumerate(known.values())
    }
    if not trainings:
        return {}
    expected, _ = forecast(trainings, KeptCurves())
    found: dict[Name, Outlook] = {}
    for row, name in enumerate(names):
        curve = known[name][0]
        newest, first = int(curve.iteration[-1]), int(curve.iteration[0])
        gaps = np.diff(curve.iteration[-_NEWEST:])
        ahead = newest + AHEAD * max(round(float(np.median(gaps))) if len(gaps) else 1, 1)
        one = expected.curves.take(np.array([row]))
        shift = 1.0 - first
        then = float(one.loss(np.array([ahead + shift]))[0])
        fitted = bool(expected.fresh[row]) and len(curve) >= LEAST_POINTS
        found[name] = Outlook(
            iteration=newest,
            loss=float(curve.loss[-1]),
            normalised=float(expected.remaining[row]),
            ahead=ahead,
            predicted=then,
            asymptote=float(one.asymptote[0]),
            family=Family(int(one.family[0])).name.lower() if fitted else "",
            _curve=one,
            _shift=shift,
        )
    return found
