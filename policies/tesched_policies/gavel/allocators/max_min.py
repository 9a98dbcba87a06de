"""The linear program that most of Gavel's policies are: every job gets the same multiple, as great as can be.

Program
    maximise level  where  throughput(m, x) >= floor_m + level need_m  for each job m that counts, and x keeps to the
    constraints (constraints.py).

Jobs that are alike are one (merge_identical.py). Every row is divided by the greatest speed, and the level is counted
in units of 1 / (the greatest part of its speed that some job needs), so that HiGHS's absolute tolerances mean the same
for steps of any length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tesched_policies.gavel.allocators.constraints import Combinations
from tesched_policies.gavel.allocators.lp import OUT_OF_RANGE, LinearProgram, UnsolvedError, maximise
from tesched_policies.gavel.allocators.merge_identical import merge


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
    space: Combinations,
    counted: NDArray[np.int64],
    need: NDArray[np.float64],
    *,
    floor: NDArray[np.float64] | None = None,
    near: NDArray[np.float64] | None = None,
) -> Level:
    """Return the optimum for the counted jobs, of which one at least has a need above 0.

    Args:
        space: The columns.
        counted: Rows of jobs that have columns, (C,).
        need: Steps per second per level, (C,), at least 0, in the order of `counted`.
        floor: Steps per second that they have in any case, (C,). Default: 0.
        near: Columns' values that reach the floor, (n,), to begin the search with; needed if there is a floor.

    Raises:
        UnsolvedError: HiGHS found no optimum.
    """
    floor = np.zeros(len(counted)) if floor is None else floor
    traits = np.zeros((space.jobs, 3))
    traits[counted] = np.column_stack((np.ones(len(counted)), need, floor))
    kinds = merge(space, traits)
    size = kinds.members.sum(axis=1)
    asked = np.flatnonzero(traits[kinds.job, 0] > 0)
    # Rows of the kinds that count: the sums over their jobs, as parts of what they could have at their fastest.
    most = space.fastest()[kinds.job[asked]] * size[asked]
    part = (traits[kinds.job, 1] * size)[asked] / most
    unit = part.max()
    throughput = sparse.diags_array(1 / most) @ (kinds.members @ space.throughput[:, kinds.lead])[asked]
    limits = space.limits[:, kinds.lead]
    start = kinds.lead < space.singles
    if near is not None:
        start |= np.bincount(kinds.kind, near, minlength=len(start)) > 0
    time, used = kinds.members @ limits[: space.jobs], limits[space.jobs :]
    level = np.concatenate((part / unit, np.zeros(time.shape[0] + space.types)))
    found = maximise(
        LinearProgram(
            gain=np.append(np.zeros(len(kinds.lead)), 1.0),
            rows=sparse.hstack([sparse.vstack([-throughput, time, used]), level[:, None]], format="csc"),
            bounds=np.concatenate((-(traits[kinds.job, 2] * size)[asked] / most, size, space.bounds[space.jobs :])),
            start=np.append(start, True),
        )
    )
    z = space.feasible(kinds.split(found.z[:-1]))
    needy = need > 0
    reached = float(((space.speeds(z)[counted] - floor)[needy] / need[needy]).min())
    if not reached > 0 and not floor.any():
        # Every job can have a share of a type on which it fits; only rounding can leave nothing.
        raise UnsolvedError(OUT_OF_RANGE)
    price = np.zeros(len(size))
    price[asked] = found.worth[: len(asked)] / most / unit
    return Level(level=reached, z=z, price=np.asarray(kinds.members.T @ price)[counted])
