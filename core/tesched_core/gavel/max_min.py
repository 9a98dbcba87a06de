"""The linear program that most of Gavel's policies are: maximise the least scaled throughput.

Program
    maximise t  where  t <= scale_m throughput(m, x)  for each job m that counts, and x keeps to the constraints
    (constraints.py).

Every job's row is divided by its greatest speed and t is counted in units in which 1 is the most that the job with the
smallest scale could have, so that HiGHS's absolute tolerances mean the same for steps of any length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tesched_core.gavel.constraints import Combinations
from tesched_core.gavel.lp import Program, maximise


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The greatest least scaled throughput."""

    #: The least of scale_m throughput(m, x) over the jobs that count.
    level: float
    #: The columns' values, (n,).
    z: NDArray[np.float64]
    #: Price of each counted job's row: no x has sum(price_m scale_m throughput(m, x)) above `level`; they sum to 1.
    price: NDArray[np.float64]


def highest(space: Combinations, counted: NDArray[np.int64], scale: NDArray[np.float64]) -> Level:
    """Return the optimum for the counted jobs (at least one), whose scales are given in the same order, all above 0.

    Raises:
        UnsolvedError: HiGHS found no optimum.
    """
    speed = space.throughput.tocsr()[counted]
    fastest = speed.max(axis=1).toarray().ravel()
    most = 1 / (scale * fastest)
    unit = most.max()
    rows = sparse.vstack([-sparse.diags_array(1 / fastest) @ speed, space.limits.tocsr()], format="csr")
    level = np.concatenate((most / unit, np.zeros(len(space.bounds))))
    program = Program(
        gain=np.concatenate((np.zeros(rows.shape[1]), [1.0])),
        rows=sparse.hstack([rows, level[:, None]], format="csc"),
        bounds=np.concatenate((np.zeros(len(counted)), space.bounds)),
    )
    found = maximise(program)
    z = space.feasible(found.z[:-1])
    price = found.worth[: len(counted)] * most / unit
    return Level(level=float((scale * space.speeds(z)[counted]).min()), z=z, price=price / price.sum())
