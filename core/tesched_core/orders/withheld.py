"""Victims that may not leave any more, though they were chosen: new rules protect them, or Slurm would not start them.

One that has had no notice stays. What the others free is too little then, as a plan has no victim too many: so its
order ends before a further one leaves, and the policy plans anew. Where all others have left it goes on: others may be
found for what it lacks (`reinforce.py`).
"""

from __future__ import annotations

from tesched_core.context import CycleContext
from tesched_core.guard.eligibility import protected
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import HOLDS_RESOURCES, Order, OrderState, Victim, VictimState
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.departures import departure_of
from tesched_core.placement.can_return import why_it_cannot_return


def why_withheld(victim: Victim, job: Job, context: CycleContext) -> str:
    """Reason that a victim that has had no notice is to stay; empty: there is none."""
    # It may have waited for minutes (`orders/leave_together.py`).
    if not victim.by_suspending and (not job.requeueable or _cannot_return(job, context)):
        return "Slurm would not start it again by now"
    if protected(job, context.limits) or context.snapshot.job_class(job.job_id) is JobClass.EXEMPT:
        return "the site protects it by now"
    return ""


def why_short(order: Order, context: CycleContext) -> str:
    """Reason that an open order frees too little for its preemptor, as a victim stays; empty: there is none."""
    if order.state is not OrderState.OPEN:
        return ""
    staying = {one.job_id: why for one in order.victims if (why := _why_it_stays(one, context))}
    if not staying:
        return ""
    others = [one for one in order.victims if one.job_id not in staying]
    if others and not any(_still_holds(one, context) for one in others):
        return ""
    job_id, why = next(iter(staying.items()))
    return f"victim {context.snapshot.jobs[job_id].label} stays, and without it too little comes free: {why}"


def _why_it_stays(victim: Victim, context: CycleContext) -> str:
    job = context.snapshot.jobs.get(victim.job_id)
    if victim.state is not VictimState.PLANNED or job is None or victim.job_id in context.absent:
        return ""
    runs = job.state is JobState.RUNNING and not job.completing and job.restarts == victim.restarts
    return why_withheld(victim, job, context) if runs else ""


def _still_holds(victim: Victim, context: CycleContext) -> bool:
    job = context.snapshot.jobs.get(victim.job_id)
    return victim.state in HOLDS_RESOURCES and departure_of(victim, job, context.now, context.release) is None


def _cannot_return(job: Job, context: CycleContext) -> bool:
    """By the same reading of reservations as it was chosen by: of many shapes of jobs not all are weighed."""
    return bool(why_it_cannot_return(job, context.snapshot)) or job.job_id in context.columns.running.awaits
