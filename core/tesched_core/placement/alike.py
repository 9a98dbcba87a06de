"""Jobs that may start in the same places: what is found for one of them holds for all.

A job that shares its nodes with its own user's jobs alone (--exclusive=user, ExclusiveUser) is kept from where others
are, and keeps others out. Such a node is free for them once the jobs there have gone, whatever else it has.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import barred_by
from tesched_core.placement.capacity_of import keeps_nodes
from tesched_core.placement.demand import Demand, demands_of

#: no jobs
_NONE = frozenset[JobId]()


def kind_of(job: Job, snapshot: Snapshot, capacity: Capacity) -> Hashable:
    """Key that jobs share which may start in the same places."""
    return (
        *(job.request, job.partitions, job.reservation),
        job.user if job.user in capacity.keepers or minds_others(job, snapshot) else "",
        # Not the time limit: where each job has its own, there would be as many kinds as jobs.
        barred_by(job, snapshot),
    )


def minds_others(job: Job, snapshot: Snapshot) -> bool:
    """Check whether it matters for a job whose jobs are on a node, though none of them keeps the node."""
    where = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    return job.request.sharing == "USER" or any(one.exclusive_user for one in where)


@dataclass(frozen=True, kw_only=True, eq=False)
class _There:
    """Jobs on their nodes, one entry a job and node."""

    #: each job's place in `job`
    place: dict[JobId, int]
    users: dict[str, int]
    keepers: frozenset[JobId]
    #: [entries]
    job: NDArray[np.intp]
    user: NDArray[np.intp]
    node: NDArray[np.intp]
    keeps: NDArray[np.bool_]


@dataclass(kw_only=True, eq=False)
class WithoutSome:
    """What jobs that Slurm places by itself ask for as if some that are on nodes were gone, in one cycle."""

    snapshot: Snapshot
    capacity: Capacity
    _others: dict[tuple[frozenset[JobId], str], tuple[NDArray[np.bool_], NDArray[np.bool_]]] = field(
        init=False, default_factory=dict
    )
    _demands: dict[Hashable, Sequence[Demand]] = field(init=False, default_factory=dict)

    def matters(self, job: Job) -> bool:
        """Check whether a job may have another demand then."""
        return bool(self.capacity.keepers) or minds_others(job, self.snapshot)

    def costs(self, job: Job, now: Sequence[Demand]) -> bool:
        """Check whether that is to be worked out anew for each set of jobs."""
        return self.matters(job) and not self._is_quick(job, now)

    def demands(self, job: Job, now: Sequence[Demand], gone: frozenset[JobId]) -> Sequence[Demand]:
        """Demands of a job, by partition, as if those jobs were gone; `now` is its present demands."""
        minds = minds_others(job, self.snapshot)
        if not minds:
            gone = gone & self._there.keepers if self.capacity.keepers else _NONE
        if not gone:
            return now
        (others, kept), (others_now, kept_now) = self._with_others(gone, job.user), self._with_others(_NONE, job.user)
        if (kept == kept_now).all() and not (minds and (others != others_now).any()):
            return now
        if self._is_quick(job, now):
            barred = kept | others if minds else kept
            return [replace(one, allowed=one.allowed & ~barred) for one in self._if_alone(job)]
        key = job.job_id, job.request.exclusive, kept.tobytes(), others.tobytes() if minds else b""
        if key not in self._demands:
            kept_by = tuple((row, f"not {job.user}") for row in np.flatnonzero(kept).tolist())
            capacity = replace(self.capacity, kept_by=kept_by, with_others=others)
            self._demands[key] = demands_of(job, self.snapshot, capacity, binds=False)
        return self._demands[key]

    def _is_quick(self, job: Job, now: Sequence[Demand]) -> bool:
        """Check whether nothing but its nodes depends on who is there, so that it need not be worked out anew."""
        request, partitions = job.request, self.snapshot.partitions
        apart = {
            request.sharing == "USER" or partitions[name].exclusive_user
            for name in job.partitions
            if name in partitions
        }
        # On how many nodes its GPUs are may follow from who keeps which (`reckoned.py`).
        one_count = request.max_nodes <= max(request.min_nodes, 1) and request.reckoned_nodes < 2
        return one_count and len(apart) == 1 and all(one.uneven is None for one in now)

    def _if_alone(self, job: Job) -> Sequence[Demand]:
        """Demands of a job if no other user's is there."""
        key = job.job_id, job.request.exclusive
        if key not in self._demands:
            capacity = replace(
                self.capacity, kept_by=(), with_others=np.zeros(len(self.capacity.names), dtype=np.bool_)
            )
            self._demands[key] = demands_of(job, self.snapshot, capacity, binds=False)
        return self._demands[key]

    def _with_others(self, gone: frozenset[JobId], user: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return [nodes] where another user's job is, and where one of those keeps it for that user."""
        found = self._others.get((gone, user))
        if found is None:
            there = self._there
            stays = np.ones(len(there.place), dtype=np.bool_)
            stays[[there.place[one] for one in gone if one in there.place]] = False
            entries = stays[there.job] & (there.user != there.users.get(user, -1))
            others, kept = (np.zeros(len(self.capacity.names), dtype=np.bool_) for _ in range(2))
            others[there.node[entries]] = True
            kept[there.node[entries & there.keeps]] = True
            found = self._others[gone, user] = others, kept
        return found

    @cached_property
    def _there(self) -> _There:
        keeps = keeps_nodes(self.snapshot)
        place: dict[JobId, int] = {}
        users: dict[str, int] = {}
        keepers: set[JobId] = set()
        entries: list[tuple[int, int, int, bool]] = []
        for job in self.snapshot.jobs.values():
            if not job.allocation:
                continue
            mine = place.setdefault(job.job_id, len(place)), users.setdefault(job.user, len(users))
            alone = keeps(job)
            if alone:
                keepers.add(job.job_id)
            entries += [(*mine, self.capacity.index[name], alone) for name in job.nodes if name in self.capacity.index]
        columns = np.array(entries, dtype=np.intp).reshape(len(entries), 4)
        return _There(
            place=place,
            users=users,
            keepers=frozenset(keepers),
            job=columns[:, 0],
            user=columns[:, 1],
            node=columns[:, 2],
            keeps=columns[:, 3].astype(np.bool_),
        )
