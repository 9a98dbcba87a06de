"""A TE job is put at the head of its queue, and Slurm considers it there, before any victim is notified.

Of a job behind another one Slurm says Priority, whatever else it waits for: a limit of its user, account or QOS shows
only when Slurm comes to it. A victim that was notified before would leave for nothing, and again at each try.

So an order for such a job first waits (`Order.waits`): its job is raised, and notifies none. That costs one pass of
slurmctld, which the raise itself brings about. Then Slurm says Resources, and the policy proposes again (what it says
from the submission on is no such word: `fields/slurms_word.py`); or it says which limit there is, and the job stays at
the head, without a victim, until that is gone. If Slurm has not come to it within `LOOK_WITHIN_S`, no victim is
notified, and the job is tried again later.

Of two such jobs in one partition Slurm comes to the second when the first is bound to its nodes, or has
started.

The turn of a BE job is another matter: it is bound to its nodes and, where tesched holds it, hidden by that hold is
what else it waits for (Slurm says JobHeldAdmin). So its order is opened, it is released and raised, and its victims are
notified once Slurm says that it lacks resources (`awaits_look`): it starts on its own nodes alone meanwhile. If Slurm
says a limit, or nothing within `LOOK_WITHIN_S` and three polls, its victims go on, and it is left to Slurm for
guard.retry_after_s. Nothing is kept for it meanwhile: others may take its place (`overtaken.py`), and TE jobs its
victims as well (`te_first.py`).

With guard.await_first_look = "auto" that is not awaited for a job that can wait for nothing but resources, so that
Slurm's word is not needed (`waits_for_resources_alone`). With false the site says so of each job that requests nodes
alone, and with true it is awaited in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.slurms_word import LOOK_WITHIN_S, considered_at_the_head
from tesched_core.intake.pending_reason import (
    WAITS_FOR_RESOURCES,
    asks_for_nodes_alone,
    has_reason,
    may_lack_a_licence,
)
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.column_layout import SHARD
from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState
from tesched_core.model.request import demand_per_node
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.futility import was_asked
from tesched_core.orders.in_time import lasts_s
from tesched_core.orders.overtaken import is_held_by_us
from tesched_core.placement.by_sums import may_start_by_sums
from tesched_core.placement.can_return import takes
from tesched_core.placement.jobs_there import JobsThere
from tesched_core.placement.lost_nodes import gone_nodes
from tesched_core.placement.reserved import beside_preemptors, fits_without_free
from tesched_core.policy import AwaitRoom, MakeRoom, Plan

#: as scontrol and squeue write it; of a reservation Slurm says another word behind the comma
_NODE_OF_ANOTHER = re.compile(r"ReqNodeNotAvail,[ _]UnavailableNodes:")
#: in which a turn's job is released and raised, and Slurm's word on it is seen; and one that fails
_POLLS = 3
_TEXT = "it was put at the head of the queue; no victim is notified until Slurm has considered it there"


def at_the_head_first(
    plans: tuple[Plan, ...],
    memory: Memory,
    context: CycleContext,
    limits: Limits,
    on_free: frozenset[JobId] = frozenset(),
) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans; those for a job that Slurm has not seen at the head of its queue ask no victim yet.

    While another TE job is to start on free resources (`on_free`, and orders without victims) Slurm's word is awaited:
    that one is bound to no nodes, and would take what the victims free (a BE job in its turn is bound). So it is, with
    "auto", where a plan counts on resources that are free: until the job is first in its queue, others may start on
    them. And so it is where by sums alone the job may start on what is free: Slurm may count otherwise than the plan
    does, and need no victim.
    """
    on_free |= {
        one.preemptor
        for one in memory.open_orders()
        if one.state is OrderState.OPEN and _takes_any(one, context) and _is_te(one, context.snapshot)
    }
    waiting = {order.preemptor: order for order in memory.open_orders() if order.waits}
    raises = context.changes_of(Field.NICE)
    kept: list[Plan] = []
    refusals: list[Refusal] = []
    for plan in plans:
        job = context.snapshot.jobs[plan.preemptor]
        if (
            isinstance(plan, AwaitRoom)
            or not plan.victims
            or considered_at_the_head(job, context.snapshot, raises.get(job.job_id))
            or (
                on_free <= {plan.preemptor}
                and waits_for_resources_alone(job, context.snapshot, limits)
                and (limits.await_first_look is False or _is_certain(plan, job, memory, context))
            )
        ):
            kept.append(plan)
            continue
        before = waiting.get(plan.preemptor)
        until = before.waits_until if before is not None and before.waits_until is not None else context.now
        kept.append(AwaitRoom(preemptor=plan.preemptor, until=until, awaits_look=True))
        code = RefusalCode.NOT_CONSIDERED_YET
        refusals.append(Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=code, text=_TEXT))
    return tuple(kept), Refusals(refusals)


def _is_certain(plan: MakeRoom, job: Job, memory: Memory, context: CycleContext) -> bool:
    """Check whether a victim may be notified before Slurm's word; what is freed for a BE job's turn keeps no TE job."""
    snapshot = context.snapshot
    others = [one for one in memory.open_orders() if one.preemptor != job.job_id and _is_te(one, snapshot)]
    return certainly_serves(plan, job, snapshot, context.columns.capacity, others, context.there)


def certainly_serves(  # noqa: PLR0917 - a plan, and what it is weighed by
    plan: MakeRoom,
    job: Job,
    snapshot: Snapshot,
    capacity: Capacity,
    others: Iterable[Order] = (),
    there: JobsThere | None = None,
) -> bool:
    """Check whether the job needs the plan's victims for certain, and what they leave is enough by itself.

    Until the job is first in its queue, others may start on what is free now, and its victims would leave for nothing.
    What `others` free is for their own jobs.
    """
    if plan.by_suspending:
        return False  # their memory stays taken
    if not fits_without_free(job, plan.nodes, plan.victim_ids, snapshot, capacity):
        return False
    return not may_start_by_sums(job, snapshot, beside_preemptors(others, snapshot, capacity), there)


def _takes_any(order: Order, context: CycleContext) -> bool:
    """Check whether its job is bound to no nodes: it needs no victim, or one of its nodes is out of service."""
    if not order.victims:
        return not order.waits
    return bool(gone_nodes(order, context.snapshot, context.columns.capacity))


def _is_te(order: Order, snapshot: Snapshot) -> bool:
    return snapshot.job_class(order.preemptor) is JobClass.TE


def waits_for_resources_alone(job: Job, snapshot: Snapshot, limits: Limits) -> bool:
    """Check whether a pending job, of which Slurm says no reason or Priority, waits for resources and nothing else.

    With "auto" each of its partitions must take it as it is, no limit of an association or a QOS may keep it, and no
    part of Slurm may delay it whose word no record of a job shows.
    """
    said = limits.await_first_look
    if said is True or not asks_for_nodes_alone(job, snapshot.taken_at):
        return False
    if said is False:
        return True
    settings = snapshot.settings
    if len(job.each_qos) > 1:
        return False  # of which of them the limits count is not known
    if settings.has_burst_buffers or (settings.limits_enforced and job.job_id not in snapshot.unlimited):
        return False
    partitions = [snapshot.partitions.get(name) for name in job.partitions]
    return bool(partitions) and all(one is not None and takes(one, job, snapshot) for one in partitions)


def awaiting_limits(snapshot: Snapshot, limits: Limits) -> tuple[tuple[Job, ...], tuple[Job, ...]]:
    """Select the pending TE jobs that may be served at once if no limit keeps them, and all that may start soon."""
    if limits.await_first_look != "auto" or not snapshot.settings.limits_enforced:
        return (), ()
    pending = tuple(
        job
        for job in snapshot.jobs.values()
        if job.pending
        and not job.held
        and snapshot.job_class(job.job_id) is JobClass.TE
        and (not has_reason(job.reason) or job.reason in WAITS_FOR_RESOURCES)
    )
    as_if = replace(snapshot, unlimited=frozenset(job.job_id for job in pending))
    return tuple(
        job
        for job in pending
        if not considered_at_the_head(job, snapshot, None) and waits_for_resources_alone(job, as_if, limits)
    ), pending


def awaits_look(order: Order, context: CycleContext) -> bool:
    """Check whether the victims of a BE job's turn are not notified yet: Slurm has not said that it lacks resources.

    Of one that runs, and moves to other nodes, no word is awaited: it is within its limits. One that asks for shards
    might start beside victims that have shards as well, on a GPU that it is not to share with them.
    """
    job = context.snapshot.jobs.get(order.preemptor)
    if job is None or not job.pending or context.snapshot.job_class(job.job_id) is not JobClass.BE:
        return False
    if not order.victims or any(map(was_asked, order.victims)):
        return False
    if _wants_shards(job) and any(_wants_shards(context.snapshot.jobs.get(one.job_id)) for one in order.victims):
        return False
    raised = context.changes_of(Field.NICE).get(job.job_id)
    if considered_at_the_head(job, context.snapshot, raised) and not may_lack_a_licence(job):
        return False
    if _stands_behind_another_turn(order, job, context):
        return False
    if is_held_by_us(job, context):
        job = replace(job, priority=1, reason="")
    is_unclear = has_reason(job.reason) and job.reason != "Priority"
    return is_unclear or not waits_for_resources_alone(job, context.snapshot, context.limits)


def _wants_shards(job: Job | None) -> bool:
    return job is None or bool(dict(demand_per_node(job.request).gres).get(SHARD))


def _stands_behind_another_turn(order: Order, job: Job, context: CycleContext) -> bool:
    """Check whether Slurm says that nodes of the order's are not available, and another order's job waits for them.

    A pass gives no further job to nodes that one ahead requires and waits for: of two jobs that are bound to one node
    the second has this reason until the first has started (tried on 22.05). Limits and licences are checked before.

    It counts for orders alone. A job that its user has bound to the node (--nodelist), and that is ahead, would have
    what is freed there: Slurm gives none of it to those behind until that one has started.
    """
    if _NODE_OF_ANOTHER.match(job.reason) is None:
        return False
    nodes = {*order.nodes}
    for other in context.orders:
        if other.order_id == order.order_id or other.state is not OrderState.OPEN or nodes.isdisjoint(other.nodes):
            continue
        preemptor = context.snapshot.jobs.get(other.preemptor)
        if preemptor is not None and preemptor.pending and not other.waits:
            return True
    return False


def with_time_to_leave(order: Order, context: CycleContext) -> Order:
    """Return the order, of which no victim has had its notice, with all of its time from now on."""
    return replace(order, expires_at=context.now + lasts_s(order.preemptor, order.victims, context))


def look_is_overdue(order: Order, job: Job, context: CycleContext) -> bool:
    """Check whether Slurm should long have considered the order's job at the head of its queue."""
    if awaits_look(order, context):
        # It is bound and released at one poll, raised at the next, and what Slurm says then is seen at the third.
        return context.now > order.created_at + max(LOOK_WITHIN_S, _POLLS * context.longest_wait_s)
    if not order.waits or order.waits_until is None:
        return False
    overdue = context.now > order.waits_until + LOOK_WITHIN_S
    return overdue and job.reason in {"", "None", "Priority"} and not _behind_another(order, job, context)


def _behind_another(order: Order, job: Job, context: CycleContext) -> bool:
    """Check whether another job for which resources are freed is ahead of it: Slurm considers it after that one."""
    rivals = context.partitions_beside(job.partitions)
    others = (context.snapshot.jobs.get(one.preemptor) for one in context.orders if one.order_id != order.order_id)
    return any(
        other is not None
        and other.pending
        and other.job_id in context.preemptors
        and other.priority >= job.priority
        and not rivals.isdisjoint(other.partitions)
        for other in others
    )
