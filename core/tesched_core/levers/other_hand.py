"""Holds that another hand has ended: an operator lets a TE job through, and it is not held again.

Definitions
    in place    Slurm shows a hold of tesched's as an operator's (JobHeldAdmin)
    stands      it has been in place for `SAVED_S`: slurmctld has written it to its state, and has it after a restart
    let through a TE job whose hold stood, that is held no more, and that tesched has not released

Principle
    Slurm says of no release whose it was, so what could have another cause counts as that: the job is held again, and
    the bound is kept.

    - tesched's own release is in the store before the command is sent (`Change.value`). A daemon that is killed in
      between knows of it; so does `tesched undo`.
    - A hold that was never seen has not arrived. One that does not stand yet may be lost by a slurmctld that dies.
    - Slurm lets no user end an operator's hold, but for a flaw: a change of the nice value gives a held job a priority,
      and it starts (22.05). With the submission hook it keeps its nice value. Without, a job with another one than
      while it was held was not let through; a user who sets it to and fro between two polls is not told apart.
    - Another tesched, of another store, releases what the submission hook has held (`tesched undo`), and removes the
      hook's mark. An operator's release leaves it.
    - What tesched sets of a job's priority or nice value might do the same.

    Of an array the tasks are let through with it; one task that is released alone is let through alone.

Source
    tesched's own; what Slurm does was tried on 22.05.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.model.change import (
    FREE,
    HELD,
    HOLD,
    LET_THROUGH,
    PRIORITY,
    QUEUE_BOOST,
    STANDS,
    VICTIM_BOOST,
    Change,
    Field,
)
from tesched_core.model.cluster import Job
from tesched_core.model.hook import has_hook_mark
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import HELD_BY_US

#: slurmctld writes its state 5 s after a change at the latest (SAVE_MAX_WAIT), which takes a moment.
SAVED_S = 8.0


def see_other_hands(context: CycleContext) -> None:
    """Note which holds stand, and which jobs another hand has released."""
    held = context.changes_of(HOLD)
    for job_id, one in list(held.items()):
        job = context.snapshot.jobs.get(job_id)
        if job is None or job_id in context.absent or one.restored:
            continue
        if job.held and job.reason == HELD_BY_US:
            held[job_id] = _in_place(one, job, context)
        elif one.value == STANDS and _is_free(job, context) and _is_as_held(one, job):
            held[job_id] = _let_through(job_id, context)
    arrays = {job_id for job_id, one in held.items() if one.value == STANDS}
    for array in arrays:
        for task in context.tasks_of(array):
            # Slurm makes it a record of its own when somebody names it.
            is_new = task.job_id not in held and task.pending and not task.restarts
            if is_new and _is_free(task, context) and _is_as_held(held[array], task):
                held[task.job_id] = _let_through(task.job_id, context)


def _in_place(one: Change[int], job: Job, context: CycleContext) -> Change[int]:
    """Return a hold that Slurm shows."""
    if one.value != HELD:
        return one
    if one.taken_at is None:
        return replace(one, taken_at=context.now)
    stands = context.now - one.taken_at >= SAVED_S
    return replace(one, value=STANDS, nice=job.nice, marked=has_hook_mark(job)) if stands else one


def _is_as_held(one: Change[int], job: Job) -> bool:
    """Check that what a user's change, or another tesched's release, would have changed is as it was."""
    return job.nice == one.nice and has_hook_mark(job) == one.marked


def _is_free(job: Job, context: CycleContext) -> bool:
    """Check whether a TE job is held no more, or has started, and nothing that tesched sets may be the cause."""
    if job.priority == 0 or not (job.pending or job.on_nodes):
        return False
    set_by_us = any(job.job_id in context.changes_of(lever) for lever in (PRIORITY, QUEUE_BOOST, VICTIM_BOOST))
    return not set_by_us and context.snapshot.job_class(job.job_id) is JobClass.TE


def _let_through(job_id: JobId, context: CycleContext) -> Change[int]:
    return Change(
        lever=HOLD,
        job_id=job_id,
        field=Field.HOLD,
        previous=FREE,
        value=LET_THROUGH,
        at=context.now,
        since=context.now,
        taken_at=context.now,
        restored=True,
    )
