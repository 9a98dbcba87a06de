"""Outcomes: what Slurm answered to the actions of the last cycle, applied to the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, final, said
from tesched_core.model.actions import Outcome, ReasonCode, Rerun, Status, sets
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, Order, OrderState, Transition, VictimState
from tesched_core.model.refused import after as refused_after
from tesched_core.model.refused import field_of
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.advance import end_wait
from tesched_core.orders.futility import came_to_nothing
from tesched_core.orders.levers import LEVERS
from tesched_core.orders.refused_changes import after_refusal
from tesched_core.orders.settled import has_changes
from tesched_core.placement.columns_of import columns_of


def learned(
    memory: Memory,
    outcomes: Sequence[Outcome],
    at: UnixSeconds,
    limits: Limits,
    levers: Sequence[Lever] = LEVERS,
    *,
    seen: Snapshot | None = None,
) -> tuple[Memory, tuple[Transition, ...]]:
    """Return the memory after what became of a decision's actions, and the transitions that follow.

    What Slurm took is not believed to have worked; the next snapshot shows that. What certainly did not reach the job
    is taken back by its lever: a notice that was skipped is still to be given. What Slurm refused ends the order, and
    is remembered if it would be refused again. `seen` is the snapshot that the decision was made of.
    """
    unseen = Snapshot.of(at)
    context = CycleContext.of(memory, unseen, columns_of(unseen), limits)
    orders = dict(memory.orders)
    refused = memory.refused
    for outcome in outcomes:
        if (user := _user(outcome, seen or unseen)) is not None:
            refused = refused_after(refused, outcome, user, at)
    for lever in levers:
        lever.learned(outcomes, orders, context)
    for outcome in outcomes:
        order_id = outcome.action.reason.order_id
        order = orders.get(order_id) if order_id is not None else None
        if order is None or order.state is not OrderState.OPEN:
            continue
        if outcome.status is Status.WOULD:
            orders[order.order_id] = order = _only_recorded(order, context)
            if order.state is OrderState.ENDED:
                context.draft.update(order.preemptor, shadowed_until=at + limits.retry_after_s)
        elif (after := after_refusal(order, outcome, seen or unseen, context)) is not None:
            orders[order.order_id] = after
        elif final(outcome) and not _beside(outcome):
            orders[order.order_id] = end_wait(order, Ending.REFUSED, f"Slurm said no: {said(outcome)}", context)
    for order_id, order in orders.items():
        # Only now it is known which of its victims were notified.
        if order.ending is Ending.REFUSED and memory.orders[order_id].ending is None:
            came_to_nothing(order, context)
    lost_now = {
        victim.job_id
        for order_id, order in orders.items()
        for victim, earlier in zip(order.victims, memory.orders[order_id].victims, strict=True)
        if victim.departure is Departure.LOST and earlier.departure is not Departure.LOST
    }
    memory = replace(memory, orders=orders, refused=refused, newly_lost=frozenset(lost_now))
    return context.draft.written(memory), tuple(context.transitions)


def _user(outcome: Outcome, seen: Snapshot) -> str | None:
    """Return whose job an action was for; None: it is not seen. An array's id may be no task's any more."""
    job_id = outcome.action.job_id
    if field_of(outcome.action) is None:
        return None
    if job_id in seen.jobs:
        return seen.jobs[job_id].user
    return next((job.user for job in seen.jobs.values() if job.array_job_id == job_id), None)


def _beside(outcome: Outcome) -> bool:
    """Check whether an action is none that its order counts on: it mends a field of a victim that has left."""
    action = outcome.action
    mends = isinstance(action, Rerun) or sets(action, Field.DEPENDENCY, Field.BEGIN)
    return mends or action.reason.code is ReasonCode.LEFT_HELD


def _only_recorded(order: Order, context: CycleContext) -> Order:
    """Return an order of shadow mode: it ends, unless a daemon in another mode has changed a field for it."""
    order = end_wait(order, Ending.SHADOW, "shadow mode: recorded, not done", context)
    suspended = any(victim.suspended_at is not None and not victim.settled for victim in order.victims)
    if suspended or has_changes(order, context):
        return order  # the next daemon that acts puts it back
    victims = tuple(replace(victim, state=VictimState.SPARED) for victim in order.victims)
    ended = replace(order, state=OrderState.ENDED, victims=victims, ended_at=context.now)
    return context.order_step(order, ended, "nothing was done")
