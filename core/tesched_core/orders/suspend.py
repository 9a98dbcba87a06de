"""Suspend lever: victims that are suspended, not requeued: when that is enough, and how they go on.

Definitions
    suspend    stops a job's processes. Slurm counts its CPUs as free, and its memory and GRES as held.
    resume     lets it go on, on the very CPUs that it had.
    rival      a best-effort or exempt job that waits and would fit into what a suspended victim leaves free.

Principle
    A suspended victim loses nothing: no notice, no grace period, no work. But it is tied to its place, and Slurm keeps
    no job from it. Slurm also resumes a job whose CPUs are taken: the two then share them, and Slurm counts the resumed
    one as holding none until it ends ("job overflow" in slurmctld's log), so that more jobs come on top. Therefore

    - all victims of an order are suspended, or none: if each runs, holds no GRES and no whole nodes, if the TE job
      fits where their CPUs alone come free, and if there is no rival, which would be there before they can go on;
    - a victim goes on when the order has done with it and on each of its nodes as many CPUs are free as it holds, the
      very ones where Slurm says which, and none of it is reserved for another order's TE job. After
      `guard.suspend_for_s` it is enough that they are free;
    - until then `placement/reserved.py` counts its CPUs as taken, and the guard keeps it from being requeued, which
      would leave it held.

Worked example
    A node of 32 CPUs, no GPU is wanted. j1 holds 32 CPUs and half of the memory. A TE job wants 16 CPUs and a tenth
    of the memory: j1 is suspended, the TE job starts within a second. When it ends, CPUs 0 to 31 are free, and j1 goes
    on where it stopped. Were j2 waiting, which wants 8 CPUs and little memory, Slurm would start it beside the TE job,
    and j1 would wait for j2 as well: then j1 is requeued.

Parameters
    guard.lever, guard.suspend_for_s

Source
    tesched's own. What Slurm does was measured on 22.05 and 26.05 (docs/reference/slurm-levers.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, of_failed, said, under_way, with_victim
from tesched_core.fields.left_held import LEFT_HELD_RULE
from tesched_core.guard.budget import paying
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, Resume, Suspend
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_memory import Past
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.demand import Demand
from tesched_core.placement.reserved import beside_preemptors
from tesched_core.policy import View

#: Seconds within which a command arrives that was sent right before tesched died.
ARRIVES_WITHIN_S = 2.0
#: Seconds within which slurmctld may carry out a command that was given up without an answer: as long as it takes the
#: credential of a message (munge's own time).
UNANSWERED_WITHIN_S = 300.0


def suffices(demand: Demand, view: View, victims: Sequence[int], nodes: Sequence[int], capacity: Capacity) -> bool:
    """Check whether these victims (rows of `view.running`) need only be suspended for the job to fit on all `nodes`.

    `nodes` are rows of the table of nodes, in which the victims still are.
    """
    if view.rivals is None or not victims or demand.job.request.exclusive:
        return False
    running = view.running
    jobs = [view.snapshot.jobs[JobId(int(running.job_id[victim]))] for victim in victims]
    if not all(_gives_enough(job) for job in jobs):
        return False
    shares = np.flatnonzero(np.isin(running.share_job, victims))
    where, cpus = running.share_node[shares], np.zeros_like(running.frees[shares])
    cpus[:, 0] = running.frees[shares, 0]
    without = capacity.changed(where, cpus)
    if not demand.fits(without, np.asarray(nodes, dtype=np.intp)).all():
        return False
    return not any(view.rivals.somebody_fits(row, without.free[row]) for row in sorted(set(where.tolist())))


def _gives_enough(job: Job) -> bool:
    holds_gres = any(share.tres.gres for share in job.allocation)
    return job.state is JobState.RUNNING and not job.request.exclusive and not holds_gres


class SuspendLever(Lever):
    """Suspension of victims whose CPUs are enough; what is suspended is a state of the orders' victims."""

    name = "suspend"

    def suspend(self, victim: Victim, order: Order, context: CycleContext) -> Victim:
        """Return the victim after its suspension was ordered, or ordered again."""
        again = victim.state is VictimState.SUSPENDED
        text = f"its CPUs are enough for job {order.preemptor}; it goes on when they are free again"
        reason = Reason(code=ReasonCode.GIVES_CPUS, text=text, preemptor=order.preemptor, order_id=order.order_id)
        context.actions.append(Suspend(job_id=victim.job_id, reason=reason, restarts=victim.restarts))
        told = f"suspend{' (again)' if again else ''}: {text}"
        first_at = victim.noticed_at if again else context.now
        stopped = replace(victim, state=VictimState.SUSPENDED, noticed_at=first_at, suspend_sent_at=context.now)
        return context.victim_step(order, victim, stopped, told)

    def follow_victim(self, victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
        """Return a victim that was to be suspended, as it is seen now; it is resumed when it may be."""
        if job.state is JobState.SUSPENDED and not job.completing:
            if victim.suspended_at is None:
                victim = _has_given(victim, order, context)
            if order.state is not OrderState.OPEN and _may_go_on(victim, job, order, context):
                text = f"job {order.preemptor} does not need its CPUs any more, and they are free"
                reason = Reason(code=ReasonCode.GOES_ON, text=text, preemptor=order.preemptor, order_id=order.order_id)
                context.actions.append(Resume(job_id=job.job_id, reason=reason))
        elif job.state is JobState.RUNNING and not job.completing:
            if victim.suspended_at is not None:
                return _goes_on(victim, victim.suspended_at, order, context)
            sent_s = context.now - (victim.suspend_sent_at if victim.suspend_sent_at is not None else context.now)
            if order.state is OrderState.OPEN and sent_s > RESEND_AFTER_S:
                return self.suspend(victim, order, context)
            late = sent_s > ARRIVES_WITHIN_S and not _may_arrive(victim, context.now)
            if order.state is not OrderState.OPEN and late:
                text = "it was not suspended, and its resources are not needed any more"
                return context.victim_step(order, victim, replace(victim, state=VictimState.SPARED), text)
        return victim

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Resume the suspended victims of orders that have been withdrawn, once their CPUs are free."""
        for order in list(under_way(orders)):
            suspended = (one for one in order.victims if one.state is VictimState.SUSPENDED)
            for victim in suspended:
                order = with_victim(order, victim.job_id, partial(self._let_go, order=order, context=context))  # noqa: PLW2901
            orders[order.order_id] = order

    def _let_go(self, victim: Victim, *, order: Order, context: CycleContext) -> Victim:
        job = context.snapshot.jobs.get(victim.job_id)
        if job is not None and job.on_nodes and job.restarts == victim.restarts:
            return self.follow_victim(victim, job, order, context)
        text = "it is not suspended any more"
        spared = context.victim_step(order, victim, replace(victim, state=VictimState.SPARED), text)
        LEFT_HELD_RULE.note(victim, job, order, context)
        return spared

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take back the suspensions that Slurm did not make."""
        for outcome in outcomes:
            order = of_failed(outcome, Suspend, orders)
            if order is None:
                continue
            after = with_victim(order, outcome.action.job_id, partial(_not_suspended, outcome=outcome))
            if [one.state for one in after.victims] != [one.state for one in order.victims]:
                context.moved(order.order_id, outcome.action.job_id, "sent", "not sent", said(outcome))
            orders[order.order_id] = after

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the victims that are suspended, or on their way there."""
        return sum(victim.state is VictimState.SUSPENDED for order in memory.open_orders() for victim in order.victims)


def _not_suspended(victim: Victim, outcome: Outcome) -> Victim:
    """Return the victim after Slurm did not suspend it; what may have arrived all the same is left to the next poll."""
    kind = outcome.failure.kind if outcome.failure else None
    unknown = kind in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}
    again = victim.noticed_at != victim.suspend_sent_at
    if victim.state is VictimState.SUSPENDED and unknown:
        return replace(victim, suspend_unanswered_at=outcome.at + outcome.took_s)
    if victim.state is not VictimState.SUSPENDED or again:
        return victim
    refused = kind in {FailureKind.DENIED, FailureKind.REFUSED}
    state = VictimState.SPARED if refused else VictimState.PLANNED
    return replace(victim, state=state, noticed_at=None, suspend_sent_at=None)


def _may_arrive(victim: Victim, now: float) -> bool:
    """Check whether slurmctld may have a command still that was given up: its job would stay suspended for ever."""
    given_up = victim.suspend_unanswered_at
    return given_up is not None and abs(now - given_up) <= UNANSWERED_WITHIN_S


def _has_given(victim: Victim, order: Order, context: CycleContext) -> Victim:
    if not victim.of_own_user:
        context.draft.update(victim.job_id, last_preempted=context.now)
    context.draft.paid.append(paying(victim, context.now, order.preemptor))
    suspended = replace(victim, suspended_at=context.now)
    return context.victim_step(order, victim, suspended, "is suspended; its CPUs are free")


def _goes_on(victim: Victim, suspended_at: float, order: Order, context: CycleContext) -> Victim:
    away_s = max(context.now - suspended_at, 0.0)
    by_whom = ", though it was still needed" if order.state is OrderState.OPEN else ""
    text = f"runs on, {away_s:.0f} s after it was suspended{by_whom}"
    back = context.victim_step(order, victim, replace(victim, state=VictimState.BACK, back_at=context.now), text)
    if victim.of_own_user:
        return back
    before = context.draft.job(victim.job_id).past or Past(submitted_at=victim.queued_at, ran_s=0.0)
    past = replace(before, suspended_s=before.suspended_s + away_s)
    context.draft.update(victim.job_id, last_preempted=context.now, past=past)
    return back


def overdue_since(victim: Victim, suspend_for_s: float) -> float | None:
    """Return since when a suspended victim should run again; None if it is not suspended."""
    if victim.state is not VictimState.SUSPENDED or victim.suspended_at is None:
        return None
    return victim.suspended_at + suspend_for_s


def _may_go_on(victim: Victim, job: Job, order: Order, context: CycleContext) -> bool:
    """Check whether its CPUs are free on all its nodes, and reserved for no order, or it has waited long enough."""
    due = overdue_since(victim, context.limits.suspend_for_s)
    others = (
        []
        if due is not None and context.now > due
        else [one for one in context.orders if one.order_id != order.order_id]
    )
    capacity = beside_preemptors(others, context.snapshot, context.columns.capacity)
    for share in job.allocation:
        row = capacity.index.get(share.node)
        # Of two that are to go on at one node the second waits until the first is seen to run there.
        if row is None or share.node in context.resumed_on or capacity.free[row, 0] < share.tres.cpus:
            return False
    if _others_have_its_cpus(job, context):
        return False
    context.resumed_on.update(job.nodes)
    return True


def _others_have_its_cpus(job: Job, context: CycleContext) -> bool:
    mine = {share.node: _ids(share.cpu_ids) for share in job.allocation if share.cpu_ids}
    if not mine:
        return False  # Slurm does not say
    return any(
        mine[share.node] & _ids(share.cpu_ids)
        for other in context.snapshot.jobs.values()
        if other.job_id != job.job_id and other.state is not JobState.SUSPENDED
        for share in other.allocation
        if share.node in mine
    )


def _ids(text: str) -> frozenset[int]:
    """Return the numbers that "0-7,16" names."""
    ends = [part.partition("-") for part in text.split(",") if part]
    return frozenset(number for low, _, high in ends for number in range(int(low), int(high or low) + 1))


SUSPEND_LEVER = SuspendLever()
