"""Waiting tasks of an array, which Slurm keeps as one record: what is set of them is set of that record alone.

To `scontrol update`, `hold` and `release` the array's id means all its records (seen on 22.05 and 26.05):

- a task that runs gets the priority 0 with a hold, and is held by an administrator once it is requeued
- a task that its user, or an administrator, holds apart is released
- of one that has ended scontrol says so and fails, though it has changed all others.

The list of the waiting tasks, `120_[0-4,7]`, means their record, and does not split it. It is not taken for the nodes
that a job requires, which are never set of an array, nor on 26.05 for the throttle, which is the whole array's.

A list that is longer than a command takes is shortened: it may name tasks of which there is no record at all, since
they have ended or never were, and Slurm says so of each in its log. The narrowest gaps are filled until it is short
enough, so it is one command as ever. Between thousands of tasks with records of their own that is too long, too. Then
nothing is set, but a hold is ended, or a value put back, by the array's id: what others have set of a task apart, such
as its nice value, is lost.

A task of the list may have started, or ended, since it was read: scontrol may fail then, too, and has changed the
others. So after a failure the record is read once more.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from math import inf

from tesched_core.model.actions import Action, Failure, FailureKind, SetField, sets
from tesched_core.model.cluster import HELD_BY_US, Job
from tesched_core.model.field import Field, HoldState
from tesched_core.model.refused import PUTS_BACK

from tesched_slurm.columns import QueueRow, read_rows
from tesched_slurm.details import DetailsQuery
from tesched_slurm.queue import read_alone
from tesched_slurm.record_details import Details
from tesched_slurm.run_command import Commands

_LIST = re.compile(r"[0-9,:-]+", re.ASCII)
_PLAIN_LIST = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", re.ASCII)
#: Characters of a list: an argument of a command may have 131,072 on Linux.
_MOST_LIST = 100_000
#: Failures after which Slurm may have changed some tasks, and is there to say so.
_MAY_HAVE_CHANGED = frozenset(
    {FailureKind.ALREADY_DONE, FailureKind.NOT_FOUND, FailureKind.REFUSED, FailureKind.UNKNOWN}
)


def waits_as_one(job: Job) -> bool:
    """Check whether a record is that of an array's waiting tasks."""
    return job.array_job_id == job.job_id and job.array_task_id is None


def is_set_of_tasks(action: Action) -> bool:
    """Check whether an action, of such a record, changes these tasks alone."""
    return sets(action, Field.NICE, Field.PRIORITY, Field.HOLD, Field.BEGIN)


def with_list(commands: Commands, job: Job, row: QueueRow) -> Job | Failure:
    """Return such a record with a list that names its tasks and none with a record of its own; empty: it is too long.

    squeue's own list has those with records of their own, too (26.05), and is cut after 64 characters.
    """
    query = DetailsQuery(row.job_id, shares=False, most_list=0)
    found = read_alone(commands, row, query)
    if isinstance(found, Failure):
        return found
    details = found.by_id.get(row.job_id)
    if details is None:
        # It has changed between the two answers, or they are not believed.
        return Failure(kind=FailureKind.BUSY, message=f"the waiting tasks of array {job.job_id} can't be read")
    listed = details.array_tasks
    if len(listed) > _MOST_LIST:
        # squeue shows those of another name than the array's, and on 26.05 not all others.
        rows = read_rows(commands, "-t", "all", "-j", str(job.job_id))
        if isinstance(rows, Failure):
            return rows
        # 26.05 may show each waiting task, with the array's id.
        apart = (one for one in rows if one.job_id != str(job.job_id))
        tasks = {one.array_task_id for one in apart} | {one.task for one in found.hidden.values()}
        listed = shortened(listed, [int(task) for task in tasks if task.isdecimal()])
    return replace(job, array_tasks=listed if _LIST.fullmatch(listed) else "")


def shortened(listed: str, others: Collection[int]) -> str:
    """Return a list with the tasks of this one and none of the `others`, as a command takes it; empty: there is none.

    It names no more tasks beside them than it must.
    """
    if not _PLAIN_LIST.fullmatch(listed):
        return ""  # in steps: Slurm writes none that is long
    runs = [(int(first), int(last or first)) for first, _, last in (one.partition("-") for one in listed.split(","))]
    apart = sorted(others)
    gaps = [
        after - last if bisect(apart, last) == bisect(apart, after) else inf for (_, last), (after, _) in pairwise(runs)
    ]

    def filled(widest: float) -> str:
        """Join the runs between which no gap is wider."""
        joined = [runs[0]]
        for gap, (first, last) in zip(gaps, runs[1:], strict=True):
            if gap <= widest:
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in joined)

    widths = sorted({gap for gap in gaps if gap < inf})
    found = bisect_left(widths, True, key=lambda widest: len(filled(widest)) <= _MOST_LIST)
    return filled(widths[found]) if found < len(widths) else ""


def not_nameable(action: SetField, job: Job) -> Failure | None:
    """Return the failure of what is to be set of tasks that can't be named: it would be set of others, too."""
    puts_back = action.value is HoldState.RELEASED or action.reason.code in PUTS_BACK
    if not waits_as_one(job) or job.array_tasks or puts_back or not is_set_of_tasks(action):
        return None
    text = f"the list of array {job.job_id}'s waiting tasks is longer than a command takes"
    return Failure(kind=FailureKind.REFUSED, message=text)


def address(job: Job) -> str:
    """Return the id that means this job alone: the last task of an array bears the id of the whole array."""
    return job.label if job.array_task_id is not None else str(job.job_id)


def address_to_set(action: SetField, job: Job) -> str:
    """Return the id by which a field of this job alone is set; of an array's waiting tasks, read `with_list`."""
    if waits_as_one(job) and is_set_of_tasks(action) and job.array_tasks:
        return f"{job.job_id}_[{job.array_tasks}]"
    return address(job)


def may_be_set(failure: Failure) -> bool:
    """Check whether Slurm may have changed the waiting tasks, though it has failed for others."""
    return failure.kind in _MAY_HAVE_CHANGED


def is_as_set(action: SetField, job: Job, details: Details | None) -> bool:
    """Check whether a record shows what was to be set."""
    match action.value:
        case HoldState.HELD:
            return job.pending and job.reason == HELD_BY_US
        case HoldState.RELEASED:
            return job.priority != 0
    match action.field:
        case Field.NICE:
            return job.nice == action.value
        case Field.PRIORITY:
            return job.priority == action.value
        case Field.THROTTLE:
            return details is not None and details.throttle == action.value
        case Field.BEGIN:
            return job.eligible_time == action.value
    return False
