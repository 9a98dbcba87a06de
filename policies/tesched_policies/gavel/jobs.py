"""The jobs that Gavel manages on a real cluster, as the columns that its policies want.

A managed job is a best-effort job on GPUs that can be requeued and asks for plain amounts on each node. All else
(trials, exempt jobs, arrays) keeps what it has: that is not shared.

A job that asks for shards instead of GPUs (`--gres=shard:1`) may share its GPU with another that does. It is managed on
types of which each node has one GPU, with shards: of several GPUs of a node Slurm alone says which one a shard is of
(it fills one before it begins with the next), so that no job could be kept alone there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tesched_core.guard.eligibility import protected
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.column_layout import SHARD
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, OrderState
from tesched_core.model.request import demand_per_node, requested_gpus
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.policy import View

from tesched_policies.gavel.throughput_estimate import filled
from tesched_policies.put_off import is_put_off

NOWHERE = -1
#: Slurm's times are whole seconds, and its clock may be a little ahead.
_WHOLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """The cluster's types of accelerators."""

    names: tuple[str, ...]
    #: [nodes] each node's type, or NOWHERE
    of_node: NDArray[np.intp]
    #: [types] GPUs on nodes that start jobs
    gpus: NDArray[np.int64]
    #: [types] shards of each GPU, 0 where none are shared
    shards: NDArray[np.int64]
    #: why no type's GPUs can be shared; empty: some can
    unshared: str

    @staticmethod
    def of(snapshot: Snapshot, capacity: Capacity, wanted: Sequence[str]) -> Kinds:
        """Return the types, in the order of `wanted` or, where that is empty, all GRES types of GPUs by name.

        A name of `wanted` is a GRES type (`gpu:NAME`), or a node feature where no node has such a GRES.
        """
        gres = {name.partition(":")[2] for name in capacity.resources if name.startswith("gpu:")}
        names = tuple(wanted) or tuple(sorted(gres))
        of_node = np.full(len(capacity.names), NOWHERE, dtype=np.intp)
        for kind, name in reversed(list(enumerate(names))):
            if name in gres:
                there = capacity.total[:, capacity.resources.index(f"gpu:{name}")] > 0
            else:
                there = np.array([name in snapshot.nodes[node].features for node in capacity.names], dtype=np.bool_)
            of_node[there] = kind
        gpus = np.zeros(len(names), dtype=np.int64)
        if "gpu" in capacity.resources:
            may = capacity.available & (of_node != NOWHERE)
            np.add.at(gpus, of_node[may], capacity.total[may, capacity.resources.index("gpu")])
        shards, unshared = _shards(capacity, of_node, len(names))
        return Kinds(names=names, of_node=of_node, gpus=gpus, shards=shards, unshared=unshared)


def _shards(capacity: Capacity, of_node: NDArray[np.intp], types: int) -> tuple[NDArray[np.int64], str]:
    """Return the shards of each type's GPUs, 0 where they cannot be shared, and why none can."""
    found = np.zeros(types, dtype=np.int64)
    if SHARD not in capacity.resources or "gpu" not in capacity.resources:
        return found, "no node has shards (gres.conf: Name=shard)"
    gpus, shards = (
        capacity.total[:, capacity.resources.index("gpu")],
        capacity.total[:, capacity.resources.index(SHARD)],
    )
    for kind in range(types):
        there = capacity.available & (of_node == kind) & (gpus > 0)
        if there.any() and (gpus[there] == 1).all():
            found[kind] = shards[there].min()
    if (found >= 2).any():
        return np.where(found >= 2, found, 0), ""
    if not shards[of_node != NOWHERE].any():
        return found * 0, "no node of these types has shards (gres.conf: Name=shard)"
    return found * 0, (
        "no type has shards on all its nodes, two or more of one GPU each; where a node has several GPUs, Slurm alone "
        "says which one a shard is of"
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GavelJobs:
    """The jobs in order of arrival; one entry a job."""

    jobs: tuple[Job, ...]
    demands: tuple[Demand, ...]
    #: since when, over all its runs
    since: NDArray[np.float64]
    #: GPUs that it needs at once
    gpus: NDArray[np.int64]
    #: shards that it asks for instead, of one GPU; 0: it does not share
    shards: NDArray[np.int64]
    #: the row of the job that has shards of the same GPU now; NOWHERE
    mate: NDArray[np.intp]
    #: [jobs, types] steps a second; 0: it does not fit there. Unknown speeds are estimated.
    throughput: NDArray[np.float64]
    #: the type on which it runs; NOWHERE
    on: NDArray[np.intp]
    #: it runs, is eligible to move, and is not going
    movable: NDArray[np.bool_]
    #: it waits, and would start if resources were free and it were not held
    ready: NDArray[np.bool_]
    #: it is back in the queue, and Slurm does not start it again yet
    away: NDArray[np.bool_]
    #: tesched holds it
    held: NDArray[np.bool_]
    #: an order frees resources for it
    served: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.jobs)

    def gpus_of(self, rows: NDArray[np.intp], beside: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the GPUs of these rows, those of two that share one, by `beside` [jobs], once."""
        shared = np.isin(beside[rows], rows) & (beside[rows] < rows)
        return np.where(shared, 0, self.gpus[rows])

    def may_have(self, nodes: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return those of `nodes` [nodes] that one of the jobs may have."""
        masks = {demand.allowed.tobytes(): demand.allowed for demand in self.demands}
        found = np.zeros_like(nodes)
        for mask in masks.values():
            found |= mask
        return found & nodes


def managed_jobs(view: View, kinds: Kinds, *, sharing: bool = False) -> GavelJobs:
    """Return the jobs that Gavel manages now; with `sharing` also those that ask for shards, where there are any."""
    snapshot, memory, capacity = view.snapshot, view.memory, view.capacity
    found = sorted(
        _members(view, sharing=sharing and not kinds.unshared),
        key=lambda pair: (_since(pair[0], memory), pair[0].job_id),
    )
    speeds = _speeds([demand for _, demand in found], kinds, capacity, snapshot.speeds)
    # A job that runs on none of the types would wait for a turn for ever: it is left to Slurm.
    somewhere = np.flatnonzero(speeds.any(axis=1))
    throughput, found = speeds[somewhere], [found[row] for row in somewhere.tolist()]
    jobs, demands = tuple(job for job, _ in found), tuple(demand for _, demand in found)
    leaving = {v.job_id for order in memory.open_orders() for v in order.victims if v.state in HOLDS_RESOURCES}
    served = {order.preemptor for order in memory.open_orders() if order.state is OrderState.OPEN}
    on = np.array([_on(job, kinds, capacity) for job in jobs], dtype=np.intp)
    may = view.eligibility.may_be_asked
    row_of = view.columns.running.row_of
    runs = [job.state is JobState.RUNNING and not job.completing and job.on_nodes for job in jobs]
    movable = [
        run and job.job_id not in leaving and job.job_id in row_of and bool(may[row_of[job.job_id]])
        for run, job in zip(runs, jobs, strict=True)
    ]
    held = [view.held_by_us(job) for job in jobs]
    away = [is_away(job, snapshot) for job in jobs]
    ready = [
        job.pending and not off and (ours or resources_would_not_help(job) is None)
        for ours, off, job in zip(held, away, jobs, strict=True)
    ]
    shards = np.array([requested_shards(job) for job in jobs], dtype=np.int64)
    return GavelJobs(
        jobs=jobs,
        demands=demands,
        since=np.array([_since(job, memory) for job in jobs], dtype=np.float64),
        gpus=np.array([max(requested_gpus(job.request), 1) for job in jobs], dtype=np.int64),
        shards=shards,
        mate=_mates(jobs, shards, on),
        throughput=throughput,
        on=on,
        movable=np.array(movable, dtype=np.bool_),
        ready=np.array(ready, dtype=np.bool_),
        away=np.array(away, dtype=np.bool_),
        held=np.array(held, dtype=np.bool_),
        served=np.array([job.job_id in served for job in jobs], dtype=np.bool_),
    )


def _since(job: Job, memory: Memory) -> float:
    past = memory.job(job.job_id).past
    return past.submitted_at if past is not None else job.submit_time


def requested_shards(job: Job) -> int:
    """Return the shards that the job asks for on each node."""
    return dict(demand_per_node(job.request).gres).get(SHARD, 0)


def _mates(jobs: Sequence[Job], shards: NDArray[np.int64], on: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the job that has shards on the same node, which has one GPU."""
    found = np.full(len(jobs), NOWHERE, dtype=np.intp)
    there: dict[str, int] = {}
    for row in np.flatnonzero((shards > 0) & (on != NOWHERE)).tolist():
        other = there.setdefault(jobs[row].nodes[0], row)
        if other != row:
            found[row], found[other] = other, row
    return found


def _members(view: View, *, sharing: bool) -> Iterator[tuple[Job, Demand]]:
    snapshot, memory = view.snapshot, view.memory
    for job_id, job in snapshot.jobs.items():
        if snapshot.job_class(job_id) is not JobClass.BE or job.finished or not (job.batch and job.requeueable):
            continue
        if memory.is_bound(job_id):
            job = replace(job, request=memory.own_request(job))  # noqa: PLW2901
        request = job.request
        if request.exclusive or request.required_nodes or job.array_job_id is not None or job.het_job_id is not None:
            continue
        if job.left_to_slurm:
            continue
        # A job that Slurm did not start on its own nodes is left to Slurm for a while; so is a protected one.
        if job.pending and (memory.job(job_id).retry_at is not None or protected(job, view.limits)):
            continue
        shards = requested_shards(job)
        if (shards > 0) == (requested_gpus(job.request) > 0) or (shards and not (sharing and request.min_nodes <= 1)):
            continue
        if not _is_ours(job, view) or is_put_off(job, view) or not view.scope.covers(job):
            continue
        try:
            demand = demand_of(job, snapshot, view.capacity)
        except UnsupportedRequestError:
            continue
        if not demand.all_memory and not demand.unknown_gres:
            yield job, demand


def _is_ours(job: Job, view: View) -> bool:
    """Check whether it runs, waits for resources, comes back from a requeue, or is held by tesched."""
    if not job.pending:
        return job.state is JobState.RUNNING
    # A pending job with restarts and a begin time has just been put back.
    return (
        view.held_by_us(job)
        or resources_would_not_help(job) is None
        or (job.reason == "BeginTime" and job.restarts > 0)
        or (is_away(job, view.snapshot) and not job.held)
    )


def is_away(job: Job, snapshot: Snapshot) -> bool:
    """Check whether a job was put back in the queue, and has a begin time for that: Slurm starts it no sooner.

    Its reason may still be that of its last run. A begin time later than a requeue gives is its user's.
    """
    if not job.pending or not job.restarts or job.eligible_time is None:
        return False
    return 0 < job.eligible_time - snapshot.taken_at <= snapshot.settings.requeue_delay_s + _WHOLE_S


def _on(job: Job, kinds: Kinds, capacity: Capacity) -> int:
    found = {int(kinds.of_node[capacity.index[name]]) for name in job.nodes if name in capacity.index}
    return found.pop() if job.on_nodes and len(found) == 1 else NOWHERE


def _speeds(
    demands: Sequence[Demand],
    kinds: Kinds,
    capacity: Capacity,
    known: Mapping[JobId, Mapping[str, float]],
) -> NDArray[np.float64]:
    fits = np.zeros((len(demands), len(kinds.names)), dtype=np.bool_)
    speed = np.full(fits.shape, np.nan)
    shapes: dict[object, NDArray[np.bool_]] = {}
    for row, demand in enumerate(demands):
        if demand.shape not in shapes:
            possible = demand.fits_into(capacity.total) & demand.allowed
            shapes[demand.shape] = np.array(
                [int(possible[kinds.of_node == kind].sum()) >= demand.nodes for kind in range(len(kinds.names))],
                dtype=np.bool_,
            )
        fits[row] = shapes[demand.shape]
        mine = known.get(demand.job.job_id, {})
        speed[row] = [mine.get(name, np.nan) for name in kinds.names]
    shards = np.array([[requested_shards(demand.job)] for demand in demands], dtype=np.int64).reshape(-1, 1)
    fits &= (shards == 0) | (shards <= kinds.shards)
    return np.where(fits, filled(speed), 0.0)
