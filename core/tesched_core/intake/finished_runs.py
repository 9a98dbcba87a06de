"""Finished runs of which a run time is learned: those that ended by themselves, or at their time limit.

    state           learned  why
    COMPLETED       yes      it ended by itself
    FAILED          yes      the same: its resources came free all the same, and a user's failures are like each other
    OUT_OF_MEMORY   yes      the same
    TIMEOUT         yes      it would have run longer, but a job like it will not be let run longer either
    CANCELLED       no       a decision of its user or an admin ended it
    DEADLINE        no       its deadline did, which depends on when it started
    PREEMPTED       no       it was cut short
    NODE_FAIL       no       the same
    BOOT_FAIL       no       it never ran

A run that was put back in the queue (by tesched, Slurm or its user) has no end of its own: the last run of a job is
learned, the ones before it are not. Nor is one that ended, however it did, after tesched had given it notice: without
the notice it would have run on. To be suspended is not to run.
"""

from __future__ import annotations

from tesched_core.model.cluster import Job, JobState
from tesched_core.model.memory import Memory

#: States of a run that ended by itself, or at its time limit.
ENDED_BY_ITSELF = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY})


def ended_by_itself(job: Job, memory: Memory) -> bool:
    """True if the last run of a finished job ended by itself, and not after a notice of tesched's."""
    if job.state not in ENDED_BY_ITSELF or job.start_time is None:
        return False
    if any(one.job_id == job.job_id and one.at >= job.start_time for one in memory.paid):
        return False  # its order has ended by now, or was withdrawn
    return not any(
        victim.job_id == job.job_id and victim.restarts == job.restarts and victim.noticed_at is not None
        for order in memory.orders.values()
        for victim in order.victims
    )
