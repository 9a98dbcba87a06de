"""TE queue: the pending TE jobs that would start if resources were free, in the order in which they are served."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tesched_core.intake.pending_reason import has_reason, resources_would_not_help, why_left_to_slurm
from tesched_core.model.change import By
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.hook import is_held_by_hook
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import OrderState
from tesched_core.model.resources import JobId
from tesched_core.orders.futility import not_yet
from tesched_core.placement.deadlines import Deadlines


def te_queue(
    trials: Iterable[Job],
    memory: Memory,
    limits: Limits,
    *,
    deadlines: Deadlines | None = None,
    above_limits: Mapping[JobId, Refusal] = MappingProxyType({}),
    lacks_resources: Callable[[Job], bool] = lambda _: False,
) -> tuple[tuple[Job, ...], tuple[Refusal, ...]]:
    """Return those of the pending TE jobs to serve, first come first served, and a refusal for every other.

    Jobs that Slurm has yet to consider wait for that, unless they are known to lack resources alone. Those that must
    not start by themselves either have the refusal BOUND, by the deadlines of BE jobs, or that of `above_limits`; one
    whose victims have had their notice is not stopped any more. One that an operator has let through may start, but no
    victim leaves for it.
    """
    is_open = [order for order in memory.open_orders() if order.state is OrderState.OPEN]
    # Of an order that waits for resources to come free by themselves the policy may think better.
    served = {order.preemptor: order for order in is_open if not order.waits}
    patient = {order.preemptor for order in is_open if order.waits}
    pressing = {order.preemptor for order in is_open if any(one.noticed_at is not None for one in order.victims)}
    # A job array goes on waiting after one of its tasks has started.
    still_raised = memory.raised(By.PREEMPTOR)
    waiting: list[Job] = []
    refusals: list[Refusal] = []
    trials = tuple(trials)
    too_late = _too_late(trials, memory, above_limits, deadlines)
    for job in trials:
        job_id = job.job_id
        late = too_late.get(job_id) if not job.left_to_slurm else None
        if late is not None and job_id not in pressing:
            refusals.append(_let_through(late) if memory.is_let_through(job) else late)
            continue
        early = not has_reason(job.reason) and lacks_resources(job)
        why = None if early else resources_would_not_help(job)
        if why is not None and why[0] is RefusalCode.HELD and is_held_by_hook(job):
            why = RefusalCode.HELD, "it is admitted, and is being released"
        if why is None and job.left_to_slurm:
            why = RefusalCode.UNSUPPORTED, why_left_to_slurm(job)
        if job_id in served:
            why = RefusalCode.ORDER_OPEN, f"resources are being freed for it on {','.join(served[job_id].nodes)}"
        elif why is None and job_id in still_raised and job_id not in patient:
            why = RefusalCode.ORDER_OPEN, "its priority is being put back after an order that has ended"
        elif why is None and memory.is_bound(job_id) and job_id not in patient:
            why = (
                RefusalCode.ORDER_OPEN,
                "it is still bound to the nodes of an order that has ended, and is being set free",
            )
        elif why is None and job_id not in patient:
            why = not_yet(job, memory, limits)
        if why is None:
            waiting.append(job)
        else:
            refusals.append(Refusal(job_id=job_id, preemptor=job_id, code=why[0], text=why[1]))
    waiting.sort(key=lambda job: (job.submit_time, job.job_id))
    return tuple(waiting), tuple(refusals)


def _too_late(
    trials: Sequence[Job], memory: Memory, above_limits: Mapping[JobId, Refusal], deadlines: Deadlines | None
) -> Mapping[JobId, Refusal]:
    """Refusals of the TE jobs that must not start by themselves.

    The release of a heterogeneous job's first component ends the holds of the others (22.05). So a held one waits as
    long as any of them.
    """
    found = dict(above_limits)
    if deadlines is None:
        return found
    held = {job.job_id for job in trials if job.held and job.job_id not in above_limits}
    bound: dict[JobId, Refusal] = {}
    for job in trials:
        # Of one that waits for a limit of its own it matters where others wait with it.
        if job.job_id not in above_limits or job.het_job_id in held:
            why = deadlines.why_te_waits(job, counts=job.job_id not in above_limits)
            if why is not None:
                bound[job.job_id] = why
    # What is let through may start as it is.
    parts = (job for job in trials if job.job_id in bound and not memory.is_let_through(job))
    of_parts = {job.het_job_id: bound[job.job_id] for job in parts}
    for job in trials:
        why = bound.get(job.job_id) or (of_parts.get(job.job_id) if job.held else None)
        if why is not None:
            found.setdefault(job.job_id, replace(why, job_id=job.job_id, preemptor=job.job_id))
    return found


def _let_through(late: Refusal) -> Refusal:
    """Return the refusal of a job that may start on what is free, though it would have to wait."""
    text = f"released by another hand, not held again; it may start on what is free, and no victim leaves: {late.text}"
    return replace(late, code=RefusalCode.LET_THROUGH, text=text)
