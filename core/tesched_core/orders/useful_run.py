"""Useful run: whether a preemption has served, which takes more than a start of its TE job.

Definitions
    useful run    a run of the TE job that has lasted `guard.useful_run_s`, or a tenth of its time limit where that is
                  shorter, but 10 s at least; or a shorter one that ended by itself with success.
    on trial      an order whose TE job has started where its victims made room, and has not had a useful run yet.

Principle
    A job may be back in the queue right after its start: it requeues itself (RequeueExit), a Prolog or its node fails.
    Room is there again when it next waits only if nobody took it, and so a job that never runs could make each
    best-effort job leave in turn. So an order stays on trial until its TE job has had a useful run. Before that, one
    that is back in the queue, or has ended without success, has come to nothing (`orders/futility.py`).

    What happened between two polls shows in Slurm's count of the job's restarts.

Parameters
    guard.useful_run_s

Source
    tesched's own.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import Ending, Order
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.futility import came_to_nothing, forget, useful_run_s


def on_trial(order: Order, run: Job, context: CycleContext) -> Order:
    """Return an order whose TE job has just started where its victims made room, as this run."""
    if not order.victims or context.snapshot.job_class(order.preemptor) is not JobClass.TE:
        return order
    return replace(order, run_of=run.job_id, restarts=run.restarts)


def came_back(order: Order, job: Job) -> bool:
    """Return whether a TE job has started and come back since its order was made, or since the start on trial."""
    return order.restarts is not None and job.restarts > order.restarts


def judged(order: Order, context: CycleContext) -> Order:
    """Return an order on trial as it is now: as it was, served, or come to nothing."""
    if order.run_of is None or order.run_of in context.absent:
        return order
    job = context.snapshot.jobs.get(order.run_of)
    if job is None:  # Slurm has forgotten it, and how it ended
        return replace(order, run_of=None)
    enough_s = useful_run_s(job, context.limits)
    ran_s = _ran_s(order, job, context.now)
    back = job.pending or came_back(order, job)
    if ran_s >= enough_s or (not back and job.state is JobState.COMPLETED):
        forget(order.preemptor, context)
        return replace(order, run_of=None)
    if not back and not job.finished:
        return order
    what = "is back in the queue" if back else f"ended {job.state}"
    text = f"job {job.label} {what} {ran_s:.0f} s after its start: its victims left for nothing"
    context.moved(order.order_id, None, order.state, order.state, text)
    order = replace(order, ending=Ending.NO_RUN, run_of=None)
    came_to_nothing(order, context)
    return order


def _ran_s(order: Order, job: Job, now: UnixSeconds) -> float:
    """Return how long the run on trial has lasted, as far as it is over or Slurm says when it began."""
    began = order.started_at if order.started_at is not None else now
    if job.pending or came_back(order, job):
        return max(job.submit_time - began, 0.0)  # Slurm counts a job's wait from its requeue on
    if job.finished:
        return 0.0 if job.end_time is None else max(job.end_time - began, 0.0)
    # While its nodes boot, or a Prolog runs, it has not begun.
    began = now if "CONFIGURING" in job.flags else max(began, job.start_time or began)
    return max(now - began, 0.0)
