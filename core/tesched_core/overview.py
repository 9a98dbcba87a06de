"""The hot questions of one instant, answered on columns: who runs where and could make room, who waits, who is first.

The daemon builds an overview once a poll (`overview_of`); the simulator keeps one up to date event by event.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tesched_core.cluster import Job, JobState, Request
from tesched_core.columns import vector
from tesched_core.decision import RefusalCode
from tesched_core.fit import Room, UnsupportedRequestError, demand_of, demand_per_node, freed_by
from tesched_core.leaving import expected_leave_s
from tesched_core.resources import JobId
from tesched_core.shadow import Ends
from tesched_core.snapshot import JobClass, Snapshot, Traits
from tesched_core.waiting import WANTS_ROOM, why_not
from tesched_core.wants import wants_all_memory


class Owner(NamedTuple):
    """What the guard protects a job by. Jobs of one owner are told apart by nothing of it."""

    user: str = ""
    account: str = ""
    qos: str = ""
    partitions: tuple[str, ...] = ()
    reservation: str = ""


#: What forbids to ask a job to yield for as long as it is as it is; `Running.bar` is a row of this, 0 is "nothing".
BARS: tuple[tuple[RefusalCode, str] | None, ...] = (
    None,
    (RefusalCode.ALREADY_LEAVING, "it is just starting or ending"),
    (RefusalCode.INTERACTIVE, "it is interactive (salloc or srun) and cannot be requeued"),
    (RefusalCode.NOT_REQUEUEABLE, "it was submitted with --no-requeue"),
    (RefusalCode.HETEROGENEOUS, "it is part of a heterogeneous job, which Slurm requeues as a whole"),
    (RefusalCode.SUSPENDED, "it is suspended, and not by tesched"),
    (RefusalCode.UNREAD, "its record could not be read whole (`tesched status` has more)"),
    (RefusalCode.UNSUPPORTED, "it holds a node that Slurm does not show, so what it would free is not known"),
    (RefusalCode.SCRIPT_UNREAD, "its batch script has not been read yet, for the signal that it declares"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Running:
    """The best-effort jobs that hold nodes, one entry a job, in any order; and their shares, one a job and node."""

    job_id: NDArray[np.int64]
    #: start of the present run, Unix seconds; the snapshot's time where Slurm does not say
    started: NDArray[np.float64]
    #: when it was put in the queue for the present run, Unix seconds
    queued: NDArray[np.float64]
    #: when it is expected to end, Unix seconds: by what is known of its run time (`Traits.run_time_s`), else, or if it
    #: has run longer than that, by its time limit; inf without either
    ends_at: NDArray[np.float64]
    grace_s: NDArray[np.float64]
    #: FitGpp's Size: how large a part of a node it holds, without unit (`size_of`)
    size: NDArray[np.float64]
    #: row of `BARS`
    bar: NDArray[np.int8]
    #: row of `owners`
    owner: NDArray[np.intp]
    owners: Sequence[Owner]
    #: the jobs' names, or nothing where they have none
    names: Sequence[str]
    #: the job's row above, by job id
    row_of: Mapping[JobId, int]
    #: [shares] the job's row above, and the node's row in the room
    share_job: NDArray[np.intp]
    share_node: NDArray[np.intp]
    #: [shares, resources] what becomes free there when the job goes
    frees: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job_id)

    def shares_of(self, row: int) -> NDArray[np.intp]:
        """Return the shares of one job."""
        return np.flatnonzero(self.share_job == row)


#: How many of the waiting best-effort jobs are looked at, from the head of the queue (Slurm's bf_max_job_test has 500).
MOST_WAITING = 1000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiting:
    """The first `MOST_WAITING` of the best-effort jobs that wait for room, highest priority first, one entry a job.

    Left out is what cannot be weighed by amounts on each node alone: pending job arrays, exclusive jobs, those that
    want certain nodes or all memory of a node, and those that wait for anything but room.
    """

    job_id: NDArray[np.int64]
    #: since when it waits, Unix seconds
    since: NDArray[np.float64]
    #: how long it is expected to run: by what is known (`Traits.run_time_s`), else its time limit; inf without either
    run_s: NDArray[np.float64]
    nodes: NDArray[np.intp]
    #: [jobs, resources] on each of its nodes
    demand: NDArray[np.int64]
    #: row of `allowed`
    kind: NDArray[np.intp]
    #: [kinds, nodes] where it may run
    allowed: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.job_id)


class Overview(Protocol):
    """One instant's answers."""

    @property
    def room(self) -> Room:
        """Return what each node has, and what of it is free now."""
        ...

    @property
    def running(self) -> Running:
        """Return the best-effort jobs that hold nodes; their shares' nodes are rows of `room`."""
        ...

    @property
    def trials(self) -> Sequence[Job]:
        """Return the pending TE jobs, in order of job id."""
        ...

    @property
    def waiting(self) -> Waiting:
        """Return the best-effort jobs that wait for room."""
        ...

    @property
    def ends(self) -> Ends:
        """Return when whoever holds nodes, of any class, is expected to leave them."""
        ...

    def first_in_queue(
        self, partitions: Iterable[str], excluded: Container[JobId], *, best_effort: bool = False
    ) -> int:
        """Return the highest priority of the pending jobs of these partitions, or of the BE jobs; 0 if none waits."""
        ...

    def somebody_fits(self, row: int, free: NDArray[np.int64]) -> bool:
        """Return whether a waiting job of no TE class may fit into `free` [resources] of the room's node `row`.

        When in doubt, it may: its constraints are not weighed, and of several nodes it wants one here.
        """
        ...


def size_of(held: NDArray[np.int64], capacity: NDArray[np.int64], resources: Sequence[str]) -> float:
    """Return FitGpp's Size(D): sqrt of the sum over CPU, memory and each GRES of (held / what one node has)^2.

    Both are [resources]. A typed GRES is weighed once, under its bare name. Source: FitGpp, victim selection.
    """
    return sqrt(
        sum(
            (int(have) / int(most)) ** 2
            for name, have, most in zip(resources, held, capacity, strict=True)
            if ":" not in name and most
        )
    )


def overview_of(snapshot: Snapshot) -> Overview:
    """Return the overview of a classified snapshot."""
    return _Taken(snapshot)


class _Taken:
    """An overview that is worked out from a snapshot, each part when it is first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    @cached_property
    def room(self) -> Room:
        return Room.of(self.snapshot)

    @cached_property
    def running(self) -> Running:
        snapshot, room = self.snapshot, self.room
        jobs = [
            job
            for job_id, job in sorted(snapshot.jobs.items())
            if job.on_nodes and snapshot.job_class(job_id) is JobClass.BE
        ]
        owners: dict[Owner, int] = {}
        owner = [owners.setdefault(_owner(job), len(owners)) for job in jobs]
        shares = [
            (row, room.index[share.node], freed_by(job, share, room))
            for row, job in enumerate(jobs)
            for share in job.allocation
            if share.node in room.index
        ]
        now = snapshot.taken_at
        traits = [snapshot.traits[job.job_id] for job in jobs]
        return Running(
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            started=np.array([now if job.start_time is None else job.start_time for job in jobs], dtype=np.float64),
            queued=np.array([job.submit_time for job in jobs], dtype=np.float64),
            ends_at=np.array([_ends_at(*pair, now) for pair in zip(jobs, traits, strict=True)], dtype=np.float64),
            grace_s=np.array([_grace_s(*pair, snapshot) for pair in zip(jobs, traits, strict=True)], dtype=np.float64),
            size=np.array([_size(job, room) for job in jobs], dtype=np.float64),
            bar=np.array([_bar(*pair, room) for pair in zip(jobs, traits, strict=True)], dtype=np.int8),
            owner=np.array(owner, dtype=np.intp),
            owners=tuple(owners),
            names=tuple(job.name for job in jobs),
            row_of={job.job_id: row for row, job in enumerate(jobs)},
            share_job=np.array([row for row, _, _ in shares], dtype=np.intp),
            share_node=np.array([node for _, node, _ in shares], dtype=np.intp),
            frees=np.array([frees for _, _, frees in shares], dtype=np.int64).reshape(len(shares), len(room.resources)),
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
        snapshot, room = self.snapshot, self.room
        jobs: list[Job] = []
        nodes, wanted, kind = [], [], []
        masks: dict[bytes, tuple[int, NDArray[np.bool_]]] = {}
        for job in self._queue:
            if not _plain(job) or why_not(job) or snapshot.job_class(job.job_id) is not JobClass.BE:
                continue
            try:
                demand = demand_of(job, snapshot, room)
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
        return Waiting(
            job_id=np.array([job.job_id for job in jobs], dtype=np.int64),
            since=np.array([job.eligible_time or job.submit_time for job in jobs], dtype=np.float64),
            run_s=np.array([_run_s(job, snapshot.traits[job.job_id]) for job in jobs], dtype=np.float64),
            nodes=np.array(nodes, dtype=np.intp),
            demand=np.array(wanted, dtype=np.int64).reshape(len(jobs), len(room.resources)),
            kind=np.array(kind, dtype=np.intp),
            allowed=np.array([mask for _, mask in masks.values()], dtype=np.bool_).reshape(len(masks), len(room.names)),
        )

    @cached_property
    def ends(self) -> Ends:
        snapshot, room = self.snapshot, self.room
        unknown = Traits(job_class=JobClass.EXEMPT, rule="", grace_period_s=0, grace_source="")
        shares = [
            (room.index[share.node], ends_at, freed_by(job, share, room))
            for job in snapshot.jobs.values()
            if job.on_nodes
            for ends_at in (_ends_at(job, snapshot.traits.get(job.job_id, unknown), snapshot.taken_at),)
            for share in job.allocation
            if share.node in room.index
        ]
        return Ends(
            node=np.array([node for node, _, _ in shares], dtype=np.intp),
            at=np.array([at for _, at, _ in shares], dtype=np.float64),
            frees=np.array([frees for _, _, frees in shares], dtype=np.int64).reshape(len(shares), len(room.resources)),
        )

    @cached_property
    def _queue(self) -> tuple[Job, ...]:
        """Return the pending jobs, highest priority first."""
        pending = (job for job in self.snapshot.jobs.values() if job.pending)
        return tuple(sorted(pending, key=lambda job: -job.priority))

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
        room, shared_out = self.room, self.snapshot.settings.memory_is_shared_out
        here = {name for name, nodes in room.partitions.items() if nodes[row]}
        weighed: set[Request] = set()
        for job in self._queue:
            request = job.request
            # Whole nodes are not to be had where somebody is suspended.
            if request in weighed or request.exclusive or (shared_out and wants_all_memory(request)):
                continue
            starts = not job.held and job.reason in {*WANTS_ROOM, "None", ""} and not here.isdisjoint(job.partitions)
            if not starts or self.snapshot.job_class(job.job_id) is JobClass.TE:
                continue
            weighed.add(request)
            if (vector(demand_per_node(request), room.resources) <= free).all():
                return True
        return False


def _ends_at(job: Job, traits: Traits, now: float) -> float:
    started = now if job.start_time is None else job.start_time
    limit_at = started + (inf if job.time_limit_s is None else job.time_limit_s)
    expected = inf if traits.run_time_s is None else started + traits.run_time_s
    return min(expected, limit_at) if expected > now else limit_at


def _plain(job: Job) -> bool:
    """Return whether amounts on each node say all that the job wants, and it is one job."""
    request = job.request
    return not (request.exclusive or request.required_nodes or job.array_tasks or job.het_job_id is not None)


def _run_s(job: Job, traits: Traits) -> float:
    limit_s = inf if job.time_limit_s is None else float(job.time_limit_s)
    return limit_s if traits.run_time_s is None else min(traits.run_time_s, limit_s)


def _owner(job: Job) -> Owner:
    return Owner(job.user, job.account, job.qos, job.partitions, job.reservation)


def _size(job: Job, room: Room) -> float:
    held = sum(
        (vector(share.tres, room.resources) for share in job.allocation), np.zeros(len(room.resources), np.int64)
    )
    first = room.index.get(job.allocation[0].node)
    return 0.0 if first is None else size_of(held, room.total[first], room.resources)


def _grace_s(job: Job, traits: Traits, snapshot: Snapshot) -> float:
    """Return how long the job may take to leave: one that is requeued without a notice, as long as jobs like it."""
    if traits.notice_signal:
        return traits.grace_period_s
    return expected_leave_s(snapshot.leave_times, (job.user, job.name), float(snapshot.settings.kill_wait_s))


def _bar(job: Job, traits: Traits, room: Room) -> int:
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
    if any(share.node not in room.index for share in job.allocation):
        return 7
    return 8 if traits.unread else 0
