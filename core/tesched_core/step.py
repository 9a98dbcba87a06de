"""The heart: one pure function, called by the daemon on a real cluster and by the simulator on one that is not there.

    step(memory, snapshot, policy, limits) -> (memory', decision)

Orders under way go on first; then the policy is asked for whom room should be made; the guard has the last word; what
is left becomes orders. `learned` takes in what became of the actions, where that is known before the next snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.guard.admission import admitted, orders_under_way
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.intake.pending_reason import has_reason
from tesched_core.levers.context import CycleContext
from tesched_core.levers.hold import RoundPolicy, propose_round, release, release_all
from tesched_core.levers.node_binding import unbind
from tesched_core.levers.priority import outranked
from tesched_core.levers.queue_boost import boost, restore
from tesched_core.levers.throttle import SharePolicy, restore_all, share_out
from tesched_core.model.actions import (
    ReasonCode,
    SetThrottle,
)
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision, Refusal, RefusalCode, Refusals
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import (
    OrderState,
    Purpose,
)
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.advance import advance
from tesched_core.orders.first_look import at_the_head_first
from tesched_core.orders.open import _open
from tesched_core.orders.reinforce import add_victims, reopened
from tesched_core.orders.te_queue import te_queue
from tesched_core.orders.tell_users import Telling, tell_users
from tesched_core.orders.turnover import await_turnover
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.reserved import room_after_orders, unreserved_room
from tesched_core.policy import BePolicy, Plan, TePolicy, View


def step(
    memory: Memory,
    snapshot: Snapshot,
    policy: TePolicy,
    limits: Limits,
    best_effort: BePolicy | RoundPolicy | SharePolicy | None = None,
    *,
    paused: str = "",
    telling: Telling | None = None,
) -> tuple[Memory, Decision]:
    """Return what to remember and what to do, given what was seen.

    Without a best-effort policy, Slurm alone says who is next. While it is `paused` (why, in words), what is under way
    goes on, and nothing new is begun. `telling` says how users are told; None: they are not. Pure: the same arguments
    give the same two. The snapshot must be classified (`classify.classified`).
    """
    cycle = memory.cycle + 1
    before = memory
    # Here and not by the observer: the memory is what was learned.
    snapshot = replace(snapshot, leave_times=memory.leave_times)
    columns = snapshot.columns or columns_of(snapshot)
    memory, context = advance(replace(memory, cycle=cycle), snapshot, columns, limits)
    memory = reopened(memory, context)
    waiting, not_now = te_queue(columns.trials, memory, context.now, await_first_look=limits.await_first_look)
    refusals = Refusals(not_now)
    plans: tuple[Plan, ...] = ()
    asked = 0
    if not paused:
        memory, why_not, asked = add_victims(memory, context, policy, limits)
        refusals += why_not
    if waiting and paused:
        refusals += Refusals(
            Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.PAUSED, text=paused) for job in waiting
        )
    elif waiting:
        view = View(
            snapshot=snapshot,
            memory=memory,
            waiting=waiting,
            running=columns.running,
            eligibility=eligible_victims(columns.running, memory, limits, snapshot.taken_at, columns.room.index),
            room=room_after_orders(memory.open_orders(), snapshot, columns.room),
            rivals=columns if limits.lever is YieldBy.AUTO else None,
        )
        plans, why_not = _planned(view, policy, limits, asked)
        refusals += why_not
        plans, too_soon = _not_too_soon(plans, snapshot)
        behind = {plan.preemptor: why for plan in plans if (why := outranked(plan, context)) is not None}
        plans = tuple(plan for plan in plans if plan.preemptor not in behind)
        refusals += Refusals(behind.values())
        plans, awaiting = await_turnover(plans, memory, context)
        plans, not_seen = at_the_head_first(plans, memory, context, limits)
        refusals += too_soon + awaiting + not_seen
    for plan in plans:
        memory = _open(plan, memory, context)
    round_plans: tuple[Plan, ...] = ()
    if isinstance(best_effort, RoundPolicy) and not paused:
        memory, round_plans, whys = propose_round(
            memory,
            best_effort,
            unreserved_room(memory.open_orders(), snapshot, columns.room),
            context,
            asked=asked + sum(len(plan.victims) for plan in plans),
        )
        refusals += whys
        for plan in round_plans:
            memory = _open(plan, memory, context)
        release(memory, context)
    elif isinstance(best_effort, RoundPolicy) and memory.rounds is not None:
        # Paused: nobody would have a turn, and whoever is held would wait for the end of the pause.
        memory = release_all(memory, context, forget=False)
    elif memory.rounds is not None:
        memory = release_all(memory, context)  # the site has gone back to another policy
    if isinstance(best_effort, SharePolicy) and not paused:
        room = unreserved_room(memory.open_orders(), snapshot, columns.room)
        memory, shared = share_out(memory, best_effort, room, context)
        refusals += shared
    elif not isinstance(best_effort, SharePolicy) and memory.shares is not None:
        memory = restore_all(memory, context)
    memory = unbind(restore(memory, context), context)
    if isinstance(best_effort, BePolicy) and not paused:
        served = {plan.preemptor for plan in plans if plan.nodes}
        ahead = [job for job in waiting if job.job_id not in served]
        room = unreserved_room(memory.open_orders(), snapshot, columns.room)
        memory, passed_over = boost(memory, best_effort, room, ahead, context)
        refusals += passed_over
    tried_later = [one for one in not_now if one.code in {RefusalCode.FUTILE, RefusalCode.RETRY_LATER}]
    done = _summary((*plans, *round_plans), context, waiting, memory, tried_later)
    # The last of all: what is told may fail, or take long, and nothing else waits for it.
    tells = tell_users(before, memory, snapshot, telling) if telling is not None else ()
    memory = replace(memory, newly_lost=frozenset())
    decision = Decision(
        cycle=cycle,
        at=snapshot.taken_at,
        policy=policy.name if best_effort is None else f"{policy.name}+{best_effort.name}",
        actions=(*context.actions, *tells),
        refusals=refusals,
        transitions=tuple(context.transitions),
        summary=done if not paused or context.actions else f"did nothing new: {paused}",
    )
    return memory, decision


def _planned(view: View, policy: TePolicy, limits: Limits, asked: int) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans that the guard admits, and why not the others.

    A plan counts on what the victims of the plans before it leave over, and keeps them from the jobs after it. So where
    the guard drops one, the policy is asked anew without it, unless no further order may be opened anyway.
    """
    refusals = Refusals()
    while True:
        proposal = policy.propose(view)
        dropped: list[Refusal] = []
        plans = admitted(proposal.plans, view, limits, dropped.append, asked=asked)
        full = orders_under_way(view.memory, view.snapshot, Purpose.TE) + len(plans) >= limits.max_open_orders
        if not dropped or (full and plans == proposal.plans[: len(plans)]):
            return plans, refusals + proposal.refusals + Refusals(dropped)
        gone = {refusal.preemptor for refusal in dropped}
        refusals += Refusals([part for part in proposal.refusals.parts if part.preemptor in gone]) + Refusals(dropped)
        view = replace(view, waiting=tuple(job for job in view.waiting if job.job_id not in gone))


def _not_too_soon(plans: tuple[Plan, ...], snapshot: Snapshot) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans without those for which nobody is asked, of jobs at which Slurm has not looked: they start."""
    soon = [plan for plan in plans if not plan.victims and not has_reason(snapshot.jobs[plan.preemptor].reason)]
    text = "there is room, and Slurm has not looked at it yet"
    refusals = [
        Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.NOT_CONSIDERED_YET, text=text)
        for plan in soon
    ]
    return tuple(plan for plan in plans if plan not in soon), Refusals(refusals)


def _summary(
    plans: Sequence[Plan], context: CycleContext, waiting: Sequence[Job], memory: Memory, tried_later: Sequence[Refusal]
) -> str:
    if plans:
        return "; ".join(_in_short(plan) for plan in plans)
    under_way = sum(order.state is OrderState.OPEN for order in memory.open_orders())
    filling = [action.job_id for action in context.actions if action.reason.code is ReasonCode.FILLS_ROOM]
    if filling:
        return f"brought forward {', '.join(str(job_id) for job_id in filling)}, for room that is left over"
    shared = [
        action
        for action in context.actions
        if isinstance(action, SetThrottle) and action.reason.code is ReasonCode.GETS_SHARE
    ]
    if shared:
        return f"shared workers anew: {', '.join(f'array {one.job_id} gets {one.throttle}' for one in shared)}"
    if context.actions:
        kinds = sorted({type(action).__name__.lower() for action in context.actions})
        return f"went on with the orders under way: {', '.join(kinds)}"
    if context.transitions:
        steps = [f"job {step.job_id}: {step.text}" if step.job_id else step.text for step in context.transitions]
        return "; ".join(steps)
    if waiting:
        return f"did nothing, because no room can be made for {len(waiting)} waiting trial-and-error job(s)"
    if under_way:
        return f"did nothing, because {under_way} order(s) are under way"
    if tried_later:
        first, more = tried_later[0], len(tried_later) - 1
        others = f" (and {more} more)" if more else ""
        return f"did nothing, because trial-and-error job {first.job_id}{others} is to wait: {first.text}"
    return "did nothing, because no trial-and-error job waits for room"


def _in_short(plan: Plan) -> str:
    if plan.awaits_look:
        return f"job {plan.preemptor} is put at the head of the queue, where Slurm looks at it before a victim is asked"
    if plan.waits_until is not None:
        return f"job {plan.preemptor} waits for room that comes free by itself"
    victims = ", ".join(str(job_id) for job_id, _ in plan.victims)
    return f"room for job {plan.preemptor} on {','.join(plan.nodes)}" + (f" from {victims}" if victims else " (free)")
