"""Nice value of a victim: one that waits to run again is ahead of all other best-effort jobs.

A requeue leaves a job its priority on older releases and gives it a new, lower one on newer ones; the paper puts it
back at the head of its queue (FitGpp, section on the queue). The victim is raised by its nice value once its preemptor
has its resources, and the value is put back when it runs (`fields/nice.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import certainly_failed
from tesched_core.fields.nice import MIN_NICE, by_nice, is_left, nice_set
from tesched_core.fields.priority import PRIORITY_MARGIN
from tesched_core.model.actions import Outcome, Reason, ReasonCode
from tesched_core.model.change import By, Change
from tesched_core.model.field import Field
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.size import growth, size_of

#: Margin above the others: less than that of the preemptors, so that it stays behind them.
VICTIM_MARGIN = PRIORITY_MARGIN // 2


def why_not(victim: Victim, context: CycleContext) -> str:
    """Return why a victim that waits to run again has no claim to be ahead of others, in words; empty if it has.

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


def bring_forward(victim: Victim, order: Order, context: CycleContext) -> None:
    """Put a victim that waits to run again ahead of all other best-effort jobs, once its order is settling."""
    job = context.snapshot.jobs.get(victim.job_id)
    if order.state is OrderState.OPEN or job is None or not job.pending or job.held:
        return
    if context.is_refused(Field.NICE, job.user):
        return
    boosted = context.changes_of(Field.NICE)
    one: Change[int] | None = boosted.get(job.job_id)
    if one is not None and (one.by is By.PREEMPTOR or (one.by is By.VICTIM and one.restored)):
        return  # it is first already, or Slurm refused once
    if one is not None and one.restored:
        one = None
    others = {other.job_id for other in order.victims if not why_not(other, context)}
    fellows = {job.job_id} | context.returning | others
    rivals = context.partitions_beside(job.partitions)
    first = context.columns.first_in_queue(rivals, fellows, best_effort=True)
    missing = 1 + first - job.priority
    if missing <= 0 or (one is not None and one.by is By.VICTIM and (job.nice != one.value or is_left(one, job))):
        return
    value = max(job.nice - missing - VICTIM_MARGIN, MIN_NICE)
    if value >= job.nice:
        return
    boosted[job.job_id] = nice_set(job, value, one, by=By.VICTIM, order_id=order.order_id, context=context)
    reason = Reason(
        code=ReasonCode.BACK_TO_THE_HEAD,
        text=f"it freed resources for job {order.preemptor} and is next among the best-effort jobs",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    context.actions.append(by_nice(job, reason, value))


def after(one: Change[int], outcome: Outcome, *, is_first: bool) -> Change[int]:
    """Return a raise after what became of its command: without it, the victim keeps the place that Slurm gave it."""
    # With another value before it, an earlier raise did arrive, and is to be put back.
    return replace(one, restored=True) if is_first and certainly_failed(outcome) else one
