"""Cluster columns, built from a classified snapshot, each part at its first use.

The jobs are read by `read_jobs.py`, which copies what has not changed since the snapshot before.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from tesched_core.intake.leave_times import expected_leave_s
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES, resources_would_not_help, starts_by_itself
from tesched_core.model.capacity import Capacity, mask_of
from tesched_core.model.cluster import Job, Request
from tesched_core.model.column_layout import vector
from tesched_core.model.columns import MOST_WAITING, Ends, Owner, Running, Waiting
from tesched_core.model.known_jobs import KnownCluster, KnownHolders
from tesched_core.model.request import demand_per_node, wants_all_memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.awaits_reservation import ReservationsAhead
from tesched_core.placement.capacity_of import capacity_with, kept_nodes
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.placement.latest_start import leaves_within_s
from tesched_core.placement.read_jobs import ineligible, read

#: columns of `KnownHolders.learned`
_LOW, _MEDIAN = 0, 1


def columns_of(snapshot: Snapshot, before: KnownCluster | None = None) -> SnapshotColumns:
    """Return the overview of a classified snapshot; `before` is what was known of one before it."""
    return SnapshotColumns(snapshot, before)


class SnapshotColumns:
    """An overview that is worked out from a snapshot, each part at its first use."""

    def __init__(self, snapshot: Snapshot, before: KnownCluster | None = None) -> None:
        self.snapshot = snapshot
        self._before = before

    @cached_property
    def known(self) -> KnownCluster:
        """Facts of the site and the jobs, for the snapshot after this one."""
        found = read(self.snapshot, self._before)
        self._before = None
        return found

    @property
    def _holders(self) -> KnownHolders:
        return self.known.jobs.holders

    @cached_property
    def capacity(self) -> Capacity:
        site, jobs, holders = self.known.site, self.known.jobs, self._holders
        taken = np.zeros_like(site.lasting.total)
        np.add.at(taken, holders.share_node, holders.frees)
        keepers = jobs.jobs[jobs.facts["is_on_nodes"]][holders.facts["keeps_nodes"]].tolist()
        return capacity_with(site, taken, kept_nodes(keepers, site.lasting.index))

    @cached_property
    def _ends_at(self) -> NDArray[np.float64]:
        """When each job on nodes is expected to end; inf: not known."""
        facts, now = self._holders.facts, self.snapshot.taken_at
        started = self._started
        limit_at = started + facts["limit_s"]
        said = ~np.isnan(facts["said_s"])
        ends_at = started + np.where(said, facts["said_s"], self._holders.learned[:, _MEDIAN])
        found: NDArray[np.float64] = np.where(ends_at > now, np.minimum(ends_at, limit_at), limit_at)
        return found

    @cached_property
    def _may_end_at(self) -> NDArray[np.float64]:
        """Earliest likely end of each job on nodes; of one that has run as long as that, now."""
        facts, now = self._holders.facts, self.snapshot.taken_at
        low_s = np.where(np.isnan(facts["said_s"]), self._holders.learned[:, _LOW], nan)
        limit_at = self._started + facts["limit_s"]
        found: NDArray[np.float64] = np.minimum(np.maximum(self._started + low_s, now), limit_at)
        return np.where(np.isnan(low_s), self._ends_at, found)

    @cached_property
    def _started(self) -> NDArray[np.float64]:
        started = self._holders.facts["started"]
        return np.where(np.isnan(started), self.snapshot.taken_at, started)

    @cached_property
    def running(self) -> Running:
        known, holders, snapshot = self.known.jobs, self._holders, self.snapshot
        rows = np.flatnonzero(holders.facts["is_be"])
        rows = rows[np.argsort(holders.facts["job_id"][rows], kind="stable")]
        facts = holders.facts[rows]
        on_nodes = known.facts["is_on_nodes"]
        jobs, traits = known.jobs[on_nodes][rows], known.traits[on_nodes][rows]
        names = tuple(holders.names[rows].tolist())
        owners: dict[Owner, int] = {}
        owner = [owners.setdefault(one, len(owners)) for one in holders.owners[rows].tolist()]
        ineligible_now = facts["ineligible"].copy()
        # Its reservation may be over by now.
        for row in np.flatnonzero(facts["is_reserved"]).tolist():
            ineligible_now[row] = ineligible(jobs[row], traits[row], snapshot, self.capacity.index)
        with_word = [(jobs[row].job_id, traits[row]) for row in np.flatnonzero(facts["has_word"]).tolist()]
        share_job, shares = self._shares_of(rows)
        return Running(
            job_id=np.ascontiguousarray(facts["job_id"]),
            started=self._started[rows],
            queued=np.ascontiguousarray(facts["queued"]),
            eligible=np.ascontiguousarray(facts["eligible"]),
            ends_at=self._ends_at[rows],
            may_end_at=self._may_end_at[rows],
            grace_s=self._grace_s(facts["grace_s"], names, owner, tuple(owners)),
            # NaN, without a signal, is not above 0, either.
            gets_notice=facts["grace_s"] > 0,
            size=np.ascontiguousarray(facts["size"]),
            ineligible=ineligible_now,
            owner=np.array(owner, dtype=np.intp),
            owners=tuple(owners),
            names=names,
            row_of=dict(zip(facts["job_id"].tolist(), range(len(rows)), strict=True)),
            share_job=share_job,
            share_node=holders.share_node[shares],
            frees=holders.frees[shares],
            most_preemptions={
                job_id: one.most_preemptions for job_id, one in with_word if one.most_preemptions is not None
            },
            most_said={job_id: one.most_said for job_id, one in with_word if one.most_said is not None},
            awaits=self._awaits(rows),
        )

    def _awaits(self, rows: NDArray[np.intp]) -> Mapping[JobId, str]:
        """Reservations that these jobs on nodes would await if they were requeued. Not kept: the time has its part."""
        ahead = ReservationsAhead.of(self.snapshot)
        if not ahead.reservations:
            return {}
        names = {name for one in ahead.reservations for name in one.nodes}
        share_job, shares = self._shares_of(rows)
        reserved = mask_of(names, self.capacity.index)[self._holders.share_node[shares]]
        jobs, traits = self.known.jobs, self.snapshot.traits
        on_nodes = jobs.jobs[jobs.facts["is_on_nodes"]]
        kill_wait_s, found = self.snapshot.settings.kill_wait_s, dict[JobId, str]()
        for row in np.unique(share_job[reserved]).tolist():
            job: Job = on_nodes[rows[row]]
            name = ahead.awaited_by(job, leaves_within_s(traits[job.job_id], kill_wait_s))
            if name:
                found[job.job_id] = name
        return found

    def _shares_of(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the shares of these jobs on nodes, in their order: the place in `rows` and the share of each."""
        counts = self._holders.facts["shares"]
        first = (np.cumsum(counts) - counts)[rows]
        counts = counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(np.arange(len(rows)), counts), np.repeat(first, counts) + within

    def _grace_s(
        self, declared: NDArray[np.float64], names: Sequence[str], owner: Sequence[int], owners: Sequence[Owner]
    ) -> NDArray[np.float64]:
        """Expected time that each takes to leave: one that is requeued without a notice, as long as jobs like it."""
        known, kill_wait_s = self.snapshot.leave_times, float(self.snapshot.settings.kill_wait_s)
        bare = np.isnan(declared)
        found: NDArray[np.float64] = np.where(bare, kill_wait_s, declared)
        if known:
            for row in np.flatnonzero(bare).tolist():
                pair = owners[owner[row]].user, names[row]
                if pair in known:
                    found[row] = expected_leave_s(known, pair, kill_wait_s)
        return found

    @cached_property
    def trials(self) -> tuple[Job, ...]:
        known = self.known.jobs
        rows = np.flatnonzero(known.facts["is_pending"] & known.facts["is_te"])
        rows = rows[np.argsort(known.facts["job_id"][rows], kind="stable")]
        return tuple(known.jobs[rows].tolist())

    @cached_property
    def waiting(self) -> Waiting:
        snapshot, capacity = self.snapshot, self.capacity
        jobs: list[Job] = []
        others: list[tuple[int, JobId]] = []
        nodes, wanted, kind = [], [], []
        masks: dict[bytes, tuple[int, NDArray[np.bool_]]] = {}
        for job in self._queue:
            if snapshot.job_class(job.job_id) is JobClass.TE or not starts_by_itself(job, snapshot.taken_at, 0):
                continue
            demand = _weighed(job, snapshot, capacity)
            if demand is None:
                others.append((len(jobs), job.job_id))
            elif not demand.unknown_gres:
                jobs.append(job)
                nodes.append(demand.nodes)
                wanted.append(demand.per_node)
                kind.append(masks.setdefault(demand.allowed.tobytes(), (len(masks), demand.allowed))[0])
            if len(jobs) + len(others) == MOST_WAITING:
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
            others=tuple(others),
        )

    @cached_property
    def ends(self) -> Ends:
        holders = self._holders
        return Ends(node=holders.share_node, at=np.repeat(self._ends_at, holders.facts["shares"]), frees=holders.frees)

    @cached_property
    def _queue(self) -> tuple[Job, ...]:
        """Return the pending jobs, highest priority first."""
        known = self.known.jobs
        rows = np.flatnonzero(known.facts["is_pending"])
        return tuple(known.jobs[rows[np.argsort(-known.facts["priority"][rows], kind="stable")]].tolist())

    @cached_property
    def doubted(self) -> Collection[JobId]:
        return self._ids_of("is_doubted")

    @cached_property
    def hook_marked(self) -> Sequence[JobId]:
        return self._ids_of("has_hook_mark")

    @cached_property
    def tasks(self) -> Mapping[JobId, Sequence[Job]]:
        known = self.known.jobs
        found: dict[JobId, list[Job]] = {}
        for job in known.jobs[known.facts["is_of_array"]].tolist():
            found.setdefault(job.array_job_id, []).append(job)
        return found

    def _ids_of(self, what: str) -> list[JobId]:
        facts = self.known.jobs.facts
        return [JobId(job_id) for job_id in facts["job_id"][facts[what]].tolist()]

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


def _weighed(job: Job, snapshot: Snapshot, capacity: Capacity) -> Demand | None:
    """Return the demand of a BE job that waits for resources, if amounts on each node say all of it."""
    if snapshot.job_class(job.job_id) is not JobClass.BE or not _plain(job) or resources_would_not_help(job):
        return None
    try:
        demand = demand_of(job, snapshot, capacity)
    except UnsupportedRequestError:
        return None
    return None if demand.all_memory else demand


def _plain(job: Job) -> bool:
    """Check whether amounts on each node say all that the job wants, and it is one job."""
    request = job.request
    return not (request.exclusive or request.required_nodes or job.array_tasks or job.het_job_id is not None)


def _within_limit(job: Job, run_s: float | None) -> float:
    limit_s = inf if job.time_limit_s is None else float(job.time_limit_s)
    return limit_s if run_s is None else min(run_s, limit_s)
