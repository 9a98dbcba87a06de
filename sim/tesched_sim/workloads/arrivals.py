"""Arrival times of jobs: submissions that are independent of each other, as those of many users are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def poisson_arrivals(rng: np.random.Generator, count: int, span_s: float) -> NDArray[np.float64]:
    """Return `count` times between 0 and `span_s` seconds, ascending, as a Poisson process has them.

    Given how many fall into a span, the arrivals of such a process are independent uniform draws over it. Made in this
    way, the number of jobs and the offered load over the span are met exactly, and not only on average.

    Source: any textbook on stochastic processes, under order statistics of arrival times (Ross, Introduction to
    Probability Models, chapter 5).
    """
    return np.sort(rng.uniform(0, span_s, count))
