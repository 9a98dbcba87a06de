"""TE jobs come before the turns of BE jobs that still await Slurm's word: no victim of these has been notified.

A turn keeps its place, and its victims, for as long as Slurm says nothing of its job (`first_look.py`), and that may
take 90 s. A TE job is planned as if there were no such turn. Once its order has one of the turn's victims, or so much
on its nodes that not enough is left for the turn, the turn ends, at no cost to any job, and may be planned anew.

While the TE job itself awaits Slurm's word it has no nodes, and ends no turn.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.of_orders import settle
from tesched_core.model.actions import SetField
from tesched_core.model.field import Field
from tesched_core.model.limits import YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Ending, Order, OrderState, VictimState
from tesched_core.orders.first_look import awaits_look
from tesched_core.placement.reserved import capacity_after_orders


def without_waiting_turns(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory without the turns that TE jobs come before; with Slurm's plugin no order is made for these."""
    if context.limits.lever is YieldBy.PLUGIN:
        return memory
    kept = {order_id: one for order_id, one in memory.orders.items() if not _waits(one, context)}
    return memory if len(kept) == len(memory.orders) else replace(memory, orders=kept)


def with_te_first(memory: Memory, before: Memory, context: CycleContext) -> Memory:
    """Return the memory in which turns end whose victims, or place, the TE orders have that were not in `before`."""
    if memory is before:
        return memory
    opened = [one for one in memory.open_orders() if one.nodes and _had_none(one, before)]
    nodes = {name for one in opened for name in one.nodes}
    chosen = {victim.job_id for one in opened for victim in one.victims}
    for turn in memory.open_orders():
        if not _waits(turn, context):
            continue
        if any(victim.job_id in chosen for victim in turn.victims) or (
            not nodes.isdisjoint(turn.nodes) and _is_short(turn, memory, context)
        ):
            memory = replace(memory, orders={**memory.orders, turn.order_id: _ended(turn, context)})
    return memory


def _waits(order: Order, context: CycleContext) -> bool:
    return order.state is OrderState.OPEN and awaits_look(order, context)


def _had_none(order: Order, before: Memory) -> bool:
    known = before.orders.get(order.order_id)
    return known is None or not known.nodes


def _is_short(turn: Order, memory: Memory, context: CycleContext) -> bool:
    """Check whether the jobs of all orders do not fit on the turn's nodes, once all victims have left."""
    capacity = context.columns.capacity
    rows = [capacity.index[name] for name in turn.nodes if name in capacity.index]
    return bool((capacity_after_orders(memory.open_orders(), context.snapshot, capacity).free[rows] < 0).any())


def _is_for(action: SetField, turn: Order) -> bool:
    """Check whether it raises the turn's job, or binds it; a hold that ends is not the turn's alone."""
    is_its_own = action.job_id == turn.preemptor and action.reason.order_id == turn.order_id
    return is_its_own and action.field is not Field.HOLD


def _ended(turn: Order, context: CycleContext) -> Order:
    text = "a TE job comes first, and has what this turn was to have"
    ended = context.order_step(turn, replace(turn, state=OrderState.SETTLING, ending=Ending.OVERTAKEN), text)
    context.preemptors.discard(turn.preemptor)
    # What this cycle was to set for it is not sent: what is put back is what Slurm shows.
    context.actions = [one for one in context.actions if not (isinstance(one, SetField) and _is_for(one, turn))]
    settle(ended, context)
    goes_on = "its turn has ended, and a TE job comes first"
    return replace(
        ended,
        victims=tuple(
            context.victim_step(ended, victim, replace(victim, state=VictimState.SPARED), goes_on)
            if victim.state in HOLDS_RESOURCES
            else victim
            for victim in ended.victims
        ),
    )
