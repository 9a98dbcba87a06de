"""Nice values and priorities: what the levers that move a job in its queue share.

Priorities are moved by the nice value, which leaves Slurm in charge of them. Slurm ignores nice, with exit status 0,
for a job with a priority that was set explicitly (scontrol(1), Nice): such a job gets another explicit priority.

What was moved is put back when it has done its work, and is believed to be back only when that is seen. A value
between what it was before and what tesched asked for last is taken for one of tesched's: it is not known of every
change whether it arrived, so an earlier one may be in place. Any other was set by others: it is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.model.actions import Reason, ReasonCode, Release, SetNice, SetPriority
from tesched_core.model.change import Change, Field
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId

#: Greatest priority that Slurm takes (scontrol(1)); one less than "no value".
MAX_PRIORITY = 4294967293
#: Least nice value that Slurm takes (scontrol(1), Nice).
MIN_NICE = -2147483645


def put_back(
    one: Change[int], jobs: Iterable[Job], preemptor: JobId | None, context: CycleContext, why: str = ""
) -> bool:
    """Put the value back of these jobs, which are all that may have it; return whether it is seen to be back.

    `why` is what `tesched explain` adds, in words.
    """
    jobs = [job for job in jobs if not job.finished]
    ours = [job for job in jobs if is_ours(job, one)]
    if not ours:
        if one.order_id is not None:
            others = any(value_of(job, one) != one.previous for job in jobs)
            text = "was set by others, and is left" if others else "is put back" + (f": {why}" if why else "")
            context.moved(one.order_id, one.job_id, "raised", "put back", f"its {one.field} {text}")
        return True
    context.actions += [_action(one, job, preemptor) for job in ours if not context.is_refused(one.field, job.user)]
    return False


def _action(one: Change[int], job: Job, preemptor: JobId | None) -> Release | SetNice | SetPriority:
    text = f"put its {one.field} back to {one.previous}"
    reason = Reason(code=ReasonCode.ORDER_ENDED, text=text, preemptor=preemptor, order_id=one.order_id)
    if one.field is Field.HOLD:
        text = "its requeue left it held, and no user or admin asked for that"
        return Release(job_id=job.job_id, reason=replace(reason, code=ReasonCode.LEFT_HELD, text=text))
    if one.field is Field.NICE:
        return SetNice(job_id=job.job_id, reason=reason, nice=one.previous, previous=job.nice)
    return SetPriority(job_id=job.job_id, reason=reason, priority=one.previous, previous=job.priority)


def value_of(job: Job, one: Change[int]) -> int:
    """Return the value that the job shows in the field of the change."""
    if one.field is Field.HOLD:
        return int(job.held)
    return job.nice if one.field is Field.NICE else job.priority


def is_ours(job: Job, one: Change[int]) -> bool:
    """Return whether the job shows a value of tesched's."""
    shown = value_of(job, one)
    return shown != one.previous and min(one.value, one.previous) <= shown <= max(one.value, one.previous)
