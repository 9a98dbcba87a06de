"""Waiting tasks of an array, which Slurm keeps as one record: what is set of them is set of that record alone.

To `scontrol update`, `hold` and `release` the array's id means all its records (seen on 22.05 and 26.05):

- a task that runs gets the priority 0 with a hold, and is held by an administrator once it is requeued
- a task that its user, or an administrator, holds apart is released
- of one that has ended scontrol says so and fails, though it has changed all others.

The list of the waiting tasks, `120_[0-4,7]`, means their record, and does not split it. A list that is too long for
scontrol to print (`details.py`) can't be used: then it is the array's id. Nor can it for the nodes that a job requires,
which are never set of an array, and on 26.05 for the throttle, which is the whole array's.

A task of the list may have started, or ended, since it was read: scontrol may fail then, too, and has changed the
others. So after a failure the record is read once more.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tesched_core.model.actions import Action, Failure, FailureKind, SetField, sets
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field, HoldState

from tesched_slurm.columns import QueueRow
from tesched_slurm.queue import details_alone
from tesched_slurm.record_details import Details
from tesched_slurm.run_command import Commands

_LIST = re.compile(r"[0-9,:-]+", re.ASCII)
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
    """Return such a record with the list of its tasks, whole, or without one where it is not to be had.

    squeue's own list has those with records of their own, too (26.05), and is cut after 64 characters.
    """
    details = details_alone(commands, row)
    if isinstance(details, Failure):
        return details
    return replace(job, array_tasks=details.array_tasks if details is not None else "")


def address(job: Job) -> str:
    """Return the id that means this job alone: the last task of an array bears the id of the whole array."""
    return job.label if job.array_task_id is not None else str(job.job_id)


def address_to_set(action: SetField, job: Job) -> str:
    """Return the id by which a field of this job alone is set; of an array's waiting tasks, read `with_list`."""
    if waits_as_one(job) and is_set_of_tasks(action) and _LIST.fullmatch(job.array_tasks):
        return f"{job.job_id}_[{job.array_tasks}]"
    return address(job)


def may_be_set(failure: Failure) -> bool:
    """Check whether Slurm may have changed the waiting tasks, though it has failed for others."""
    return failure.kind in _MAY_HAVE_CHANGED


def is_as_set(action: SetField, job: Job, details: Details | None) -> bool:
    """Check whether a record shows what was to be set."""
    match action.value:
        case HoldState.HELD:
            return job.priority == 0
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
