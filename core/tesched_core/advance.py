"""How an order goes on: what the new snapshot shows of its preemptor and its victims, and what is to be done next.

Rules that hold in every branch:

- A victim is given notice at most once. It is asked to go once its grace period is over, and again only while the
  snapshot shows the very run that was meant still on its nodes.
- A victim that finished is never requeued: Slurm would run it a second time.
- What was raised is put back as soon as the preemptor no longer waits, and is believed to be back only when seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tesched_core.actions import Notify, OrderId, Reason, ReasonCode, Requeue
from tesched_core.binding import keep_bound
from tesched_core.budget import lately, paying
from tesched_core.cluster import Job, JobState
from tesched_core.decision import Memory, Past
from tesched_core.guard import Limits
from tesched_core.orders import HOLDS_ROOM, Departure, Ending, Lever, Order, OrderState, Victim, VictimState
from tesched_core.overview import Overview
from tesched_core.queue_order import bring_forward, keep_first, left_held, let_back, put_back, started_run
from tesched_core.snapshot import Snapshot
from tesched_core.suspension import follow, suspend
from tesched_core.waiting import blocked
from tesched_core.work import RESEND_AFTER_S, Advance


def advance(memory: Memory, snapshot: Snapshot, overview: Overview, limits: Limits) -> tuple[Memory, Advance]:
    """Return the memory after what the snapshot shows, and the actions and transitions that follow from it."""
    work = Advance(
        snapshot=snapshot,
        overview=overview,
        limits=limits,
        orders=memory.open_orders(),
        preemptors={order.preemptor for order in memory.open_orders() if order.state is OrderState.OPEN},
        preemptions=dict(memory.preemptions),
        last_preempted=dict(memory.last_preempted),
        paid=list(memory.paid),
        past=dict(memory.past),
        bound=dict(memory.bound),
        retry_at={job_id: at for job_id, at in memory.retry_at.items() if at > snapshot.taken_at},
        returning={
            victim.job_id
            for order in memory.open_orders()
            for victim in order.victims
            if victim.state is VictimState.LEFT
        },
    )
    orders: dict[OrderId, Order] = {}
    for order in memory.open_orders():
        orders[order.order_id] = _advance_order(order, work)
    known = snapshot.jobs
    return replace(
        memory,
        orders=orders,
        # A job that Slurm has forgotten will not run again under this id.
        preemptions={job_id: count for job_id, count in work.preemptions.items() if job_id in known},
        last_preempted={job_id: at for job_id, at in work.last_preempted.items() if job_id in known},
        paid=lately(work.paid, snapshot.taken_at),
        past={job_id: past for job_id, past in work.past.items() if job_id in known},
        retry_at={job_id: at for job_id, at in work.retry_at.items() if job_id in known},
    ), work


def _advance_order(order: Order, work: Advance) -> Order:
    if order.state is OrderState.OPEN:
        order = _look_at_preemptor(order, work)
    if order.state is OrderState.OPEN:
        order = keep_first(order, work)
        keep_bound(order, work)
    order = replace(order, victims=tuple(_advance_victim(victim, order, work) for victim in order.victims))
    if order.state is OrderState.SETTLING:
        order = put_back(order, work)
        if all(victim.settled for victim in order.victims) and (order.raised is None or order.raised.restored):
            text = "futile: its victims left for nothing" if order.futile else "all is as it was"
            work.moved(order.order_id, None, order.state, OrderState.ENDED, text)
            order = replace(order, state=OrderState.ENDED, ended_at=work.now)
    return order


def _look_at_preemptor(order: Order, work: Advance) -> Order:
    run = started_run(order, work.snapshot.jobs)
    job = work.snapshot.jobs.get(order.preemptor)
    if run is not None:
        # A job that has finished between two looks no longer says where it ran.
        here = set(run.nodes) <= set(order.nodes) or not order.nodes
        ending = Ending.STARTED_HERE if here else Ending.STARTED_ELSEWHERE
        where = ",".join(run.nodes) or "the room made for it"
        text = f"job {run.label} started on {where}" + ("" if here else ", not where room was made for it")
        order = replace(order, started_at=run.start_time)
    elif job is None or job.finished:
        ending = Ending.PREEMPTOR_GONE
        text = f"job {order.preemptor} " + (f"ended {job.state} before it started" if job else "is gone")
    elif job.held:
        ending = Ending.PREEMPTOR_GONE
        text = f"job {job.label} is held now, and would not start"
    elif not _moves(order) and (why := blocked(job)):
        # What was true when its order was made may not be any more: it has reached a limit, its partition was closed.
        ending, text = Ending.BLOCKED, f"job {job.label} would not start any more: {why}"
    elif gone := _gone_nodes(order, work):
        ending, text = Ending.NODE_GONE, f"{','.join(gone)}, where room is made, starts no jobs any more"
    elif work.now > order.expires_at and not order.waits:
        ending = Ending.EXPIRED
        text = f"job {job.label} did not start within the order's time (Slurm says: {job.reason or 'no reason'})"
        work.retry_at[order.preemptor] = work.now + work.limits.retry_after_s
    else:
        return order
    return end_wait(order, ending, text, work)


def _moves(order: Order) -> bool:
    """Return whether the preemptor is one of its own victims: it waits a while before it may start again."""
    return any(victim.job_id == order.preemptor for victim in order.victims)


def _gone_nodes(order: Order, work: Advance) -> list[str]:
    room = work.overview.room
    return [name for name in order.nodes if name not in room.index or not room.available[room.index[name]]]


def end_wait(order: Order, ending: Ending, text: str, work: Advance) -> Order:
    """Return the order after its preemptor stopped waiting."""
    work.moved(order.order_id, None, order.state, OrderState.SETTLING, text)
    return replace(order, state=OrderState.SETTLING, ending=ending)


def _advance_victim(victim: Victim, order: Order, work: Advance) -> Victim:
    if victim.settled:
        return victim
    job = work.snapshot.jobs.get(victim.job_id)
    if victim.state is VictimState.SUSPENDED and job is not None and departure_of(victim, job) is None:
        return follow(victim, job, order, work)
    if victim.state in HOLDS_ROOM or victim.state is VictimState.SUSPENDED:
        departure = departure_of(victim, job)
        if departure is not None:
            victim = leave(victim, departure, order, work)
        elif order.state is not OrderState.OPEN and victim.state is not VictimState.REQUEUING:
            # Who has had his notice may be about to leave, and then has paid; when his grace period is over, he stays.
            may_leave = victim.deadline is not None and work.now < victim.deadline
            return victim if may_leave else _spare(victim, order, work)
        elif job is not None:
            return _press(victim, job, order, work)
    if victim.state is VictimState.LEFT:
        victim = _look_for_return(victim, job, order, work)
    if victim.awaited and victim.raised is not None and victim.raised.lever is Lever.HOLD:
        victim = let_back(victim, order, work)
        # Once it is free it is like any other that waits to run again.
        return replace(victim, raised=None) if victim.raised and victim.raised.restored else victim
    if victim.awaited:
        return bring_forward(victim, order, work)
    return let_back(victim, order, work)


def _spare(victim: Victim, order: Order, work: Advance) -> Victim:
    text = "its room is not needed any more; it goes on"
    if victim.noticed_at is not None:
        work.last_preempted[victim.job_id] = work.now  # it has saved its work for nobody: that is enough for a while
    work.moved(order.order_id, victim.job_id, victim.state, VictimState.SPARED, text)
    return replace(victim, state=VictimState.SPARED)


def departure_of(victim: Victim, job: Job | None) -> Departure | None:
    """Return how a victim that held its room left it; None while the run that was meant still holds it."""
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
        return Departure.FINISHED if job.state is JobState.COMPLETED else Departure.DIED
    return None


_DEPARTURE_TEXT: Mapping[Departure, str] = {
    Departure.REQUEUED: "left its room and is back in the queue",
    Departure.REQUEUED_ITSELF: "put itself back in the queue",
    Departure.FINISHED: "finished; it will not run again",
    Departure.DIED: "failed or was cancelled",
    Departure.VANISHED: "is unknown to Slurm now",
}


def leave(victim: Victim, departure: Departure, order: Order, work: Advance) -> Victim:
    """Return the victim after it was seen to have left its room; what it has paid by that goes to `work`."""
    used_s = work.now - (victim.noticed_at if victim.noticed_at is not None else work.now)
    since = "it was to be suspended" if victim.by_suspending else "its notice"
    text = f"{_DEPARTURE_TEXT[departure]}, {used_s:.1f} s after {since}"
    work.moved(order.order_id, victim.job_id, victim.state, VictimState.LEFT, text)
    if departure in {Departure.REQUEUED, Departure.REQUEUED_ITSELF}:
        work.preemptions[victim.job_id] = work.preemptions.get(victim.job_id, 0) + 1
        work.last_preempted[victim.job_id] = work.now
        work.paid.append(paying(replace(victim, state=VictimState.LEFT), work.now))
        before = work.past.get(victim.job_id, Past(submitted_at=victim.queued_at, ran_s=0.0))
        work.past[victim.job_id] = replace(before, ran_s=before.ran_s + max(work.now - victim.started_at, 0.0))
    ours = departure is Departure.REQUEUED or victim.state is VictimState.SUSPENDED
    held = left_held(work.snapshot.jobs.get(victim.job_id)) if ours else None
    return replace(victim, state=VictimState.LEFT, left_at=work.now, departure=departure, raised=held)


def _look_for_return(victim: Victim, job: Job | None, order: Order, work: Advance) -> Victim:
    if not victim.awaited:
        return victim
    if job is None:
        text = "Slurm no longer knows it"
        work.moved(order.order_id, victim.job_id, victim.state, victim.state, text)
        return replace(victim, departure=Departure.VANISHED)
    if job.pending:
        return victim
    if job.start_time is not None and _ran_again(victim, job):
        away_s = job.start_time - (victim.left_at if victim.left_at is not None else job.start_time)
        text = f"runs again, {max(away_s, 0):.0f} s after it left"
        work.moved(order.order_id, victim.job_id, victim.state, VictimState.BACK, text)
        return replace(victim, state=VictimState.BACK, back_at=job.start_time)
    if job.finished:  # cancelled while it waited to run again
        work.moved(order.order_id, victim.job_id, victim.state, victim.state, f"ended {job.state} in the queue")
        return replace(victim, departure=Departure.DIED)
    return victim


def _ran_again(victim: Victim, job: Job) -> bool:
    if job.restarts <= victim.restarts or job.start_time is None:
        return False
    # A job that was cancelled in the queue has its end as its start, or still the start of the run that paid.
    ran = job.end_time is None or job.end_time > job.start_time > victim.started_at
    return job.on_nodes or (job.finished and ran)


def _press(victim: Victim, job: Job, order: Order, work: Advance) -> Victim:
    """Give notice, or requeue when the grace period is over, or ask again."""
    # On its way out, it needs no more; suspended, a requeue would leave it held; and an unknown state is left alone.
    if job.completing or job.state is not JobState.RUNNING:
        return victim
    if victim.state is VictimState.PLANNED:
        return give_notice(victim, job, order, work)
    if victim.state is VictimState.NOTICED and victim.deadline is not None and work.now >= victim.deadline:
        return _requeue(victim, order, work, ReasonCode.GRACE_OVER)
    if victim.state is VictimState.REQUEUING and victim.requeue_sent_at is not None:
        patience_s = RESEND_AFTER_S + work.snapshot.settings.kill_wait_s
        if work.now - victim.requeue_sent_at > patience_s:
            if order.state is not OrderState.OPEN:
                return _spare(victim, order, work)
            return _requeue(victim, order, work, ReasonCode.GRACE_OVER)
    return victim


def victim_of(job: Job, score: float, snapshot: Snapshot) -> Victim:
    """Return the job as a victim that has not been told yet; `score` is the policy's."""
    traits = snapshot.traits[job.job_id]
    return Victim(
        job_id=job.job_id,
        state=VictimState.PLANNED,
        restarts=job.restarts,
        grace_period_s=traits.grace_period_s,
        notice_signal=traits.notice_signal,
        notice_batch_only=traits.notice_batch_only,
        score=score,
        nodes=job.nodes,
        started_at=job.start_time if job.start_time is not None else snapshot.taken_at,
        queued_at=job.submit_time,
        user=job.user,
        account=job.account,
    )


def give_notice(victim: Victim, job: Job, order: Order, work: Advance) -> Victim:
    """Return the victim after its notice was ordered; without a grace period, after its requeue or its suspension."""
    if victim.by_suspending:
        return suspend(victim, order, work)
    if victim.grace_period_s <= 0:
        return replace(_requeue(victim, order, work, ReasonCode.NO_GRACE), noticed_at=work.now)
    reason = Reason(
        code=ReasonCode.NOTICE,
        text=(
            f"it is to go on on {','.join(order.nodes)}; it has {victim.grace_period_s:.0f} s to save its work"
            if victim.job_id == order.preemptor
            else f"job {order.preemptor} needs its room; it has {victim.grace_period_s:.0f} s to save its work"
        ),
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    work.actions.append(
        Notify(
            job_id=job.job_id,
            reason=reason,
            signal=victim.notice_signal,
            batch_only=victim.notice_batch_only,
            restarts=victim.restarts,
        )
    )
    text = f"notice by SIG{victim.notice_signal}; grace period {victim.grace_period_s:.0f} s"
    work.moved(order.order_id, victim.job_id, victim.state, VictimState.NOTICED, text)
    return replace(victim, state=VictimState.NOTICED, noticed_at=work.now)


def _requeue(victim: Victim, order: Order, work: Advance, code: ReasonCode) -> Victim:
    again = victim.state is VictimState.REQUEUING
    text = (
        f"it has no grace period, and job {order.preemptor} needs its room"
        if code is ReasonCode.NO_GRACE
        else f"its grace period of {victim.grace_period_s:.0f} s is over and it still runs"
    )
    reason = Reason(code=code, text=text, preemptor=order.preemptor, order_id=order.order_id)
    work.actions.append(Requeue(job_id=victim.job_id, reason=reason, restarts=victim.restarts))
    told = f"requeue{' (again)' if again else ''}: {text}"
    work.moved(order.order_id, victim.job_id, victim.state, VictimState.REQUEUING, told)
    return replace(victim, state=VictimState.REQUEUING, requeue_sent_at=work.now)
