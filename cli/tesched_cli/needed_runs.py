"""How long a recorded job would run undisturbed: what its preemptions threw away is no work of its own.

What was lost is reckoned as the simulated jobs lose it: one that was sent a signal has saved its work by then, and has
lost its grace period; any other has lost its run, up to what it reported as saved.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesched_core.intake.delays import delay_by
from tesched_core.model.cluster import FINISHED
from tesched_core.model.order import PREEMPTED, Victim
from tesched_db.views import JobView


def needed_s(job: JobView, victims: Iterable[Victim]) -> float:
    """Seconds that the job would run undisturbed, of what it ran in all its runs; of one that runs, in the present one.

    One run is no longer than the time limit, so a job that was put back in the queue needs no more.
    """
    ran_s = job.ran_s or 0.0
    counted = [one for one in victims if job.state in FINISHED or one.restarts >= job.restarts]
    needed = ran_s - sum(_lost_s(victim, job) for victim in counted)
    if job.restarts and job.time_limit_s is not None:
        needed = min(needed, float(job.time_limit_s))
    return max(needed, min(ran_s, 1.0))


def _lost_s(victim: Victim, job: JobView) -> float:
    if victim.departure not in PREEMPTED:
        return 0.0
    if not victim.loses_run and victim.noticed_at is not None and victim.left_at is not None:
        return max(victim.left_at - victim.noticed_at, 0.0)
    return delay_by(victim, job.last_seen).lost_s
