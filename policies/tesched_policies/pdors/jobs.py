"""The jobs that PD-ORS manages on a real cluster, each with what is known of it.

A managed job is a best-effort batch job that takes equal shares of nodes. All else (trials, exempt jobs, arrays,
heterogeneous jobs, those that ask for certain nodes) is left to Slurm, and what it holds is not planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from tesched_core.guard.eligibility import protected
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.policy import View

from tesched_policies.pdors.workload import Training, TrainingKind, training_of
from tesched_policies.put_off import is_put_off


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PdOrsJob:
    """One job."""

    #: as its user submitted it: what tesched has changed of its nodes is taken back here
    job: Job
    demand: Demand
    training: Training
    #: since when, over all its runs
    since: UnixSeconds
    #: it waits, and Slurm would start it if resources were free and it were not held
    waits: bool
    #: its last order came to nothing: it waits as any other job, without a plan of its own, until it is tried again
    left_alone: bool
    #: tesched holds it
    held: bool
    #: an order is about to start it
    served: bool
    #: what was changed for an order of its own is not all put back yet
    settling: bool
    #: the last order for it, as long as it is remembered
    order: Order | None


def managed_jobs(view: View, workloads: Mapping[str, TrainingKind], slot_s: float) -> dict[JobId, PdOrsJob]:
    """Return the jobs that PD-ORS manages now, in order of arrival."""
    found = sorted(_members(view, workloads, slot_s), key=lambda member: (member.since, member.job.job_id))
    return {member.job.job_id: member for member in found}


def _members(view: View, workloads: Mapping[str, TrainingKind], slot_s: float) -> Iterator[PdOrsJob]:
    snapshot, memory = view.snapshot, view.memory
    orders: dict[JobId, Order] = {order.preemptor: order for _, order in sorted(memory.orders.items())}
    for job_id, seen in snapshot.jobs.items():
        if snapshot.job_class(job_id) is not JobClass.BE or seen.finished or not seen.batch:
            continue
        job = _own(seen, view)
        left_alone = seen.pending and memory.job(job_id).retry_at is not None
        waits = seen.pending and not left_alone and _would_start(seen, view)
        if not (waits or left_alone or seen.on_nodes) or job.array_job_id is not None or job.het_job_id is not None:
            continue
        if seen.left_to_slurm or job.request.required_nodes or (seen.pending and protected(seen, view.limits)):
            continue
        try:
            demand = demand_of(job, snapshot, view.capacity)
        except UnsupportedRequestError:
            continue
        if demand.unknown_gres:
            continue
        traits, expected = snapshot.traits[job_id], snapshot.expected_run(job_id)
        if expected is not None:
            traits = replace(traits, run_time_s=expected.median_s)
        share = view.capacity.total.max(axis=0) if job.request.exclusive else demand.per_node
        past, order = memory.job(job_id).past, orders.get(job_id)
        yield PdOrsJob(
            job=job,
            demand=demand,
            training=training_of(job, traits, workloads.get(traits.workload), share.astype(np.float64), slot_s),
            since=past.submitted_at if past else job.submit_time,
            waits=waits,
            left_alone=left_alone,
            held=view.held_by_us(seen),
            served=order is not None and order.state is OrderState.OPEN,
            settling=memory.is_bound(job_id) or (order is not None and order.ended_at is None),
            order=order,
        )


def _own(job: Job, view: View) -> Job:
    """Job with the nodes, and the number of them, of its own request."""
    return replace(job, request=view.memory.own_request(job)) if view.memory.is_bound(job.job_id) else job


def _would_start(job: Job, view: View) -> bool:
    """Check whether the job waits for resources, or comes back from a requeue, or is held by tesched.

    One that Slurm has not considered yet is held before it does: else it starts wherever it fits. One that its user has
    put off would start in no turn of its own, whatever else is true of it.
    """
    if is_put_off(job, view):
        return False
    why = resources_would_not_help(job)
    if why is None or view.held_by_us(job) or (job.reason == "BeginTime" and job.restarts > 0):
        return True
    return why[0] is RefusalCode.NOT_CONSIDERED_YET
