"""A what-if: free resources after some victims went. Private to one search; the snapshot's stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.columns import Running
from tesched_core.model.room import Room
from tesched_core.placement.demand import Demand
from tesched_core.placement.fewest import fewest_that_free

#: Nodes that are weighed one by one for a job for which several victims must go; more cost time and gain nothing.
MOST_WEIGHED = 200


class WhatIf:
    """The jobs of `pool` that go for one job. Jobs are rows of `Running`, nodes are their rows."""

    def __init__(
        self,
        demand: Demand,
        running: Running,
        pool: NDArray[np.bool_],
        score: NDArray[np.float64],
        room: Room,
    ) -> None:
        """Begin with the free resources as they are; no job has gone."""
        self.demand = demand
        self.running = running
        self.score = score
        self.free = room.free.copy()
        #: jobs that may still be victims
        self.pool = pool.copy()
        self._gone: set[int] = set()

    def key(self, row: int) -> tuple[float, int]:
        """Return the place of a job in the order in which candidates are notified."""
        return float(self.score[row]), int(self.running.job_id[row])

    def pool_in_order(self) -> list[int]:
        """Return the jobs that may be victims, in that order."""
        rows = np.flatnonzero(self.pool)
        in_order = rows[np.lexsort((self.running.job_id[rows], self.score[rows]))]
        return [int(row) for row in in_order]

    def taken(self) -> tuple[int, ...]:
        """Return the jobs that have gone, in the order in which they were to be notified."""
        return tuple(sorted(self._gone, key=self.key))

    def nodes_of(self, row: int) -> list[int]:
        """Return the nodes of a job."""
        return [int(node) for node in self.running.share_node[self.running.shares_of(row)]]

    def take(self, row: int) -> None:
        """Let a job go."""
        self._change(row, +1)
        self.pool[row] = False
        self._gone.add(row)

    def give_back(self, row: int) -> None:
        """Let it stay after all."""
        self._change(row, -1)
        self.pool[row] = True
        self._gone.remove(row)

    def _change(self, row: int, sign: int) -> None:
        shares = self.running.shares_of(row)
        np.add.at(self.free, self.running.share_node[shares], sign * self.running.frees[shares])

    def fits(self, nodes: Sequence[int] | NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return for each of these nodes whether the job's share fits."""
        where = np.asarray(nodes, dtype=np.intp)
        return self.demand.fits_into(self.free[where], where) & self.demand.allowed[where]

    def rows_for_all(self, first: Sequence[int]) -> tuple[int, ...] | None:
        """Return nodes for the whole job, required ones and those of `first` before others; None if it does not fit."""
        fitting = self.fits(np.arange(len(self.free), dtype=np.intp))
        if not fitting[list(self.demand.required)].all():
            return None
        others = np.flatnonzero(fitting).tolist()
        rows = dict.fromkeys([*self.demand.required, *(row for row in first if fitting[row]), *others])
        return tuple(sorted(list(rows)[: self.demand.nodes])) if len(rows) >= self.demand.nodes else None

    def minimise(self, nodes: Sequence[int], among: Iterable[int]) -> None:
        """Give back, dearest first, each that is not needed for the job to fit on all of `nodes`."""
        for row in sorted(among, key=self.key, reverse=True):
            self.give_back(row)
            if not self.fits(nodes).all():
                self.take(row)

    def at_most_one(self, nodes: NDArray[np.intp]) -> dict[int, tuple[int, ...]]:
        """Return for each of these nodes on which no job, or one more, must go: none, or the cheapest such job.

        A node on which more must go is left out.
        """
        found: dict[int, tuple[int, ...]] = {}
        fits = self.fits(nodes)
        for node in nodes[fits].tolist():
            found[node] = ()
        running = self.running
        there = np.zeros(len(self.free), dtype=np.bool_)
        there[nodes[~fits]] = True
        shares = np.flatnonzero(there[running.share_node] & self.pool[running.share_job])
        where = running.share_node[shares]
        enough = self.demand.fits_into(self.free[where] + running.frees[shares], where)
        shares = shares[enough & self.demand.allowed[where]]
        jobs = running.share_job[shares]
        # The cheapest comes last, so that it stays.
        order = np.lexsort((running.job_id[jobs], self.score[jobs]))[::-1]
        for node, job in zip(running.share_node[shares[order]].tolist(), jobs[order].tolist(), strict=True):
            found[node] = (job,)
        return found

    def promising(self, nodes: set[int]) -> list[int]:
        """Return those of these nodes on which the job would fit if cheap ones went, at most `MOST_WEIGHED` of them.

        They are compared by the jobs that would go if none were given back: how many, then their scores.
        """
        running = self.running
        there = np.zeros(len(self.free), dtype=np.bool_)
        there[list(nodes)] = True
        shares = np.flatnonzero(there[running.share_node] & self.pool[running.share_job])
        jobs = running.share_job[shares]
        order = np.lexsort((running.job_id[jobs], self.score[jobs], running.share_node[shares]))
        shares, jobs = shares[order], jobs[order]
        where = running.share_node[shares]
        if not len(shares):
            return []
        first = np.r_[0, np.flatnonzero(np.diff(where)) + 1]
        lengths = np.diff(np.r_[first, len(where)])
        freed, paid = np.cumsum(running.frees[shares], axis=0), np.cumsum(self.score[jobs])
        freed -= np.repeat(freed[first] - running.frees[shares][first], lengths, axis=0)
        paid -= np.repeat(paid[first] - self.score[jobs][first], lengths)
        fits = self.demand.fits_into(self.free[where] + freed, where) & self.demand.allowed[where]
        places = np.flatnonzero(fits)
        _, earliest = np.unique(where[places], return_index=True)
        places = places[earliest]
        count = places - np.repeat(first, lengths)[places]
        best = np.lexsort((where[places], paid[places], count))[:MOST_WEIGHED]
        return sorted(where[places[best]].tolist())

    def several(self, node: int) -> tuple[int, ...] | None:
        """Jobs that must go for this one to fit on the node: cheap ones first, none of them superfluous.

        Where fewer are enough, those.
        """
        if self.fits([node])[0]:
            return ()
        running = self.running
        shares = np.flatnonzero((running.share_node == node) & self.pool[running.share_job])
        jobs = running.share_job[shares]
        in_order = np.lexsort((running.job_id[jobs], self.score[jobs]))
        shares, jobs = shares[in_order], jobs[in_order]
        after = self.free[node] + np.cumsum(running.frees[shares], axis=0)
        here = np.full(len(after), node, dtype=np.intp)
        enough = np.flatnonzero(self.demand.fits_into(after, here))
        if not len(enough) or not self.demand.allowed[node]:
            return None
        kept = list(range(int(enough[0]) + 1))
        left = after[enough[0]].copy()
        for place in reversed(kept.copy()):  # dearest first
            without = left - running.frees[shares[place]]
            if self.demand.fits_into(without[np.newaxis], here[:1])[0]:
                left = without
                kept.remove(place)
        wanted = self.demand.takes[node] - self.free[node]
        fewer = fewest_that_free(wanted, running.frees[shares], self.score[jobs], less_than=len(kept))
        return tuple(int(jobs[place]) for place in fewer or kept)
