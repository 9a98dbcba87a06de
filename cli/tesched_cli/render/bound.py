"""What is left of a BE job's bound, for `tesched explain`."""

from __future__ import annotations

from tesched_core.intake.bounds import bound_s, delays_of, known_run_s
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import LeftOfBound
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import JobClass
from tesched_db.views import DaemonView, JobStory, JobView

from tesched_cli.render.expectation import Expected


def left_of_bound(
    daemon: DaemonView | None, story: JobStory, memory: Memory, expected: Expected | None
) -> LeftOfBound | None:
    """Rest of the job's bound: as the daemon has recorded it, else worked out as the daemon does.

    None: nothing is bounded, or it is no BE job, or it has ended.
    """
    job = story.job
    is_over = job.gone or job.state not in {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}
    if daemon is None or (bound := daemon.bound) is None or job.job_class is not JobClass.BE or is_over:
        return None
    recorded = next((one for one in bound.jobs if one.job == job.label), None)
    if recorded is not None:
        return recorded
    seen_at = daemon.seen_at or 0.0
    delayed_s = delays_of(memory, seen_at).get(job.job_id, 0.0)
    run_s = known_run_s(
        runs_for_s=_runs_for_s(job, seen_at),
        past=memory.job(job.job_id).past,
        expected_s=0.0 if expected is None else expected.low_s,
    )
    most_s = bound_s(
        slowdown=bound.slowdown,
        te_time_limit_s=bound.te_time_limit_s,
        costs_s=job.grace_period_s + bound.costs_s,
        run_s=run_s,
    )
    near = None if delayed_s > 0 else False
    return LeftOfBound(job=job.label, user=job.user, delayed_s=delayed_s, bound_s=most_s, near=near)


def _runs_for_s(job: JobView, now: float) -> float:
    is_running = job.state is JobState.RUNNING and "COMPLETING" not in job.flags
    return max(now - job.start_time, 0.0) if is_running and job.start_time is not None else 0.0
