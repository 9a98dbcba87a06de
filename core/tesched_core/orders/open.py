"""Opening an order: a plan that the guard admitted becomes an order with its first actions."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.of_orders import carry_out
from tesched_core.intake.own_waits import eligible_since
from tesched_core.model.actions import OrderId
from tesched_core.model.cluster import JobState
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, Purpose, Victim, VictimState
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.size import size_of
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.advance import give_notice
from tesched_core.orders.in_time import lasts_s
from tesched_core.orders.refused_changes import say_what_is_missing
from tesched_core.orders.started import newest_task
from tesched_core.policy import AwaitRoom, ChosenVictim, MakeRoom, Plan


def open_order(plan: Plan, memory: Memory, context: CycleContext) -> Memory:
    """Return the memory with a new order, or one that waited and now frees resources; its actions go to `context`."""
    snapshot = context.snapshot
    before = next((order for order in memory.open_orders() if order.preemptor == plan.preemptor and order.waits), None)
    order_id = before.order_id if before else memory.next_order
    next_order = memory.next_order if before else OrderId(order_id + 1)
    waits_until = plan.until if isinstance(plan, AwaitRoom) else None
    if before is not None and isinstance(plan, AwaitRoom):
        if before.waits_until == plan.until:
            return memory
        return replace(memory, orders={**memory.orders, order_id: replace(before, waits_until=plan.until)})
    nodes = plan.nodes if isinstance(plan, MakeRoom) else ()
    chosen = plan.victims if isinstance(plan, MakeRoom) else ()
    purpose = Purpose.TE if snapshot.job_class(plan.preemptor) is JobClass.TE else Purpose.ROUND
    victims = tuple(replace(victim_of(one, snapshot, memory), purpose=purpose) for one in chosen)
    if isinstance(plan, MakeRoom) and plan.by_suspending:
        victims = tuple(replace(victim, by_suspending=True, grace_period_s=0.0) for victim in victims)
    job = snapshot.jobs[plan.preemptor]
    order = Order(
        order_id=order_id,
        preemptor=plan.preemptor,
        state=OrderState.OPEN,
        created_at=before.created_at if before else context.now,
        expires_at=(context.now if waits_until is None else waits_until) + lasts_s(plan.preemptor, victims, context),
        nodes=nodes,
        victims=victims,
        made_for_te=purpose is Purpose.TE,
        waits_until=waits_until,
        newest_task=before.newest_task if before else newest_task(job, context),
        size=size_of(job, context.own_request(job)),
        restarts=None if job.array_tasks else job.restarts,
    )
    context.order_step(before, order, f"resources for job {job.label}{_where_from(plan, context.now)}")
    context.preemptors.add(plan.preemptor)
    carry_out(order, context)
    say_what_is_missing(order, context)
    order = replace(
        order,
        victims=tuple(give_notice(victim, snapshot.jobs[victim.job_id], order, context) for victim in order.victims),
    )
    return replace(memory, next_order=next_order, orders={**memory.orders, order_id: order})


def victim_of(chosen: ChosenVictim, snapshot: Snapshot, memory: Memory) -> Victim:
    """Make a victim of a selected job; it has had no notice yet."""
    job = snapshot.jobs[chosen.job_id]
    traits = snapshot.traits[job.job_id]
    return Victim(
        job_id=job.job_id,
        state=VictimState.PLANNED,
        restarts=job.restarts,
        grace_period_s=traits.grace_period_s if traits.notice_signal else 0.0,
        notice_signal=traits.notice_signal,
        notice_target=traits.notice_target,
        exit0=traits.exit0,
        score=chosen.score,
        why=chosen.why,
        nodes=job.nodes,
        started_at=job.start_time if job.start_time is not None else snapshot.taken_at,
        queued_at=job.submit_time if memory.policies_hold else eligible_since(job),
        user=job.user,
        account=job.account,
        held_before=job.state is JobState.RUNNING and job.priority == 0,
        size=size_of(job),
    )


def _where_from(plan: Plan, now: UnixSeconds) -> str:
    if isinstance(plan, AwaitRoom) and plan.awaits_look:
        return " are to be freed once Slurm has considered it at the head of the queue"
    if isinstance(plan, AwaitRoom):
        return f" may be released by themselves; no victim is notified for the next {plan.until - now:.0f} s"
    yields = ", ".join(str(job_id) for job_id in plan.victim_ids) or "no victim, they are free"
    return f" on {','.join(plan.nodes)}: {yields}{', which is suspended' if plan.by_suspending else ''}"
