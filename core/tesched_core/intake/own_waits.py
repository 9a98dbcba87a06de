"""Own waits: what of a job's time in the queue is its own user's doing, and makes it immune to no preemption.

Slurm keeps no eligible time of a job while it is held, waits for a dependency or for a reservation, or its array has as
many tasks running as its user lets it have, and sets it to the moment at which that is over (22.05); a begin time is an
eligible time that is to come. So what is before it is a wait of that kind.

It is said of a first run alone. A requeue puts the eligible time off by Slurm's own delay, which is no user's doing.
"""

from __future__ import annotations

from tesched_core.model.cluster import Job
from tesched_core.model.resources import UnixSeconds


def eligible_since(job: Job) -> UnixSeconds:
    """Time since when a job on nodes could have started, as far as is known; of one that was requeued, its requeue."""
    if job.restarts or job.eligible_time is None:
        return job.submit_time
    at = job.eligible_time if job.start_time is None else min(job.eligible_time, job.start_time)
    return max(job.submit_time, at)
