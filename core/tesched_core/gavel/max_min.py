"""The linear program that most of Gavel's policies are: everybody gets the same multiple, as great as can be.

Program
    maximise level  where  throughput(m, x) >= floor_m + level need_m  for each job m that counts, and x keeps to the
    constraints (constraints.py).

Every job's row is divided by its greatest speed, and the level is counted in units of 1 / (the greatest part of its
speed that some job needs), so that HiGHS's absolute tolerances mean the same for steps of any length.
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
    """The greatest level."""

    #: The least of (throughput(m, x) - floor_m) / need_m over the jobs with a need.
    level: float
    #: The columns' values, (n,).
    z: NDArray[np.float64]
    #: Price of each counted job's throughput, at least 0: sum(price need) = 1, and no x has
    #: sum(price (throughput - floor)) above `level`. Above 0: the job is at its floor + level need in every optimum.
    price: NDArray[np.float64]


def highest(
    space: Combinations, counted: NDArray[np.int64], need: NDArray[np.float64], floor: NDArray[np.float64] | None = None
) -> Level:
    """Return the optimum for the counted jobs, of which one at least has a need above 0.

    Args:
        space: The columns.
        counted: Rows of jobs that have columns, (C,).
        need: Steps per second per level, (C,), at least 0, in the order of `counted`.
        floor: Steps per second that they have in any case, (C,); it must be feasible. Default: 0.

    Raises:
        UnsolvedError: HiGHS found no optimum.
    """
    floor = np.zeros(len(counted)) if floor is None else floor
    speed = space.throughput.tocsr()[counted]
    fastest = space.fastest()[counted]
    part = need / fastest
    unit = part.max()
    rows = sparse.vstack([-sparse.diags_array(1 / fastest) @ speed, space.limits.tocsr()], format="csr")
    level = np.concatenate((part / unit, np.zeros(len(space.bounds))))
    found = maximise(
        Program(
            gain=np.concatenate((np.zeros(rows.shape[1]), [1.0])),
            rows=sparse.hstack([rows, level[:, None]], format="csc"),
            bounds=np.concatenate((-floor / fastest, space.bounds)),
        )
    )
    z = space.feasible(found.z[:-1])
    needy = need > 0
    return Level(
        level=float(((space.speeds(z)[counted] - floor)[needy] / need[needy]).min()),
        z=z,
        price=found.worth[: len(counted)] / fastest / unit,
    )
