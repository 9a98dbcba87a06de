"""End of an order: nothing more is to be done for its victims, and all that was changed for it is put back."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.nice import awaits_release
from tesched_core.intake.delays import delay_by
from tesched_core.intake.pending_reason import begins_within, starts_by_itself
from tesched_core.model.change import Change
from tesched_core.model.field import Field
from tesched_core.model.job_memory import Past
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.resources import JobId
from tesched_core.orders.bystanders import MOST_BETWEEN_S
from tesched_core.orders.overtaken import is_held_by_us
from tesched_core.orders.te_in_its_way import TeInItsWay

#: Fields whose changes are a part of an order: it has not ended before they are put back.
_OF_ORDERS = (Field.NICE, Field.HOLD)


def has_changes(order: Order, context: CycleContext, job_id: JobId | None = None) -> bool:
    """Check whether a change for the order is yet to be put back; with a job, of that job alone.

    One that stays for as long as its job is held does not count: it is put back whenever the job is released.
    """
    return any(
        one.order_id == order.order_id
        and not one.restored
        and job_id in {None, one.job_id}
        and not _awaits_release(one, context)
        for field in _OF_ORDERS
        for one in context.changes_of(field).values()
    )


def add_delay(victim: Victim, context: CycleContext) -> None:
    """Add to the job's past by how much another user's TE job has delayed it by this preemption, until now."""
    seconds = delay_by(victim, context.now).total_s
    if seconds > 0 and not victim.of_own_user:
        past = context.draft.job(victim.job_id).past or Past(submitted_at=victim.queued_at, ran_s=0.0)
        context.draft.update(victim.job_id, past=replace(past, delayed_s=past.delayed_s + seconds))


def excuse_waits(memory: Memory, context: CycleContext) -> None:
    """Note for how long victims could not have started anyway since the last poll: that is no TE job's doing.

    Held by its user, at a limit, behind a dependency: else one job that never starts would keep TE jobs waiting. One
    that tesched holds for its turn in a round waits for BE jobs, unless a TE job waits or runs where it may run.
    """
    now, delay_s = context.now, context.snapshot.settings.requeue_delay_s
    since_s = 0.0 if memory.seen_at is None else now - memory.seen_at
    if not context.limits.bound.is_set or not 0 < since_s <= MOST_BETWEEN_S:
        return
    # What tesched itself keeps from starting, for its order, waits for TE jobs.
    put_off = {job_id for job_id, one in context.changes_of(Field.BEGIN).items() if not one.restored}
    in_its_way: TeInItsWay | None = None
    for order in memory.open_orders():
        for victim in order.victims:
            job = context.snapshot.jobs.get(victim.job_id)
            # What a round keeps it waiting for is no delay, of which time could be taken off.
            if not victim.is_limited or not victim.awaited or job is None or not job.pending:
                continue
            within_s = inf if victim.job_id in put_off else delay_s
            past = context.draft.job(victim.job_id).past
            if past is None or starts_by_itself(job, now, within_s):
                continue
            if is_held_by_us(job, context) and begins_within(job, now, within_s):
                in_its_way = in_its_way or TeInItsWay.of(memory, context)
                if in_its_way.meets(job):
                    continue
            context.draft.update(victim.job_id, past=replace(past, excused_s=past.excused_s + since_s))


def take_out_own_wait(victim: Victim, away_s: float, context: CycleContext) -> None:
    """Let the wait that a job's own user has caused be no part of its slowdown, which `guard.max_slowdown` bounds."""
    past = context.draft.job(victim.job_id).past
    if victim.of_own_user and past is not None:
        waited = replace(past, submitted_at=past.submitted_at + max(away_s, 0.0))
        context.draft.update(victim.job_id, past=waited)


def ended_if_settled(order: Order, context: CycleContext, *, victims_wait: bool = False) -> Order:
    """Return the order, ended if nothing more is to be done for its victims and all its changes are put back.

    With `victims_wait`, victims that are to run again are left to Slurm.
    """
    settled = victims_wait or (order.run_seen_at is None and all(victim.settled for victim in order.victims))
    if not settled or has_changes(order, context):
        return order
    text = "futile: its victims left for nothing" if order.futile else "all its changes are put back"
    ended = replace(order, state=OrderState.ENDED, ended_at=context.now, run_seen_at=None)
    return context.order_step(order, ended, text)


def _awaits_release(one: Change[Any], context: CycleContext) -> bool:
    job = context.snapshot.jobs.get(one.job_id)
    # Tasks of a held array may run: what is put back there is awaited.
    is_done = any(action.reason.order_id == one.order_id for action in context.actions)
    return job is not None and not is_done and awaits_release(job, one, context.snapshot)
