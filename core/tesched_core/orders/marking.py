"""Marking: which running BE jobs Slurm's plugin may preempt, in which order, and what it has preempted.

With `guard.lever = "plugin"` no order asks a victim. The policy ranks the jobs that may be victims, before a TE job is
there; the limits that count hold by how many are marked: if Slurm preempts all marked jobs before the next poll, no
limit is passed. What Slurm did is seen, not believed: a marked job that is back in the queue, and a TE job that has
started on its nodes since, become an order with one victim, which pays as any other does.

A job that has declared a signal is not marked: what Slurm makes of a job that ends in its grace period depends on its
release and on the exit status, and some are not run again. Of any other job Slurm ends the run and puts it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tesched_core.guard.budget import Tally
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.levers.context import CycleContext
from tesched_core.model.actions import OrderId
from tesched_core.model.change import MARK, Change, Mark
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Ending, Order, OrderState, Purpose, Victim, VictimState
from tesched_core.model.payment import HOUR_S
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.advance import leave
from tesched_core.policy import MarkJobs, Policy, View

#: Scores become whole numbers, since Slurm's priorities are.
FINENESS = 1_000_000
#: Seconds after which a marked job that is back in the queue was put there by others, if no TE job has started.
STARTS_WITHIN_S = 60.0


def marks_of(policy: Policy[Any], state: object, view: View, memory: Memory, context: CycleContext) -> MarkJobs:
    """Return the marks: of the jobs that may be victims, lowest score first, as many as the limits have left."""
    scores = policy.rank(view, state)
    if scores is None:
        return MarkJobs(marks={})
    running, limits = view.running, context.limits
    # The plugin holds the least run time by itself, so that a job need not be marked anew when it has run so long.
    at_once = replace(limits, min_run_time_s=0.0)
    may = eligible_victims(running, memory, at_once, context.now, context.columns.room.index).why < 0
    tally = Tally.of(memory.paid, memory.open_orders(), context.now, Purpose.TE)
    left = limits.max_preemptions_per_hour - tally.count
    left_s = limits.max_lost_node_hours_per_day * HOUR_S - tally.node_s
    users, accounts = Counter(tally.by_user), Counter(tally.by_account)
    marks: dict[JobId, Mark] = {}
    for row in np.lexsort((running.job_id, scores)).tolist():
        job = context.snapshot.jobs[JobId(int(running.job_id[row]))]
        if not may[row] or left <= 0 or left_s <= 0 or context.snapshot.traits[job.job_id].notice_signal:
            continue
        if users[job.user] >= limits.max_preemptions_per_user_hour:
            continue
        if accounts[job.account] >= limits.max_preemptions_per_account_hour:
            continue
        users[job.user] += 1
        accounts[job.account] += 1
        left -= 1
        left_s -= len(job.nodes) * max(context.now - float(running.started[row]), 0.0)
        marks[job.job_id] = Mark(
            order=round(float(scores[row]) * FINENESS),
            score=float(scores[row]),
            grace_s=0.0,
            restarts=job.restarts,
            nodes=job.nodes,
            started_at=float(running.started[row]),
        )
    return MarkJobs(marks=marks)


def see_what_slurm_did(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory with an order for each preemption by Slurm of a marked job; its mark is spent."""
    marks = context.changes_of(MARK)
    orders, next_order = dict(memory.orders), memory.next_order
    for job_id, one in list(marks.items()):
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent or one.order_id is not None:
            continue
        if job is None or job.finished or job.restarts <= one.value.restarts:
            # Of a run that is leaving it is not known yet why; any other mark goes with its line in the file.
            if one.restored and (job is None or job.finished or (job.on_nodes and not job.completing)):
                del marks[job_id]
            continue
        trial = next(_started_there(job, one, context), None)
        if trial is None and context.now - job.submit_time <= STARTS_WITHIN_S:
            continue  # it may start in a moment
        if trial is not None:
            orders[next_order] = _order(next_order, job, trial, one, context)
            marks[job_id] = replace(one, order_id=next_order)
            next_order = OrderId(next_order + 1)
        if one.restored:
            del marks[job_id]
    if next_order == memory.next_order:
        return memory
    return replace(
        memory,
        orders=orders,
        next_order=next_order,
        preemptions=dict(context.preemptions),
        last_preempted=dict(context.last_preempted),
        paid=tuple(context.paid),
        past=dict(context.past),
    )


def _started_there(job: Job, one: Change[Mark], context: CycleContext) -> Iterator[Job]:
    """Yield the TE jobs that have started on the nodes of a marked job since it was put back, by whole seconds."""
    here = set(one.value.nodes)
    for other in context.snapshot.jobs.values():
        started = other.start_time is not None and other.start_time >= job.submit_time - 1
        if started and context.snapshot.job_class(other.job_id) is JobClass.TE and not here.isdisjoint(other.nodes):
            yield other


def _order(order_id: OrderId, job: Job, trial: Job, one: Change[Mark], context: CycleContext) -> Order:
    mark = one.value
    victim = Victim(
        job_id=job.job_id,
        state=VictimState.REQUEUING,
        restarts=mark.restarts,
        grace_period_s=mark.grace_s,
        notice_signal="",
        notice_target=Target.BATCH,
        score=mark.score,
        why=f"it was marked with a score of {mark.score:.3f}, and Slurm preempted it",
        nodes=mark.nodes,
        started_at=mark.started_at,
        queued_at=context.past[job.job_id].submitted_at if job.job_id in context.past else mark.started_at,
        user=job.user,
        account=job.account,
        for_user=trial.user,
        for_account=trial.account,
    )
    order = Order(
        order_id=order_id,
        preemptor=trial.job_id,
        state=OrderState.SETTLING,
        created_at=context.now,
        expires_at=context.now,
        nodes=mark.nodes,
        victims=(victim,),
        started_at=trial.start_time,
        ending=Ending.STARTED_HERE,
    )
    context.moved(
        order_id, None, "", OrderState.SETTLING, f"Slurm made room for job {trial.label} on {','.join(mark.nodes)}"
    )
    return replace(order, victims=(leave(victim, Departure.REQUEUED, order, context),))
