"""Queue boost lever: a best-effort job is put at the head of its queue by its nice value, which is put back later.

A boost ends when the job starts, or `LASTS_S` after it (another job took the resources, or Slurm ignores its nice
value); then the job may be boosted again. One that `stays` lasts for as long as its policy proposes it. As with orders,
a value is believed to be back only when that is seen, and one that others have set is left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from tesched_core.levers.context import CycleContext
from tesched_core.levers.contract import Lever, Orders, certainly_failed
from tesched_core.levers.nice import MIN_NICE
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetNice, Status
from tesched_core.model.change import QUEUE_BOOST, Change, Field
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import BoostJob

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s).
LASTS_S = 90.0
#: Margin above the others, as for preemptors and victims, and below both.
MARGIN = 250


class QueueBoostLever(Lever):
    """Nice values of best-effort jobs that are next among their kind."""

    name = QUEUE_BOOST
    actions = (SetNice,)
    intents = (BoostJob,)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Put back the boosts that are over, and put the proposed jobs at the head of the best-effort queue."""
        self._put_back({one.job_id for one in intents if one.stays}, LASTS_S, context)
        boosted, jobs = context.changes_of(self.name), context.snapshot.jobs
        new = [one for one in intents if one.job_id not in boosted and one.job_id in jobs]
        going = {*boosted, *(one.job_id for one in new)}
        for one in new:
            code = ReasonCode.GAINS_MOST if one.stays else ReasonCode.FILLS_ROOM
            reason = Reason(code=code, text=one.why)
            boosted[one.job_id] = self._boosted(jobs[one.job_id], going, reason, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """End all boosts."""
        self._put_back((), -1.0, context)

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Forget the boosts that certainly did not reach Slurm; in shadow mode, none did."""
        boosted = context.changes_of(self.name)
        for outcome in outcomes:
            action = outcome.action
            one = boosted.get(action.job_id)
            if one is None or action.reason.code not in {ReasonCode.FILLS_ROOM, ReasonCode.GAINS_MOST}:
                continue
            if outcome.status is Status.WOULD:
                boosted[action.job_id] = _nothing_to_put_back(one, dry=True)
            elif certainly_failed(outcome):
                del boosted[action.job_id]

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Return how many boosts there are; one that changed nothing ends as well."""
        return len(memory.changes_of(self.name))

    def _put_back(self, stays: Collection[JobId], lasts_s: float, context: CycleContext) -> None:
        """Put back the jobs that have started, or have not in time."""
        boosted = context.changes_of(self.name)
        for job_id, one in list(boosted.items()):
            job = context.snapshot.jobs.get(job_id)
            if job_id in context.absent:
                continue
            if job is not None and job.pending and (job_id in stays or context.now - one.at <= lasts_s):
                continue
            ours = job is not None and not job.finished and one.value <= job.nice < one.previous
            if job is None or one.restored or not ours:
                del boosted[job_id]
                continue
            if context.is_refused(Field.NICE, job.user):
                continue
            reason = Reason(code=ReasonCode.FILLED, text=f"put its nice back to {one.previous}")
            context.actions.append(SetNice(job_id=job_id, reason=reason, nice=one.previous, previous=job.nice))

    def _boosted(self, job: Job, going: set[JobId], reason: Reason, context: CycleContext) -> Change[int]:
        rivals = context.partitions_beside(job.partitions)
        missing = 1 + context.columns.first_in_queue(rivals, going, best_effort=True) - job.priority
        value = max(job.nice - missing - MARGIN, MIN_NICE)
        one = Change(
            lever=self.name,
            job_id=job.job_id,
            field=Field.NICE,
            previous=job.nice,
            value=value,
            at=context.now,
            since=context.now,
        )
        if missing <= 0 or value >= job.nice or context.is_refused(Field.NICE, job.user):
            return _nothing_to_put_back(one, dry=False)
        context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=value, previous=job.nice))
        return one


def _nothing_to_put_back(one: Change[int], *, dry: bool) -> Change[int]:
    """Return the boost as one that changes nothing: it is kept for as long as it would last."""
    return replace(one, restored=True, dry=dry)


QUEUE_BOOST_LEVER = QueueBoostLever()
