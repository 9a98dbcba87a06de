"""Nice values and priorities: what the levers that move a job in its queue share.

Priorities are moved by the nice value, which leaves Slurm in charge of them. Slurm ignores nice, with exit status 0,
for a job with a priority that was set explicitly (scontrol(1), Nice): such a job gets another explicit priority.

A raise is in force when Priority shows it. With bf_continue, Slurm's backfill writes back the priority that it read
before it yielded its locks: Nice stays as it was set, and Priority is the old one (docs/adr/0019-by-priority.md). It
is set again, to another value, as Slurm does nothing about one that is in place; and not for ever, as an admin may have
put it back.

What was moved is put back when it has done its work, and is believed to be back only when that is seen. A value
between what it was before and what tesched sent last is taken for one of tesched's: it is not known of every
change whether it arrived, so an earlier one may be in place. Any other was set by others: it is left. With
priority/basic a job is to have its own priority again as well: Slurm adds what nice changes by to the priority that
there is, so what was undone in between would be missing for ever. Then that priority is set explicitly, unless
the job shows one that neither tesched nor backfill can have left it.

A job that has ended can't be changed, and its user may requeue it for as long as Slurm shows it, with the value that it
has (22.05). So what it has of tesched's is remembered, without an order, and put back once the job waits again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.reconcile import Want
from tesched_core.model.actions import (
    Action,
    Outcome,
    Reason,
    ReasonCode,
    SetField,
    Status,
    sets,
)
from tesched_core.model.change import By, Change, first_change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.refused import PUTS_BACK, field_of
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.jobs_there import TasksThere

#: Greatest priority that Slurm takes (scontrol(1)); one less than "no value".
MAX_PRIORITY = 4294967293
#: Least nice value that Slurm takes (scontrol(1), Nice).
MIN_NICE = -2147483645
#: Least priority that a change of nice leaves a job.
MIN_PRIORITY = 2
#: How often a value is set again that others have put back, and how often one is put back that does not stay.
MOST_AGAIN = 3
#: Most jobs of one change that are put back in one poll: each is a call of Slurm, and others wait.
MOST_PUT_BACK = 50
#: PriorityType with which a job's priority is changed by commands alone.
BASIC = "priority/basic"


def nice_set(job: Job, value: int, one: Change[int] | None, want: Want[int], context: CycleContext) -> Change[int]:
    """Change by which the job gets this nice value: the first one, or the one after `one`."""
    by, order_id = want.by, want.why.order_id
    if one is not None:
        return replace(
            with_own(one, job),
            by=by,
            value=value,
            before=job.nice,
            at=context.now,
            since=context.now if one.since is None else one.since,
            taken_at=one.taken_at if one.value == value else None,
            order_id=order_id,
            shown=job.priority,
            undone=times_undone(one, job, by),
        )
    array = set_of_its_array(job, Field.NICE, context)
    nice, own = (job.nice, job.priority) if array is None else (array.previous, array.own)
    return replace(
        first_change(job.job_id, Field.NICE, nice, value, context.now, by=by, order_id=order_id),
        own=own if context.snapshot.settings.priority_type == BASIC else None,
        before=None if array is None else job.nice,
        shown=job.priority,
        restarts=job.restarts,
    )


def set_of_its_array(job: Job, field: Field, context: CycleContext) -> Change[int] | None:
    """Change of a task's array with which the task has left its record: what it shows is not its own."""
    if job.array_job_id is None or job.array_job_id == job.job_id:
        return None
    one = context.changes_of(Field.NICE).get(job.array_job_id)
    return None if one is None or one.restored or one.field is not field or not is_ours(job, one) else one


def is_undone(one: Change[int], job: Job) -> bool:
    """Check whether others have put back what tesched has set: Slurm's backfill, or a user."""
    if one.field is Field.NICE:
        by_others = job.nice != one.previous and not is_ours(job, one)
        return by_others or (job.nice == one.value and job.priority == one.shown)
    return one.field is Field.PRIORITY and one.taken_at is not None and job.priority != one.value


def times_undone(one: Change[int], job: Job, by: By | None) -> int:
    """Count how often others have put back what was set for this purpose: for another one it begins anew."""
    return one.undone + is_undone(one, job) if one.by is by else 0


def is_left(one: Change[int], job: Job) -> bool:
    """Check whether a value that was put back by others is left: it was set again so often.

    Backfill may undo a raise once for each partition of the job.
    """
    return one.undone >= MOST_AGAIN * max(len(job.partitions), 1) and is_undone(one, job)


def put_back(  # noqa: PLR0917 - a change, and how it is put back
    one: Change[int],
    jobs: Iterable[Job],
    preemptor: JobId | None,
    context: CycleContext,
    why: str = "",
    most: int | None = MOST_PUT_BACK,
) -> bool:
    """Put the value back of these jobs, which are all that may have it; return whether it is seen to be back.

    `why` is what `tesched explain` adds, in words. Of `most` jobs in a poll; None: of all.
    """
    records = list(jobs)
    jobs = [job for job in records if not job.finished]
    one = next((with_own(one, job) for job in jobs if job.job_id == one.job_id), one)
    code = ReasonCode.FILLED if one.by is By.QUEUE else ReasonCode.ORDER_ENDED
    reason = Reason(code=code, text="", preemptor=preemptor, order_id=one.order_id)
    needed = [(job, action) for job in jobs if (action := restoring(one, job, reason)) is not None]
    if any(awaits_release(job, one, context.snapshot) for job, _ in needed):
        # What it had before is not its own any more: once it is released it gets a new priority.
        one = replace(one, own=None)
    context.changes_of(Field.NICE)[one.job_id] = one
    if any(not is_futile(one, job) for job, _ in needed):
        free = [(job, action) for job, action in needed if not _must_wait(job, one, context.snapshot)]
        context.actions += [action for job, action in free if not is_refused(action, job, context)][:most]
        return False
    if any(job.finished and is_ours(job, one) for job in records):
        if one.order_id is not None:
            text = f"its {one.field} is left, as the job has ended: it is put back if its user requeues it"
            context.moved(one.order_id, one.job_id, "raised", "left", text)
        context.changes_of(Field.NICE)[one.job_id] = replace(one, order_id=None, since=None)
        return False
    if one.order_id is not None:
        others = any(value_of(job, one) != one.previous for job in jobs)
        text = "was set by others, and is left" if others else "is put back" + (f": {why}" if why else "")
        if needed:
            text = f"is left: it was put back {one.put_back_sent} times, and it did not stay so"
        context.moved(one.order_id, one.job_id, "raised", "put back", f"its {one.field} {text}")
    return True


def outlasts_its_job(one: Change[Any], there: TasksThere) -> bool:
    """Check whether only jobs that have ended show a raise: it is put back if their users requeue them."""
    if one.since is not None or one.field not in {Field.NICE, Field.PRIORITY}:
        return False
    job = there.jobs.get(one.job_id)
    if job is not None and job.array_job_id != one.job_id:
        return job.finished
    return not any(is_ours(task, one) for task in there.of(one.job_id) if not task.finished)


def is_futile(one: Change[int], job: Job) -> bool:
    """Check whether a value is left that does not stay when it is put back.

    Backfill may undo that once for each partition of the job as well; one try more stays.
    """
    return one.put_back_sent > MOST_AGAIN * max(len(job.partitions), 1)


def with_own(one: Change[int], job: Job) -> Change[int]:
    """Return the change with the priority that is the job's own now.

    Newer releases give a requeued job a new one, and a release after a hold does.
    """
    if one.own is None or _is_held(job) or not is_ours(job, one):
        return one
    requeued = job.restarts != one.restarts
    is_old = (job.priority == one.own or one.undone) if requeued else job.priority in _known(one, one.own)
    own = one.own if is_old else job.priority + job.nice - one.previous
    return replace(one, own=own, restarts=job.restarts)


def is_refused(action: Action, job: Job, context: CycleContext) -> bool:
    """Check whether Slurm refuses such a change of the user's jobs, and it is not tried again yet."""
    field = field_of(action)
    return field is not None and context.is_refused(field, job.user, puts_back=action.reason.code in PUTS_BACK)


def awaits_release(job: Job, one: Change[Any], snapshot: Snapshot) -> bool:
    """Check whether the change stays for as long as the job is held: with priority/basic nice=0 would release it."""
    return _is_held(job) and one.field is Field.NICE and snapshot.settings.priority_type == BASIC


def _must_wait(job: Job, one: Change[Any], snapshot: Snapshot) -> bool:
    """Check whether Slurm would take no change of the job now: it is completing, and refuses most of them."""
    return job.completing or awaits_release(job, one, snapshot)


def _is_held(job: Job) -> bool:
    """Check whether a job is held, or will be once its nodes are free: after a failed Prolog, or a requeuehold."""
    return job.priority == 0 and (job.pending or job.completing)


def restoring(one: Change[int], job: Job, reason: Reason) -> SetField | None:
    """Action that puts a job's value back; None: it shows none of tesched's."""
    own = _lost_place(one, job)
    if own is not None:
        text = f"put its priority back to {own}: a change of its nice value was undone"
        return by_priority(job, replace(reason, text=text), own)
    if not is_ours(job, one) or _has_own_explicitly(one, job):
        return None
    reason = replace(reason, text=f"put its {one.field} back to {one.previous}")
    if one.field is Field.NICE:
        return by_nice(job, reason, one.previous)
    return by_priority(job, reason, one.previous)


def by_nice(job: Job, reason: Reason, value: int) -> SetField:
    """Set a job's nice value."""
    return SetField(job_id=job.job_id, reason=reason, field=Field.NICE, value=value, previous=job.nice)


def by_priority(job: Job, reason: Reason, value: int) -> SetField:
    """Set a job's priority explicitly."""
    return SetField(job_id=job.job_id, reason=reason, field=Field.PRIORITY, value=value, previous=job.priority)


def counted(one: Change[int], outcomes: Sequence[Outcome]) -> Change[int]:
    """Return the change after what became of the commands that put it back; those that Slurm took are counted."""
    sent = [
        outcome.at
        for outcome in outcomes
        if outcome.status is Status.SENT
        and outcome.action.job_id == one.job_id
        and sets(outcome.action, Field.NICE, Field.PRIORITY)
        and outcome.action.reason.code in {ReasonCode.ORDER_ENDED, ReasonCode.FILLED}
    ]
    if not sent or (one.put_back_at is not None and sent[-1] < one.put_back_at + RESEND_AFTER_S):
        return one
    return replace(one, put_back_sent=one.put_back_sent + 1, put_back_at=sent[-1])


def _lost_place(one: Change[int], job: Job) -> int | None:
    """Return the job's own priority if nice alone would not give it back; None: it would, or Slurm works one out."""
    own = one.own
    if own is None or one.field is not Field.NICE or _is_held(job) or job.restarts != one.restarts:
        return None
    known = job.priority in _known(one, own)
    if is_ours(job, one):
        in_force = own + one.previous - job.nice
        return own if known and job.priority != in_force and not _has_own_explicitly(one, job) else None
    # Putting it back was undone, or has met a raise that backfill had just undone.
    return own if known and job.nice == one.previous and job.priority != own else None


def _known(one: Change[int], own: int) -> set[int]:
    """Return the priorities that the job may show while others have given it none."""
    shown = own if one.shown is None else one.shown
    before = one.previous if one.before is None else one.before
    raises = {one.previous - one.value, one.previous - before}
    # Undone, in force, and set again after it was undone.
    raised = {own, shown, *(own + by for by in raises), shown + before - one.value}
    lowered = {max(undone - by, MIN_PRIORITY) for undone in (own, shown) for by in raises}
    return raised | lowered


def _has_own_explicitly(one: Change[int], job: Job) -> bool:
    """Check whether the job has its own priority by an explicit one, for which Slurm makes nice 0."""
    return one.own is not None and job.priority == one.own and job.nice == 0 != one.value


def value_of(job: Job, one: Change[int]) -> int:
    """Return the value that the job shows in the field of the change."""
    return job.nice if one.field is Field.NICE else job.priority


def is_ours(job: Job, one: Change[int]) -> bool:
    """Check whether the job shows a value of tesched's."""
    shown = value_of(job, one)
    return shown != one.previous and min(one.value, one.previous) <= shown <= max(one.value, one.previous)
