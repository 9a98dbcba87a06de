"""Gavel's rounds: how fractions of time become jobs on accelerators, round by round.

Definitions
    X_mj    the allocation: the fraction of the time that job m should spend on type j, from 0 to 1.
    t_mj    received: seconds that m has spent on j since the allocation was made, plus half a round to begin with.
    tau_j   given: the sum over jobs of what j has given since then, seconds.
    f_mj    t_mj / tau_j, the part of the type's time that went to m; without unit.
    d_mj    deficit: what m should have had of j and did not get over all earlier allocations, seconds.
    round   the time for which nothing moves; the authors' is 360 s.

Principle
    A job's priority on a type is X_mj / f_mj: the further behind it is, the higher. Each round, one type after the
    other takes jobs by falling priority, then deficit, then fraction, then age, as long as they fit; a job is taken
    once. Accelerators to which none is entitled go to any job that fits: none is left idle for the plan.
    A job on the same type as in the round before keeps its accelerators and renews its lease; any other that
    ran checkpoints and stops.

Worked example
    One GPU of each of two types, two jobs of one GPU. X = [[0.75, 0.25], [0.25, 0.5]]; nothing was received, so t = 180
    for all and tau = [360, 360], f = 1/2. Priorities are [[1.5, 0.5], [0.5, 1]]: job 0 has the first type, job 1 the
    second. A round of 360 s later t = [[540, 180], [180, 540]] and tau = [720, 720]: priorities are now
    [[1, 1], [1, 2/3]]. On the first type both are equal, and equal in deficit; job 0 has the larger fraction there and
    stays.

Parameters
    none. The length of a round is the caller's, as is the order in which types choose: the authors take the fastest
    first for heterogeneity-aware policies, and a shuffled order for the others.

Source
    Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: "Heterogeneity-Aware Cluster Scheduling Policies for Deep
    Learning Workloads", OSDI 2020, section 5 (Algorithm 1). Where the paper leaves a choice open it is as in the
    authors' simulator: the half round to begin with, deficits, ties and accelerators to which none is entitled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Stands for X / 0: a job that has received nothing comes first, by fraction.
_NOTHING_YET = 1e9
#: of `assign`: not on any type in this round
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a round for the jobs, each a (M,) mask."""

    #: on the same type as before: the lease is renewed
    renewed: NDArray[np.bool_]
    #: on a type on which it was not: it starts there, from its checkpoint if it has one
    started: NDArray[np.bool_]
    #: was on a type and is no longer on it: it checkpoints
    stopped: NDArray[np.bool_]


def priorities(
    share: NDArray[np.float64],
    received_s: NDArray[np.float64],
    given_s: NDArray[np.float64],
    throughput: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return X / f, (M, T), without unit: 0 where a job has no fraction, or does not run at all.

    `share` is X; `received_s` is t and `throughput` is steps/s, all (M, T); `given_s` is tau, (T,).
    Source: OSDI 2020, section 5.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = share / (received_s / given_s)
    started = (received_s > 0) & (given_s > 0)
    found = np.where(started, ratio, share * _NOTHING_YET)
    found[(share <= 0) | (throughput <= 0)] = 0.0
    return found


def deficits(
    deficit_s: NDArray[np.float64], share: NDArray[np.float64], received_s: NDArray[np.float64], elapsed_s: float
) -> NDArray[np.float64]:
    """Deficit of each job, (M, T) seconds, when an allocation has ended after `elapsed_s`.

    `received_s` is what each got under that allocation, without the half round to begin with. Negative: it is ahead.
    """
    return deficit_s + (share * elapsed_s - received_s)


def assign(
    types: Sequence[int],
    priority: NDArray[np.float64],
    deficit_s: NDArray[np.float64],
    share: NDArray[np.float64],
    *,
    throughput: NDArray[np.float64],
    scale_factor: NDArray[np.int64],
    capacity: NDArray[np.int64],
    entitled_only: bool = False,
) -> NDArray[np.intp]:
    """Return each job's type in this round, (M,), NOWHERE for those that wait.

    `types` is the order in which types choose. `priority`, `deficit_s`, `share` and `throughput` are (M, T), the jobs
    in their order of arrival, which decides among equals. `scale_factor`, (M,), is the accelerators that a job takes
    at once; `capacity`, (T,), those that there are. With `entitled_only` none of priority 0 is taken.
    """
    found = np.full(len(priority), NOWHERE, dtype=np.intp)
    for kind in types:
        mine = priority[:, kind]
        may = (throughput[:, kind] > 0) & (found == NOWHERE)
        if entitled_only:
            may &= mine > 0
        rows = np.flatnonzero(may)
        if int(scale_factor[rows].sum()) <= capacity[kind]:
            found[rows] = kind  # all of them fit, in any order
            continue
        order = rows[np.lexsort((-share[rows, kind], -deficit_s[rows, kind], -mine[rows]))]
        found[order[_fitting(scale_factor[order], int(capacity[kind]))]] = kind
    return found


def fastest_first(throughput: NDArray[np.float64]) -> list[int]:
    """Types by how fast jobs are on them, the fastest first; of equals the one that is named first.

    `throughput` is steps/s, (M, T), 0 where a job does not run. How fast a type is: the mean, over jobs that run there,
    of their speed beside that on their fastest type.
    """
    most = throughput.max(axis=1, keepdims=True, initial=0.0)
    beside = np.divide(throughput, most, out=np.zeros_like(throughput), where=most > 0)
    jobs = np.maximum((throughput > 0).sum(axis=0), 1)
    order: list[int] = np.argsort(-np.round(beside.sum(axis=0) / jobs, 9), kind="stable").tolist()
    return order


def _fitting(sizes: NDArray[np.int64], free: int) -> list[int]:
    """Places of those that fit into `free`, each taking its size of it, in order; too large ones are passed."""
    ends = np.cumsum(sizes)
    # As far as all fit; from there on only those that are small enough.
    first = int(np.searchsorted(ends, free, side="right"))
    taken = list(range(first))
    left = free - int(ends[first - 1]) if first else free
    if left:
        for place in np.flatnonzero(sizes[first:] <= left).tolist():
            size = int(sizes[first + place])
            if size <= left:
                taken.append(first + place)
                left -= size
                if not left:
                    break
    return taken


def changes(before: NDArray[np.intp], after: NDArray[np.intp]) -> Changes:
    """Changes of leases between two rounds' types, each (M,): those renewed, started and stopped."""
    same = before == after
    return Changes(
        renewed=same & (after != NOWHERE), started=~same & (after != NOWHERE), stopped=~same & (before != NOWHERE)
    )
