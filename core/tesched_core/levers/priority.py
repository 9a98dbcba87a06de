"""Priority lever: the preemptor is first in the queue while its victims leave, and they are when they are back.

Priorities are moved by the nice value, which leaves Slurm in charge of them. Slurm ignores nice, with exit status 0,
for a job whose priority was set explicitly (scontrol(1), Nice): such a preemptor gets another explicit priority.

What was moved is put back when it has done its work, and is believed to be back only when that is seen. A value
between what it was before and what tesched asked for last is taken for one of tesched's: it is not known of every
change whether it arrived, so an earlier one may be in place. Any other was set by others: it is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tesched_core.intake.pending_reason import WANTS_ROOM
from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.model.actions import Reason, ReasonCode, Release, SetNice, SetPriority
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.order import Lever, Order, OrderState, Raise, Victim
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import AwaitRoom, Plan

#: Greatest priority that Slurm takes (scontrol(1)); one less than "no value".
MAX_PRIORITY = 4294967293
#: Least nice value that Slurm takes (scontrol(1), Nice).
MIN_NICE = -2147483645
#: Room above the others, so that a priority that grows with age does not overtake at once.
PRIORITY_MARGIN = 1000
#: The same for a victim that is back in the queue: less, so that it stays behind the preemptors.
VICTIM_MARGIN = PRIORITY_MARGIN // 2


#: States in which a job that waits in the queue can end.
FROM_THE_QUEUE = frozenset({JobState.CANCELLED, JobState.DEADLINE})


def started_run(order: Order, context: CycleContext) -> Job | None:
    """Return the job as which the preemptor has started since the order was made; for an array, any task of it.

    It was pending then. So what it is now says whether it has started; slurmctld's clock may differ from this host's,
    and the two are not compared.
    """
    job = context.snapshot.jobs.get(order.preemptor)
    itself = next((victim for victim in order.victims if victim.job_id == order.preemptor), None)
    if itself is not None and (job is None or job.restarts <= itself.restarts):
        return None  # it moves, and has not left yet
    if job is not None and _has_started(job):
        return job
    if job is not None and job.array_job_id is None:
        return None
    # Slurm gives a task an id of its own, the next one that there is, when it leaves the array's record.
    since = order.newest_task if order.newest_task is not None else order.preemptor
    tasks = context.tasks_of(order.preemptor)
    return next((task for task in tasks if task.job_id > since and _has_started(task)), None)


def newest_task(preemptor: Job, context: CycleContext) -> JobId | None:
    """Return the newest task of a job array that waits; None for any other job, or if there is none."""
    if preemptor.array_job_id is None:
        return None
    return max((task.job_id for task in context.tasks_of(preemptor.job_id)), default=None)


def _has_started(job: Job) -> bool:
    """Return whether a job that was pending has run since, going by its state and by slurmctld's own times."""
    if job.start_time is None or job.state in {JobState.PENDING, JobState.UNKNOWN}:
        return False
    if job.state not in FROM_THE_QUEUE or job.on_nodes:
        return True
    # Cancelled in the queue it has its end as its start, or still the start of an earlier run.
    return job.end_time is not None and job.end_time > job.start_time >= job.submit_time


def keep_first(order: Order, context: CycleContext) -> Order:
    """Put the preemptor first in the queue before its victims leave, or another job takes the resources."""
    job = context.snapshot.jobs.get(order.preemptor)
    if job is None or not job.pending or job.held:
        return order
    wanted = needed_priority(job, order.victims, context)
    missing = wanted - job.priority
    if missing <= 0 or job.nice <= MIN_NICE:
        return order
    raised = order.raised if order.raised and not order.raised.restored else None
    if raised is not None and not _is_ours(job, raised) and _value(job, raised) != raised.previous:
        raised = None  # others have set it since: that is what it is put back to
    if raised is not None and _in_vain(raised, job, context):
        raised = Raise(lever=Lever.PRIORITY, previous=job.priority, value=wanted + PRIORITY_MARGIN)
    elif raised is None or raised.lever is Lever.NICE:
        previous = raised.previous if raised else job.nice
        value = max(job.nice - missing - PRIORITY_MARGIN, MIN_NICE)
        taken_at = raised.taken_at if raised and raised.value == value else None
        raised = Raise(lever=Lever.NICE, previous=previous, value=value, taken_at=taken_at)
    else:
        raised = replace(raised, value=wanted + PRIORITY_MARGIN)
    reason = Reason(
        code=ReasonCode.MAKE_ROOM_FIRST if order.victims else ReasonCode.ROOM_IS_FREE,
        text="it must be first in the queue, or somebody else takes the room",
        preemptor=job.job_id,
        order_id=order.order_id,
    )
    if raised.lever is Lever.NICE:
        context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.value, previous=job.nice))
    else:
        value = min(raised.value, MAX_PRIORITY)
        raised = replace(raised, value=value)
        context.actions.append(SetPriority(job_id=job.job_id, reason=reason, priority=value, previous=job.priority))
    return replace(order, raised=raised)


def _in_vain(raised: Raise, job: Job, context: CycleContext) -> bool:
    """Return whether Slurm took a nice value some time ago, and it has changed nothing.

    A command that got no answer says nothing of that: it is sent again. An explicit priority is a lasting change.
    """
    ignored = raised.lever is Lever.NICE and job.nice == raised.previous and raised.taken_at is not None
    return ignored and raised.taken_at is not None and context.now > raised.taken_at + RESEND_AFTER_S


def needed_priority(job: Job, victims: tuple[Victim, ...], context: CycleContext) -> int:
    """Return the least priority with which the job is ahead of every other one that could take its room.

    Those are the pending jobs of its tier in the partitions that share nodes with its own, and its victims, which come
    back with the priority that they had. Of the jobs for which room is being made as well those that came later are
    among them: raised above a victim of its own, a later one would be ahead of this one, and take what comes free.
    """
    jobs = context.snapshot.jobs
    rivals = context.partitions_beside(job.partitions)

    def among(job_id: JobId) -> bool:
        return job_id in jobs and job_id != job.job_id and not rivals.isdisjoint(jobs[job_id].partitions)

    paying = max((jobs[victim.job_id].priority for victim in victims if among(victim.job_id)), default=0)
    place = (job.submit_time, job.job_id)
    later = (jobs[one] for one in context.preemptors if among(one) and jobs[one].pending)
    younger = max((one.priority for one in later if (one.submit_time, one.job_id) > place), default=0)
    excluded = context.preemptors | {job.job_id}
    return 1 + max(paying, younger, context.columns.first_in_queue(rivals, excluded))


def outranked(plan: Plan, context: CycleContext) -> Refusal | None:
    """Return why no victim is asked for this plan's job, where a job of a higher tier waits for the same nodes.

    Slurm comes to that one first, whatever their priorities are, and it would take what the victims leave. TE jobs do
    not count: room is made for them as well.
    """
    if isinstance(plan, AwaitRoom):
        return None
    snapshot, job = context.snapshot, context.snapshot.jobs[plan.preemptor]
    tiers = [snapshot.partitions[name].priority_tier for name in job.partitions if name in snapshot.partitions]
    nodes = frozenset(plan.nodes)
    above = {
        name
        for name, one in snapshot.partitions.items()
        if tiers and one.priority_tier > max(tiers) and one.state == "UP" and not nodes.isdisjoint(one.nodes)
    }
    if not above or not plan.victims:
        return None
    for other in snapshot.jobs.values():
        waits = other.pending and not other.held and other.reason in WANTS_ROOM
        mine = above & set(other.partitions)
        if waits and mine and snapshot.job_class(other.job_id) is not JobClass.TE:
            where = f"waits in {min(mine)}, of a higher PriorityTier over {','.join(plan.nodes)}"
            text = f"job {other.label} {where}: it would take what a victim leaves there"
            return Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.OUTRANKED, text=text)
    return None


def bring_forward(victim: Victim, order: Order, context: CycleContext) -> Victim:
    """Put a victim that waits to run again ahead of all other best-effort jobs, once its preemptor has its room.

    A requeue leaves a job its priority on older releases and gives it a new, lower one on newer ones; the paper puts it
    back at the head of its queue (FitGpp, section on the queue).
    """
    job = context.snapshot.jobs.get(victim.job_id)
    if order.state is OrderState.OPEN or job is None or not job.pending or job.held:
        return victim
    if victim.raised is not None and victim.raised.restored:
        return victim  # Slurm refused once
    fellows = {job.job_id} | context.returning | {other.job_id for other in order.victims}
    rivals = context.partitions_beside(job.partitions)
    first = context.columns.first_in_queue(rivals, fellows, best_effort=True)
    missing = 1 + first - job.priority
    if missing <= 0 or (victim.raised is not None and job.nice != victim.raised.value):
        return victim
    previous = victim.raised.previous if victim.raised else job.nice
    value = max(job.nice - missing - VICTIM_MARGIN, MIN_NICE)
    if value >= job.nice:
        return victim
    raised = Raise(lever=Lever.NICE, previous=previous, value=value)
    reason = Reason(
        code=ReasonCode.BACK_TO_THE_HEAD,
        text=f"it made room for job {order.preemptor} and is next among the best-effort jobs",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.value, previous=job.nice))
    return replace(victim, raised=raised)


def let_back(victim: Victim, order: Order, context: CycleContext) -> Victim:
    """Put a victim's nice value back once it no longer waits to run again."""
    if victim.raised is None or victim.raised.restored or victim.job_id in context.absent:
        return victim
    job = context.snapshot.jobs.get(victim.job_id)
    return replace(victim, raised=_put_back(victim.job_id, victim.raised, [job] if job else [], order, context))


def left_held(victim: Victim, job: Job | None) -> Raise | None:
    """Return what is to be put back of a job that has just left its room because of our requeue: a hold, or nothing.

    Slurm puts a job that was suspended at that moment back in the queue held. A hold that a user or an admin had set
    on its run, or that comes later, is theirs.
    """
    if job is None or not job.held or victim.held_before or job.flags & {"SPECIAL_EXIT", "REQUEUE_HOLD"}:
        return None
    return Raise(lever=Lever.HOLD, previous=0, value=1)


def put_back(order: Order, context: CycleContext) -> Order:
    """Put the preemptor's priority back once it no longer waits for its room."""
    raised = order.raised
    if raised is None or raised.restored or order.preemptor in context.absent:
        return order
    # Tasks of an array that started with the raised value have it for as long as they run.
    jobs = {task.job_id: task for task in context.tasks_of(order.preemptor)}
    current = context.snapshot.jobs.get(order.preemptor)
    if current is not None:
        jobs[current.job_id] = current
    in_order = [jobs[job_id] for job_id in sorted(jobs, reverse=True)]
    return replace(order, raised=_put_back(order.preemptor, raised, in_order, order, context))


def _put_back(job_id: JobId, raised: Raise, jobs: Iterable[Job], order: Order, context: CycleContext) -> Raise:
    jobs = [job for job in jobs if not job.finished]
    ours = [job for job in jobs if _is_ours(job, raised)]
    if not ours:
        others = any(_value(job, raised) != raised.previous for job in jobs)
        text = "was set by somebody else, and is left" if others else "is as it was"
        context.moved(order.order_id, job_id, "raised", "put back", f"its {raised.lever} {text}")
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
            context.actions.append(
                Release(job_id=job.job_id, reason=replace(reason, code=ReasonCode.LEFT_HELD, text=text))
            )
        elif raised.lever is Lever.NICE:
            context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=raised.previous, previous=job.nice))
        else:
            context.actions.append(
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
