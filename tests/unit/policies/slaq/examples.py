"""Jobs that train, for SLAQ's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tesched_policies.slaq.curves import Curves, Family
from tesched_policies.slaq.forecast import Fits, ForecastJob, Forecasts, KeptCurves, forecast
from tesched_policies.slaq.progress import Progress


def progress(losses: Sequence[float], *, cost_core_s: float = 1.0) -> Progress:
    """Return the history of a job that reported these losses, one an iteration."""
    at = np.arange(1.0, len(losses) + 1)
    return Progress().with_reports(at, np.array(losses, dtype=np.float64), at * cost_core_s)


def training(losses: Sequence[float], family: Family | None = None, *, target: float | None = None) -> ForecastJob:
    """Return a job that reported these losses."""
    return ForecastJob(progress=progress(losses), family=family, target=target)


def expected(*jobs: ForecastJob, fits: Fits | None = None) -> Forecasts:
    """Return what is expected of jobs that were never seen before."""
    found, _ = forecast(dict(enumerate(jobs)), KeptCurves(), fits or Fits())
    return found


def ahead(forecasts: Forecasts, by: float) -> list[float]:
    """Return the losses that are expected so many iterations from now."""
    found: list[float] = forecasts.curves.loss(forecasts.iteration + by).tolist()
    return found


def columns(
    curves: Sequence[tuple[Family, tuple[float, float, float]]],
    *,
    cost_core_s: Sequence[float] | None = None,
    largest_drop: Sequence[float] | None = None,
    known: Sequence[bool] | None = None,
    remaining: Sequence[float] | None = None,
) -> Forecasts:
    """Return forecasts made of curves written from now, with asymptote 0."""
    count = len(curves)
    return Forecasts(
        curves=Curves(
            np.array([family for family, _ in curves], dtype=np.int8),
            np.zeros(count),
            np.array([shape for _, shape in curves], dtype=np.float64).reshape(count, 3),
            np.zeros(count),
        ),
        iteration=np.zeros(count),
        largest_drop=np.array(largest_drop if largest_drop is not None else [1.0] * count),
        remaining=np.array(remaining if remaining is not None else [1.0] * count),
        cost_core_s=np.array(cost_core_s if cost_core_s is not None else [1.0] * count),
        known=np.array(known if known is not None else [True] * count, dtype=np.bool_),
        fresh=np.zeros(count, dtype=np.bool_),
    )
