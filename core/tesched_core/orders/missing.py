"""Remembered jobs that an answer of slurmctld does not show: they are not concluded to be gone at once.

A single record can be missing in one answer (it could not be read, or slurmctld was asked in a bad moment). Slurm shows
a job that has ended for MinJobAge. So a remembered job is kept until it has been missing for that long, bounded; then
Slurm has forgotten it, and it will not run again under this id. Answers in which most jobs are missing are not believed
at all (the daemon's `plausibility.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot

#: The longest time for which a missing job is kept, seconds; also where MinJobAge is 0 (slurmctld never forgets).
MOST_S = 600.0


def believed_gone_after_s(settings: SlurmSettings) -> float:
    """Return for how long a job may be missing before it counts as forgotten by Slurm, seconds."""
    return min(settings.min_job_age_s or MOST_S, MOST_S)


def missing_since(memory: Memory, snapshot: Snapshot) -> Mapping[JobId, UnixSeconds]:
    """Return the remembered jobs that this answer does not show, and since when, until they are believed to be gone."""
    most_s = believed_gone_after_s(snapshot.settings)
    now = snapshot.taken_at
    since = {job_id: memory.missing.get(job_id, now) for job_id in _remembered(memory) if job_id not in snapshot.jobs}
    return {job_id: at for job_id, at in since.items() if now - at < most_s}


def _remembered(memory: Memory) -> set[JobId]:
    of_orders = {order.preemptor for order in memory.open_orders()}
    of_orders |= {victim.job_id for order in memory.open_orders() for victim in order.victims if not victim.settled}
    return of_orders.union(
        memory.preemptions,
        memory.last_preempted,
        memory.past,
        memory.retry_at,
        memory.futile,
        memory.bystanders,
        # An array's id, by which its throttle is remembered, may be no job's.
        *(by_job for field, by_job in memory.changes.items() if field != Field.THROTTLE),
    )
