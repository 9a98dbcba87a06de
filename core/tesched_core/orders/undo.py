"""Undo: all that tesched still has changed is put back, also when the daemon is dead or about to end.

Orders under way are withdrawn: a victim that has not left keeps its nodes, one that waits to run again waits with its
own priority, and a suspended one is resumed once its CPUs are free. One that has had its notice may obey it until its
grace period is over, and is put back in the queue then: by this, or by the next daemon.
As ever, a value is believed to be back only when that is seen, so this is repeated until nothing is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever
from tesched_core.model.decision import Decision, Refusals
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Ending, Order, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.advance import end_wait, gone, look_for_return
from tesched_core.orders.departures import may_go
from tesched_core.orders.early_rerun import failed_of_its_notice, rerun_early
from tesched_core.orders.levers import LEVERS
from tesched_core.orders.requeue import owes_rerun
from tesched_core.orders.settled import add_delay, ended_if_settled
from tesched_core.placement.columns_of import columns_of


def undo(
    memory: Memory, snapshot: Snapshot, limits: Limits, levers: Sequence[Lever] = LEVERS
) -> tuple[Memory, Decision]:
    """Return the memory and what is to be done; nothing is left once no order is open and no lever has a change."""
    context = CycleContext.of(memory, snapshot, columns_of(snapshot), limits)
    context.refused = {}  # an admin asks for it, or it is the last chance: all is tried
    # What is not shown at all counts as gone here: a daemon may have been dead for days.
    context.absent = frozenset(job.job_id for job in snapshot.jobs.values() if job.doubt)
    orders = dict(memory.orders)
    for order in memory.open_orders():
        orders[order.order_id] = _withdrawn(order, context)
    for lever in levers:
        lever.restore(orders, context)
    for order in memory.open_orders():
        orders[order.order_id] = after = _given_up(orders[order.order_id], context)
        for victim, now in zip(order.victims, after.victims, strict=True):
            # No cycle follows an order that has ended.
            if not victim.settled and (now.settled or after.ended_at is not None):
                add_delay(now, context)
    memory = context.draft.written(replace(memory, cycle=memory.cycle + 1, orders=orders, policy_states={}))
    left = changed_still(memory, snapshot, levers)
    actions = tuple(context.actions)
    summary = f"undo: {len(actions)} change(s) to put back" if actions or left else "undo: nothing is left to put back"
    if leaving := under_notice(memory):
        summary += f"; may leave yet, and are followed by the next daemon then: {', '.join(map(str, leaving))}"
    decision = Decision(
        cycle=memory.cycle,
        at=snapshot.taken_at,
        policy="",
        actions=actions,
        refusals=Refusals(),
        transitions=tuple(context.transitions),
        summary=summary,
    )
    return memory, decision


def changed_still(memory: Memory, snapshot: Snapshot, levers: Sequence[Lever] = LEVERS) -> int:
    """Count tesched's changes and orders that are not seen to be put back."""
    return len(memory.open_orders()) + sum(lever.outstanding(memory, snapshot) for lever in levers)


def under_notice(memory: Memory) -> tuple[JobId, ...]:
    """Return the victims of orders under way that hold their nodes, and may leave yet."""
    held = (victim for order in memory.open_orders() for victim in order.victims if victim.state in HOLDS_RESOURCES)
    return tuple(victim.job_id for victim in held)


def _withdrawn(order: Order, context: CycleContext) -> Order:
    if order.state is OrderState.OPEN:
        order = end_wait(order, Ending.WITHDRAWN, "withdrawn: its changes are put back", context)
    return replace(order, victims=tuple(_let_go(victim, order, context) for victim in order.victims))


def _given_up(order: Order, context: CycleContext) -> Order:
    """Return the order, ended once each victim stays on its nodes, or is seen to be in the queue if it is to be."""
    jobs = context.snapshot.jobs
    for victim in order.victims:
        job = jobs.get(victim.job_id)
        is_owed = job is not None and owes_rerun(victim, job)
        if is_owed or victim.state is VictimState.SUSPENDED or victim.state in HOLDS_RESOURCES:
            return order
    return ended_if_settled(order, context, victims_wait=True)


def _let_go(victim: Victim, order: Order, context: CycleContext) -> Victim:
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.state is VictimState.LEFT and victim.job_id not in context.absent:
        return look_for_return(victim, job, order, context)
    if victim.state not in HOLDS_RESOURCES:
        return victim
    after = gone(victim, job, order, context)
    if after is not None:
        return after
    if job is not None and failed_of_its_notice(victim, job, context.snapshot.settings):
        return rerun_early(victim, order, context)
    if victim.noticed_at is not None:
        # A daemon may be started again, and should not ask it at once.
        context.draft.update(victim.job_id, last_preempted=context.now)
    if may_go(victim, context.snapshot):
        return victim
    spared = replace(victim, state=VictimState.SPARED)
    return context.victim_step(order, victim, spared, "the order was withdrawn; it goes on")
