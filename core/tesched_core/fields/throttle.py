"""Throttle lever: how many tasks of a job array may run (ArrayTaskThrottle). Slurm ends none that runs.

A policy proposes `ThrottleArray` for an array at each poll for as long as it shares workers with others. The throttle
that an array came with is its user's limit: put back when no policy proposes one any more, or none of its tasks waits.
What others have set meanwhile is the user's limit from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetField, Status, sets
from tesched_core.model.change import THROTTLE, Change
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import ThrottleArray

#: Throttles that are set in one poll: each is a command, and the others come with the next poll.
MOST_A_POLL = 50


class ThrottleLever(Lever):
    """Throttles of job arrays, by the array's id."""

    name = THROTTLE
    intents = (ThrottleArray,)

    def follow(self, context: CycleContext) -> None:
        """Forget the throttles that are not ours any more."""
        throttled = context.changes_of(self.name)
        arrays = _arrays(context.snapshot) if throttled else {}
        for array, one in list(throttled.items()):
            seen = arrays.get(array)
            if seen is not None and (one.dry or seen == one.value):
                continue
            on_its_way = context.now - one.at <= RESEND_AFTER_S
            if seen is None or seen != one.before or not (on_its_way or one.before != one.previous):
                del throttled[array]
            elif not on_its_way:
                throttled[array] = replace(one, value=one.before)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Set the proposed throttles, and put the others back. Paused, an array runs on as it is."""
        if not context.paused:
            self._set({one.job_id: one for one in intents}, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all throttles back."""
        self._set({}, context)

    def _set(self, wanted: Mapping[JobId, ThrottleArray], context: CycleContext) -> None:
        throttled = context.changes_of(self.name)
        if not wanted and not throttled:
            return
        arrays = _arrays(context.snapshot)
        for array, one in list(throttled.items()):
            if array not in wanted and not _put_back(one, arrays, context):
                del throttled[array]
        for array, intent in wanted.items():
            seen, before = arrays.get(array), throttled.get(array)
            if seen is None or intent.tasks == in_place(seen, before) or _is_late(array, context):
                continue
            reason = Reason(code=ReasonCode.GETS_SHARE, text=intent.why)
            context.actions.append(_throttle(array, reason, intent.tasks, seen))
            throttled[array] = Change(
                lever=self.name,
                job_id=array,
                field=Field.THROTTLE,
                previous=seen if before is None else before.previous,
                value=intent.tasks,
                before=seen,
                at=context.now,
                since=context.now if before is None else before.since,
            )

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in what became of the throttles: one that certainly was not set is reverted."""
        throttled = context.changes_of(self.name)
        for outcome in outcomes:
            action = outcome.action
            one = throttled.get(action.job_id)
            if one is None or not sets(action, Field.THROTTLE):
                continue
            if outcome.failure is not None and outcome.failure.kind is FailureKind.NOT_FOUND:
                del throttled[action.job_id]
            elif action.reason.code is not ReasonCode.GETS_SHARE:
                continue
            elif outcome.status is Status.WOULD and one.before == one.previous:
                throttled[action.job_id] = replace(one, dry=True)
            elif outcome.status is Status.WOULD or certainly_failed(outcome):
                # Kept for its cool-down, so that a refusal is not asked for again at each poll.
                throttled[action.job_id] = replace(one, value=one.before)


def in_place(seen: int, one: Change[int] | None) -> int:
    """Return the throttle that an array has, if it shows `seen`: in shadow mode, the one that it would have."""
    return seen if one is None or not one.dry else one.value


def _arrays(snapshot: Snapshot) -> dict[JobId, int]:
    """Return the throttle of each array that has not ended, by its id; all its records show it."""
    return {
        job.array_job_id: job.array_throttle
        for job in snapshot.jobs.values()
        if job.array_job_id is not None and not job.finished
    }


def _put_back(one: Change[int], arrays: Mapping[JobId, int], context: CycleContext) -> bool:
    """Put the array's own throttle back; return whether it is still to be seen there."""
    seen = arrays.get(one.job_id)
    # None: it has ended. Another one than ours: others have set it.
    if one.dry or seen is None or seen == one.previous or seen not in {one.value, one.before}:
        return False
    if _is_late(one.job_id, context, puts_back=True):
        return True
    what = "no limit" if one.previous == 0 else str(one.previous)
    reason = Reason(code=ReasonCode.SHARE_ENDED, text=f"put its throttle back to {what}")
    context.actions.append(_throttle(one.job_id, reason, one.previous, seen))
    return True


def _throttle(array: JobId, reason: Reason, tasks: int, seen: int) -> SetField:
    return SetField(job_id=array, reason=reason, field=Field.THROTTLE, value=tasks, previous=seen)


def _is_late(array: JobId, context: CycleContext, *, puts_back: bool = False) -> bool:
    """Return whether the array's throttle is left for a later poll: there are many, or Slurm refuses to set it."""
    user = next((task.user for task in context.tasks_of(array)), "")
    return (
        context.is_refused(Field.THROTTLE, user, puts_back=puts_back)
        or sum(sets(action, Field.THROTTLE) for action in context.actions) >= MOST_A_POLL
    )


THROTTLE_LEVER = ThrottleLever()
