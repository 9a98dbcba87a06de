"""Time until resources come free by themselves that a TE job would fit into, and whether it awaits them.

Definitions
    n          the jobs that ended in the last `WINDOW_S` seconds on nodes where the TE job may run, and each of which
               held on a node what the TE job asks for on one; not those that were cancelled. Where it may run is by
               its partitions, constraint, excluded nodes and reservations. In an early turn, which reads no other
               jobs, the last seconds are those before the last poll: a minute old at most
    k          the TE job's place among those that await such resources, from 1
    wait       WINDOW_S / n * k: in how many seconds the k-th lot of resources is expected
    leave      the longest grace period of the victims that would be notified

Principle
    On a busy cluster some job ends every few seconds. A TE job at the head of its queue gets those resources, and no
    job pays for that. So it is put there first, and no victim is notified for `SURE` times its wait, after which it has
    got them with 95 %; provided that this is not longer than guard.wait_for_free_s, nor than the victims would take to
    leave. Elsewhere its victims are notified at once.

    What happened a minute ago is all that is needed: no run time, neither known nor guessed.

Worked example
    guard.wait_for_free_s 10, WINDOW_S 30. In the last 30 s 20 jobs ended that had held a node each; two TE jobs want
    half a node, and their victims have 18 s. The first awaits 30 / 20 = 1.5 s on average, the second 3 s: for 4.5 s and
    for 9 s no victim is notified. With 5 such ends instead of 20 these would be 18 s and 36 s: above 10, both at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, log2

import numpy as np

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.model.memory import Memory
from tesched_core.model.request import demand_per_node, wants_all_memory
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of
from tesched_core.policy import AwaitRoom, MakeRoom, Plan

#: What ended in these last seconds counts, Slurm's MinJobAge permitting.
WINDOW_S = 30.0
#: A wait of so many times the mean is long enough in 95 of 100 cases: 1 - exp(-3).
SURE = 3.0
#: The plugin takes no longer wait.
LONGEST_WAIT_S = 3600.0
#: So many different requests of TE jobs are read, the newest ones.
MOST_SHAPES = 50
#: Fewer than these say nothing of the next one.
LEAST_ENDS = 3


def await_turnover(plans: tuple[Plan, ...], memory: Memory, context: CycleContext) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans; those for a job that soon gets resources that come free by themselves ask no victim yet."""
    most_s = context.limits.wait_for_free_s
    if most_s <= 0 or not any(isinstance(plan, MakeRoom) and plan.victims for plan in plans):
        return plans, Refusals()
    ended = _ended_lately(context)
    since = {order.preemptor: order.created_at for order in memory.open_orders() if order.waits}
    kept: list[Plan] = []
    refusals: list[Refusal] = []
    place = 0
    for plan in plans:
        if isinstance(plan, AwaitRoom) or not plan.victims or plan.by_suspending:
            kept.append(plan)
            continue
        place += 1
        job = context.snapshot.jobs[plan.preemptor]
        ends = _ends_for(job, ended, context)
        sure_s = SURE * WINDOW_S / ends * place if ends >= LEAST_ENDS else float("inf")
        until = since.get(plan.preemptor, context.now) + sure_s
        if sure_s > min(most_s, _leave_s(plan, context)) or context.now >= until:
            kept.append(plan)
            continue
        kept.append(AwaitRoom(preemptor=plan.preemptor, until=until))
        text = (
            f"{ends} jobs that held as much have ended in the last {WINDOW_S:.0f} s: it is put at the head of the "
            f"queue, and no victim is notified for {until - context.now:.1f} s"
        )
        refusals.append(
            Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.AWAITS_FREE, text=text)
        )
    return tuple(kept), Refusals(refusals)


def wait_for_any(context: CycleContext) -> int:
    """Seconds for which any TE job is to await resources that come free by themselves; 0: it is not.

    For Slurm's plugin, which preempts for TE jobs that are not known yet: they are taken to be like those that Slurm
    knows. It is the longest wait of these that is short enough, in the first place, and rounded up to a power of two,
    so that it seldom changes.
    """
    most_s = min(context.limits.wait_for_free_s, float(context.snapshot.settings.kill_wait_s), LONGEST_WAIT_S)
    ended = _ended_lately(context)
    if most_s < 1 or len(ended) < LEAST_ENDS:
        return 0
    trials = (job for job in context.snapshot.jobs.values() if context.snapshot.job_class(job.job_id) is JobClass.TE)
    shapes = {(job.partitions, job.request): job for job in trials}
    waits = []
    for job in list(shapes.values())[-MOST_SHAPES:]:
        ends = _ends_for(job, ended, context)
        if ends >= LEAST_ENDS and SURE * WINDOW_S / ends <= most_s:
            waits.append(SURE * WINDOW_S / ends)
    return min(2 ** ceil(log2(max(waits))), int(most_s)) if waits and max(waits) > 1 else int(bool(waits))


def _ended_lately(context: CycleContext) -> list[Job]:
    known_at = context.now if context.snapshot.jobs_at is None else context.snapshot.jobs_at
    since = known_at - min(WINDOW_S, context.snapshot.settings.min_job_age_s or WINDOW_S)
    return [
        job
        for job in context.snapshot.jobs.values()
        if job.finished
        and job.state is not JobState.CANCELLED
        and job.start_time is not None
        and (job.end_time or 0.0) > max(since, job.start_time)
    ]


def _ends_for(job: Job, ended: Iterable[Job], context: CycleContext) -> int:
    """Number of these that held on a node what would be enough for this job, on a node where it may run."""
    like = [one for one in ended if _would_do(job, one, context)]
    if not like:
        return 0
    snapshot, capacity = context.snapshot, context.columns.capacity
    try:
        demands = demands_of(job, snapshot, capacity)
    except UnsupportedRequestError:
        return 0
    allowed = np.any([one.allowed for one in demands], axis=0)
    rows = ([capacity.index[name] for name in one.last_nodes if name in capacity.index] for one in like)
    return sum(bool(allowed[here].any()) for here in rows)


def _would_do(job: Job, ended: Job, context: CycleContext) -> bool:
    """Check whether what the ended job held on a node would be enough on one for this job, in its partitions."""
    if context.partitions_over(job.partitions).isdisjoint(ended.partitions) or job.request.min_nodes > 1:
        return False
    if wants_all_memory(job.request) and not (wants_all_memory(ended.request) or ended.request.exclusive):
        return False
    if job.request.exclusive and not ended.request.exclusive:
        return False
    wanted, had = demand_per_node(job.request), demand_per_node(ended.request)
    return _covers(had, wanted)


def _covers(had: Tres, wanted: Tres) -> bool:
    held = had.as_mapping()
    return all(held.get(name, 0) >= amount for name, amount in wanted.as_mapping().items())


def _leave_s(plan: MakeRoom, context: CycleContext) -> float:
    """Longest time that the victims may take to leave; one that has no notice has KillWait."""
    kill_wait_s = float(context.snapshot.settings.kill_wait_s)
    traits = (context.snapshot.traits[job_id] for job_id in plan.victim_ids)
    return max(one.grace_period_s if one.notice_signal else kill_wait_s for one in traits)
