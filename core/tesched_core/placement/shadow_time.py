"""When and where a job that does not fit now will start, if every job leaves its nodes when expected (EASY).

Source: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995. Rows are nodes; times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.columns import Ends


@dataclass(frozen=True, slots=True, eq=False)
class Shadow:
    """Time and place where a job will start."""

    #: inf: not known, and `nodes` are all on which it fits when they are empty; without any it never starts
    at: float
    #: it cannot start before; where its start is known, that; -inf: without any nodes
    not_before: float
    nodes: NDArray[np.intp]
    #: [nodes, resources] what will be free then on each of `nodes`; what is taken of it is taken off here
    free: NDArray[np.int64]
    #: [resources], or [nodes, resources], what the job wants on each of them
    wants: NDArray[np.int64]

    def is_met_by(self, ends_at: float) -> bool:
        """Check whether a job that starts now, and ends at that time, may still be there when this one would start."""
        return not ends_at <= self.not_before

    def spared(self, count: int, other: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each of `count` nodes whether a job that wants `other` [resources], and stays, delays no other."""
        spared = np.ones(count, dtype=np.bool_)
        spared[self.nodes] = (self.free - other >= self.wants).all(axis=1)
        return spared

    def take(self, nodes: tuple[int, ...], other: NDArray[np.int64]) -> None:
        """Let a job that outlasts the shadow start on these nodes."""
        self.free[np.isin(self.nodes, nodes)] -= other


def shadow_of(
    wants: NDArray[np.int64],
    count: int,
    allowed: NDArray[np.bool_],
    free: NDArray[np.int64],
    *,
    ends: Ends,
    now: float,
    total: NDArray[np.int64] | None = None,
) -> Shadow:
    """Time and nodes of the start of a job that wants so much on `count` of the `allowed` nodes.

    `wants` is [resources], or [nodes, resources]; `free` and `total` [nodes, resources] are what is free now, and what
    there is: with that, a job whose start is not known keeps the nodes on which it can start. A job that should have
    left by now is expected to leave now.
    """
    return EndsInTurn(ends, free, now).shadow(wants, count, allowed, total)


class EndsInTurn:
    """What will be free on each node, and when: for the shadows of many jobs."""

    def __init__(self, ends: Ends, free: NDArray[np.int64], now: float) -> None:
        """Say when resources will be free beside those that are now, [nodes, resources]; see `shadow_of`."""
        order = np.lexsort((ends.at, ends.node))
        self.now, self.free = now, free
        self.where, self.at, self.frees = ends.node[order], np.maximum(ends.at[order], now), ends.frees[order]
        where = self.where
        first = np.r_[0, np.flatnonzero(np.diff(where)) + 1] if len(where) else np.zeros(0, dtype=np.intp)
        lengths = np.diff(np.r_[first, len(where)])
        after = np.cumsum(self.frees, axis=0)
        after -= np.repeat(after[first] - self.frees[first], lengths, axis=0)
        #: [ends, resources] free on the node after each end
        self.after: NDArray[np.int64] = after + free[where]

    def shadow(
        self,
        wants: NDArray[np.int64],
        count: int,
        allowed: NDArray[np.bool_],
        total: NDArray[np.int64] | None = None,
    ) -> Shadow:
        """Return the shadow of such a job; see `shadow_of`."""
        free, where = self.free, self.where
        each = np.broadcast_to(wants, free.shape)
        enough = np.flatnonzero((self.after >= (wants if wants.ndim == 1 else each[where])).all(axis=1))[::-1]
        when = np.full(len(free), inf)
        when[where[enough]] = self.at[enough]  # the earliest comes last and stays
        when[(free >= each).all(axis=1)] = self.now
        when[~allowed] = inf
        nodes = np.argsort(when, kind="stable")[:count]
        starts_at = float(when[nodes[-1]]) if len(nodes) == count else inf
        if starts_at == inf:
            nodes = nodes[:0] if total is None else np.flatnonzero((total >= each).all(axis=1) & allowed)
            nodes = nodes if len(nodes) >= count else nodes[:0]
            not_before, then = self._not_before(when[nodes], count), free if total is None else total
            return Shadow(inf, not_before, nodes, then[nodes].copy(), each[nodes])
        then = free[nodes].copy()
        for place, node in enumerate(nodes.tolist()):
            here = slice(*np.searchsorted(where, (node, node + 1)).tolist())
            then[place] += self.frees[here][self.at[here] <= starts_at].sum(axis=0)
        return Shadow(starts_at, starts_at, nodes, then, each[nodes])

    def _not_before(self, when: NDArray[np.float64], count: int) -> float:
        """Return a time before which `count` nodes cannot be free together: one that is not known may be free now."""
        known = np.sort(when[np.isfinite(when)])
        needed = count - (len(when) - len(known))
        if not len(when):
            return -inf
        return float(known[needed - 1]) if needed > 0 else self.now
