"""Holds that another hand has ended: an operator lets a TE job through, and it is not held again for that run.

Definitions
    in place    Slurm shows a hold of tesched's as an operator's (JobHeldAdmin)
    stands      it has been in place for `SAVED_S`: slurmctld has written it to its state, and has it after a restart
    let through a TE job whose own hold stood, that is held no more, and that tesched has not released

Principle
    Slurm says of no release whose it was, so what could have another cause counts as that: the job is held again, and
    the bound is kept.

    - tesched's own release is in the store before the command is sent (`Change.value`). A daemon that is killed in
      between knows of it; so does `tesched undo`.
    - A hold that was never seen has not arrived. One that does not stand yet may be lost by a slurmctld that dies. One
      that shadow mode has only recorded is none.
    - Slurm lets no user end an operator's hold, but for a flaw: a change of the nice value gives a held job a priority,
      and it starts (22.05). With the submission hook it keeps its nice value. Without, a job with another one than
      while it was held was not let through; a user who sets it to and fro between two polls is not recognised.
    - Another tesched, of another store, releases what the submission hook has held (`tesched undo`), and removes the
      hook's mark. An operator's release leaves it. So does the undo of a tesched that is a plain Operator of Slurm's:
      it can't remove the mark, and what it releases counts as let through.
    - What tesched sets of a job's priority or nice value might do the same.
    - A task that was split off an array may never have been held, or by its user: it has to have had a hold of its own.

    An array is let through with its tasks. One task that is released alone is held anew, by itself, and is let through
    once that hold is released. It is over with the run: its owner may requeue the job, and that one waits as others do.

Source
    tesched's own; what Slurm does was tried on 22.05.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.model.actions import releases
from tesched_core.model.change import FREE, HELD, LET_THROUGH, STANDS, Change, first_change, lets_through
from tesched_core.model.cluster import HELD_BY_US, Job
from tesched_core.model.field import Field
from tesched_core.model.hook import has_hook_mark
from tesched_core.model.request import tasks_in
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

#: slurmctld writes its state 5 s after a change at the latest (SAVE_MAX_WAIT), which takes a moment.
SAVED_S = 8.0


def see_other_hands(context: CycleContext) -> None:
    """Note which holds stand, which jobs another hand has released, and which of those have had their run."""
    held = context.changes_of(Field.HOLD)
    for job_id, one in context.made_by(Field.HOLD, None).items():
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent:
            continue
        if one.value == LET_THROUGH:
            known = [*([job] if job is not None else ()), *context.tasks_of(job_id)]
            held[job_id] = one if any(lets_through(one, each) for each in known) else replace(one, value=FREE)
        elif job is None or one.restored or one.dry:
            continue
        elif job.held and job.reason == HELD_BY_US:
            held[job_id] = _in_place(one, job, context)
        elif one.value == STANDS and _is_free(job, context) and _is_as_held(one, job):
            held[job_id] = _let_through(one, context)


def note_releases(context: CycleContext) -> None:
    """Note which holds tesched ends in this cycle: with that of a heterogeneous job's first component the others'."""
    held = context.changes_of(Field.HOLD)
    for action in context.actions:
        if releases(action):
            for job_id in (action.job_id, *components_of(action.job_id, context)):
                one = held.get(job_id)
                if one is not None and not one.restored:
                    held[job_id] = replace(one, value=FREE)


def components_of(job_id: JobId, context: CycleContext) -> list[JobId]:
    """Components that Slurm holds and releases with the first one of a heterogeneous job."""
    job = context.snapshot.jobs.get(job_id)
    if job is None or job.het_job_id != job_id:
        return []
    return [one.job_id for one in context.snapshot.jobs.values() if one.het_job_id == job_id and one is not job]


def _in_place(one: Change[int], job: Job, context: CycleContext) -> Change[int]:
    """Return a hold that Slurm shows."""
    if one.value == FREE:
        return one
    if one.value == HELD and (one.taken_at is None or one.taken_at > context.now):
        return replace(one, taken_at=context.now)  # or the clock was set back
    if one.value == HELD and context.now - (one.taken_at or 0.0) < SAVED_S:
        return one
    return replace(
        one,
        value=STANDS,
        nice=job.nice if one.value == HELD else one.nice,
        marked=has_hook_mark(job) if one.value == HELD else one.marked,
        restarts=job.restarts,
        of_array=job.array_job_id == job.job_id and tasks_in(job) > 1,
    )


def _is_as_held(one: Change[int], job: Job) -> bool:
    """Check that what a user's change, or another tesched's release, would have changed is as it was."""
    return job.nice == one.nice and has_hook_mark(job) == one.marked


def _is_free(job: Job, context: CycleContext) -> bool:
    """Check whether a TE job is held no more, or has started, and nothing that tesched sets may be the cause."""
    if job.priority == 0 or not (job.pending or job.on_nodes):
        return False
    # What is set of an array is set of its tasks.
    ids = {job.job_id, job.array_job_id}
    set_by_us = not ids.isdisjoint(context.changes_of(Field.NICE))
    return not set_by_us and context.snapshot.job_class(job.job_id) is JobClass.TE


def _let_through(one: Change[int], context: CycleContext) -> Change[int]:
    # Of an array, one task that is held still shows that it was not released as a whole.
    whole = one.of_array and not any(task.pending and task.held for task in context.tasks_of(one.job_id))
    return replace(
        first_change(one.job_id, Field.HOLD, FREE, LET_THROUGH, context.now),
        taken_at=context.now,
        restored=True,
        restarts=one.restarts,
        of_array=whole,
    )
