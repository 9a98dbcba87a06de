"""Nice value of a victim: one that waits to run again is ahead of all other best-effort jobs.

A requeue leaves a job its priority on older releases and gives it a new, lower one on newer ones; the paper puts it
back at the head of its queue (FitGpp, section on the queue). The victim is raised by its nice value once its preemptor
has its resources, and the value is put back when it runs (`fields/nice.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import certainly_failed
from tesched_core.fields.nice import MIN_NICE, is_left, nice_set
from tesched_core.fields.priority import PRIORITY_MARGIN
from tesched_core.fields.reconcile import Want
from tesched_core.model.actions import Outcome, Reason, ReasonCode
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import Job
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.size import growth, size_of

#: Margin above the others: less than that of the preemptors, so that it stays behind them.
VICTIM_MARGIN = PRIORITY_MARGIN // 2


def why_not(victim: Victim, context: CycleContext) -> str:
    """Reason that a victim that waits to run again has no claim to be ahead of others, in words; empty if it has.

    By a TE job of its own user none has: a small job and a trial would take a place that others wait for. And it
    is for what the victim had: a user may change a waiting job.
    """
    if victim.of_own_user:
        return "a job of its own user caused that it waits"
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.size is None or job is None or not job.pending or job.doubt or job.partly_read:
        return ""
    grown = growth(victim.size.waiting(job), size_of(job, context.own_request(job)))
    return f"it asks for {grown}" if grown else ""


def want_of(victim: Victim, order: Order, context: CycleContext) -> Want[int] | None:
    """Priority that puts a waiting victim ahead of all other best-effort jobs once its order is settling; None: none.

    The value is the least priority with which it is the first of them.
    """
    job = context.snapshot.jobs.get(victim.job_id)
    if order.state is OrderState.OPEN or job is None or not job.pending or job.held:
        return None
    others = {other.job_id for other in order.victims if not why_not(other, context)}
    fellows = {job.job_id} | context.returning | others
    rivals = context.partitions_beside(job.partitions)
    needed = 1 + context.columns.first_in_queue(rivals, fellows, best_effort=True)
    if needed <= job.priority:
        return None
    why = Reason(
        code=ReasonCode.BACK_TO_THE_HEAD,
        text=f"it freed resources for job {order.preemptor} and is next among the best-effort jobs",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    return Want(job_id=job.job_id, value=needed, why=why, by=By.VICTIM)


def raised(want: Want[int], one: Change[int] | None, job: Job, context: CycleContext) -> Change[int] | None:
    """Change that puts the victim ahead; None: what is set already is left."""
    if one is not None and (one.by is By.PREEMPTOR or (one.by is By.VICTIM and one.restored)):
        return None  # it is first already, or Slurm refused once
    if one is not None and one.by is By.VICTIM and (job.nice != one.value or is_left(one, job)):
        return None
    one = None if one is None or one.restored else one
    value = max(job.nice - (want.value - job.priority) - VICTIM_MARGIN, MIN_NICE)
    return nice_set(job, value, one, want, context) if value < job.nice else None


def after(one: Change[int], outcome: Outcome, *, is_first: bool) -> Change[int]:
    """Return a raise after what became of its command: without it, the victim keeps the place that Slurm gave it."""
    # With another value before it, an earlier raise did arrive, and is to be put back.
    return replace(one, restored=True) if is_first and certainly_failed(outcome) else one
