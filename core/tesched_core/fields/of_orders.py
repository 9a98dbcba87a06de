"""Fields of which orders want a value: that is carried out where an order says so, before its victims are notified.

What is not wanted any more is put back at the end of the cycle, as for every field (`fields/reconcile.py`); a place in
the queue as soon as its order does not need it.
"""

from __future__ import annotations

from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields import priority, victim_boost
from tesched_core.fields.nice_rule import NICE_RULE
from tesched_core.fields.node_binding import NODE_BINDING_RULE
from tesched_core.fields.reconcile import FieldLever
from tesched_core.model.change import By
from tesched_core.model.cluster import Job
from tesched_core.model.order import Order, Victim, VictimState
from tesched_core.model.resources import JobId

#: A preemptor is raised before it is bound.
_RULES: tuple[FieldLever[Any], ...] = (NICE_RULE, NODE_BINDING_RULE)


def carry_out(order: Order, context: CycleContext) -> None:
    """Carry out what an open order wants of its preemptor."""
    for rule in _RULES:
        for want in rule.wants_of(order, context):
            rule.set(want, context)


def place_victim(victim: Victim, order: Order, context: CycleContext) -> None:
    """Put a victim that waits to run again ahead of other best-effort jobs, or back where it has no claim to that."""
    no_claim = victim_boost.why_not(victim, context) if victim.awaited else ""
    if not victim.awaited or no_claim:
        NICE_RULE.settle(victim.job_id, By.VICTIM, order, context, no_claim)
    elif (want := victim_boost.want_of(victim, order, context)) is not None:
        NICE_RULE.set(want, context)


def settle(order: Order, context: CycleContext) -> None:
    """Put back what a settling order does not need of its preemptor any more."""
    NICE_RULE.settle(order.preemptor, By.PREEMPTOR, order, context)


def why_overruled(order: Order, job: Job, context: CycleContext) -> str:
    """Say why what an order wants of its preemptor is given up: others undo it again and again; empty if it is not."""
    return priority.why_left(order, job, context)


def returning(context: CycleContext) -> set[JobId]:
    """Find the victims that wait to run again, and have a claim to be ahead of others."""
    return {
        victim.job_id
        for order in context.orders
        for victim in order.victims
        if victim.state is VictimState.LEFT and not victim_boost.why_not(victim, context)
    }
