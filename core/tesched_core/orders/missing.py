"""Remembered jobs that an answer of slurmctld does not show: they are not concluded to be gone at once.

A single record can be missing in one answer (it could not be read, or slurmctld was queried in a bad moment). Slurm
shows a job that has ended for MinJobAge. So a remembered job is kept until it has been missing for that long, bounded;
then Slurm has forgotten it, and it will not run again under this id. Answers in which most jobs are missing are not
believed at all (the daemon's `plausibility.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tesched_core.context import CycleContext
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.field import OF_ARRAYS
from tesched_core.model.job_memory import NOTHING
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot

#: The longest time for which a missing job is kept, seconds; also where MinJobAge is 0 (slurmctld never forgets).
MOST_S = 600.0


def believed_gone_after_s(settings: SlurmSettings) -> float:
    """Time after which a missing job counts as forgotten by Slurm, seconds."""
    return min(settings.min_job_age_s or MOST_S, MOST_S)


def missing_since(memory: Memory, snapshot: Snapshot) -> Mapping[JobId, UnixSeconds]:
    """Return the remembered jobs that this answer does not show, and since when, until they are believed to be gone."""
    most_s = believed_gone_after_s(snapshot.settings)
    now = snapshot.taken_at
    found: dict[JobId, UnixSeconds] = {}
    for job_id in _remembered(memory, snapshot):
        at = memory.job(job_id).missing_since
        found[job_id] = now if at is None else at
    return {job_id: at for job_id, at in found.items() if now - at < most_s}


def forget_gone(context: CycleContext, missing: Mapping[JobId, UnixSeconds]) -> None:
    """Drop what is remembered of jobs that Slurm has forgotten: none will run again under its id.

    What came of tries stays for as long as Slurm knows a task of the array. Futile orders have a rule of their own.
    """
    draft, jobs = context.draft, context.snapshot.jobs
    for job_id in [one for one in draft.jobs if one not in jobs and one not in missing]:
        draft.update(job_id, preemptions=0, lost_runs=0, last_preempted=None, past=None)
        if not context.tasks_of(job_id):
            draft.update(job_id, retry_at=None)
    draft.declined -= {one for one in draft.declined if not (one in jobs or one in missing or context.tasks_of(one))}


def _remembered(memory: Memory, snapshot: Snapshot) -> set[JobId]:
    """Find the jobs that the memory names, and the snapshot does not show."""
    of_orders = {order.preemptor for order in memory.open_orders()}
    of_orders |= {victim.job_id for order in memory.open_orders() for victim in order.victims if not victim.settled}
    named = of_orders.union(
        memory.bystanders,
        *(by_job for field, by_job in memory.changes.items() if field not in OF_ARRAYS),
        _arrays(memory, snapshot),
    )
    # Most records are of jobs that it shows.
    unseen = (job_id for job_id in memory.jobs if job_id not in snapshot.jobs)
    return {job_id for job_id in named if job_id not in snapshot.jobs} | {
        job_id for job_id in unseen if memory.jobs[job_id].lasting != NOTHING
    }


def _arrays(memory: Memory, snapshot: Snapshot) -> set[JobId]:
    """Find the arrays with a change of tesched's of which no task is shown: an array's id may be no job's."""
    arrays = {array for field in OF_ARRAYS for array in memory.changes_of(field)}
    return arrays - {job.array_job_id for job in snapshot.jobs.values()} if arrays else arrays
