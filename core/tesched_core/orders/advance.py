"""Advance of an order: what the new snapshot shows of its preemptor and its victims, and what is to be done next.

Rules that hold in every branch:

- A victim is given notice at most once. It is requeued once its grace period is over, and again only while the
  snapshot shows the very run that was meant still on its nodes.
- A victim that finished is never requeued: Slurm would run it a second time.
- A signal is sent only to a job for which one was declared, and a victim that died of it is put back in the queue.
- What was raised is put back as soon as the preemptor no longer waits, and is believed to be back only when seen.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.left_held import LEFT_HELD_RULE
from tesched_core.fields.of_orders import carry_out, place_victim, returning, settle, why_overruled
from tesched_core.guard.budget import lately, paying
from tesched_core.intake.delays import with_saved
from tesched_core.intake.leave_times import ending_s, leave_time_s, with_ending_times, with_leave_times
from tesched_core.intake.pending_reason import blocked
from tesched_core.model.actions import OrderId, ReasonCode
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.job_memory import Past
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import (
    HOLDS_RESOURCES,
    PREEMPTED,
    TO_RERUN,
    Departure,
    Ending,
    Order,
    OrderState,
    Purpose,
    Victim,
    VictimState,
)
from tesched_core.model.size import growth, size_of
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.changed_request import changed
from tesched_core.orders.departures import DEPARTURE_TEXT, departure_of, had_its_notice, held_for_good, may_go, to_end
from tesched_core.orders.early_rerun import failed_of_its_notice, rerun_early
from tesched_core.orders.first_look import awaits_look, look_is_overdue, with_time_to_leave
from tesched_core.orders.futility import came_to_nothing, drop_ended_waits, was_asked
from tesched_core.orders.futility import follow as follow_futile
from tesched_core.orders.in_time import why_not_in_time
from tesched_core.orders.leave_together import is_early, is_quick
from tesched_core.orders.missing import forget_gone, missing_since
from tesched_core.orders.notice import NOTICE_LEVER
from tesched_core.orders.others_victims import awaits_others, is_lacked
from tesched_core.orders.out_of_service import with_lost_nodes
from tesched_core.orders.overtaken import is_held_by_us, overtaken
from tesched_core.orders.refused_changes import given_up
from tesched_core.orders.requeue import REQUEUE_LEVER, lost, owes_rerun
from tesched_core.orders.settled import add_delay, ended_if_settled, has_changes, take_out_own_wait
from tesched_core.orders.started import has_run_again, started_run
from tesched_core.orders.suspend import SUSPEND_LEVER
from tesched_core.orders.useful_run import judged, of_run, on_trial, returned
from tesched_core.orders.withheld import why_short, why_withheld
from tesched_core.placement.lost_nodes import gone_nodes, is_silent, may_come_back


def advance(
    memory: Memory, snapshot: Snapshot, columns: ClusterColumns, limits: Limits, *, paused: bool, longest_wait_s: float
) -> tuple[Memory, CycleContext]:
    """Return the orders after what the snapshot shows, in the memory, and what follows from that, in the context.

    What else is remembered then is in the context's draft, which `step` writes to the memory.
    """
    missing = missing_since(memory, snapshot)
    context = CycleContext.of(memory, snapshot, columns, limits)
    context.paused, context.longest_wait_s = paused, longest_wait_s
    context.draft.set_missing(missing)
    drop_ended_waits(context)
    context.absent = frozenset(missing).union(columns.doubted)
    context.preemptors = {order.preemptor for order in context.orders if order.state is OrderState.OPEN}
    context.returning = returning(context)
    orders: dict[OrderId, Order] = {}
    for order in memory.open_orders():
        orders[order.order_id] = _advance_order(order, context)
    follow_futile(context, {one.run_id for one in orders.values() if one.run_seen_at is not None})
    forget_gone(context, missing)
    context.draft.paid[:] = lately(context.draft.paid, snapshot.taken_at)
    return replace(
        memory,
        orders=orders,
        leave_times=with_leave_times(memory.leave_times, context.leave_times),
        ending_times=with_ending_times(memory.ending_times, context.ending_times),
    ), context


def _advance_order(order: Order, context: CycleContext) -> Order:
    before = order.state
    if order.state is OrderState.OPEN:
        order = with_lost_nodes(_look_at_preemptor(order, context), context)
    if order.state is OrderState.OPEN and order.preemptor not in context.absent:
        if why := given_up(order, context):
            order = end_wait(order, Ending.CHANGE_REFUSED, why, context)
        elif why := why_short(order, context):
            order = end_wait(order, Ending.CHANGED, why, context)
        else:
            carry_out(order, context)
    victims = tuple(_advance_victim(victim, order, context) for victim in order.victims)
    for victim, after in zip(order.victims, victims, strict=True):
        if after.settled and not victim.settled:
            add_delay(after, context)
    if victims != order.victims:
        order = replace(order, victims=victims)
    if before is OrderState.OPEN and order.state is not OrderState.OPEN:
        came_to_nothing(order, context)
    if order.state is OrderState.SETTLING:
        order = judged(order, context)
        settle(order, context)
        order = ended_if_settled(order, context)
    return order


def _look_at_preemptor(order: Order, context: CycleContext) -> Order:
    run = started_run(order, context)
    job = context.snapshot.jobs.get(order.preemptor)
    if run is None and order.preemptor in context.absent:
        return order  # unknown: its victims are left alone until it is seen again, or is believed to be gone
    if run is not None:
        # Between two polls it may have ended, too.
        here = set(run.last_nodes) <= set(order.nodes) or not order.nodes
        ending = Ending.STARTED_HERE if here else Ending.STARTED_ELSEWHERE
        where = ",".join(run.last_nodes) or "the nodes freed for it"
        text = f"job {run.label} started on {where}" + ("" if here else ", not on the nodes freed for it")
        order = replace(order, started_at=run.start_time)
        order = on_trial(order, run, context)
    elif job is None or job.finished:
        ending = Ending.PREEMPTOR_GONE
        text = f"job {order.preemptor} " + (f"ended {job.state} before it started" if job else "is gone")
    elif (back := returned(order, job, context)) is not None and not _moves(order):
        order = of_run(order, back)
        ending, text = Ending.NO_RUN, f"job {back.label} has started and is back in the queue already"
    elif _is_for_te(order) and job.pending and context.snapshot.job_class(job.job_id) is not JobClass.TE:
        # By its user's word, a change of its partition, or new rules. What it started now would be no TE job's run.
        ending, text = Ending.CHANGED, f"job {job.label} is no TE job any more"
    elif grown := _grown(order, job, context):
        ending, text = Ending.GROWN, f"job {job.label} asks for more than when the order was made: {grown}"
    elif why := changed(order, job, context):
        ending, text = Ending.CHANGED, f"job {job.label} asks for {why}"
    elif job.held and not (order.victims and is_held_by_us(job, context)):
        # Last: one whose user has excluded the nodes that it is bound to Slurm holds, too (BadConstraints).
        ending = Ending.PREEMPTOR_GONE
        text = f"job {job.label} is held now, and would not start"
    elif why := ((not _moves(order) and blocked(job, at_the_head=order.waits)) or why_not_in_time(order, job, context)):
        # What was true when its order was made may not be any more: it has reached a limit, a node was reserved.
        ending, text = Ending.BLOCKED, f"job {job.label} would not start any more: {why}"
    elif gone := gone_nodes(order, context.snapshot, context.columns.capacity):
        if may_come_back(order, context.snapshot, context.limits, awaited=context.is_awaited(order)):
            return _with_time_to_start(order, context)  # bound to none meanwhile (`fields/node_binding.py`)
        ending, text = Ending.NODE_GONE, f"{','.join(gone)}, of this order, starts no jobs any more"
    elif why := overtaken(order, job, context):
        ending, text = Ending.OVERTAKEN, why
    elif why := why_overruled(order, job, context):
        ending, text = Ending.OVERRULED, f"job {job.label} is not first in its queue: {why}"
    elif awaits_look(order, context) and not look_is_overdue(order, job, context):
        return with_time_to_leave(order, context)
    elif _soon_over(order, context) and (context.is_awaited(order) or awaits_others(order, context)):
        # One that moves is a victim of its own, and may not start right after its end.
        delay_s = context.snapshot.settings.requeue_delay_s if _moves(order) else 0
        return replace(order, expires_at=context.now + context.limits.order_timeout_s + delay_s)
    elif context.now > order.expires_at and not order.waits:
        ending = Ending.EXPIRED
        text = f"job {job.label} did not start within the order's time (Slurm says: {job.reason or 'no reason'})"
        if hanging := context.hanging(order):
            text += f"; {hanging}"
    elif look_is_overdue(order, job, context):
        ending = Ending.NOT_LOOKED_AT
        text = f"Slurm has not considered job {job.label} first in its queue (it says: {job.reason or 'nothing'})"
    else:
        return order
    return end_wait(order, ending, text, context)


def _with_time_to_start(order: Order, context: CycleContext) -> Order:
    """Return an order whose nodes are awaited, with time for its job to start there once they are back."""
    if any(victim.state in HOLDS_RESOURCES for victim in order.victims):
        return order
    return replace(order, expires_at=max(order.expires_at, context.now + context.limits.order_timeout_s / 2))


def _soon_over(order: Order, context: CycleContext) -> bool:
    """Check whether most of the time is over that its preemptor has for its start once the last victim has left."""
    return order.expires_at - context.now < context.limits.order_timeout_s / 2


def _grown(order: Order, job: Job, context: CycleContext) -> str:
    """Growth of a waiting preemptor's request since its order was made, in words; empty if there is none."""
    if order.size is None or not job.pending or job.partly_read:
        return ""
    return growth(order.size.waiting(job), size_of(job, context.own_request(job)))


def _moves(order: Order) -> bool:
    """Check whether the preemptor is one of its own victims: it waits a while before it may start again."""
    return any(victim.job_id == order.preemptor for victim in order.victims)


def _is_for_te(order: Order) -> bool:
    # No policy lets a BE job wait for what comes free.
    return order.made_for_te or order.for_te or order.waits


def _is_unclear(order: Order, context: CycleContext) -> bool:
    """Check whether it is unclear now what more the order needs: then no victim is pressed."""
    absent = order.preemptor in context.absent
    return order.state is OrderState.OPEN and (absent or any(is_silent(name, context.snapshot) for name in order.nodes))


def end_wait(order: Order, ending: Ending, text: str, context: CycleContext) -> Order:
    """Return the order after its preemptor stopped waiting: it awaits no node any more."""
    return context.order_step(order, replace(order, state=OrderState.SETTLING, ending=ending, lost_nodes=()), text)


def _advance_victim(victim: Victim, order: Order, context: CycleContext) -> Victim:
    if victim.settled and not has_changes(order, context, victim.job_id):
        return victim
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.job_id in context.absent:
        return victim
    victim = with_saved(victim, job, context.snapshot.reported.get(victim.job_id))
    if job is not None and victim.state in {VictimState.PLANNED, VictimState.NOTICED}:
        victim = to_end(victim, job)
    if job is not None and job.state is JobState.RUNNING and job.priority == 0 and not job.completing:
        victim = replace(victim, held_before=True)
    if (
        victim.state is VictimState.SUSPENDED
        and job is not None
        and departure_of(victim, job, context.now, context.release) is None
    ):
        return SUSPEND_LEVER.follow_victim(victim, job, order, context)
    if victim.state in HOLDS_RESOURCES and victim.ending_since is None and job is not None and job.completing:
        victim = replace(victim, ending_since=context.now)
    if victim.state in HOLDS_RESOURCES or victim.state is VictimState.SUSPENDED:
        if (after := gone(victim, job, order, context)) is not None:
            victim = after
        elif job is not None and failed_of_its_notice(victim, job, context.snapshot.settings):
            return rerun_early(victim, order, context)
        elif order.state is not OrderState.OPEN and victim.state is not VictimState.REQUEUING:
            leaves = may_go(victim, context.snapshot)
            if job is not None and not leaves and is_lacked(victim, order, context):
                return _press(victim, job, order, context)
            return victim if leaves else _spare(victim, order, context)
        elif job is not None and not _is_unclear(order, context):
            return _press(victim, job, order, context)
    if victim.state is VictimState.LEFT:
        victim = look_for_return(victim, job, order, context)
        if victim.size is not None and job is not None:
            size = victim.size.waiting(job)
            victim = victim if size is victim.size else replace(victim, size=size)
    if LEFT_HELD_RULE.releases(victim, order, context):
        return victim  # once it is free it is like any other that waits to run again
    place_victim(victim, order, context)
    return victim


def _spare(
    victim: Victim, order: Order, context: CycleContext, text: str = "its resources are not needed any more; it goes on"
) -> Victim:
    if was_asked(victim) and victim.purpose is Purpose.TE:
        # It has saved its work, and kept its nodes: that is enough for a while, and for the user who caused it. Others
        # had no part in that: were it kept from them, too, a job and its withdrawal would keep any victim from them.
        context.draft.paid.append(paying(victim, context.now, order.preemptor, withdrawn=True))
    return context.victim_step(order, victim, replace(victim, state=VictimState.SPARED), text)


def gone(victim: Victim, job: Job | None, order: Order, context: CycleContext) -> Victim | None:
    """Return the victim after it was seen to have left its nodes; None: the run that was meant still holds them."""
    departure = departure_of(victim, job, context.now, context.release)
    if departure is Departure.REQUEUED_ITSELF and victim.state is VictimState.PLANNED:
        text = "was put back in the queue by others before it was notified"
        return context.victim_step(order, victim, replace(victim, state=VictimState.SPARED), text)
    return None if departure is None else leave(victim, departure, order, context)


def leave(victim: Victim, departure: Departure, order: Order, context: CycleContext) -> Victim:
    """Return the victim after it was seen to have left its nodes; what it has paid by that goes to `context`."""
    used_s = context.now - (victim.noticed_at if victim.noticed_at is not None else context.now)
    since = "it was to be suspended" if victim.by_suspending else "its notice"
    text = f"{DEPARTURE_TEXT[departure]}, {used_s:.1f} s after {since}"
    if victim.of_own_user and departure in PREEMPTED:
        text += "; as a job of its own user caused that, it gets no place in the queue, and no limit spares it for that"
    victim = replace(victim, departure=departure)
    left = context.victim_step(order, victim, replace(victim, state=VictimState.LEFT, left_at=context.now), text)
    if victim.suspended_at is None and (victim.noticed_at is not None or departure in PREEMPTED):
        # However it ended, it was notified: that is what hours and budgets count. One seen suspended has paid by that.
        context.draft.paid.append(paying(victim, context.now, order.preemptor))
    if departure in PREEMPTED:
        if victim.is_limited:
            one = context.draft.job(victim.job_id)
            times, lost = one.preemptions + 1, one.lost_runs + victim.loses_run
            context.draft.update(victim.job_id, preemptions=times, lost_runs=lost, last_preempted=context.now)
        before = context.draft.job(victim.job_id).past or Past(submitted_at=victim.queued_at, ran_s=0.0)
        stops = [at for at in (victim.noticed_at, victim.suspended_at) if at is not None]
        worked_s = max(min(stops, default=context.now) - victim.started_at, 0.0)
        past = before.with_run(max(context.now - victim.started_at, 0.0), worked_s)
        context.draft.update(victim.job_id, past=past)
    ours = departure is Departure.REQUEUED or victim.state is VictimState.SUSPENDED
    # An expedited job that fails of its notice is in the queue at once, and held; an early rerun may come too late.
    in_queue = departure in {Departure.REQUEUED_ITSELF, Departure.DIED_OF_NOTICE}
    by_slurm = in_queue and context.snapshot.settings.holds_expedited
    failed = by_slurm and had_its_notice(victim)
    if ours or failed:
        LEFT_HELD_RULE.note(victim, context.snapshot.jobs.get(victim.job_id), order, context, failed=failed)
    victim = left
    took_s, job = leave_time_s(victim), context.snapshot.jobs.get(victim.job_id)
    if took_s is not None and job is not None:
        context.leave_times.append(((job.user, job.name), took_s))
    if (took_s := ending_s(victim)) is not None:
        context.ending_times.append((victim.nodes, took_s))
    waits = job is not None and job.restarts > victim.restarts
    return REQUEUE_LEVER.rerun(victim, order, context) if departure in TO_RERUN and not waits else victim


def look_for_return(victim: Victim, job: Job | None, order: Order, context: CycleContext) -> Victim:
    """Return a victim that has left, after what is seen of its next run; a rerun that is owed is sent."""
    if not victim.awaited:
        return victim
    if victim.departure in TO_RERUN:
        if job is None:
            why = "Slurm has forgotten it before it was back in the queue"
            return lost(victim, why=why, order=order, context=context)
        if owes_rerun(victim, job):
            sent_at = victim.requeue_sent_at
            late = sent_at is None or context.now - sent_at > RESEND_AFTER_S
            return REQUEUE_LEVER.rerun(victim, order, context) if late else victim
        REQUEUE_LEVER.mend_dependents(victim, job, order, context)
    if job is None:
        vanished = replace(victim, departure=Departure.VANISHED, given_up_at=context.now)
        return context.victim_step(order, victim, vanished, "Slurm no longer knows it")
    if job.pending:
        why = held_for_good(job)
        return lost(victim, why=why, order=order, context=context) if why else victim
    if job.start_time is not None and has_run_again(victim, job):
        away_s = job.start_time - (victim.left_at if victim.left_at is not None else job.start_time)
        text = f"runs again, {max(away_s, 0):.0f} s after it left"
        take_out_own_wait(victim, away_s, context)
        back = replace(victim, state=VictimState.BACK, back_at=job.start_time)
        return context.victim_step(order, victim, back, text)
    if job.state is JobState.DEADLINE:
        return lost(victim, why="its deadline has passed in the queue", order=order, context=context)
    if job.finished:  # cancelled while it waited to run again
        died = replace(victim, departure=Departure.DIED, given_up_at=context.now)
        return context.victim_step(order, victim, died, f"ended {job.state} in the queue")
    return victim


def _press(victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
    """Give notice, or requeue when the grace period is over, or ask again."""
    # On its way out, it needs no more; suspended, a requeue would leave it held; and an unknown state is left alone.
    if job.completing or job.state is not JobState.RUNNING:
        return victim
    if victim.state is VictimState.PLANNED:
        if why := why_withheld(victim, job, context):
            return _spare(victim, order, context, f"{why}; it goes on")
        return give_notice(victim, job, order, context)
    if victim.state is VictimState.NOTICED and victim.deadline is not None and context.now >= victim.deadline:
        return REQUEUE_LEVER.ask(victim, order, context, ReasonCode.GRACE_OVER)
    if victim.state is VictimState.REQUEUING and victim.requeue_sent_at is not None:
        patience_s = RESEND_AFTER_S + context.snapshot.settings.kill_wait_s
        if context.now - victim.requeue_sent_at > patience_s:
            if order.state is not OrderState.OPEN:
                return _spare(victim, order, context)
            return REQUEUE_LEVER.ask(to_end(victim, job), order, context, ReasonCode.GRACE_OVER)
    return victim


def give_notice(victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
    """Return the victim after its notice was ordered; without a grace period, after its requeue or its suspension.

    One that would leave before the others of its order is notified later (`orders/leave_together.py`), and so are those
    of a turn of which Slurm has not said that it waits for resources (`orders/first_look.py`).
    """
    preemptor = context.snapshot.jobs.get(order.preemptor)
    if preemptor is not None and context.snapshot.job_class(order.preemptor) is JobClass.TE:
        victim = replace(victim, for_user=preemptor.user, for_account=preemptor.account)
    victim = to_end(victim, job)
    if victim.by_suspending:
        return SUSPEND_LEVER.suspend(victim, order, context)
    if is_early(victim, job, order, context) or awaits_look(order, context):
        return victim
    if is_quick(victim):
        code = ReasonCode.NO_GRACE if victim.notice_signal else ReasonCode.NO_SIGNAL
        return replace(REQUEUE_LEVER.ask(victim, order, context, code), noticed_at=context.now)
    return NOTICE_LEVER.give(victim, job, order, context)
