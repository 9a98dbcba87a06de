"""Nice value of a best-effort job that is next: it is at the head of its queue for a while.

A boost ends when the job starts, or `LASTS_S` after it (another job took the resources, or Slurm ignores its nice
value); then the job may be boosted again. One that `stays` lasts for as long as its policy proposes it. As with orders,
a value is believed to be back only when that is seen, and one that others have set is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import certainly_failed
from tesched_core.fields.nice import (
    MIN_NICE,
    by_nice,
    is_left,
    is_undone,
    nice_set,
)
from tesched_core.model.actions import Outcome, Reason, ReasonCode, Status
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s).
LASTS_S = 90.0
#: why a best-effort job is put at the head of its queue
CODES = frozenset({ReasonCode.FILLS_ROOM, ReasonCode.GAINS_MOST, ReasonCode.DUE})
#: Margin above the others, as for preemptors and victims, and below both.
MARGIN = 250


def boost(intents: Sequence[BoostJob], context: CycleContext) -> None:
    """Put the proposed jobs at the head of the best-effort queue; set again what others have undone."""
    stays = {one.job_id for one in intents if one.stays}
    boosted, jobs = context.changes_of(Field.NICE), context.snapshot.jobs
    new = [one for one in intents if one.job_id not in boosted and one.job_id in jobs]
    going = {*context.made_by(Field.NICE, By.QUEUE), *(one.job_id for one in new)}
    _set_again(stays, going, context)
    for one in new:
        code = ReasonCode.GAINS_MOST if one.stays else ReasonCode.FILLS_ROOM
        reason = Reason(code=ReasonCode.DUE if one.is_due else code, text=one.why)
        boosted[one.job_id] = _boosted(jobs[one.job_id], going, reason, context)


def lasts(one: Change[int], stays: Collection[JobId], context: CycleContext) -> bool:
    """Check whether a boost lasts: its job waits, and its policy proposes it still, or it has not had its time."""
    job = context.snapshot.jobs.get(one.job_id)
    return job is not None and job.pending and (one.job_id in stays or context.now - one.at <= LASTS_S)


def after(one: Change[int], outcome: Outcome, *, is_first: bool) -> Change[int] | None:
    """Return a boost after what became of its command; in shadow mode it is kept for as long as it would last."""
    is_dry = outcome.status is Status.WOULD
    if not (is_dry or certainly_failed(outcome)):
        return one
    if not is_first:  # the one before it is in force, and is to be put back
        return one if one.before is None else replace(one, value=one.before)
    return _nothing_to_put_back(one, dry=True) if is_dry else None


def _set_again(stays: Collection[JobId], going: set[JobId], context: CycleContext) -> None:
    """Set the boosts again that others have undone (`fields/nice.py`)."""
    boosted = context.changes_of(Field.NICE)
    for job_id, one in context.made_by(Field.NICE, By.QUEUE).items():
        job = context.snapshot.jobs.get(job_id)
        waits = job is not None and job.pending and not job.held and job_id not in context.absent
        if job is None or not waits or one.restored or job.nice != one.value:
            continue
        if is_undone(one, job) and not is_left(one, job):
            code = ReasonCode.GAINS_MOST if job_id in stays else ReasonCode.FILLS_ROOM
            reason = Reason(code=code, text="it was put at the head of its queue, and others have undone that")
            again = _boosted(job, going, reason, context)
            if not again.restored:
                boosted[job_id] = nice_set(job, again.value, one, by=By.QUEUE, order_id=None, context=context)


def _boosted(job: Job, going: set[JobId], reason: Reason, context: CycleContext) -> Change[int]:
    rivals = context.partitions_beside(job.partitions)
    missing = 1 + context.columns.first_in_queue(rivals, going, best_effort=True) - job.priority
    value = max(job.nice - missing - MARGIN, MIN_NICE)
    one = nice_set(job, value, None, by=By.QUEUE, order_id=None, context=context)
    if missing <= 0 or value >= job.nice or context.is_refused(Field.NICE, job.user):
        return _nothing_to_put_back(one, dry=False)
    context.actions.append(by_nice(job, reason, value))
    return one


def _nothing_to_put_back(one: Change[int], *, dry: bool) -> Change[int]:
    """Return the boost as one that changes nothing: it is kept for as long as it would last."""
    return replace(one, restored=True, dry=dry)
