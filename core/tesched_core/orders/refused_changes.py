"""Orders on a site that refuses changes of jobs: each is served by what Slurm still takes, or not at all.

Principle
    A raise keeps a preemptor ahead of every job that could take what its victims leave. Where Slurm refuses nice
    values it is an explicit priority; where it refuses both, a preemptor that is the first in its queue by itself is
    served, and any other is not: its victims would leave for another job.
    A binding keeps it from starting elsewhere meanwhile; it is served without one, as with guard.bind_for_s = 0.

    So an order whose raise or binding Slurm has just refused asks no victim in that poll, and goes on without it in the
    next one. If it can't, it ends; where its victims have been notified it goes on in any case: they leave anyway.
    A best-effort job has its turn in a round on its own nodes or not at all: each is tried, and a refusal ends it. What
    comes then is its policy's affair, which has the job held meanwhile.

What is refused is learned by `model/refused.py`.
"""

from __future__ import annotations

from collections.abc import Collection

from tesched_core.context import CycleContext
from tesched_core.fields.contract import said
from tesched_core.fields.priority import needed_priority
from tesched_core.model.actions import Outcome, ReasonCode, sets
from tesched_core.model.change import By
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.order import Order
from tesched_core.model.refused import WORDS, field_of, is_refusal
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.futility import was_asked
from tesched_core.policy import MakeRoom, Plan

#: Seconds on top of KillWait in which a victim's nodes are free: one that Slurm keeps from starting for longer than
#: both takes nothing from its preemptor.
LEAVES_WITHIN_S = 30.0
_NEEDED = frozenset({ReasonCode.MAKE_ROOM_FIRST, ReasonCode.ROOM_IS_FREE, ReasonCode.BOUND})


def not_served(plan: Plan, context: CycleContext) -> Refusal | None:
    """Refusal of an order for this plan, where Slurm refuses what it needs; None if it can do without."""
    job = context.snapshot.jobs[plan.preemptor]
    victims = plan.victim_ids if isinstance(plan, MakeRoom) else ()
    why = unraised(job, victims, context)
    if not why:
        return None
    return Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.SLURM_REFUSES, text=why)


def unraised(job: Job, victims: Collection[JobId], context: CycleContext) -> str:
    """Reason that the job can't be made the first in its queue, in words; empty if it can be, or is."""
    in_round = context.snapshot.job_class(job.job_id) is JobClass.BE
    if in_round or not (context.is_refused(Field.NICE, job.user) and context.is_refused(Field.PRIORITY, job.user)):
        return ""
    settings, jobs = context.snapshot.settings, context.snapshot.jobs
    wanted = needed_priority(job, (), context)
    if settings.requeue_delay_s <= settings.kill_wait_s + LEAVES_WITHIN_S:
        wanted = max([wanted, *(jobs[one].priority + 1 for one in victims if one in jobs)])
    if job.priority >= wanted:
        return ""
    return (
        f"another job is ahead of it and would take what its victims leave, and {_refuses(Field.NICE, context)}, "
        f"and {_refuses(Field.PRIORITY, context)}"
    )


def given_up(order: Order, context: CycleContext) -> str:
    """Reason that an open order ends before a victim is notified, in words; empty if it goes on."""
    job = context.snapshot.jobs.get(order.preemptor)
    if job is None or not job.pending or job.job_id in context.absent or any(map(was_asked, order.victims)):
        return ""
    return unraised(job, [victim.job_id for victim in order.victims], context)


def say_what_is_missing(order: Order, context: CycleContext) -> None:
    """Record of an order that has just been opened what Slurm refuses, and what is done instead."""
    job = context.snapshot.jobs[order.preemptor]
    raised = context.made_by(Field.NICE, By.PREEMPTOR).get(job.job_id)
    if raised is not None and raised.field is Field.PRIORITY and context.is_refused(Field.NICE, job.user):
        text = f"it is raised by an explicit priority: {_refuses(Field.NICE, context)}"
        context.order_step(order, order, text)
    if order.victims and context.is_refused(Field.NODES, job.user):
        text = f"it is not bound to its nodes: {_refuses(Field.NODES, context)}"
        context.order_step(order, order, text)


def after_refusal(order: Order, outcome: Outcome, seen: Snapshot, context: CycleContext) -> Order | None:
    """Return an open order that goes on after Slurm refused its raise or binding; None for any other outcome."""
    action = outcome.action
    needed = sets(action, Field.NICE, Field.PRIORITY, Field.NODES) and action.reason.code in _NEEDED
    if not needed or not is_refusal(outcome):
        return None
    if seen.job_class(order.preemptor) is JobClass.BE:
        return None
    field = field_of(action)
    text = f"Slurm refused to change its {WORDS[field] if field else 'record'}: {said(outcome)}"
    return context.order_step(order, order, f"{text}; it goes on without that")


def _refuses(field: Field, context: CycleContext) -> str:
    return f'Slurm refuses to change {WORDS[field]} ("{context.refused[field].said}")'
