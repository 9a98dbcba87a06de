"""Nice value of a best-effort job that is next: it is at the head of its queue for a while.

A boost ends when the job starts, or `LASTS_S` after it (another job took the resources, or Slurm ignores its nice
value); then the job may be boosted again. One that `stays` lasts for as long as its policy proposes it. As with orders,
a value is believed to be back only when that is seen, and one that others have set is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import certainly_failed
from tesched_core.fields.nice import (
    MIN_NICE,
    is_left,
    is_undone,
    nice_set,
)
from tesched_core.fields.reconcile import Want
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


def wants(intents: Sequence[BoostJob], context: CycleContext) -> Iterator[Want[int]]:
    """Yield that the proposed jobs are at the head of the best-effort queue, and those that others have undone again.

    The value is the least priority with which a job is ahead of the others that are not boosted.
    """
    stays = {one.job_id for one in intents if one.stays}
    boosted, jobs = context.changes_of(Field.NICE), context.snapshot.jobs
    going = context.made_by(Field.NICE, By.QUEUE)
    # Priority 0 is no place in a queue: what a held job lacks to its head would be all that a nice value can give.
    new = {
        one.job_id: one
        for one in intents
        if one.job_id not in boosted and one.job_id in jobs and not jobs[one.job_id].held
    }
    beside = going.keys() | new.keys()
    for job_id, one in going.items():
        if not one.restored and _is_to_be_made_again(one, jobs.get(job_id)):
            code = ReasonCode.GAINS_MOST if job_id in stays else ReasonCode.FILLS_ROOM
            why = Reason(code=code, text="it was put at the head of its queue, and others have undone that")
            yield _want(jobs[job_id], why, beside, context)
    for job_id, intent in new.items():
        code = ReasonCode.GAINS_MOST if intent.stays else ReasonCode.FILLS_ROOM
        why = Reason(code=ReasonCode.DUE if intent.is_due else code, text=intent.why)
        yield _want(jobs[job_id], why, beside, context)


def raised(want: Want[int], one: Change[int] | None, job: Job, context: CycleContext) -> Change[int] | None:
    """Change that puts the job at the head; a first one that changes nothing is kept for as long as it would last."""
    missing = want.value - job.priority
    value = max(job.nice - missing - MARGIN, MIN_NICE)
    after = nice_set(job, value, one, want, context)
    if missing <= 0 or value >= job.nice or context.is_refused(Field.NICE, job.user):
        return _nothing_to_put_back(after, dry=False) if one is None else None
    return after


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


def _want(job: Job, why: Reason, beside: Collection[JobId], context: CycleContext) -> Want[int]:
    rivals = context.partitions_beside(job.partitions)
    needed = 1 + context.columns.first_in_queue(rivals, beside, best_effort=True)
    return Want(job_id=job.job_id, value=needed, why=why, by=By.QUEUE)


def _is_to_be_made_again(one: Change[int], job: Job | None) -> bool:
    """Check whether others have undone a boost (`fields/nice.py`), and it is not left for that."""
    if job is None or not job.pending or job.held or job.nice != one.value:
        return False
    return is_undone(one, job) and not is_left(one, job)


def _nothing_to_put_back(one: Change[int], *, dry: bool) -> Change[int]:
    """Return the boost as one that changes nothing: it is kept for as long as it would last."""
    return replace(one, restored=True, dry=dry)
