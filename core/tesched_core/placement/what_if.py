"""A what-if: free resources after some victims went. Private to one search; the snapshot's stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand


class WhatIf:
    """The jobs of `pool` that go for one job. Jobs are rows of `Running`, nodes are their rows."""

    def __init__(  # noqa: PLR0917 - what a search is given
        self,
        demand: Demand,
        running: Running,
        pool: NDArray[np.bool_],
        score: NDArray[np.float64],
        capacity: Capacity,
        fitting: NDArray[np.bool_] | None = None,
    ) -> None:
        """Begin with the free resources as they are; no job has gone. `fitting` says where it fits, if known."""
        self.demand = demand
        self.running = running
        self.score = score
        self.free = capacity.free.copy()
        #: jobs that may still be victims
        self.pool = pool.copy()
        #: [nodes] whether the job's share fits there
        self.fitting = demand.fits(capacity) if fitting is None else fitting.copy()
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
        nodes: list[int] = self.running.share_node[self.running.shares_of(row)].tolist()
        return nodes

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
        nodes = self.running.share_node[shares]
        np.add.at(self.free, nodes, sign * self.running.frees[shares])
        self.fitting[nodes] = self.demand.fits_into(self.free[nodes], nodes) & self.demand.allowed[nodes]

    def rows_for_all(self, first: Sequence[int]) -> tuple[int, ...] | None:
        """Return nodes for the whole job, required ones and those of `first` before others; None if it does not fit."""
        if not self.fitting[list(self.demand.required)].all():
            return None
        others = np.flatnonzero(self.fitting)
        if len(others) < self.demand.nodes:
            return None
        rows = dict.fromkeys([*self.demand.required, *(row for row in first if self.fitting[row]), *others.tolist()])
        return tuple(sorted(list(rows)[: self.demand.nodes]))

    def minimise(self, nodes: Sequence[int], among: Iterable[int]) -> None:
        """Give back, dearest first, each that is not needed for the job to fit on all of `nodes`."""
        where = list(nodes)
        for row in sorted(among, key=self.key, reverse=True):
            self.give_back(row)
            if not self.fitting[where].all():
                self.take(row)
