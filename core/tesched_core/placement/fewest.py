"""Fewest of a node's jobs that free enough together, where taking the cheapest first takes more.

With 6 CPUs wanted and jobs of 2, 2, 4 and 4 CPUs, the cheapest first, the first three would go, and none of them could
be given back; the last two are enough.
"""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand

#: sets that are compared at most on one node, and jobs of a set; above that the cheapest first is good enough
MOST_SETS, MOST_JOBS = 5000, 6
#: more victims than there are: on that node no set is enough
NEVER = 2**31


def fewest_that_free(
    wanted: NDArray[np.int64], frees: NDArray[np.int64], score: NDArray[np.float64], *, less_than: int
) -> tuple[int, ...]:
    """Return the fewest rows that free what is wanted, the lowest sum of scores first; empty if no two or more do.

    `wanted` is what is missing now, [resources]; `frees` is what each job frees, [jobs, resources], in the order in
    which they are notified. Sets of `less_than` jobs and more are not tried, nor single jobs, found without this.
    """
    missing = wanted > 0
    if less_than <= 2 or not missing.any():
        return ()
    deficit = wanted[missing]
    useful = np.minimum(frees[:, missing], deficit)
    sizes = range(max(_least(useful, deficit), 2), min(less_than, MOST_JOBS + 1))
    if not sizes:
        return ()
    rows = _worth_trying(useful, score, sizes[-1])
    for size in sizes:
        if comb(len(rows), size) > MOST_SETS:
            break
        sets = np.fromiter(chain.from_iterable(combinations(rows, size)), dtype=np.intp).reshape(-1, size)
        enough = np.flatnonzero(np.all(useful[sets].sum(axis=1) >= deficit, axis=1))
        if len(enough):
            best = enough[np.argmin(score[sets[enough]].sum(axis=1))]
            return tuple(int(row) for row in sets[best])
    return ()


def least_of_all(demand: Demand, running: Running, pool: NDArray[np.bool_], capacity: Capacity) -> int:
    """Return a number of victims below which no set of them is enough, in whatever order they are taken.

    On each node so many of the largest, of each resource alone, as reach what is missing; and as a victim may run on
    all nodes of the job, the most of any one of these. 0 where its tasks may be spread in other ways.
    """
    return 0 if demand.uneven else fewest_of(demand, least_on(demand, running, pool, capacity))


def fewest_of(demand: Demand, least: NDArray[np.int64]) -> int:
    """Return that number by the `least` of each node, for a job whose tasks are spread in one way."""
    if demand.nodes > len(least):
        return NEVER
    of_required = int(least[list(demand.required)].max(initial=0))
    return max(of_required, int(least.min() if demand.nodes == 1 else np.sort(least)[demand.nodes - 1]))


def least_on(  # noqa: PLR0917 - what a search is given
    demand: Demand,
    running: Running,
    pool: NDArray[np.bool_],
    capacity: Capacity,
    nodes: NDArray[np.intp] | None = None,
    shares: NDArray[np.intp] | None = None,
) -> NDArray[np.int64]:
    """Return [nodes] a number of victims below which no set of them is enough there; more than there are elsewhere.

    Of all nodes, or of the rows `nodes`; `shares` are rows of shares, among which are all that are there.
    """
    some = np.arange(len(capacity.free)) if nodes is None else nodes
    here = demand.allowed[some]
    missing = demand.takes[some] - capacity.free[some]
    place = np.full(len(capacity.free), -1, dtype=np.intp)
    place[some[here]] = np.flatnonzero(here)
    shares = np.arange(len(running.share_node)) if shares is None else shares
    shares = shares[(place[running.share_node[shares]] >= 0) & pool[running.share_job[shares]]]
    where, frees_of_each = place[running.share_node[shares]], running.frees[shares]
    least = np.where(here, 0, NEVER)
    for resource in np.flatnonzero((missing[here] > 0).any(axis=0)).tolist():
        order = np.lexsort((-frees_of_each[:, resource], where))
        frees, there = frees_of_each[order, resource], where[order]
        reached = np.cumsum(frees)
        first = np.flatnonzero(np.r_[True, np.diff(there) > 0][: len(there)])
        reached -= np.repeat(reached[first] - frees[first], np.diff(np.r_[first, len(there)]))
        lacks = missing[:, resource]
        too_few = np.bincount(there[reached < lacks[there]], minlength=len(least))
        all_of_them = np.bincount(there, minlength=len(least))
        needed = np.where(too_few == all_of_them, NEVER, too_few + 1)
        least = np.maximum(least, np.where(lacks > 0, needed, 0))
    return least


def _least(useful: NDArray[np.int64], deficit: NDArray[np.int64]) -> int:
    """Return the number of jobs below which not even the largest free enough of each resource."""
    sums = np.cumsum(np.sort(useful, axis=0)[::-1], axis=0)
    short = (sums < deficit).sum(axis=0)
    return int(short.max(initial=0)) + 1


def _worth_trying(useful: NDArray[np.int64], score: NDArray[np.float64], size: int) -> list[int]:
    """Return the rows without those in whose place another one could always go: cheaper, and it frees no less.

    A set of `size` may hold as many of these others, so one row is left out only where there are `size` of them.
    """
    order = np.argsort(score, kind="stable")
    kept: list[int] = []
    for row in order.tolist():
        if not useful[row].any():
            continue
        better = (useful[kept] >= useful[row]).all(axis=1).sum() if kept else 0
        if better < size:
            kept.append(row)
    return sorted(kept)
