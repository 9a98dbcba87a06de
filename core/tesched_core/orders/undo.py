"""Undo: all that tesched still has changed is put back, also when the daemon is dead or about to end.

Orders under way are withdrawn: a victim that has not left keeps its nodes, one that waits to run again waits with its
own priority, and a suspended one is resumed once its CPUs are free.
As ever, a value is believed to be back only when that is seen, so this is repeated until nothing is left.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.levers import hold, queue_boost, throttle
from tesched_core.levers.context import CycleContext
from tesched_core.levers.node_binding import still_bound, unbind
from tesched_core.levers.priority import left_held, let_back, put_back
from tesched_core.levers.suspend import follow
from tesched_core.model.decision import Decision, Refusals
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_ROOM, Ending, Order, OrderState, Victim, VictimState
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.advance import departure_of, leave
from tesched_core.placement.columns_of import columns_of

_WITHDRAWN = "the order was withdrawn; it goes on"


def undo(memory: Memory, snapshot: Snapshot, limits: Limits) -> tuple[Memory, Decision]:
    """Return the memory and what is to be done; nothing is left once no order is open and no job is boosted."""
    context = CycleContext(
        snapshot=snapshot,
        columns=columns_of(snapshot),
        limits=limits,
        bound=dict(memory.bound),
        bound_since=dict(memory.bound_since),
        preemptions=dict(memory.preemptions),
        last_preempted=dict(memory.last_preempted),
        paid=list(memory.paid),
        past=dict(memory.past),
    )
    orders = dict(memory.orders)
    for order in memory.open_orders():
        orders[order.order_id] = _withdrawn(order, context)
    memory = replace(
        memory,
        cycle=memory.cycle + 1,
        orders=orders,
        preemptions=context.preemptions,
        last_preempted=context.last_preempted,
        paid=tuple(context.paid),
        past=context.past,
    )
    memory = throttle.restore(memory, context)
    memory = unbind(queue_boost.restore(memory, context, lasts_s=-1), context, all_of_them=True)
    memory = replace(hold.carry_out(memory, {}, {}, context), policy_states={})
    left = changed_still(memory, snapshot)
    actions = tuple(context.actions)
    summary = f"undo: {len(actions)} change(s) to put back" if actions or left else "undo: nothing is left to put back"
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


def changed_still(memory: Memory, snapshot: Snapshot) -> int:
    """Return how many of tesched's changes are not seen to be put back."""
    changes = len(memory.open_orders()) + len(memory.forwarded) + len(still_bound(memory, snapshot))
    return changes + len(memory.throttled) + hold.outstanding(memory, snapshot)


def _withdrawn(order: Order, context: CycleContext) -> Order:
    if order.state is OrderState.OPEN:
        context.moved(order.order_id, None, order.state, OrderState.SETTLING, "withdrawn: its changes are put back")
        order = replace(order, state=OrderState.SETTLING, ending=Ending.WITHDRAWN)
    order = put_back(order, context)
    victims = (let_back(_let_go(victim, order, context), order, context) for victim in order.victims)
    order = replace(order, victims=tuple(victims))
    raises = [order.raised, *(victim.raised for victim in order.victims)]
    suspended = any(victim.state is VictimState.SUSPENDED for victim in order.victims)
    if not suspended and all(raised is None or raised.restored for raised in raises):
        context.moved(order.order_id, None, order.state, OrderState.ENDED, "all is as it was")
        order = replace(order, state=OrderState.ENDED, ended_at=context.now)
    return order


def _let_go(victim: Victim, order: Order, context: CycleContext) -> Victim:
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.state is VictimState.SUSPENDED:
        if job is not None and job.on_nodes and job.restarts == victim.restarts:
            return follow(victim, job, order, context)
        text = "it is not suspended any more"
        context.moved(order.order_id, victim.job_id, victim.state, VictimState.SPARED, text)
        return replace(victim, state=VictimState.SPARED, raised=left_held(victim, job))
    if victim.state not in HOLDS_ROOM:
        return victim
    departure = departure_of(victim, job, context.now, context.release)
    if departure is not None:
        return leave(victim, departure, order, context)
    context.moved(
        order.order_id, victim.job_id, victim.state, VictimState.SPARED, "the order was withdrawn; it goes on"
    )
    if victim.noticed_at is not None:
        # A daemon may be started again, and should not ask it at once.
        context.last_preempted[victim.job_id] = context.now
    return replace(victim, state=VictimState.SPARED)
