"""Useful run: whether a preemption has served, which takes more than a start of its TE job.

Definitions
    useful run    a run of the TE job that has lasted `guard.useful_run_s`, or a tenth of its time limit where that is
                  shorter, but 10 s at least; or a shorter one that ended by itself with success.
    on trial      an order with victims whose TE job has started, and has not had a useful run yet. Of a job array it is
                  the task that has started: Slurm gives it a record of its own then.

Principle
    A job may be back in the queue right after its start: it requeues itself (RequeueExit), a Prolog or its node fails.
    By then other jobs may have its nodes, and a job that never runs could make each best-effort job leave in turn. So
    an order stays on trial until its TE job has had a useful run. Before that, one
    that is back in the queue, or has ended without success, has come to nothing (`orders/futility.py`).

    What happened between two polls shows in Slurm's count of the job's restarts. A run is over when its job is seen to
    be completing: Slurm puts it back in the queue, and counts its wait from there, only after the Epilog. By its exit
    code (RequeueExit) it is known before that it goes back. Of any other job that is completing squeue may not say how
    it ended, and it may be a success. Its run stays on trial, and grows no longer, until the state is shown.

Parameters
    guard.useful_run_s

Source
    tesched's own. Slurm 22.05.8 shows COMPLETING in the place of each state that a job has meanwhile
    (`job_state_string`).
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import Ending, Order
from tesched_core.orders.futility import came_to_nothing, forget, useful_run_s


def on_trial(order: Order, run: Job, context: CycleContext) -> Order:
    """Return an order whose TE job, or a task of it, has just started, as this run."""
    if not order.for_te:
        return order
    # Where the run is over already, and was one of a job that Slurm has put back since, its count says so.
    gone = run.completing and not run.finished and came_back(order, run)
    restarts = order.restarts if gone else run.restarts
    return replace(of_run(order, run), restarts=restarts, run_seen_at=context.now)


def of_run(order: Order, run: Job) -> Order:
    """Return an order of which this job is the one that has started."""
    return order if run.array_job_id is None else replace(order, newest_task=run.job_id)


def came_back(order: Order, job: Job) -> bool:
    """Check whether a TE job has started and come back since its order was made, or since the start on trial."""
    return order.restarts is not None and job.restarts > order.restarts


def returned(order: Order, job: Job, context: CycleContext) -> Job | None:
    """Job, or task of it, that has started and is back in the queue since the order was made."""
    if came_back(order, job):
        return job
    if not job.array_tasks:
        return None
    since = order.newest_task if order.newest_task is not None else order.preemptor
    tasks = context.tasks_of(order.preemptor)
    return next((task for task in tasks if task.job_id > since and task.pending and task.restarts), None)


def judged(order: Order, context: CycleContext) -> Order:
    """Return an order on trial as it is now: as it was, served, or come to nothing."""
    seen_at = order.run_seen_at
    if seen_at is None or order.run_id in context.absent:
        return order
    job = context.snapshot.jobs.get(order.run_id)
    if job is None:  # Slurm has forgotten it, and how it ended
        return replace(order, run_seen_at=None)
    enough_s = useful_run_s(job, context.limits)
    back = job.pending or came_back(order, job)
    over = job.completing and not job.finished  # its run is, however long its Epilog takes
    goes_back = over and _goes_back(job, context)
    if not back and not job.finished and not over:
        if "CONFIGURING" in job.flags:  # its nodes boot, or a Prolog runs: it has not begun
            return replace(order, run_seen_at=context.now, started_at=None)
        order = replace(order, started_at=job.start_time)  # Slurm sets it anew when they are ready
    ran_s = _ran_s(order, job, context.now - seen_at)
    if ran_s >= enough_s or (not back and job.state is JobState.COMPLETED):
        forget(order.run_id, context)
        return replace(order, run_seen_at=None)
    if not back and not job.finished and not goes_back:
        # How it ended shows after its Epilog, which is no part of its run: that it was a short one is kept.
        return replace(order, started_at=None) if over else order
    what = "is back in the queue" if back else "goes back to the queue" if over else f"ended {job.state}"
    after = f"{ran_s:.0f} s after its start" if job.finished or order.started_at is not None else "soon after its start"
    text = f"job {job.label} {what} {after}: its victims left for nothing"
    order = context.order_step(order, replace(order, ending=Ending.NO_RUN, run_seen_at=None), text)
    came_to_nothing(order, context)
    return order


def _goes_back(job: Job, context: CycleContext) -> bool:
    """Check whether Slurm puts a job that is completing back in the queue, not whatever else it may do then."""
    settings = context.snapshot.settings
    return job.state is JobState.PENDING or job.exit_status in settings.requeue_exit | settings.requeue_exit_hold


def _ran_s(order: Order, job: Job, seen_s: float) -> float:
    """Seconds that the run on trial has lasted, of which it is seen to run for `seen_s`.

    The times of a run that is over are Slurm's, that of one that goes on is this host's: they are not compared.
    """
    if job.pending or came_back(order, job):
        # Slurm counts a job's wait from its requeue on. One that was never seen to run after its Prolog has not run;
        # one that was seen to be completing had a short run.
        return max(job.submit_time - order.started_at, 0.0) if order.started_at is not None else 0.0
    if job.finished:
        began = job.start_time if job.start_time is not None else order.started_at
        return 0.0 if job.end_time is None or began is None else max(job.end_time - began, 0.0)
    if job.completing and order.started_at is None:
        return 0.0  # of what is seen since, its Epilog is a part
    return max(seen_s, 0.0)
