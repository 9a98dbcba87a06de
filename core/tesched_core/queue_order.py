"""Who is first in the queue: the preemptor while room is made for it, its victims when they are back in the queue.

Priorities are moved by the nice value, which leaves Slurm in charge of them. Slurm ignores nice, with exit status 0,
for a job whose priority was set explicitly (scontrol(1), Nice): such a preemptor gets another explicit priority.

What was moved is put back when it has done its work, and is believed to be back only when that is seen. A value
between what it was before and what tesched asked for last is taken for one of tesched's: it is not known of every
change whether it arrived, so an earlier one may be in place. Any other was set by somebody else: it is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tesched_core.actions import Reason, ReasonCode, Release, SetNice, SetPriority
from tesched_core.cluster import Job
from tesched_core.orders import Lever, Order, OrderState, Raise, Victim
from tesched_core.resources import JobId
from tesched_core.work import RESEND_AFTER_S, Advance

#: Greatest priority that Slurm takes (scontrol(1)); one less than "no value".
MAX_PRIORITY = 4294967293
#: Room above the others, so that a priority that grows with age does not overtake at once.
PRIORITY_MARGIN = 1000
#: The same for a victim that is back in the queue: less, so that it stays behind whoever room is made for.
VICTIM_MARGIN = PRIORITY_MARGIN // 2


def started_run(order: Order, jobs: Mapping[JobId, Job]) -> Job | None:
    """Return the job as which the preemptor has started since the order was made; for an array, any task of it."""
    job = jobs.get(order.preemptor)
    itself = next((victim for victim in order.victims if victim.job_id == order.preemptor), None)
    if itself is not None and (job is None or job.restarts <= itself.restarts):
        return None  # it moves, and has not left yet
    # Slurm's clock counts whole seconds, ours does not.
    since = order.created_at - 1
    if job is not None and not job.pending and job.start_time is not None and job.start_time >= since:
        return job
    for task in jobs.values() if job is None or job.array_job_id is not None else ():
        if task.array_job_id == order.preemptor and task.start_time is not None and task.start_time >= since:
            return task
    return None


def keep_first(order: Order, work: Advance) -> Order:
    """Put the preemptor first in the queue, before anybody makes room, or somebody else takes it; keep it there."""
    job = work.snapshot.jobs.get(order.preemptor)
    if job is None or not job.pending or job.held:
        return order
    wanted = needed_priority(job, order.victims, work)
    missing = wanted - job.priority
    if missing <= 0:
        return order
    raised = order.raised if order.raised and not order.raised.restored else None
    if raised is not None and not _is_ours(job, raised) and _value(job, raised) != raised.previous:
        raised = None  # somebody else has set it since: that is what it is put back to
    in_vain = raised is not None and raised.lever is Lever.NICE and job.nice == raised.previous
    if in_vain and work.now > order.created_at + RESEND_AFTER_S:
        raised = Raise(lever=Lever.PRIORITY, previous=job.priority, value=wanted + PRIORITY_MARGIN)
    elif raised is None or raised.lever is Lever.NICE:
        previous = raised.previous if raised else job.nice
        raised = Raise(lever=Lever.NICE, previous=previous, value=job.nice - missing - PRIORITY_MARGIN)
    else:
        raised = replace(raised, value=wanted + PRIORITY_MARGIN)
    reason = Reason(
        code=ReasonCode.MAKE_ROOM_FIRST if order.victims else ReasonCode.ROOM_IS_FREE,
        text="it must be first in the queue, or somebody else takes the room",
        preemptor=job.job_id,
        order_id=order.order_id,
    )
    if raised.lever is Lever.NICE:
        work.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.value, previous=job.nice))
    else:
        value = min(raised.value, MAX_PRIORITY)
        raised = replace(raised, value=value)
        work.actions.append(SetPriority(job_id=job.job_id, reason=reason, priority=value, previous=job.priority))
    return replace(order, raised=raised)


def needed_priority(job: Job, victims: tuple[Victim, ...], work: Advance) -> int:
    """Return the least priority with which the job is ahead of every other one that could take its room.

    Those are the pending jobs of its partitions, and its victims, which come back with the priority that they had. Jobs
    for which room is being made as well are not among them: each has its own.
    """
    jobs = work.snapshot.jobs
    others = (victim.job_id for victim in victims if victim.job_id != job.job_id)
    paying = max((jobs[job_id].priority for job_id in others if job_id in jobs), default=0)
    excluded = work.preemptors | {job.job_id}
    return 1 + max(paying, work.overview.first_in_queue(job.partitions, excluded))


def bring_forward(victim: Victim, order: Order, work: Advance) -> Victim:
    """Put a victim that waits to run again ahead of all other best-effort jobs, once its preemptor has its room.

    A requeue leaves a job its priority on older releases and gives it a new, lower one on newer ones; the paper puts it
    back at the head of its queue (FitGpp, section on the queue).
    """
    job = work.snapshot.jobs.get(victim.job_id)
    if order.state is OrderState.OPEN or job is None or not job.pending or job.held:
        return victim
    if victim.raised is not None and victim.raised.restored:
        return victim  # Slurm refused once
    fellows = {job.job_id} | work.returning | {other.job_id for other in order.victims}
    first = work.overview.first_in_queue(job.partitions, fellows, best_effort=True)
    missing = 1 + first - job.priority
    if missing <= 0 or (victim.raised is not None and job.nice != victim.raised.value):
        return victim
    previous = victim.raised.previous if victim.raised else job.nice
    raised = Raise(lever=Lever.NICE, previous=previous, value=job.nice - missing - VICTIM_MARGIN)
    reason = Reason(
        code=ReasonCode.BACK_TO_THE_HEAD,
        text=f"it made room for job {order.preemptor} and is next among the best-effort jobs",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    work.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.value, previous=job.nice))
    return replace(victim, raised=raised)


def let_back(victim: Victim, order: Order, work: Advance) -> Victim:
    """Put a victim's nice value back once it no longer waits to run again."""
    if victim.raised is None or victim.raised.restored:
        return victim
    job = work.snapshot.jobs.get(victim.job_id)
    return replace(victim, raised=_put_back(victim.job_id, victim.raised, [job] if job else [], order, work))


def left_held(job: Job | None) -> Raise | None:
    """Return what is to be put back of a job that has just left its room because of our requeue: a hold, or nothing.

    Slurm puts a job that was suspended at that moment back in the queue held. A hold that comes later is somebody's.
    """
    if job is None or not job.held or job.flags & {"SPECIAL_EXIT", "REQUEUE_HOLD"}:
        return None
    return Raise(lever=Lever.HOLD, previous=0, value=1)


def put_back(order: Order, work: Advance) -> Order:
    """Put the preemptor's priority back once it no longer waits for its room."""
    raised = order.raised
    if raised is None or raised.restored:
        return order
    run = started_run(order, work.snapshot.jobs)
    current = work.snapshot.jobs.get(order.preemptor)
    jobs = {job.job_id: job for job in (run, current) if job is not None}
    return replace(order, raised=_put_back(order.preemptor, raised, jobs.values(), order, work))


def _put_back(job_id: JobId, raised: Raise, jobs: Iterable[Job], order: Order, work: Advance) -> Raise:
    jobs = [job for job in jobs if not job.finished]
    ours = [job for job in jobs if _is_ours(job, raised)]
    if not ours:
        others = any(_value(job, raised) != raised.previous for job in jobs)
        text = "was set by somebody else, and is left" if others else "is as it was"
        work.moved(order.order_id, job_id, "raised", "put back", f"its {raised.lever} {text}")
        return replace(raised, restored=True)
    reason = Reason(
        code=ReasonCode.ORDER_ENDED,
        text=f"put its {raised.lever} back to {raised.previous}",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    for job in ours:
        if raised.lever is Lever.HOLD:
            text = "its requeue left it held, and nobody asked for that"
            work.actions.append(
                Release(job_id=job.job_id, reason=replace(reason, code=ReasonCode.LEFT_HELD, text=text))
            )
        elif raised.lever is Lever.NICE:
            work.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.previous, previous=job.nice))
        else:
            work.actions.append(
                SetPriority(job_id=job.job_id, reason=reason, priority=raised.previous, previous=job.priority)
            )
    return raised


def _value(job: Job, raised: Raise) -> int:
    if raised.lever is Lever.HOLD:
        return int(job.held)
    return job.nice if raised.lever is Lever.NICE else job.priority


def _is_ours(job: Job, raised: Raise) -> bool:
    if raised.lever is Lever.HOLD:
        return job.held
    if raised.lever is Lever.NICE:
        return raised.value <= job.nice < raised.previous
    return raised.previous < job.priority <= raised.value
