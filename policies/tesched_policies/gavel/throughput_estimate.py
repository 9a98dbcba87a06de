"""Speeds that were not measured, estimated from those that were.

Definitions
    T_mj     speed of job m on type j, steps/s; NaN where it is not known.

Principle
    log T_mj = a_m + b_j: a job is so fast, a type is so fast, and the two multiply (a matrix of rank 1). a and b are
    the least-squares fit to what is known, found by turns. A measured speed stays as it is. A job of which nothing is
    known goes at the types' own pace; a type of which nothing is known at the pace of the average type. A speed that
    is no number, or below zero, counts as unknown; 0 is known: it does not run there.

Worked example
    Job 0 does 8 and 2 steps/s, job 1 does 4 on the first type. The first type is 4 times as fast as the second, so job
    1 is believed to do 1 on the second.

Parameters
    none

Source
    The paper completes the matrix of co-located speeds by factorisation (Narayanan et al., OSDI 2020, section 4.2 on
    the throughput estimator). One factor is what a cluster's few types and sparse reports can carry; space sharing,
    which needs more, forms no pair of which nothing was measured (pairs.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Turns of the fit; with few gaps it has settled after two or three.
_TURNS = 20


def filled(speed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the speeds, [jobs, types] in steps/s, with an estimate in the place of each that is not known."""
    known = np.isfinite(speed) & (speed >= 0)
    counted = known & (speed > 0)
    logs = np.where(counted, np.log(np.where(counted, speed, 1.0)), 0.0)
    job, kind = np.zeros(len(speed)), np.zeros(speed.shape[1])
    for _ in range(_TURNS):
        job = _mean(logs - kind, counted, axis=1)
        kind = _mean(logs - job[:, None], counted, axis=0)
    found: NDArray[np.float64] = np.where(known, speed, np.exp(job[:, None] + kind))
    return found


def _mean(values: NDArray[np.float64], counted: NDArray[np.bool_], axis: int) -> NDArray[np.float64]:
    count = counted.sum(axis=axis)
    means: NDArray[np.float64] = np.where(counted, values, 0.0).sum(axis=axis) / np.maximum(count, 1)
    # An unknown one is like the average of the others.
    return np.where(count > 0, means, means[count > 0].mean() if (count > 0).any() else 0.0)
