"""Nodes of an open order that are out of service and awaited (`placement/lost_nodes.py`): what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.model.order import LostNode, Order, OrderState
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.lost_nodes import gone_nodes

#: of many nodes so many are named, with their reasons
_MOST_NAMED = 3


def with_lost_nodes(order: Order, context: CycleContext) -> Order:
    """Return the order with its nodes that are out of service, as long as it is open; a step says which are new."""
    if order.state is not OrderState.OPEN or order.preemptor in context.absent:
        return order
    gone = gone_nodes(order, context.snapshot, context.columns.capacity)
    lost = tuple(_lost(name, context.snapshot) for name in gone)
    if lost == order.lost_nodes:
        return order
    before, after = {one.name for one in order.lost_nodes}, replace(order, lost_nodes=lost)
    if new := [one for one in lost if one.name not in before]:
        context.order_step(order, after, _out_of_service(new, order, context))
    if back := sorted(before.difference(gone)):
        context.order_step(order, after, f"in service again: {','.join(back)}")
    return after


def awaits_in_words(orders: Iterable[Order]) -> list[str]:
    """Return a sentence for each order that awaits nodes which are out of service."""
    return [
        f"order {order.order_id} awaits what is out of service: {_named(order.lost_nodes)}"
        for order in orders
        if order.state is OrderState.OPEN and order.lost_nodes
    ]


def _lost(name: str, snapshot: Snapshot) -> LostNode:
    node = snapshot.nodes.get(name)
    if node is None:
        return LostNode(name=name, state="")
    return LostNode(name=name, state="+".join((node.state, *sorted(node.flags))), reason=node.reason)


def _out_of_service(lost: Sequence[LostNode], order: Order, context: CycleContext) -> str:
    job = context.snapshot.jobs.get(order.preemptor)
    return (
        f"out of service: {_named(lost)}; job {job.label if job else order.preemptor} is bound to no nodes meanwhile, "
        f"and its order goes on until {context.limits.order_timeout_s:.0f} s after its victims have left "
        "(guard.order_timeout_s)"
    )


def _named(lost: Sequence[LostNode]) -> str:
    more = len(lost) - _MOST_NAMED
    return ", ".join(map(str, lost[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
