"""Outcomes: what Slurm answered to the actions of the last cycle, applied to the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.levers import queue_boost, throttle
from tesched_core.levers.context import CycleContext
from tesched_core.levers.node_binding import not_bound
from tesched_core.levers.suspend import not_suspended
from tesched_core.model.actions import (
    Action,
    FailureKind,
    Notify,
    Outcome,
    ReasonCode,
    Requeue,
    Rerun,
    SetDependency,
    SetNice,
    SetPriority,
    Status,
    Suspend,
)
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import (
    Departure,
    Ending,
    Order,
    OrderState,
    Raise,
    Transition,
    Victim,
    VictimState,
)
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.advance import end_wait
from tesched_core.orders.futility import came_to_nothing
from tesched_core.orders.rerun import not_rerun
from tesched_core.placement.columns_of import columns_of


def learned(
    memory: Memory, outcomes: Sequence[Outcome], at: UnixSeconds, limits: Limits
) -> tuple[Memory, tuple[Transition, ...]]:
    """Return the memory after what became of a decision's actions, and the transitions that follow.

    What Slurm took is not believed to have worked; the next snapshot tells. What certainly did not reach the job is
    taken back: a notice that was skipped is still to be given, and one that Slurm refused ends the order.
    """
    orders = dict(memory.orders)
    shadowed = dict(memory.shadowed)
    unseen = Snapshot.of(at)
    context = CycleContext(
        snapshot=unseen,
        columns=columns_of(unseen),
        limits=limits,
        last_preempted=dict(memory.last_preempted),
        retry_at=dict(memory.retry_at),
        futile=dict(memory.futile),
    )
    for outcome in outcomes:
        order = orders.get(outcome.action.reason.order_id) if outcome.action.reason.order_id else None
        if order is None or order.state is OrderState.ENDED:
            continue
        if outcome.status is Status.WOULD and order.state is OrderState.OPEN:
            order = end_wait(order, Ending.SHADOW, "shadow mode: recorded, not done", context)
            suspended = any(victim.suspended_at is not None and not victim.settled for victim in order.victims)
            if suspended or (order.raised is not None and not _would_raise(order.raised, outcome.action)):
                # Set by a daemon in another mode: it is not forgotten, and the next one puts it back.
                orders[order.order_id] = order
                continue
            context.moved(order.order_id, None, order.state, OrderState.ENDED, "nothing was done")
            victims = tuple(replace(victim, state=VictimState.SPARED) for victim in order.victims)
            raised = replace(order.raised, restored=True) if order.raised else None
            order = replace(order, state=OrderState.ENDED, victims=victims, raised=raised, ended_at=at)
            shadowed[order.preemptor] = at + limits.retry_after_s
        elif outcome.status is Status.SENT:
            order = _after_success(order, outcome)
        elif outcome.status in {Status.FAILED, Status.SKIPPED}:
            order = _after_failure(order, outcome, context)
        orders[order.order_id] = order
    for order_id, order in orders.items():
        # Only now it is known which of its victims were told.
        if order.ending is Ending.REFUSED and memory.orders[order_id].ending is None:
            came_to_nothing(order, context)
    lost_now = {
        victim.job_id
        for order_id, order in orders.items()
        for victim, earlier in zip(order.victims, memory.orders[order_id].victims, strict=True)
        if victim.departure is Departure.LOST and earlier.departure is not Departure.LOST
    }
    memory = throttle.learned(not_bound(queue_boost.learned(memory, outcomes), outcomes), outcomes)
    memory = replace(
        memory,
        orders=orders,
        retry_at=context.retry_at,
        futile=context.futile,
        shadowed=shadowed,
        last_preempted=context.last_preempted,
        newly_lost=frozenset(lost_now),
    )
    return memory, tuple(context.transitions)


def _after_success(order: Order, outcome: Outcome) -> Order:
    """Return the order after Slurm took a command of its own: when it took the nice value is remembered."""
    action, raised = outcome.action, order.raised
    raises = isinstance(action, SetNice) and action.job_id == order.preemptor and order.state is OrderState.OPEN
    if not raises or raised is None or raised.taken_at is not None:
        return order
    return replace(order, raised=replace(raised, taken_at=outcome.at))


def _would_raise(raised: Raise, action: Action) -> bool:
    """Return whether this is the action that would have raised the job for the first time: then nothing is changed."""
    return isinstance(action, SetNice | SetPriority) and action.previous == raised.previous


def _after_failure(order: Order, outcome: Outcome, context: CycleContext) -> Order:
    kind = outcome.failure.kind if outcome.failure else None
    said = outcome.failure.message if outcome.failure else "skipped"
    action = outcome.action
    final = kind in {FailureKind.DENIED, FailureKind.REFUSED}
    if isinstance(action, Rerun):
        if final:
            again = (
                not_rerun(one, said, order, context) if one.job_id == action.job_id else one for one in order.victims
            )
            return replace(order, victims=tuple(again))
        return order  # asked for again, until Slurm has forgotten it
    if isinstance(action, SetDependency):
        return order
    if isinstance(action, Suspend):
        before = order.victims
        order = replace(order, victims=tuple(not_suspended(victim, outcome) for victim in before))
        if order.victims != before:
            context.moved(order.order_id, action.job_id, "sent", "not sent", said)
    elif isinstance(action, Notify | Requeue):
        # Unreachable means that it is not known whether it arrived: a notice is then never sent again.
        if outcome.status is Status.SKIPPED or final or kind is FailureKind.BUSY:
            back = VictimState.PLANNED if isinstance(action, Notify) else VictimState.NOTICED
            if final and isinstance(action, Requeue):
                context.last_preempted[action.job_id] = context.now  # it had its notice, and is let go
            order = replace(
                order,
                victims=tuple(
                    _taken_back(victim, VictimState.SPARED if final else back)
                    if victim.job_id == action.job_id
                    else victim
                    for victim in order.victims
                ),
            )
            context.moved(order.order_id, action.job_id, "sent", "not sent", said)
    elif action.job_id in {victim.job_id for victim in order.victims}:
        order = replace(order, victims=tuple(_not_raised(victim, action, kind) for victim in order.victims))
    elif (
        isinstance(action, SetNice | SetPriority)
        and order.raised is not None
        and order.state is OrderState.OPEN
        and kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}  # it may have arrived all the same
        and action.previous == order.raised.previous  # else an earlier raise did arrive
    ):
        # Not raised, so there is nothing to put back.
        order = replace(order, raised=replace(order.raised, restored=True))
    if final and order.state is OrderState.OPEN:
        order = end_wait(order, Ending.REFUSED, f"Slurm said no: {said}", context)
    return order


def _not_raised(victim: Victim, action: Action, kind: FailureKind | None) -> Victim:
    """Return the victim after it could not be brought forward: it keeps the place that Slurm gave it."""
    if (
        victim.job_id != action.job_id
        or victim.raised is None
        or kind in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}
    ):
        return victim
    if action.reason.code is not ReasonCode.BACK_TO_THE_HEAD or not isinstance(action, SetNice):
        return victim
    if action.previous != victim.raised.previous:
        return victim  # an earlier raise did arrive, and is to be put back
    return replace(victim, raised=replace(victim.raised, restored=True))


def _taken_back(victim: Victim, state: VictimState) -> Victim:
    if state is VictimState.PLANNED:
        return replace(victim, state=state, noticed_at=None)
    if state is VictimState.NOTICED:
        return replace(victim, state=state, requeue_sent_at=None)
    return replace(victim, state=state)
