"""The heart: one pure function, called by the daemon on a real cluster and by the simulator on one that is not there.

    step(memory, snapshot, policy, limits) -> (memory', decision)

Orders under way go on first; then the policy is asked for whom room should be made; the guard has the last word; what
is left becomes orders. `learned` takes in what became of the actions, where that is known before the next snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.actions import (
    Action,
    FailureKind,
    Notify,
    OrderId,
    Outcome,
    ReasonCode,
    Requeue,
    Rerun,
    SetDependency,
    SetNice,
    SetPriority,
    SetThrottle,
    Status,
    Suspend,
)
from tesched_core.advance import advance, end_wait, give_notice, victim_of
from tesched_core.best_effort import BePolicy
from tesched_core.binding import keep_bound, not_bound, set_free
from tesched_core.cluster import Job
from tesched_core.decision import Decision, Memory, Refusal, RefusalCode, Refusals
from tesched_core.first_look import at_the_head_first
from tesched_core.forwarding import bring_back, bring_on, not_forwarded
from tesched_core.futility import came_to_nothing
from tesched_core.guard import Limits, YieldBy, admitted, excuses, orders_under_way
from tesched_core.orders import (
    Departure,
    Ending,
    Order,
    OrderState,
    Purpose,
    Raise,
    Transition,
    Victim,
    VictimState,
)
from tesched_core.overview import overview_of
from tesched_core.policy import Plan, TePolicy, View
from tesched_core.promised import room_after_orders, unpromised
from tesched_core.queue_order import keep_first, newest_task, outranked
from tesched_core.rerun import not_rerun
from tesched_core.resources import UnixSeconds
from tesched_core.robbed import ask_more, reopened
from tesched_core.rounds import RoundPolicy, propose_round, release, release_all
from tesched_core.shares import SharePolicy, not_throttled, share_no_more, share_out
from tesched_core.snapshot import Snapshot
from tesched_core.suspension import not_suspended
from tesched_core.telling import Telling, tell_users
from tesched_core.turnover import await_turnover
from tesched_core.waiting import has_reason, sort_out
from tesched_core.work import Advance


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
    overview = snapshot.overview or overview_of(snapshot)
    memory, work = advance(replace(memory, cycle=cycle), snapshot, overview, limits)
    memory = reopened(memory, work)
    waiting, not_now = sort_out(overview.trials, memory, work.now, await_first_look=limits.await_first_look)
    refusals = Refusals(not_now)
    plans: tuple[Plan, ...] = ()
    asked = 0
    if not paused:
        memory, why_not, asked = ask_more(memory, work, policy, limits)
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
            running=overview.running,
            excuses=excuses(overview.running, memory, limits, snapshot.taken_at, overview.room.index),
            room=room_after_orders(memory.open_orders(), snapshot, overview.room),
            rivals=overview if limits.lever is YieldBy.AUTO else None,
        )
        plans, why_not = _planned(view, policy, limits, asked)
        refusals += why_not
        plans, too_soon = _not_too_soon(plans, snapshot)
        behind = {plan.preemptor: why for plan in plans if (why := outranked(plan, work)) is not None}
        plans = tuple(plan for plan in plans if plan.preemptor not in behind)
        refusals += Refusals(behind.values())
        plans, awaiting = await_turnover(plans, memory, work)
        plans, not_seen = at_the_head_first(plans, memory, work, limits)
        refusals += too_soon + awaiting + not_seen
    for plan in plans:
        memory = _open(plan, memory, work)
    round_plans: tuple[Plan, ...] = ()
    if isinstance(best_effort, RoundPolicy) and not paused:
        memory, round_plans, whys = propose_round(
            memory,
            best_effort,
            unpromised(memory.open_orders(), snapshot, overview.room),
            work,
            asked=asked + sum(len(plan.victims) for plan in plans),
        )
        refusals += whys
        for plan in round_plans:
            memory = _open(plan, memory, work)
        release(memory, work)
    elif isinstance(best_effort, RoundPolicy) and memory.rounds is not None:
        # Paused: nobody would have a turn, and whoever is held would wait for the end of the pause.
        memory = release_all(memory, work, forget=False)
    elif memory.rounds is not None:
        memory = release_all(memory, work)  # the site has gone back to another policy
    if isinstance(best_effort, SharePolicy) and not paused:
        room = unpromised(memory.open_orders(), snapshot, overview.room)
        memory, shared = share_out(memory, best_effort, room, work)
        refusals += shared
    elif not isinstance(best_effort, SharePolicy) and memory.shares is not None:
        memory = share_no_more(memory, work)
    memory = set_free(bring_back(memory, work), work)
    if isinstance(best_effort, BePolicy) and not paused:
        served = {plan.preemptor for plan in plans if plan.nodes}
        ahead = [job for job in waiting if job.job_id not in served]
        room = unpromised(memory.open_orders(), snapshot, overview.room)
        memory, passed_over = bring_on(memory, best_effort, room, ahead, work)
        refusals += passed_over
    tried_later = [one for one in not_now if one.code in {RefusalCode.FUTILE, RefusalCode.RETRY_LATER}]
    done = _summary((*plans, *round_plans), work, waiting, memory, tried_later)
    # The last of all: what is told may fail, or take long, and nothing else waits for it.
    tells = tell_users(before, memory, snapshot, telling) if telling is not None else ()
    memory = replace(memory, newly_lost=frozenset())
    decision = Decision(
        cycle=cycle,
        at=snapshot.taken_at,
        policy=policy.name if best_effort is None else f"{policy.name}+{best_effort.name}",
        actions=(*work.actions, *tells),
        refusals=refusals,
        transitions=tuple(work.transitions),
        summary=done if not paused or work.actions else f"did nothing new: {paused}",
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


def _open(plan: Plan, memory: Memory, work: Advance) -> Memory:
    """Return the memory with a new order, or with one that waited and now makes room; its actions go to `work`."""
    snapshot = work.snapshot
    before = next((order for order in memory.open_orders() if order.preemptor == plan.preemptor and order.waits), None)
    order_id = before.order_id if before else memory.next_order
    next_order = memory.next_order if before else OrderId(order_id + 1)
    if before is not None and not plan.nodes:
        return replace(memory, orders={**memory.orders, order_id: replace(before, waits_until=plan.waits_until)})
    victims = tuple(victim_of(snapshot.jobs[job_id], score, snapshot) for job_id, score in plan.victims)
    if plan.by_suspending:
        victims = tuple(replace(victim, by_suspending=True, grace_period_s=0.0) for victim in victims)
    longest = max((victim.grace_period_s for victim in victims), default=0.0)
    job = snapshot.jobs[plan.preemptor]
    lasts_s = longest + snapshot.settings.kill_wait_s + work.limits.order_timeout_s
    if any(victim.job_id == plan.preemptor for victim in victims):
        lasts_s += snapshot.settings.requeue_delay_s
    order = Order(
        order_id=order_id,
        preemptor=plan.preemptor,
        state=OrderState.OPEN,
        created_at=before.created_at if before else work.now,
        expires_at=(work.now if plan.waits_until is None else plan.waits_until) + lasts_s,
        nodes=plan.nodes,
        victims=victims,
        waits_until=plan.waits_until,
        newest_task=before.newest_task if before else newest_task(job, work),
        raised=before.raised if before else None,
    )
    opened = OrderState.OPEN if before else ""
    work.moved(order_id, None, opened, OrderState.OPEN, f"room for job {job.label}{_where_from(plan, work.now)}")
    work.preemptors.add(plan.preemptor)
    if all(action.job_id != plan.preemptor for action in work.actions):
        order = keep_first(order, work)
    keep_bound(order, work)
    order = replace(
        order,
        victims=tuple(give_notice(victim, snapshot.jobs[victim.job_id], order, work) for victim in order.victims),
    )
    return replace(memory, next_order=next_order, orders={**memory.orders, order_id: order})


def _where_from(plan: Plan, now: UnixSeconds) -> str:
    if plan.awaits_look:
        return " is to be made once Slurm has looked at it at the head of the queue"
    if plan.waits_until is not None:
        return f" may come free by itself; nobody is asked for the next {plan.waits_until - now:.0f} s"
    yields = ", ".join(str(job_id) for job_id, _ in plan.victims) or "nobody, the room is free"
    return f" on {','.join(plan.nodes)}: {yields}{', who is suspended' if plan.by_suspending else ''}"


def _summary(
    plans: Sequence[Plan], work: Advance, waiting: Sequence[Job], memory: Memory, tried_later: Sequence[Refusal]
) -> str:
    if plans:
        return "; ".join(_in_short(plan) for plan in plans)
    under_way = sum(order.state is OrderState.OPEN for order in memory.open_orders())
    filling = [action.job_id for action in work.actions if action.reason.code is ReasonCode.FILLS_ROOM]
    if filling:
        return f"brought forward {', '.join(str(job_id) for job_id in filling)}, for room that is left over"
    shared = [
        action
        for action in work.actions
        if isinstance(action, SetThrottle) and action.reason.code is ReasonCode.GETS_SHARE
    ]
    if shared:
        return f"shared workers anew: {', '.join(f'array {one.job_id} gets {one.throttle}' for one in shared)}"
    if work.actions:
        kinds = sorted({type(action).__name__.lower() for action in work.actions})
        return f"went on with the orders under way: {', '.join(kinds)}"
    if work.transitions:
        steps = [f"job {step.job_id}: {step.text}" if step.job_id else step.text for step in work.transitions]
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
    work = Advance(
        snapshot=unseen,
        overview=overview_of(unseen),
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
            order = end_wait(order, Ending.SHADOW, "shadow mode: recorded, not done", work)
            suspended = any(victim.suspended_at is not None and not victim.settled for victim in order.victims)
            if suspended or (order.raised is not None and not _would_raise(order.raised, outcome.action)):
                # Set by a daemon in another mode: it is not forgotten, and the next one puts it back.
                orders[order.order_id] = order
                continue
            work.moved(order.order_id, None, order.state, OrderState.ENDED, "nothing was done")
            victims = tuple(replace(victim, state=VictimState.SPARED) for victim in order.victims)
            raised = replace(order.raised, restored=True) if order.raised else None
            order = replace(order, state=OrderState.ENDED, victims=victims, raised=raised, ended_at=at)
            shadowed[order.preemptor] = at + limits.retry_after_s
        elif outcome.status is Status.SENT:
            order = _after_success(order, outcome)
        elif outcome.status in {Status.FAILED, Status.SKIPPED}:
            order = _after_failure(order, outcome, work)
        orders[order.order_id] = order
    for order_id, order in orders.items():
        # Only now it is known which of its victims were told.
        if order.ending is Ending.REFUSED and memory.orders[order_id].ending is None:
            came_to_nothing(order, work)
    lost_now = {
        victim.job_id
        for order_id, order in orders.items()
        for victim, earlier in zip(order.victims, memory.orders[order_id].victims, strict=True)
        if victim.departure is Departure.LOST and earlier.departure is not Departure.LOST
    }
    memory = not_throttled(not_bound(not_forwarded(memory, outcomes), outcomes), outcomes)
    memory = replace(
        memory,
        orders=orders,
        retry_at=work.retry_at,
        futile=work.futile,
        shadowed=shadowed,
        last_preempted=work.last_preempted,
        newly_lost=frozenset(lost_now),
    )
    return memory, tuple(work.transitions)


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


def _after_failure(order: Order, outcome: Outcome, work: Advance) -> Order:
    kind = outcome.failure.kind if outcome.failure else None
    said = outcome.failure.message if outcome.failure else "skipped"
    action = outcome.action
    final = kind in {FailureKind.DENIED, FailureKind.REFUSED}
    if isinstance(action, Rerun):
        if final:
            again = (not_rerun(one, said, order, work) if one.job_id == action.job_id else one for one in order.victims)
            return replace(order, victims=tuple(again))
        return order  # asked for again, until Slurm has forgotten it
    if isinstance(action, SetDependency):
        return order
    if isinstance(action, Suspend):
        before = order.victims
        order = replace(order, victims=tuple(not_suspended(victim, outcome) for victim in before))
        if order.victims != before:
            work.moved(order.order_id, action.job_id, "sent", "not sent", said)
    elif isinstance(action, Notify | Requeue):
        # Unreachable means that nobody knows whether it arrived: a notice is then never sent again.
        if outcome.status is Status.SKIPPED or final or kind is FailureKind.BUSY:
            back = VictimState.PLANNED if isinstance(action, Notify) else VictimState.NOTICED
            if final and isinstance(action, Requeue):
                work.last_preempted[action.job_id] = work.now  # it had its notice, and is let go
            order = replace(
                order,
                victims=tuple(
                    _taken_back(victim, VictimState.SPARED if final else back)
                    if victim.job_id == action.job_id
                    else victim
                    for victim in order.victims
                ),
            )
            work.moved(order.order_id, action.job_id, "sent", "not sent", said)
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
        order = end_wait(order, Ending.REFUSED, f"Slurm said no: {said}", work)
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
