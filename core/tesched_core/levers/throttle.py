"""Throttle lever: how many tasks of a job array may run (ArrayTaskThrottle). Slurm ends none that runs.

A policy proposes `ThrottleArray` for an array at each poll for as long as it shares workers with others. The throttle
that an array came with is its user's limit: put back when no policy proposes one any more, or none of its tasks waits.
What others have set meanwhile is the user's limit from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetThrottle, Status
from tesched_core.model.memory import Memory, Throttled
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import ThrottleArray

#: Throttles that are set in one look: each is a command, and the others come with the next look.
MOST_A_LOOK = 50


def follow(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory without throttles that are not ours any more."""
    if not memory.throttled:
        return memory
    arrays = _arrays(context.snapshot)
    kept: dict[JobId, Throttled] = {}
    for array, one in memory.throttled.items():
        seen = arrays.get(array)
        if seen is None:
            continue
        if one.dry or seen == one.value:
            kept[array] = one
        elif seen == one.before:
            on_its_way = context.now - one.at <= RESEND_AFTER_S
            if on_its_way or one.before != one.previous:
                kept[array] = one if on_its_way else replace(one, value=one.before)
    return replace(memory, throttled=kept)


def carry_out(memory: Memory, wanted: Mapping[JobId, ThrottleArray], context: CycleContext) -> Memory:
    """Set the `wanted` throttles, by array, and put the others back; the memory has been followed."""
    if not wanted and not memory.throttled:
        return memory
    arrays = _arrays(context.snapshot)
    throttled = {
        array: one
        for array, one in memory.throttled.items()
        if array in wanted or _put_back(array, one, arrays, context)
    }
    for array, intent in wanted.items():
        seen, before = arrays.get(array), throttled.get(array)
        if seen is None or intent.tasks == in_place(seen, before) or _full(context):
            continue
        reason = Reason(code=ReasonCode.GETS_SHARE, text=intent.why)
        context.actions.append(SetThrottle(job_id=array, reason=reason, throttle=intent.tasks, previous=seen))
        own = seen if before is None else before.previous
        throttled[array] = Throttled(at=context.now, previous=own, value=intent.tasks, before=seen)
    return replace(memory, throttled=throttled)


def in_place(seen: int, one: Throttled | None) -> int:
    """Return the throttle that an array has, if it shows `seen`: in shadow mode, the one that it would have."""
    return seen if one is None or not one.dry else one.value


def restore(memory: Memory, context: CycleContext) -> Memory:
    """Put all throttles back, and forget each once that is seen."""
    return carry_out(memory, {}, context)


def _arrays(snapshot: Snapshot) -> dict[JobId, int]:
    """Return the throttle of each array that has not ended, by its id; all its records show it."""
    return {
        job.array_job_id: job.array_throttle
        for job in snapshot.jobs.values()
        if job.array_job_id is not None and not job.finished
    }


def _put_back(array: JobId, one: Throttled, arrays: Mapping[JobId, int], context: CycleContext) -> bool:
    """Put the array's own throttle back; return whether it is still to be seen there."""
    seen = arrays.get(array)
    # None: it has ended. Another one than ours: others have set it.
    if one.dry or seen is None or seen == one.previous or seen not in {one.value, one.before}:
        return False
    if _full(context):
        return True
    what = "no limit" if one.previous == 0 else str(one.previous)
    reason = Reason(code=ReasonCode.SHARE_ENDED, text=f"put its throttle back to {what}")
    context.actions.append(SetThrottle(job_id=array, reason=reason, throttle=one.previous, previous=seen))
    return True


def _full(context: CycleContext) -> bool:
    return sum(isinstance(action, SetThrottle) for action in context.actions) >= MOST_A_LOOK


def drop_dry_run_records(memory: Memory) -> Memory:
    """Return the memory without the throttles of shadow mode: in mode enforce they are still to be set."""
    return replace(memory, throttled={array: one for array, one in memory.throttled.items() if not one.dry})


def learned(memory: Memory, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory after what became of throttles: one that certainly was not set is as it was."""
    throttled = dict(memory.throttled)
    for outcome in outcomes:
        action = outcome.action
        one = throttled.get(action.job_id)
        if one is None or not isinstance(action, SetThrottle):
            continue
        kind = outcome.failure.kind if outcome.failure else None
        if kind is FailureKind.NOT_FOUND:
            del throttled[action.job_id]
            continue
        if action.reason.code is not ReasonCode.GETS_SHARE:
            continue
        if outcome.status is Status.WOULD and one.before == one.previous:
            throttled[action.job_id] = replace(one, dry=True)
        elif outcome.status in {Status.SKIPPED, Status.WOULD} or (
            outcome.status is Status.FAILED and kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}
        ):
            # Kept for its cool-down, so that a refusal is not asked for again at each look.
            throttled[action.job_id] = replace(one, value=one.before)
    return replace(memory, throttled=throttled)
