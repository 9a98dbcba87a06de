"""TE jobs that are first in their queue, that Slurm has considered there, and for which no victim may be selected.

An order without victims puts a TE job at the head of its queue: until Slurm has considered it there
(`orders/first_look.py`), for what comes free by itself (`orders/turnover.py`), or as its free nodes were taken
(`orders/reinforce.py`). Then the policy proposes victims. Where it finds none that the guard admits, as each has
reached a limit by the hour, is protected or may not come back, the job would stay there, ahead of others, for as long
as that lasts. So its order ends once that has been so for `NO_PLAN_FOR_S`: its priority is put back, and it is tried
again after guard.retry_after_s. Until its order ends it is served in the first cycle in which victims may be selected.

What shows at the head alone is awaited there: while it is at a limit, or lacks a licence, its time does not run
(docs/adr/0014); nor while its owner's patience lasts. Nor does it run once Slurm has considered the job while a node of
its partitions, or a job there, is silent or in doubt, as each is after a restart of slurmctld: no job there may be a
victim, and nothing is concluded from that. Whether Slurm considers it in time is another matter
(`first_look.look_is_overdue`).
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.of_orders import settle
from tesched_core.fields.slurms_word import LOOK_WITHIN_S
from tesched_core.intake.patience import why_it_waits
from tesched_core.intake.pending_reason import has_reason, waits_at_the_head
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending, Order
from tesched_core.orders.advance import end_wait
from tesched_core.orders.futility import came_to_nothing
from tesched_core.placement.lost_nodes import is_silent

#: as long as Slurm has for considering a job
NO_PLAN_FOR_S = LOOK_WITHIN_S


def without_plan(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory after the policies have proposed: orders have ended whose job waits, and gets no victim."""
    orders = dict(memory.orders)
    for order in memory.open_orders():
        job = context.snapshot.jobs.get(order.preemptor)
        if not order.waits or order.waits_until is None or job is None or order.preemptor in context.absent:
            continue
        if job.pending and not (job.doubt or job.partly_read):
            orders[order.order_id] = _after(order, job, order.waits_until, context)
    return memory if orders == memory.orders else replace(memory, orders=orders)


def _after(order: Order, job: Job, since: float, context: CycleContext) -> Order:
    patience = why_it_waits(job, context.snapshot.traits[job.job_id], context.now)
    was_considered = has_reason(job.reason) and job.reason != "Priority"
    is_awaited = waits_at_the_head(job) or patience is not None
    # Set now and then: each is written to the store.
    if context.now - since > NO_PLAN_FOR_S / 2 and (is_awaited or (was_considered and _is_unclear(job, context))):
        return replace(order, waits_until=context.now)
    if is_awaited or not was_considered or context.now - since <= NO_PLAN_FOR_S:
        return order
    text = f"job {job.label} is first in its queue (Slurm says: {job.reason}), and no victim may be selected for it"
    order = end_wait(order, Ending.EXPIRED, text, context)
    came_to_nothing(order, context)
    settle(order, context)
    return order


def _is_unclear(job: Job, context: CycleContext) -> bool:
    """Check whether a node of the job's partitions that it may use is silent, or it or a job on it can't be read."""
    partitions = (context.snapshot.partitions.get(name) for name in job.partitions)
    names = {name for one in partitions if one is not None for name in one.nodes}.difference(job.request.excluded_nodes)
    nodes = ((name, context.snapshot.nodes.get(name)) for name in names)
    if any(one is not None and (one.doubt or is_silent(name, context.snapshot)) for name, one in nodes):
        return True
    doubted = (one for one in context.snapshot.jobs.values() if one.doubt or one.partly_read)
    return any(not names.isdisjoint(one.nodes) for one in doubted)
