"""Jobs that may start in the same places: what is found for one of them holds for all.

A job that shares its nodes with its own user's jobs alone (--exclusive=user, ExclusiveUser) is kept from where others
are, and keeps others out. Such a node is free for them once the jobs there have gone, whatever else it has.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import replace

from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.room import Room
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import barred_by
from tesched_core.placement.columns_of import kept_by
from tesched_core.placement.demand import Demand, demands_of


def kind_of(job: Job, snapshot: Snapshot, room: Room) -> Hashable:
    """Return what is the same for jobs that may start in the same places."""
    return (
        *(job.request, job.partitions, job.reservation),
        job.user if minds_others(job, snapshot, room) else "",
        # Not the time limit: where each job has its own, there would be as many kinds as jobs.
        barred_by(job, snapshot),
    )


def minds_others(job: Job, snapshot: Snapshot, room: Room) -> bool:
    """Check whether it matters for a job whose jobs are on a node."""
    where = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    return job.request.sharing == "USER" or bool(room.kept_by) or any(one.exclusive_user for one in where)


def demands_without(job: Job, gone: Container[JobId], snapshot: Snapshot, room: Room) -> Sequence[Demand]:
    """Return what a job wants in each of its partitions, as if those jobs were gone."""
    stay = {job_id: one for job_id, one in snapshot.jobs.items() if one.allocation and job_id not in gone}
    there = replace(snapshot, jobs=stay)
    return demands_of(job, there, replace(room, kept_by=kept_by(there, room.index)))
