"""Advance of an order: what the new snapshot shows of its preemptor and its victims, and what is to be done next.

Rules that hold in every branch:

- A victim is given notice at most once. It is asked to go once its grace period is over, and again only while the
  snapshot shows the very run that was meant still on its nodes.
- A victim that finished is never requeued: Slurm would run it a second time.
- A signal is sent only to a job for which one was declared, and a victim that died of it is put back in the queue.
- What was raised is put back as soon as the preemptor no longer waits, and is believed to be back only when seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tesched_core.guard.budget import lately, paying
from tesched_core.intake.leave_times import leave_time_s, with_leave_times
from tesched_core.intake.pending_reason import blocked
from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.levers.node_binding import NODE_BINDING_LEVER
from tesched_core.levers.notice import NOTICE_LEVER
from tesched_core.levers.priority import PRIORITY_LEVER
from tesched_core.levers.requeue import REQUEUE_LEVER, lost
from tesched_core.levers.suspend import SUSPEND_LEVER
from tesched_core.levers.victim_boost import VICTIM_BOOST_LEVER
from tesched_core.model.actions import OrderId, ReasonCode
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory, Past
from tesched_core.model.notice import ExitZero
from tesched_core.model.order import (
    HOLDS_ROOM,
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
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.first_look import look_is_overdue
from tesched_core.orders.futility import came_to_nothing, family_of
from tesched_core.orders.futility import follow as follow_futile
from tesched_core.orders.missing import missing_since
from tesched_core.orders.settled import ended_if_settled, has_changes
from tesched_core.orders.started import FROM_THE_QUEUE, started_run
from tesched_core.policy import ChosenVictim


def advance(
    memory: Memory, snapshot: Snapshot, columns: ClusterColumns, limits: Limits, *, paused: bool = False
) -> tuple[Memory, CycleContext]:
    """Return the memory after what the snapshot shows, and the actions and transitions that follow from it."""
    missing = missing_since(memory, snapshot)
    context = CycleContext.of(memory, snapshot, columns, limits)
    context.paused = paused
    context.retry_at = {family_of(one, snapshot): at for one, at in memory.retry_at.items() if at > snapshot.taken_at}
    context.absent = frozenset(missing) | {job.job_id for job in snapshot.jobs.values() if job.doubt}
    context.preemptors = {order.preemptor for order in context.orders if order.state is OrderState.OPEN}
    context.returning = {
        victim.job_id for order in context.orders for victim in order.victims if victim.state is VictimState.LEFT
    }
    orders: dict[OrderId, Order] = {}
    for order in memory.open_orders():
        orders[order.order_id] = _advance_order(order, context)
    known = snapshot.jobs.keys() | missing.keys()
    return replace(
        memory,
        orders=orders,
        missing=missing,
        # A job that Slurm has forgotten will not run again under this id.
        preemptions={job_id: count for job_id, count in context.preemptions.items() if job_id in known},
        last_preempted={job_id: at for job_id, at in context.last_preempted.items() if job_id in known},
        leave_times=with_leave_times(memory.leave_times, context.leave_times),
        paid=lately(context.paid, snapshot.taken_at),
        past={job_id: past for job_id, past in context.past.items() if job_id in known},
        retry_at={one: at for one, at in context.retry_at.items() if one in known or context.tasks_of(one)},
        futile=follow_futile(context),
        shadowed={job_id: at for job_id, at in memory.shadowed.items() if at > snapshot.taken_at},
    ), context


def _advance_order(order: Order, context: CycleContext) -> Order:
    before = order.state
    if order.state is OrderState.OPEN:
        order = _look_at_preemptor(order, context)
    if order.state is OrderState.OPEN and order.preemptor not in context.absent:
        PRIORITY_LEVER.keep_first(order, context)
        NODE_BINDING_LEVER.keep_bound(order, context)
    order = replace(order, victims=tuple(_advance_victim(victim, order, context) for victim in order.victims))
    if before is OrderState.OPEN and order.state is not OrderState.OPEN:
        came_to_nothing(order, context)
    if order.state is OrderState.SETTLING:
        PRIORITY_LEVER.put_back(order, context)
        order = ended_if_settled(order, context)
    return order


def _look_at_preemptor(order: Order, context: CycleContext) -> Order:
    run = started_run(order, context)
    job = context.snapshot.jobs.get(order.preemptor)
    if run is None and order.preemptor in context.absent:
        return order  # unknown: its victims are left alone until it is seen again, or is believed to be gone
    if run is not None:
        # Between two looks it may have ended, too.
        here = set(run.last_nodes) <= set(order.nodes) or not order.nodes
        ending = Ending.STARTED_HERE if here else Ending.STARTED_ELSEWHERE
        where = ",".join(run.last_nodes) or "the room made for it"
        text = f"job {run.label} started on {where}" + ("" if here else ", not where room was made for it")
        order = replace(order, started_at=run.start_time)
    elif job is None or job.finished:
        ending = Ending.PREEMPTOR_GONE
        text = f"job {order.preemptor} " + (f"ended {job.state} before it started" if job else "is gone")
    elif job.held:
        ending = Ending.PREEMPTOR_GONE
        text = f"job {job.label} is held now, and would not start"
    elif not _moves(order) and (why := blocked(job, at_the_head=order.waits)):
        # What was true when its order was made may not be any more: it has reached a limit, its partition was closed.
        ending, text = Ending.BLOCKED, f"job {job.label} would not start any more: {why}"
    elif gone := _gone_nodes(order, context):
        ending, text = Ending.NODE_GONE, f"{','.join(gone)}, where room is made, starts no jobs any more"
    elif context.now > order.expires_at and not order.waits:
        ending = Ending.EXPIRED
        text = f"job {job.label} did not start within the order's time (Slurm says: {job.reason or 'no reason'})"
    elif look_is_overdue(order, job, context):
        ending = Ending.NOT_LOOKED_AT
        text = f"Slurm has not looked at job {job.label} as the first in its queue (it says: {job.reason or 'nothing'})"
    else:
        return order
    return end_wait(order, ending, text, context)


def _moves(order: Order) -> bool:
    """Return whether the preemptor is one of its own victims: it waits a while before it may start again."""
    return any(victim.job_id == order.preemptor for victim in order.victims)


def _gone_nodes(order: Order, context: CycleContext) -> list[str]:
    room = context.columns.room
    gone = [name for name in order.nodes if name not in room.index or not room.available[room.index[name]]]
    return [name for name in gone if not _is_silent(name, context)]


def _is_silent(name: str, context: CycleContext) -> bool:
    """Return whether a node does nothing worse than not to respond: after SlurmdTimeout Slurm says that it is down."""
    node = context.snapshot.nodes.get(name)
    return node is not None and replace(node, flags=node.flags - {"NOT_RESPONDING"}).available and not node.available


def _is_unclear(order: Order, context: CycleContext) -> bool:
    """Return whether it is unclear now what more the order needs: then no victim is pressed."""
    absent = order.preemptor in context.absent
    return order.state is OrderState.OPEN and (absent or any(_is_silent(name, context) for name in order.nodes))


def end_wait(order: Order, ending: Ending, text: str, context: CycleContext) -> Order:
    """Return the order after its preemptor stopped waiting."""
    context.moved(order.order_id, None, order.state, OrderState.SETTLING, text)
    return replace(order, state=OrderState.SETTLING, ending=ending)


def _advance_victim(victim: Victim, order: Order, context: CycleContext) -> Victim:
    if victim.settled and not has_changes(order, context, victim.job_id):
        return victim
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.job_id in context.absent:
        return victim
    if job is not None and job.state is JobState.RUNNING and job.priority == 0 and not job.completing:
        victim = replace(victim, held_before=True)
    if (
        victim.state is VictimState.SUSPENDED
        and job is not None
        and departure_of(victim, job, context.now, context.release) is None
    ):
        return SUSPEND_LEVER.follow_victim(victim, job, order, context)
    if victim.state in HOLDS_ROOM or victim.state is VictimState.SUSPENDED:
        departure = departure_of(victim, job, context.now, context.release)
        if departure is not None:
            victim = leave(victim, departure, order, context)
        elif order.state is not OrderState.OPEN and victim.state is not VictimState.REQUEUING:
            # A victim under notice may be about to leave, and then has paid; when its grace period is over, it stays.
            may_leave = victim.deadline is not None and context.now < victim.deadline
            return victim if may_leave else _spare(victim, order, context)
        elif job is not None and not _is_unclear(order, context):
            return _press(victim, job, order, context)
    if victim.state is VictimState.LEFT:
        victim = _look_for_return(victim, job, order, context)
    if REQUEUE_LEVER.has_left_held(victim, order, context):
        return victim  # once it is free it is like any other that waits to run again
    if victim.awaited:
        VICTIM_BOOST_LEVER.bring_forward(victim, order, context)
    else:
        VICTIM_BOOST_LEVER.put_back(victim, order, context)
    return victim


def _spare(victim: Victim, order: Order, context: CycleContext) -> Victim:
    text = "its room is not needed any more; it goes on"
    if victim.noticed_at is not None:
        # It has saved its work, and kept its nodes: that is enough for a while.
        context.last_preempted[victim.job_id] = context.now
    context.moved(order.order_id, victim.job_id, victim.state, VictimState.SPARED, text)
    return replace(victim, state=VictimState.SPARED)


def departure_of(victim: Victim, job: Job | None, now: UnixSeconds, release: str = "") -> Departure | None:
    """Return how a victim that held its room left it; None while the run that was meant still holds it.

    `release` is Slurm's: what exit status 0 means may depend on it. `now` is when this is seen.
    """
    if job is None:
        return Departure.VANISHED
    asked = victim.state is VictimState.REQUEUING
    if job.restarts > victim.restarts and not (job.completing and job.on_nodes):
        return Departure.REQUEUED if asked else Departure.REQUEUED_ITSELF
    if job.on_nodes:
        return None
    if job.pending:
        return Departure.REQUEUED if asked else Departure.REQUEUED_ITSELF
    if job.finished and not job.completing:
        return _own_end(victim, job, now, release)
    return None


def _own_end(victim: Victim, job: Job, now: UnixSeconds, release: str) -> Departure:
    """Return what it means that a victim's run has ended by itself."""
    had_its_notice = bool(victim.notice_signal) and victim.noticed_at is not None and not victim.by_suspending
    if job.state is JobState.COMPLETED:
        # What Slurm does it does to jobs that end in their grace period; a job's or a site's own word holds for good.
        in_time = victim.exit0 is not ExitZero.SLURM or _in_its_grace_period(victim, job, now)
        again = had_its_notice and in_time and victim.exit0.runs_again(release)
        return Departure.SAVED if again else Departure.FINISHED
    # Its own failure and the signal's can't be told apart (a trap may exit with any code); to run once more is the
    # lesser harm, and counts towards guard.max_preemptions_per_job.
    return Departure.DIED_OF_NOTICE if had_its_notice and job.state is JobState.FAILED else Departure.DIED


def _in_its_grace_period(victim: Victim, job: Job, now: UnixSeconds) -> bool:
    """Return whether a victim that had its notice ended before its grace period was over.

    One that sat it out and ended later, while the daemon was away, has finished. Slurm's times are whole seconds.
    """
    deadline = victim.deadline
    return deadline is None or now <= deadline or (job.end_time is not None and job.end_time <= deadline + 1)


_DEPARTURE_TEXT: Mapping[Departure, str] = {
    Departure.REQUEUED: "left its room and is back in the queue",
    Departure.REQUEUED_ITSELF: "put itself back in the queue",
    Departure.FINISHED: "finished; it will not run again",
    Departure.DIED_OF_NOTICE: "died of its notice, and is put back in the queue",
    Departure.SAVED: "has saved its work and ended, and is put back in the queue",
    Departure.DIED: "failed or was cancelled",
    Departure.LOST: "is lost",
    Departure.VANISHED: "is unknown to Slurm now",
}


def leave(victim: Victim, departure: Departure, order: Order, context: CycleContext) -> Victim:
    """Return the victim after it was seen to have left its room; what it has paid by that goes to `context`."""
    used_s = context.now - (victim.noticed_at if victim.noticed_at is not None else context.now)
    since = "it was to be suspended" if victim.by_suspending else "its notice"
    text = f"{_DEPARTURE_TEXT[departure]}, {used_s:.1f} s after {since}"
    context.moved(order.order_id, victim.job_id, victim.state, VictimState.LEFT, text)
    victim = replace(victim, departure=departure)
    if victim.noticed_at is not None or departure in PREEMPTED:
        # However it ended, it was asked: that is what hours and budgets count.
        context.paid.append(paying(victim, context.now, order.preemptor))
    if departure in PREEMPTED:
        if victim.purpose is Purpose.TE:  # P and the cool-down are for what TE jobs cause
            context.preemptions[victim.job_id] = context.preemptions.get(victim.job_id, 0) + 1
            context.last_preempted[victim.job_id] = context.now
        before = context.past.get(victim.job_id, Past(submitted_at=victim.queued_at, ran_s=0.0))
        context.past[victim.job_id] = replace(before, ran_s=before.ran_s + max(context.now - victim.started_at, 0.0))
    ours = departure is Departure.REQUEUED or victim.state is VictimState.SUSPENDED
    if ours:
        REQUEUE_LEVER.look_for_hold(victim, context.snapshot.jobs.get(victim.job_id), order, context)
    victim = replace(victim, state=VictimState.LEFT, left_at=context.now)
    took_s, job = leave_time_s(victim), context.snapshot.jobs.get(victim.job_id)
    if took_s is not None and job is not None:
        context.leave_times.append(((job.user, job.name), took_s))
    return REQUEUE_LEVER.rerun(victim, order, context) if departure in TO_RERUN else victim


def _look_for_return(victim: Victim, job: Job | None, order: Order, context: CycleContext) -> Victim:
    if not victim.awaited:
        return victim
    if victim.departure in TO_RERUN:
        if job is None:
            why = "Slurm has forgotten it before it was back in the queue"
            return lost(victim, why=why, order=order, context=context)
        if job.restarts == victim.restarts and not job.pending:
            sent_at = victim.requeue_sent_at
            late = sent_at is None or context.now - sent_at > RESEND_AFTER_S
            return REQUEUE_LEVER.rerun(victim, order, context) if late else victim
        REQUEUE_LEVER.mend_dependents(victim, job, order, context)
    if job is None:
        text = "Slurm no longer knows it"
        context.moved(order.order_id, victim.job_id, victim.state, victim.state, text)
        return replace(victim, departure=Departure.VANISHED)
    if job.pending:
        return victim
    if job.start_time is not None and _ran_again(victim, job):
        away_s = job.start_time - (victim.left_at if victim.left_at is not None else job.start_time)
        text = f"runs again, {max(away_s, 0):.0f} s after it left"
        context.moved(order.order_id, victim.job_id, victim.state, VictimState.BACK, text)
        return replace(victim, state=VictimState.BACK, back_at=job.start_time)
    if job.finished:  # cancelled while it waited to run again
        context.moved(order.order_id, victim.job_id, victim.state, victim.state, f"ended {job.state} in the queue")
        return replace(victim, departure=Departure.DIED)
    return victim


def _ran_again(victim: Victim, job: Job) -> bool:
    if job.restarts <= victim.restarts or job.start_time is None:
        return False
    if job.finished and job.state not in FROM_THE_QUEUE:
        return True  # however short: Slurm's times are whole seconds
    # A job that was cancelled in the queue has its end as its start, or still the start of the run that paid.
    ran = job.end_time is None or job.end_time > job.start_time > victim.started_at
    return job.on_nodes or (job.finished and ran)


def _press(victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
    """Give notice, or requeue when the grace period is over, or ask again."""
    # On its way out, it needs no more; suspended, a requeue would leave it held; and an unknown state is left alone.
    if job.completing or job.state is not JobState.RUNNING:
        return victim
    if victim.state is VictimState.PLANNED:
        return give_notice(victim, job, order, context)
    if victim.state is VictimState.NOTICED and victim.deadline is not None and context.now >= victim.deadline:
        return REQUEUE_LEVER.ask(victim, order, context, ReasonCode.GRACE_OVER)
    if victim.state is VictimState.REQUEUING and victim.requeue_sent_at is not None:
        patience_s = RESEND_AFTER_S + context.snapshot.settings.kill_wait_s
        if context.now - victim.requeue_sent_at > patience_s:
            if order.state is not OrderState.OPEN:
                return _spare(victim, order, context)
            return REQUEUE_LEVER.ask(victim, order, context, ReasonCode.GRACE_OVER)
    return victim


def victim_of(chosen: ChosenVictim, snapshot: Snapshot) -> Victim:
    """Return a victim that has not been told yet."""
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
        queued_at=job.submit_time,
        user=job.user,
        account=job.account,
        held_before=job.state is JobState.RUNNING and job.priority == 0,
    )


def give_notice(victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
    """Return the victim after its notice was ordered; without a grace period, after its requeue or its suspension."""
    preemptor = context.snapshot.jobs.get(order.preemptor)
    if preemptor is not None and context.snapshot.job_class(order.preemptor) is JobClass.TE:
        victim = replace(victim, for_user=preemptor.user, for_account=preemptor.account)
    elif preemptor is not None:
        victim = replace(victim, purpose=Purpose.ROUND)
    if victim.by_suspending:
        return SUSPEND_LEVER.suspend(victim, order, context)
    if not victim.notice_signal or victim.grace_period_s <= 0:
        code = ReasonCode.NO_GRACE if victim.notice_signal else ReasonCode.NO_SIGNAL
        return replace(REQUEUE_LEVER.ask(victim, order, context, code), noticed_at=context.now)
    return NOTICE_LEVER.give(victim, job, order, context)
