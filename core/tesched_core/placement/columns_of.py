"""Cluster columns and free resources, built from a classified snapshot, each part at its first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.intake.leave_times import expected_leave_s
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES, resources_would_not_help
from tesched_core.model.capacity import Capacity, mask_of
from tesched_core.model.cluster import Job, JobState, NodeShare, Request
from tesched_core.model.column_layout import ColumnLayout, of_one_gpu, shards_of_each_gpu, threads_of, vector
from tesched_core.model.columns import (
    MOST_RESTARTS,
    MOST_WAITING,
    ClusterColumns,
    Ends,
    Owner,
    Running,
    Waiting,
    size_of,
)
from tesched_core.model.hook import has_hook_mark
from tesched_core.model.request import demand_per_node, wants_all_memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot, Traits
from tesched_core.placement.can_return import why_it_cannot_return
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demand_of


def freed_by(job: Job, share: NodeShare, capacity: Capacity) -> NDArray[np.int64]:
    """Resources that come free on one node when the job goes, [resources]."""
    if capacity.layout is not None:
        row = capacity.index[share.node]
        each = 0 if capacity.shards_each is None else int(capacity.shards_each[row])
        return capacity.layout.of_job(job, share, each, capacity.total[row])
    freed = vector(share.tres, capacity.resources)
    if job.state is JobState.SUSPENDED:
        freed[0] = 0  # free already
    return freed


class _KnownAmounts:
    """What jobs free and their sizes, each worked out once: most jobs hold as much as others."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._freed: dict[Hashable, NDArray[np.int64]] = {}
        self._sizes: dict[Hashable, float] = {}

    def freed_by(self, job: Job, share: NodeShare) -> NDArray[np.int64]:
        """Return the same as `freed_by`; it is not to be changed."""
        row = None if self._capacity.shards_each is None else self._capacity.index[share.node]
        key = share.tres, job.state is JobState.SUSPENDED, job.partitions[:1], row
        found = self._freed.get(key)
        if found is None:
            found = self._freed[key] = freed_by(job, share, self._capacity)
        return found

    def size(self, job: Job) -> float:
        """Return FitGpp's Size of what the job holds, by what its first node has."""
        capacity = self._capacity
        first = capacity.index.get(job.allocation[0].node)
        if first is None:
            return 0.0
        key = tuple([share.tres for share in job.allocation]), capacity.total[first].tobytes()
        found = self._sizes.get(key)
        if found is None:
            each = (vector(share.tres, capacity.resources) for share in job.allocation)
            held = sum(each, np.zeros(len(capacity.resources), np.int64))
            found = self._sizes[key] = size_of(held, capacity.total[first], capacity.resources)
        return found


def columns_of(snapshot: Snapshot) -> ClusterColumns:
    """Return the overview of a classified snapshot."""
    return SnapshotColumns(snapshot)


class SnapshotColumns:
    """An overview that is worked out from a snapshot, each part at its first use."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def capacity(self) -> Capacity:
        return capacity_of(self.snapshot)

    @cached_property
    def _amounts(self) -> _KnownAmounts:
        return _KnownAmounts(self.capacity)

    @cached_property
    def running(self) -> Running:
        snapshot, capacity, amounts = self.snapshot, self.capacity, self._amounts
        jobs = [
            job
            for job_id, job in sorted(snapshot.jobs.items())
            if job.on_nodes and snapshot.job_class(job_id) is JobClass.BE
        ]
        owners: dict[Owner, int] = {}
        owner = [owners.setdefault(_owner(job), len(owners)) for job in jobs]
        shares = [
            (row, capacity.index[share.node], amounts.freed_by(job, share))
            for row, job in enumerate(jobs)
            for share in job.allocation
            if share.node in capacity.index
        ]
        now = snapshot.taken_at
        traits = [snapshot.traits[job.job_id] for job in jobs]
        expected = [snapshot.expected_run(job.job_id) for job in jobs]
        return Running(
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            started=np.array([now if job.start_time is None else job.start_time for job in jobs], dtype=np.float64),
            queued=np.array([job.submit_time for job in jobs], dtype=np.float64),
            ends_at=np.array([_ends_at(*pair, now) for pair in zip(jobs, expected, strict=True)], dtype=np.float64),
            may_end_at=np.array(
                [_may_end_at(*pair, now) for pair in zip(jobs, expected, strict=True)], dtype=np.float64
            ),
            grace_s=np.array([_grace_s(*pair, snapshot) for pair in zip(jobs, traits, strict=True)], dtype=np.float64),
            size=np.array([amounts.size(job) for job in jobs], dtype=np.float64),
            ineligible=np.array(
                [
                    _ineligible(*pair, capacity) or why_it_cannot_return(pair[0], snapshot)
                    for pair in zip(jobs, traits, strict=True)
                ],
                dtype=np.int8,
            ),
            owner=np.array(owner, dtype=np.intp),
            owners=tuple(owners),
            names=tuple(job.name for job in jobs),
            row_of={job.job_id: row for row, job in enumerate(jobs)},
            share_job=np.array([row for row, _, _ in shares], dtype=np.intp),
            share_node=np.array([node for _, node, _ in shares], dtype=np.intp),
            frees=np.array([frees for _, _, frees in shares], np.int64).reshape(len(shares), len(capacity.resources)),
            most_preemptions={
                job.job_id: one.most_preemptions
                for job, one in zip(jobs, traits, strict=True)
                if one.most_preemptions is not None
            },
            most_said={
                job.job_id: one.most_said for job, one in zip(jobs, traits, strict=True) if one.most_said is not None
            },
        )

    @cached_property
    def trials(self) -> tuple[Job, ...]:
        snapshot = self.snapshot
        return tuple(
            job
            for job_id, job in sorted(snapshot.jobs.items())
            if job.pending and snapshot.job_class(job_id) is JobClass.TE
        )

    @cached_property
    def waiting(self) -> Waiting:
        snapshot, capacity = self.snapshot, self.capacity
        jobs: list[Job] = []
        nodes, wanted, kind = [], [], []
        masks: dict[bytes, tuple[int, NDArray[np.bool_]]] = {}
        for job in self._queue:
            if not _plain(job) or resources_would_not_help(job) or snapshot.job_class(job.job_id) is not JobClass.BE:
                continue
            try:
                demand = demand_of(job, snapshot, capacity)
            except UnsupportedRequestError:
                continue
            if demand.all_memory or demand.unknown_gres:
                continue
            jobs.append(job)
            nodes.append(demand.nodes)
            wanted.append(demand.per_node)
            kind.append(masks.setdefault(demand.allowed.tobytes(), (len(masks), demand.allowed))[0])
            if len(jobs) == MOST_WAITING:
                break
        expected = [(job, snapshot.expected_run(job.job_id)) for job in jobs]
        return Waiting(
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            since=np.array([job.eligible_time or job.submit_time for job in jobs], dtype=np.float64),
            run_s=np.array(
                [_within_limit(job, one.median_s if one else None) for job, one in expected], dtype=np.float64
            ),
            may_run_s=np.array(
                [_within_limit(job, one.high_s if one else None) for job, one in expected], dtype=np.float64
            ),
            nodes=np.array(nodes, dtype=np.intp),
            demand=np.array(wanted, dtype=np.int64).reshape(len(jobs), len(capacity.resources)),
            kind=np.array(kind, dtype=np.intp),
            allowed=np.array([mask for _, mask in masks.values()], dtype=np.bool_).reshape(
                len(masks), len(capacity.names)
            ),
        )

    @cached_property
    def ends(self) -> Ends:
        snapshot, capacity, amounts = self.snapshot, self.capacity, self._amounts
        shares = [
            (capacity.index[share.node], ends_at, amounts.freed_by(job, share))
            for job in snapshot.jobs.values()
            if job.on_nodes
            for ends_at in (_ends_at(job, snapshot.expected_run(job.job_id), snapshot.taken_at),)
            for share in job.allocation
            if share.node in capacity.index
        ]
        return Ends(
            node=np.array([node for node, _, _ in shares], dtype=np.intp),
            at=np.array([at for _, at, _ in shares], dtype=np.float64),
            frees=np.array([frees for _, _, frees in shares], np.int64).reshape(len(shares), len(capacity.resources)),
        )

    @cached_property
    def _queue(self) -> tuple[Job, ...]:
        """Return the pending jobs, highest priority first."""
        pending = (job for job in self.snapshot.jobs.values() if job.pending)
        return tuple(sorted(pending, key=lambda job: -job.priority))

    @cached_property
    def doubted(self) -> Collection[JobId]:
        return [job_id for job_id, job in self.snapshot.jobs.items() if job.doubt]

    @cached_property
    def hook_marked(self) -> Sequence[JobId]:
        return [job_id for job_id, job in self.snapshot.jobs.items() if has_hook_mark(job)]

    def first_in_queue(
        self, partitions: Iterable[str], excluded: Container[JobId], *, best_effort: bool = False
    ) -> int:
        mine = frozenset(partitions)
        return next(
            (
                job.priority
                for job in self._queue
                if job.job_id not in excluded
                and not mine.isdisjoint(job.partitions)
                and (not best_effort or self.snapshot.job_class(job.job_id) is JobClass.BE)
            ),
            0,
        )

    def somebody_fits(self, row: int, free: NDArray[np.int64]) -> bool:
        capacity, shared_out = self.capacity, self.snapshot.settings.memory_is_shared_out
        here = {name for name, nodes in capacity.partitions.items() if nodes[row]}
        weighed: set[Request] = set()
        for job in self._queue:
            request = job.request
            # Whole nodes are not to be had where a job is suspended.
            if request in weighed or request.exclusive or (shared_out and wants_all_memory(request)):
                continue
            starts = (
                not job.held
                and job.reason in {*WAITS_FOR_RESOURCES, "None", ""}
                and not here.isdisjoint(job.partitions)
            )
            if not starts or self.snapshot.job_class(job.job_id) is JobClass.TE:
                continue
            weighed.add(request)
            if (vector(demand_per_node(request), capacity.resources) <= free).all():
                return True
        return False


def _ends_at(job: Job, expected: ExpectedRun | None, now: float) -> float:
    started = now if job.start_time is None else job.start_time
    limit_at = started + (inf if job.time_limit_s is None else job.time_limit_s)
    ends_at = inf if expected is None else started + expected.median_s
    return min(ends_at, limit_at) if ends_at > now else limit_at


def _may_end_at(job: Job, expected: ExpectedRun | None, now: float) -> float:
    """Earliest likely end of the job; of one that has run as long as that, now."""
    if expected is None or not expected.learned:
        return _ends_at(job, expected, now)
    started = now if job.start_time is None else job.start_time
    limit_at = started + (inf if job.time_limit_s is None else job.time_limit_s)
    return min(max(started + expected.low_s, now), limit_at)


def _plain(job: Job) -> bool:
    """Check whether amounts on each node say all that the job wants, and it is one job."""
    request = job.request
    return not (request.exclusive or request.required_nodes or job.array_tasks or job.het_job_id is not None)


def _within_limit(job: Job, run_s: float | None) -> float:
    limit_s = inf if job.time_limit_s is None else float(job.time_limit_s)
    return limit_s if run_s is None else min(run_s, limit_s)


def _owner(job: Job) -> Owner:
    return Owner(job.user, job.account, job.qos, job.partitions, job.reservation)


def _grace_s(job: Job, traits: Traits, snapshot: Snapshot) -> float:
    """Expected time that the job takes to leave: one that is requeued without a notice, as long as jobs like it."""
    if traits.notice_signal:
        return traits.grace_period_s
    return expected_leave_s(snapshot.leave_times, (job.user, job.name), float(snapshot.settings.kill_wait_s))


def _ineligible(job: Job, traits: Traits, capacity: Capacity) -> int:
    if job.doubt or job.partly_read:
        return 6
    if job.completing or job.finished or "CONFIGURING" in job.flags:
        return 1
    if not job.batch:
        return 2
    if not job.requeueable:
        return 3
    if job.het_job_id is not None:
        return 4
    if job.state is JobState.SUSPENDED:
        return 5
    if any(share.node not in capacity.index for share in job.allocation):
        return 7
    if job.restarts >= MOST_RESTARTS:
        return 9
    return 8 if traits.unread else 0


def capacity_of(snapshot: Snapshot) -> Capacity:
    """Return the resources of each node as the snapshot shows them.

    What the nodes' own records say is held counts where the jobs' say less: a job with a record that is missing, or not
    true, frees no resources.
    """
    names = tuple(snapshot.nodes)
    index = {name: row for row, name in enumerate(names)}
    layout = ColumnLayout.of(snapshot.nodes, snapshot.partitions)
    total = np.zeros((len(names), len(layout.names)), dtype=np.int64)
    limits = [snapshot.partitions[name] for name in layout.limited]
    each = np.zeros(len(names), dtype=np.int64)
    for row, node in enumerate(snapshot.nodes.values()):
        total[row] = layout.of_node(node.total, [one for one in limits if node.name in one.nodes])
        each[row] = shards_of_each_gpu(node.total)
    shards_each = each if each.any() else None
    capacity = Capacity(
        names=names,
        index=index,
        resources=layout.names,
        total=total,
        free=total,
        available=np.array([node.available for node in snapshot.nodes.values()], dtype=np.bool_),
        partitions={
            name: mask_of(partition.nodes, index)
            for name, partition in snapshot.partitions.items()
            if partition.state == "UP"
        },
        layout=layout,
        shards_each=shards_each,
    )
    taken, amounts = np.zeros_like(total), _KnownAmounts(capacity)
    for job in snapshot.jobs.values():
        for share in job.allocation:
            row_of = index.get(share.node)
            if row_of is not None:
                taken[row_of] += amounts.freed_by(job, share)
    for row, node in enumerate(snapshot.nodes.values()):
        if node.held is not None:
            held = vector(node.held, layout.names)
            if each[row]:
                layout.with_shards(held, int(each[row]), total[row])
            np.maximum(taken[row], held, out=taken[row])
    free = total - taken
    of_one_gpu(layout.names, total, free)
    for array in (total, free, capacity.available):
        array.setflags(write=False)
    threads = threads_of(snapshot.nodes)
    kept = _kept_by(snapshot, index)
    return replace(
        capacity,
        free=free,
        kept_by=kept,
        keepers=frozenset(user for _, user in kept),
        threads=threads if (threads > 1).any() else None,
    )


def keeps_nodes(snapshot: Snapshot) -> Callable[[Job], bool]:
    """Predicate of jobs that share their nodes with their own user's jobs alone."""
    alone = {name for name, partition in snapshot.partitions.items() if partition.exclusive_user}
    return lambda job: job.request.sharing == "USER" or bool(alone and job.partitions[0] in alone)


def _kept_by(snapshot: Snapshot, index: Mapping[str, int]) -> tuple[tuple[int, str], ...]:
    """Return (row, user) of the nodes that a job there shares with its own user's jobs alone."""
    keeps = keeps_nodes(snapshot)
    found = {
        (index[name], job.user) for job in snapshot.jobs.values() if keeps(job) for name in job.nodes if name in index
    }
    return tuple(sorted(found))
