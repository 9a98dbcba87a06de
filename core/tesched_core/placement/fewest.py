"""Fewest of a node's jobs that free enough together, where taking the cheapest first takes more.

With 6 CPUs wanted and jobs of 2, 2, 4 and 4 CPUs, the cheapest first, the first three would go, and none of them could
be given back; the last two are enough.
"""

from __future__ import annotations

from itertools import chain, combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

#: sets that are compared at most on one node, and jobs of a set; above that the cheapest first is good enough
MOST_SETS, MOST_JOBS = 5000, 6


def fewest_that_free(
    wanted: NDArray[np.int64], frees: NDArray[np.int64], score: NDArray[np.float64], *, less_than: int
) -> tuple[int, ...]:
    """Return the fewest rows that free what is wanted, the lowest sum of scores first; empty if no two or more do.

    `wanted` is what is missing now, [resources]; `frees` is what each job frees, [jobs, resources], in the order in
    which they are asked. Sets of `less_than` jobs and more are not tried, nor single jobs, found without this.
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
