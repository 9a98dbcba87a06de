"""Places where jobs may start once the jobs that run there have gone.

They depend on the kind of a job and on the site alone, so a cycle takes over those that the cycle before it has found
(`model/site_answers.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.alike import kind_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import fits_now


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StartPlaces:
    """Where jobs of one kind may start."""

    #: [nodes]; None: not known, they may start anywhere
    nodes: NDArray[np.bool_] | None
    #: they fit on the nodes that are up, if nothing else runs there
    can_start: bool


@dataclass(kw_only=True, eq=False)
class PlacesOfCycle:
    """Places where jobs may start, in one cycle."""

    snapshot: Snapshot
    capacity: Capacity
    _found: dict[Hashable, StartPlaces] = field(init=False, default_factory=dict)
    #: whether jobs of two of those may run on one node, by their identities
    _meets: dict[tuple[int, int], bool] = field(init=False, default_factory=dict)

    def of(self, job: Job) -> StartPlaces:
        """Places where a job may start; jobs that are alike in that have the same object."""
        if job.allocation:  # it is suspended, or yet to leave, and goes on where it is
            kind: Hashable = job.nodes
        else:
            kind = kind_of(job, self.snapshot, self.capacity)
        found = self._found.get(kind)
        if found is None:
            answers = self.snapshot.answers
            # Of jobs that are alike one may be declined, and the other not: the first one says for this cycle alone.
            if answers is None or self.snapshot.declined or not answers.is_of(self.capacity):
                found = self._find(job)
            else:
                found = answers.find((StartPlaces, kind), partial(self._find, job))
            self._found[kind] = found
        return found

    def may_meet(self, mine: StartPlaces, its: StartPlaces) -> bool:
        """Check whether jobs of both kinds may run on one node; in doubt they may."""
        pair = id(mine), id(its)
        if pair not in self._meets:
            both = mine.nodes is None or its.nodes is None or bool((mine.nodes & its.nodes).any())
            self._meets[pair] = both
        return self._meets[pair]

    def _find(self, job: Job) -> StartPlaces:
        if job.allocation:
            return StartPlaces(nodes=np.isin(self.capacity.names, job.nodes), can_start=True)
        try:
            # Jobs that keep it from a node, or would be there with it, may have left by then.
            alone, capacity = replace(self.snapshot, jobs={}), replace(self.capacity, kept_by=())
            demands = demands_of(job, alone, capacity, binds=False)
        except UnsupportedRequestError:
            return StartPlaces(nodes=None, can_start=True)
        if not demands:
            return StartPlaces(nodes=None, can_start=True)
        idle = replace(self.capacity, free=np.where(self.capacity.available[:, None], self.capacity.total, 0))
        return StartPlaces(nodes=np.any([one.allowed for one in demands], axis=0), can_start=fits_now(demands, idle))
