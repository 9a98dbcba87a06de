"""Bound of one BE job, by `guard.bound`, and what of it is used: `placement/deadlines.py` has the definitions.

The daemon holds TE jobs by it, and `tesched explain` shows it of any job.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.intake.delays import delay_by
from tesched_core.model.bystander import ended
from tesched_core.model.job_memory import Past
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds


def bound_s(*, slowdown: float, te_time_limit_s: float, costs_s: float, run_s: float) -> float:
    """Return by how much TE jobs may delay a BE job in all, seconds.

    `run_s` is its run time, and `costs_s` what one preemption of it costs by itself.
    """
    return max((slowdown - 1) * run_s, te_time_limit_s + costs_s)


def known_run_s(*, runs_for_s: float, past: Past | None, expected_s: float) -> float:
    """Return the longest run time that is known of a job, seconds.

    It `runs_for_s` now, its suspensions included, and is expected to run for `expected_s` at least; 0: not known.
    """
    if past is None:
        return max(runs_for_s, expected_s, 0.0)
    return max(runs_for_s - past.suspended_s, past.longest_run_s, expected_s)


def delays_of(memory: Memory, now: UnixSeconds) -> dict[JobId, float]:
    """Return by how much other users' TE jobs have delayed each BE job until now, seconds, where they have."""
    found = {
        job_id: past.delayed_s - past.excused_s
        for job_id, one in memory.jobs.items()
        if (past := one.past) is not None and (past.delayed_s > 0 or past.excused_s > 0)
    }
    for job_id, seconds in _of_victims(memory, now):
        found[job_id] = found.get(job_id, 0.0) + seconds
    for job_id, one in memory.bystanders.items():
        seconds = ended(one, now).delayed_s
        if seconds > 0:
            found[job_id] = found.get(job_id, 0.0) + seconds
    return {job_id: seconds for job_id, seconds in found.items() if seconds > 0}


def _of_victims(memory: Memory, now: UnixSeconds) -> Iterator[tuple[JobId, float]]:
    for order in memory.open_orders():
        for victim in order.victims:
            if not victim.settled and not victim.of_own_user:
                seconds = delay_by(victim, now).total_s
                if seconds > 0:
                    yield victim.job_id, seconds
