"""Queue boost lever: a best-effort job is put at the head of its queue by its nice value, which is put back later.

A boost ends when the job starts, or `LASTS_S` after it (another job took the resources, or Slurm ignores its nice
value); then the job may be boosted again. One that `stays` lasts for as long as its policy proposes it. As with orders,
a value is believed to be back only when that is seen, and one that others have set is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed
from tesched_core.fields.nice import (
    MIN_NICE,
    awaits_release,
    by_nice,
    counted,
    is_futile,
    is_left,
    is_refused,
    is_undone,
    nice_set,
    restoring,
    with_own,
)
from tesched_core.model.actions import Outcome, Reason, ReasonCode, Status
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import BoostJob

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s).
LASTS_S = 90.0
_CODES = frozenset({ReasonCode.FILLS_ROOM, ReasonCode.GAINS_MOST, ReasonCode.DUE})
#: Margin above the others, as for preemptors and victims, and below both.
MARGIN = 250


class QueueBoostLever(Lever):
    """Nice values of best-effort jobs that are next among their kind."""

    name = Field.NICE
    intents = (BoostJob,)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Put back the boosts that are over, and put the proposed jobs at the head of the best-effort queue."""
        stays = {one.job_id for one in intents if one.stays}
        self._put_back(stays, LASTS_S, context)
        boosted, jobs = context.changes_of(self.name), context.snapshot.jobs
        new = [one for one in intents if one.job_id not in boosted and one.job_id in jobs]
        going = {*boosted, *(one.job_id for one in new)}
        self._set_again(stays, going, context)
        for one in new:
            code = ReasonCode.GAINS_MOST if one.stays else ReasonCode.FILLS_ROOM
            reason = Reason(code=ReasonCode.DUE if one.is_due else code, text=one.why)
            boosted[one.job_id] = self._boosted(jobs[one.job_id], going, reason, context)

    def _set_again(self, stays: Collection[JobId], going: set[JobId], context: CycleContext) -> None:
        """Set the boosts again that others have undone (`fields/nice.py`)."""
        boosted = context.changes_of(self.name)
        for job_id, one in context.made_by(self.name, By.QUEUE).items():
            job = context.snapshot.jobs.get(job_id)
            waits = job is not None and job.pending and not job.held and job_id not in context.absent
            if job is None or not waits or one.restored or job.nice != one.value:
                continue
            if is_undone(one, job) and not is_left(one, job):
                code = ReasonCode.GAINS_MOST if job_id in stays else ReasonCode.FILLS_ROOM
                reason = Reason(code=code, text="it was put at the head of its queue, and others have undone that")
                again = self._boosted(job, going, reason, context)
                if not again.restored:
                    boosted[job_id] = nice_set(job, again.value, one, by=By.QUEUE, order_id=None, context=context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """End all boosts."""
        self._put_back((), -1.0, context)

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Forget the boosts that certainly did not reach Slurm; in shadow mode, none did."""
        boosted = context.changes_of(self.name)
        mine = context.made_by(self.name, By.QUEUE)
        boosted |= {job_id: counted(one, outcomes) for job_id, one in mine.items()}
        for outcome in outcomes:
            action = outcome.action
            one = boosted.get(action.job_id)
            if one is None or one.by is not By.QUEUE or action.reason.code not in _CODES:
                continue
            if outcome.status is Status.WOULD:
                boosted[action.job_id] = _nothing_to_put_back(one, dry=True)
            elif certainly_failed(outcome):
                del boosted[action.job_id]

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Return how many boosts there are; one that changed nothing ends as well."""
        return len(memory.raised(By.QUEUE))

    def _put_back(self, stays: Collection[JobId], lasts_s: float, context: CycleContext) -> None:
        """Put back the jobs that have started, or have not in time."""
        boosted = context.changes_of(self.name)
        for job_id, one in context.made_by(self.name, By.QUEUE).items():
            job = context.snapshot.jobs.get(job_id)
            if job_id in context.absent:
                continue
            if job is not None and job.pending and (job_id in stays or context.now - one.at <= lasts_s):
                continue
            now = one if job is None else with_own(one, job)
            reason = Reason(code=ReasonCode.FILLED, text="")
            needed = None if job is None or job.finished or one.restored else restoring(now, job, reason)
            boosted[job_id] = now
            if job is None or needed is None or is_futile(one, job):
                del boosted[job_id]
            elif awaits_release(job, now, context.snapshot):
                boosted[job_id] = replace(now, own=None)  # once it is released it gets a new priority
            elif not is_refused(needed, job, context):
                context.actions.append(needed)

    def _boosted(self, job: Job, going: set[JobId], reason: Reason, context: CycleContext) -> Change[int]:
        rivals = context.partitions_beside(job.partitions)
        missing = 1 + context.columns.first_in_queue(rivals, going, best_effort=True) - job.priority
        value = max(job.nice - missing - MARGIN, MIN_NICE)
        one = nice_set(job, value, None, by=By.QUEUE, order_id=None, context=context)
        if missing <= 0 or value >= job.nice or context.is_refused(Field.NICE, job.user):
            return _nothing_to_put_back(one, dry=False)
        context.actions.append(by_nice(job, reason, value))
        return one


def _nothing_to_put_back(one: Change[int], *, dry: bool) -> Change[int]:
    """Return the boost as one that changes nothing: it is kept for as long as it would last."""
    return replace(one, restored=True, dry=dry)


QUEUE_BOOST_LEVER = QueueBoostLever()
