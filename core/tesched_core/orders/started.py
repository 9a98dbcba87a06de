"""Start of a preemptor: whether it has started since its order was made, itself or a task of its array."""

from __future__ import annotations

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import Order, Victim
from tesched_core.model.resources import JobId

#: States in which a job that waits in the queue can end.
FROM_THE_QUEUE = frozenset({JobState.CANCELLED, JobState.DEADLINE})


def started_run(order: Order, context: CycleContext) -> Job | None:
    """Return the job as which the preemptor has started since the order was made; for an array, any task of it.

    It was pending then. So what it is now says whether it has started; slurmctld's clock may differ from this host's,
    and the two are not compared.
    """
    job = context.snapshot.jobs.get(order.preemptor)
    itself = next((victim for victim in order.victims if victim.job_id == order.preemptor), None)
    if itself is not None and (job is None or job.restarts <= itself.restarts):
        return None  # it moves, and has not left yet
    # One that completes, and not for good, began and ended between two polls, in whatever way.
    over = job is not None and itself is None and job.completing and job.on_nodes and job.array_job_id is None
    if job is not None and (over or _has_started(job)):
        return job
    if job is not None and job.array_job_id is None:
        return None
    # Slurm gives a task an id of its own, the next one that there is, when it leaves the array's record.
    since = order.newest_task if order.newest_task is not None else order.preemptor
    tasks = context.tasks_of(order.preemptor)
    return next((task for task in tasks if task.job_id > since and _has_started(task)), None)


def newest_task(preemptor: Job, context: CycleContext) -> JobId | None:
    """Return the newest task of a job array that waits; None for any other job, or if there is none."""
    if preemptor.array_job_id is None:
        return None
    return max((task.job_id for task in context.tasks_of(preemptor.job_id)), default=None)


def _has_started(job: Job) -> bool:
    """Check whether a job that was pending has run since, going by its state and by slurmctld's own times."""
    if job.start_time is None or job.state in {JobState.PENDING, JobState.UNKNOWN}:
        return False
    if job.state not in FROM_THE_QUEUE or job.on_nodes:
        return True
    # Cancelled in the queue it has its end as its start, or still the start of an earlier run.
    return job.end_time is not None and job.end_time > job.start_time >= job.submit_time


def has_run_again(victim: Victim, job: Job) -> bool:
    """Check whether a victim runs, or has run, since it was put back in the queue."""
    if job.restarts <= victim.restarts or job.start_time is None:
        return False
    if job.finished and job.state not in FROM_THE_QUEUE:
        return True  # however short: Slurm's times are whole seconds
    # A job that was cancelled in the queue has its end as its start, or still the start of the run that paid.
    ran = job.end_time is None or job.end_time > job.start_time > victim.started_at
    return job.on_nodes or (job.finished and ran)
