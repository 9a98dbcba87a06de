"""Hold lever: a job that would start where or when it should not is held, and released when that is over.

A policy proposes `HoldJob` for a job at each poll for as long as the job is to be held. A job that tesched holds and
that no policy wants held any more is released; so is one whose order opens, since it can start on its own nodes alone
then. A hold is believed when it is seen, and a job that its user holds is left to the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.model.actions import Hold, Reason, ReasonCode, Release
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import HELD_BY_ITS_USER, HELD_BY_US

#: Most jobs that are held in one look: each is one call of Slurm, and TE jobs wait meanwhile.
MOST_HELD = 50
_NOT_WANTED = "no policy wants it held any more"


def carry_out(
    memory: Memory, wanted: Mapping[JobId, str], let_go: Mapping[JobId, str], context: CycleContext
) -> Memory:
    """Hold the `wanted` jobs and release the others that tesched holds; both come with the reason, one sentence."""
    left = {job_id: at for job_id, at in memory.held.items() if _still_held(job_id, at, context)}
    served = {order.preemptor: order for order in memory.open_orders() if order.state is OrderState.OPEN}
    for job_id in left:
        if job_id in served:
            _release_for(served[job_id], context)
    for job_id in [one for one in left if one not in wanted and one not in served]:
        if _is_its_users(job_id, context):
            del left[job_id]
        elif _shows(job_id, context):
            left[job_id] = 0.0  # no longer on its way: once the job is free, nothing is left
            reason = Reason(code=ReasonCode.ITS_TURN, text=let_go.get(job_id, _NOT_WANTED))
            context.actions.append(Release(job_id=job_id, reason=reason))
    jobs = context.snapshot.jobs
    new = [job_id for job_id in wanted if job_id not in left and job_id in jobs and job_id not in served]
    # Slurm starts the first in the queue first. Of thousands the others come with the next looks.
    for job_id in sorted(new, key=lambda one: (-jobs[one].priority, one))[:MOST_HELD]:
        left[job_id] = context.now
        reason = Reason(code=ReasonCode.NOT_ITS_TURN, text=wanted[job_id])
        context.actions.append(Hold(job_id=job_id, reason=reason))
    return replace(memory, held=left)


def _still_held(job_id: JobId, at: UnixSeconds, context: CycleContext) -> bool:
    """Return whether our hold is in place, or on its way. One that came as the job started waits for its requeue."""
    job = context.snapshot.jobs.get(job_id)
    if job is None or job_id in context.absent:
        return job_id in context.absent
    return not job.finished and (job.priority == 0 or context.now - at <= RESEND_AFTER_S)


def _shows(job_id: JobId, context: CycleContext) -> bool:
    job = context.snapshot.jobs.get(job_id)
    return job is not None and job.held and job.reason == HELD_BY_US


def _is_its_users(job_id: JobId, context: CycleContext) -> bool:
    job = context.snapshot.jobs.get(job_id)
    return job is not None and job.held and job.reason == HELD_BY_ITS_USER


def _release_for(order: Order, context: CycleContext) -> None:
    job = context.snapshot.jobs.get(order.preemptor)
    if job is not None and job.pending and _shows(order.preemptor, context):
        reason = Reason(
            code=ReasonCode.ITS_TURN,
            text="it is its turn in this round",
            preemptor=order.preemptor,
            order_id=order.order_id,
        )
        context.actions.append(Release(job_id=order.preemptor, reason=reason))


def outstanding(memory: Memory, snapshot: Snapshot) -> int:
    """Return how many holds are to be ended. Of a job that runs none can be."""
    jobs = snapshot.jobs
    return sum(job_id in jobs and jobs[job_id].pending for job_id in memory.held)
