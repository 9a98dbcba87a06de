"""Victim boost lever: a victim that waits to run again is ahead of all other best-effort jobs.

A requeue leaves a job its priority on older releases and gives it a new, lower one on newer ones; the paper puts it
back at the head of its queue (FitGpp, section on the queue). The victim is raised by its nice value once its preemptor
has its resources, and the value is put back when it runs (`fields/nice.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed, under_way
from tesched_core.fields.nice import MIN_NICE, by_nice, counted, is_left, nice_set, put_back
from tesched_core.fields.priority import PRIORITY_MARGIN
from tesched_core.model.actions import OrderId, Outcome, Reason, ReasonCode, sets
from tesched_core.model.change import By, Change
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.resources import JobId
from tesched_core.model.size import growth, size_of
from tesched_core.model.snapshot import Snapshot

#: Margin above the others: less than that of the preemptors, so that it stays behind them.
VICTIM_MARGIN = PRIORITY_MARGIN // 2


class VictimBoostLever(Lever):
    """Nice values of victims that wait to run again."""

    name = Field.NICE

    def why_not(self, victim: Victim, context: CycleContext) -> str:
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

    def bring_forward(self, victim: Victim, order: Order, context: CycleContext) -> None:
        """Put a victim that waits to run again ahead of all other best-effort jobs, once its order is settling."""
        job = context.snapshot.jobs.get(victim.job_id)
        if order.state is OrderState.OPEN or job is None or not job.pending or job.held:
            return
        if context.is_refused(Field.NICE, job.user):
            return
        boosted = context.changes_of(self.name)
        one: Change[int] | None = boosted.get(job.job_id)
        if one is not None and (one.by is By.PREEMPTOR or (one.by is By.VICTIM and one.restored)):
            return  # it is first already, or Slurm refused once
        if one is not None and one.restored:
            one = None
        others = {other.job_id for other in order.victims if not self.why_not(other, context)}
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

    def put_back(self, victim: Victim, order: Order, context: CycleContext, why: str) -> None:
        """Put a victim's nice value back once it no longer waits to run again, or has no claim to be ahead (`why`)."""
        one = context.changes_of(self.name).get(victim.job_id)
        if one is not None and one.by is By.VICTIM and one.order_id == order.order_id:
            self._put_back(one, order.preemptor, context, why)

    def carry_out(self, intents: Sequence[object], orders: Orders, context: CycleContext) -> None:
        """Put back what belongs to no open order."""
        self._put_back_all(orders, {order.order_id for order in under_way(orders)}, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all nice values back."""
        self._put_back_all(orders, frozenset(), context)

    def _put_back_all(self, orders: Orders, stay: frozenset[OrderId] | set[OrderId], context: CycleContext) -> None:
        for one in context.made_by(self.name, By.VICTIM).values():
            if one.order_id not in stay:
                self._put_back(one, _preemptor(one, orders), context)

    def _put_back(self, one: Change[int], preemptor: JobId | None, context: CycleContext, why: str = "") -> None:
        job = context.snapshot.jobs.get(one.job_id)
        if one.job_id in context.absent:
            return
        if one.restored or put_back(one, [job] if job else [], preemptor, context, why):
            del context.changes_of(self.name)[one.job_id]

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in what became of the raises: a victim that could not be raised keeps the place that Slurm gave it."""
        boosted = context.changes_of(self.name)
        boosted |= {job_id: counted(one, outcomes) for job_id, one in context.made_by(self.name, By.VICTIM).items()}
        for outcome in outcomes:
            action = outcome.action
            one = boosted.get(action.job_id)
            if one is None or one.by is not By.VICTIM or action.reason.code is not ReasonCode.BACK_TO_THE_HEAD:
                continue
            if not sets(action, Field.NICE):
                continue
            # With another value before it, an earlier raise did arrive, and is to be put back.
            if certainly_failed(outcome) and action.previous == one.previous:
                boosted[action.job_id] = replace(one, restored=True)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the raises that are to be put back."""
        return sum(not one.restored for one in memory.raised(By.VICTIM).values())


def _preemptor(one: Change[int], orders: Mapping[OrderId, Order]) -> JobId | None:
    order = orders.get(one.order_id) if one.order_id is not None else None
    return None if order is None else order.preemptor


VICTIM_BOOST_LEVER = VictimBoostLever()
