"""Victims of one order that another order's TE job is to have the resources of.

Slurm gives what comes free to the TE job that is first in its queue, whichever victim has freed it. Of two that are
bound to one node the first one's victim may be saving for minutes while the second one's leaves within seconds: the
first one starts in its place. And a TE job whose resources were taken may be bound to other nodes, for what the victims
of another order leave over there (`orders/reinforce.py`). Nothing is lost by either if it gets that. So

- an order whose own victims have left, and whose TE job does not fit, lasts as long as victims of others may yet leave
  its nodes, if all orders have enough then;
- such a victim whose own TE job has started on these nodes is requeued when its grace period is over, as if that still
  waited. It goes on where no order lacks its resources.

With `guard.bound` neither is done: what is proven of a bound counts on an order that is over in its own victims' time.

Worked example
    At 0 s job 1 has its notice, 300 s, for TE job 9. At 50 s job 2 is requeued for TE job 10 on the same node, and has
    left at 80 s: job 9 starts. The order for job 10 would be over at 140 s, and job 2 had left for nothing. It lasts
    until job 1 has left, at 300 s, and job 10 starts then.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.model.cluster import JobState
from tesched_core.model.order import HOLDS_RESOURCES, Ending, Order, OrderState, Purpose, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.departures import departure_of
from tesched_core.placement.reserved import capacity_after_orders

_STARTED = frozenset({Ending.STARTED_HERE, Ending.STARTED_ELSEWHERE})


def awaits_others(order: Order, context: CycleContext) -> bool:
    """Check whether an order that lacks resources may yet have those of another order's victim."""
    if not _lacks(order, context):
        return False
    coming = _coming(order, context)
    return bool(coming) and _is_enough(coming, order.nodes, context)


def is_lacked(victim: Victim, order: Order, context: CycleContext) -> bool:
    """Check whether another order needs what a victim holds that had its notice, and whose own TE job has started.

    It does where that is enough with what other such victims hold, and what these hold is not without it.
    """
    if not _is_surplus(victim, order) or victim.by_suspending:
        return False  # what an admin has withdrawn, say, goes on
    nodes, preemptor = set(victim.nodes), context.snapshot.jobs.get(order.preemptor)
    for other in context.orders:
        if other.order_id == order.order_id or nodes.isdisjoint(other.nodes) or not _lacks(other, context):
            continue
        if preemptor is None or not preemptor.on_nodes or set(other.nodes).isdisjoint(preemptor.nodes):
            continue  # its own TE job has taken nothing of that one's
        coming = _coming(other, context)
        # Of several that are over at once one is enough: the first leaves, and the others count on that.
        over = {one for one in _over(other, context) if one > victim.job_id}
        with_it, without = coming | {victim.job_id}, coming - {victim.job_id} - over
        if _is_enough(with_it, other.nodes, context) and not _is_enough(without, other.nodes, context):
            return True
    return False


def _is_surplus(victim: Victim, order: Order) -> bool:
    return victim.state is VictimState.NOTICED and victim.purpose is Purpose.TE and order.ending in _STARTED


def _over(order: Order, context: CycleContext) -> set[JobId]:
    """Return the surplus victims on nodes of this order whose grace period is over, each being decided on."""
    nodes = set(order.nodes)
    return {
        victim.job_id
        for other in context.orders
        for victim in other.victims
        if _is_surplus(victim, other)
        and not nodes.isdisjoint(victim.nodes)
        and (victim.deadline is None or context.now >= victim.deadline)
    }


def _coming(order: Order, context: CycleContext) -> set[JobId]:
    """Return the victims of other orders that hold nodes of this one, and are to leave them."""
    nodes = set(order.nodes)
    return {
        victim.job_id
        for other in context.orders
        if other.order_id != order.order_id
        for victim in other.victims
        if not nodes.isdisjoint(victim.nodes) and victim.purpose is Purpose.TE and _may_leave(victim, other, context)
    }


def _lacks(order: Order, context: CycleContext) -> bool:
    """Check whether the victims of an open order have left, and its preemptor waits and does not fit on its nodes."""
    job, capacity = context.snapshot.jobs.get(order.preemptor), context.columns.capacity
    if not (order.frees_resources and order.victims and job is not None and job.pending):
        return False
    # With a bound a TE job is let in for a certain time by which it starts, and no victim is away for another one's.
    if context.limits.bound.is_set or context.snapshot.job_class(order.preemptor) is not JobClass.TE:
        return False
    # Of a node that is silent it is not known what is free there.
    seen = all(name in capacity.index and capacity.available[capacity.index[name]] for name in order.nodes)
    return seen and not any(_holds(victim, context) for victim in order.victims) and not context.fits(order)


def _is_enough(coming: AbstractSet[JobId], of: Collection[str], context: CycleContext) -> bool:
    """Check whether the orders' TE jobs all fit on these nodes once the orders' victims, and these, have left."""
    nodes = set(of)
    orders = (
        replace(
            one,
            victims=tuple(
                replace(victim, state=VictimState.REQUEUING)
                if victim.job_id in coming and victim.state in HOLDS_RESOURCES
                else victim
                for victim in one.victims
            ),
        )
        for one in context.orders
        if not nodes.isdisjoint(one.nodes) or any(not nodes.isdisjoint(victim.nodes) for victim in one.victims)
    )
    capacity = context.columns.capacity
    rows = [capacity.index[name] for name in nodes]
    return bool((capacity_after_orders(orders, context.snapshot, capacity).free[rows] >= 0).all())


def _holds(victim: Victim, context: CycleContext) -> bool:
    if victim.state not in HOLDS_RESOURCES:
        return False
    job = context.snapshot.jobs.get(victim.job_id)
    return victim.job_id in context.absent or departure_of(victim, job, context.now, context.release) is None


def _may_leave(victim: Victim, order: Order, context: CycleContext) -> bool:
    """Check whether a victim of this order holds its nodes, and is to leave them."""
    is_next = order.state is OrderState.OPEN or victim.state is not VictimState.PLANNED
    if not is_next or victim.by_suspending or not _holds(victim, context):
        return False
    job = context.snapshot.jobs.get(victim.job_id)
    if job is None or victim.job_id in context.absent:
        return context.is_ending(victim) or (victim.deadline is not None and context.now < victim.deadline)
    if job.completing:
        return context.is_ending(victim)
    return job.state is JobState.RUNNING  # one that an admin has suspended gets no command
