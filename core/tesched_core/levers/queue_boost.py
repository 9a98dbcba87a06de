"""Queue boost lever: a best-effort job is put at the head of its queue by its nice value, which is put back later.

A boost ends when the job starts, or `LASTS_S` after it (another job took the resources, or Slurm ignores its nice
value); then the job may be boosted again. One that `stays` lasts for as long as its policy proposes it. As with orders,
a value is believed to be back only when that is seen, and one that others have set is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.levers.priority import MIN_NICE
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetNice, Status
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Forwarded, Memory
from tesched_core.model.order import Lever, Raise
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s).
LASTS_S = 90.0
#: Room above the others, as for preemptors and victims, and below both.
MARGIN = 250


def restore(
    memory: Memory, context: CycleContext, *, lasts_s: float = LASTS_S, stays: Collection[JobId] = ()
) -> Memory:
    """Put back the jobs that have started, or have not in time; return the memory without those that are reverted."""
    kept: dict[JobId, Forwarded] = {}
    for job_id, one in memory.forwarded.items():
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent:
            kept[job_id] = one
            continue
        if job is None or job.finished:
            continue
        if job.pending and (job_id in stays or context.now - one.at <= lasts_s):
            kept[job_id] = one
        elif not one.raised.restored and one.raised.value <= job.nice < one.raised.previous:
            kept[job_id] = one
            reason = Reason(code=ReasonCode.FILLED, text=f"put its nice back to {one.raised.previous}")
            back = SetNice(job_id=job_id, reason=reason, nice=one.raised.previous, previous=job.nice)
            context.actions.append(back)
    return replace(memory, forwarded=kept)


def carry_out(memory: Memory, boosts: Sequence[BoostJob], context: CycleContext) -> Memory:
    """Return the memory after these jobs were put at the head of the best-effort queue, but for boosted ones."""
    forwarded = dict(memory.forwarded)
    new = [one for one in boosts if one.job_id not in forwarded and one.job_id in context.snapshot.jobs]
    going = {*forwarded, *(one.job_id for one in new)}
    for one in new:
        code = ReasonCode.GAINS_MOST if one.stays else ReasonCode.FILLS_ROOM
        job = context.snapshot.jobs[one.job_id]
        forwarded[one.job_id] = _brought_forward(job, going, Reason(code=code, text=one.why), context)
    return replace(memory, forwarded=forwarded)


def _brought_forward(job: Job, going: set[JobId], reason: Reason, context: CycleContext) -> Forwarded:
    rivals = context.partitions_beside(job.partitions)
    missing = 1 + context.columns.first_in_queue(rivals, going, best_effort=True) - job.priority
    value = max(job.nice - missing - MARGIN, MIN_NICE)
    if missing <= 0 or value >= job.nice:
        return Forwarded(job_id=job.job_id, at=context.now, raised=_as_it_is(job))
    context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=value, previous=job.nice))
    raised = Raise(lever=Lever.NICE, previous=job.nice, value=value)
    return Forwarded(job_id=job.job_id, at=context.now, raised=raised)


def _as_it_is(job: Job) -> Raise:
    return Raise(lever=Lever.NICE, previous=job.nice, value=job.nice, restored=True)


def learned(memory: Memory, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory without the boosts that certainly did not reach Slurm; in shadow mode, none did."""
    forwarded = dict(memory.forwarded)
    for outcome in outcomes:
        action = outcome.action
        one = forwarded.get(action.job_id)
        if one is None or action.reason.code not in {ReasonCode.FILLS_ROOM, ReasonCode.GAINS_MOST}:
            continue
        if outcome.status is Status.WOULD:
            forwarded[action.job_id] = replace(one, raised=replace(one.raised, restored=True))
        elif outcome.status in {Status.FAILED, Status.SKIPPED}:
            kind = outcome.failure.kind if outcome.failure else None
            if kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}:  # it may have arrived all the same
                del forwarded[action.job_id]
    return replace(memory, forwarded=forwarded)


def drop_dry_run_records(memory: Memory) -> Memory:
    """Return the memory without the boosts of shadow mode: in mode enforce they are still to be made."""
    kept = {
        job_id: one
        for job_id, one in memory.forwarded.items()
        if not (one.raised.restored and one.raised.value != one.raised.previous)
    }
    return replace(memory, forwarded=kept) if len(kept) < len(memory.forwarded) else memory
