"""Jobs that may start in the same places: what is found for one of them holds for all."""

from __future__ import annotations

from collections.abc import Hashable

from tesched_core.model.cluster import Job
from tesched_core.model.room import Room
from tesched_core.model.snapshot import Snapshot


def kind_of(job: Job, snapshot: Snapshot, room: Room) -> Hashable:
    """Return what is the same for jobs that may start in the same places."""
    where = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    apart = job.request.sharing == "USER" or room.kept_by or any(one.exclusive_user for one in where)
    return (
        *(job.request, job.partitions, job.reservation),
        job.user if apart else "",
        # What begins while it runs keeps it from starting.
        job.time_limit_s if snapshot.reservations else None,
    )
