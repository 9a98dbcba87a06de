"""Nice rule: the nice value of a job, which tesched raises for three purposes, and puts back.

A preemptor is first while its victims leave (`priority.py`), a victim that waits to run again is ahead of other
best-effort jobs (`victim_boost.py`), and so is a job that its policy has next (`queue_boost.py`). The job's own value
is known once, whatever it is raised for, and a stronger purpose takes the change of a weaker one over. How a raise is
seen, set again and put back is the same for all of them (`nice.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields import priority, queue_boost, victim_boost
from tesched_core.fields.contract import Orders, final, under_way
from tesched_core.fields.nice import (
    MOST_PUT_BACK,
    by_nice,
    by_priority,
    counted,
    outlasts_its_job,
    put_back,
)
from tesched_core.fields.reconcile import FieldLever, Want
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, sets
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.jobs_there import TasksThere
from tesched_core.policy import BoostJob

#: why a nice value is raised, by its purpose
_CODES: Mapping[By, frozenset[ReasonCode]] = MappingProxyType(
    {
        By.PREEMPTOR: priority.RAISES,
        By.VICTIM: frozenset({ReasonCode.BACK_TO_THE_HEAD}),
        By.QUEUE: queue_boost.CODES,
    }
)


class NiceRule(FieldLever[int]):
    """Nice values of jobs, and explicit priorities where Slurm ignores them.

    The value of a want is the least priority that the job is to have; the nice value that gives it is the rule's.
    """

    name = Field.NICE
    field = Field.NICE
    intents = (BoostJob,)

    def read(self, job: Job) -> int:
        """Read the nice value."""
        return job.nice

    def wants_of(self, order: Order, context: CycleContext) -> Iterable[Want[int]]:
        """Yield that the preemptor is first in its queue.

        In one cycle it is raised once for an order; for a new one not at all, if another has set its nice value in it.
        """
        is_new = all(one.order_id != order.order_id for one in context.orders)
        mine = (one for one in context.actions if one.job_id == order.preemptor)
        sent = (one.reason.order_id for one in mine if sets(one, Field.NICE, Field.PRIORITY))
        if not any(is_new or order_id == order.order_id for order_id in sent):
            want = priority.want_of(order, context)
            yield from () if want is None else (want,)

    def changed(self, want: Want[int], one: Change[int] | None, job: Job, context: CycleContext) -> Change[int] | None:
        """Change that raises the job for the purpose of the want: a stronger one takes over what was set."""
        match want.by:
            case By.PREEMPTOR:
                return priority.raised(want, one, job, context)
            case By.VICTIM:
                return victim_boost.raised(want, one, job, context)
            case _:
                return queue_boost.raised(want, one, job, context)

    def setting(self, after: Change[int], why: Reason, job: Job) -> SetField:
        """Action that sets the nice value, or the explicit priority that stands for it."""
        return by_nice(job, why, after.value) if after.field is Field.NICE else by_priority(job, why, after.value)

    def was_set(self, before: Change[int] | None, after: Change[int], want: Want[int], context: CycleContext) -> None:
        """Record that a preemptor is raised again."""
        if want.by is By.PREEMPTOR:
            priority.say_again(before, after, context.snapshot.jobs[want.job_id], context)

    def settle(self, job_id: JobId, by: By, order: Order, context: CycleContext, why: str = "") -> None:
        """Put a job's nice value back that was raised for an order, which needs it no more (`why`)."""
        one = context.changes_of(self.name).get(job_id)
        if one is not None and one.by is by and one.order_id == order.order_id:
            self._put_back(one, order.preemptor, context, why)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Put back what belongs to no order under way and the boosts that are over; boost the proposed jobs."""
        here = {order.order_id for order in under_way(orders)}
        stays = {one.job_id for one in intents if one.stays}
        self._put_back_all(
            lambda one: queue_boost.lasts(one, stays, context) if one.by is By.QUEUE else one.order_id in here,
            orders,
            context,
        )
        for want in queue_boost.wants(intents, context):
            self.set(want, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all nice values back: in an undo that none is put back of some jobs would count as no progress."""
        self._put_back_all(lambda _: False, orders, context, most=None)

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in what became of the raises: one that certainly did not reach Slurm has nothing to put back."""
        changes = context.changes_of(self.name)
        changes |= {job_id: counted(one, outcomes) for job_id, one in changes.items()}
        for outcome in outcomes:
            action, one = outcome.action, changes.get(outcome.action.job_id)
            if one is None or one.by is None or action.reason.code not in _CODES[one.by]:
                continue
            if not sets(action, Field.NICE, Field.PRIORITY):
                continue
            # Of one that was requested before it is not known whether that will arrive, unless Slurm says no.
            is_first = action.previous == one.previous and (one.at == one.since or final(outcome))
            now = _after(one, outcome, orders, is_first=is_first)
            if now is None:
                del changes[one.job_id]
            else:
                changes[one.job_id] = now

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the raises that are to be put back, and can be; a boost that changed nothing ends as well."""
        there = TasksThere(snapshot.jobs)
        raises = [one for one in memory.changes_of(self.name).values() if not outlasts_its_job(one, there)]
        return sum(one.by is By.QUEUE or not one.restored for one in raises)

    def _put_back_all(
        self,
        stays: Callable[[Change[int]], bool],
        orders: Orders,
        context: CycleContext,
        *,
        most: int | None = MOST_PUT_BACK,
    ) -> None:
        for one in list(context.changes_of(self.name).values()):
            if not stays(one):
                self._put_back(one, _preemptor(one, orders), context, most=most)

    def _put_back(
        self,
        one: Change[int],
        preemptor: JobId | None,
        context: CycleContext,
        why: str = "",
        *,
        most: int | None = MOST_PUT_BACK,
    ) -> None:
        if one.job_id in context.absent:
            return
        job = context.snapshot.jobs.get(one.job_id)
        jobs = {} if job is None else {job.job_id: job}
        if one.by is not By.VICTIM:
            # Tasks that have left an array's record since, such as to start, have the value that it had.
            others = {job_id for job_id, other in context.changes_of(self.name).items() if not other.restored}
            jobs |= {task.job_id: task for task in context.tasks_of(one.job_id) if task.job_id not in others}
        # Those that wait come first: of thousands the others' turn comes with the next polls.
        in_order = [jobs[job_id] for job_id in sorted(jobs, key=lambda job_id: (job_id != one.job_id, job_id))]
        if one.restored or put_back(one, in_order, preemptor, context, why, most):
            del context.changes_of(self.name)[one.job_id]


def _after(one: Change[int], outcome: Outcome, orders: Orders, *, is_first: bool) -> Change[int] | None:
    match one.by:
        case By.PREEMPTOR:
            return priority.after(one, outcome, orders, is_first=is_first)
        case By.VICTIM:
            return victim_boost.after(one, outcome, is_first=is_first)
        case _:
            return queue_boost.after(one, outcome, is_first=is_first)


def _preemptor(one: Change[int], orders: Orders) -> JobId | None:
    if one.by is By.PREEMPTOR:
        return one.job_id
    order = orders.get(one.order_id) if one.order_id is not None else None
    return None if order is None else order.preemptor


NICE_RULE = NiceRule()
