"""Begin time lever: a victim that has left does not start again while another one of its order holds its nodes.

Definitions
    holding    a victim of an open order that has not left its nodes: it saves its work, ends, or is asked later
    deferred   a victim that has left and waits to run again, and whose begin time has been put later: to when the
               longest grace period of its order and KillWait are over

Principle
    Slurm keeps a requeued job from starting for a while (`requeue_delay_s`), and then backfills it into what it has
    just left: the preemptor can't start there before the last victim has left, by Slurm's reckoning at that one's time
    limit. Its limits spare it there, and all have left for nothing.

    So its begin time is put later when it is about to come, and only while another victim is holding. It is put back
    as soon as the preemptor waits no more: to what it was, or to now if that has passed. A begin time passes by itself:
    a daemon that dies leaves a job that waits for no longer than a victim may take to leave, where a hold or a list of
    excluded nodes would stay. While the order goes on after that it is put later again.

    A begin time that others set is theirs, and left for as long as the order is open. One that was held is left, too.

Worked example
    Jobs 1 and 2 have had their notice for a TE job; their grace periods are 600 s, KillWait is 30 s. Job 1 leaves at
    5 s; a requeued job may start again after 121 s. At 96 s job 2 still saves: job 1 may start at 630 s instead of
    126 s. At 240 s job 2 leaves, and the TE job starts: job 1 may start at 240 s.

Source
    tesched's own; what Slurm does with a begin time is in docs/reference/slurm-levers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.levers.contract import Lever, Orders, certainly_failed, open_now
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetBegin, Status
from tesched_core.model.change import BEGIN_TIME, Change, Field
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_ROOM, Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

#: A begin time is put later when it comes within these seconds.
SOON_S = 30.0
#: It is put to this many seconds from now at least, and bit by bit later for an order that goes on for longer.
LEAST_S = 60.0


class BeginTimeLever(Lever):
    """Begin times of victims that wait to run again."""

    name = BEGIN_TIME
    actions = (SetBegin,)

    def follow(self, context: CycleContext) -> None:
        """Forget what did not arrive, and the changes of jobs that wait no more; what others have set is left."""
        deferred = context.changes_of(self.name)
        for job_id, one in list(deferred.items()):
            job = context.snapshot.jobs.get(job_id)
            if job_id in context.absent or one.restored:
                continue
            if job is None or not job.pending:
                del deferred[job_id]
            elif job.eligible_time == one.value:
                deferred[job_id] = replace(one, taken_at=context.now if one.taken_at is None else one.taken_at)
            elif not _is_ours(one, job) and not _is_on_its_way(one, job, context):
                if job.eligible_time == one.previous:
                    del deferred[job_id]
                else:
                    deferred[job_id] = replace(one, restored=True)

    def carry_out(self, intents: Sequence[object], orders: Orders, context: CycleContext) -> None:
        """Defer the victims that would come back too early, and put back what belongs to no open order."""
        away = {
            victim.job_id: order
            for order in open_now(orders)
            for victim in order.victims
            if victim.awaited and victim.job_id not in context.preemptors
        }
        self._put_back(away, context)
        for job_id, order in away.items():
            self._defer(job_id, order, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all begin times back."""
        self._put_back({}, context)

    def _defer(self, job_id: JobId, order: Order, context: CycleContext) -> None:
        job, deferred = context.snapshot.jobs.get(job_id), context.changes_of(self.name)
        one: Change[int] | None = deferred.get(job_id)
        if job is None or job_id in context.absent or not _comes_soon(job, context):
            return
        if one is None and not any(victim.state in HOLDS_ROOM for victim in order.victims):
            return
        if one is not None and (one.restored or _is_on_its_way(one, job, context)):
            return
        if context.is_refused(Field.BEGIN, job.user):
            return
        shown = int(job.eligible_time or 0)
        until = ceil(max(order.expires_at - context.limits.order_timeout_s, context.now + LEAST_S))
        deferred[job_id] = Change(
            lever=self.name,
            job_id=job_id,
            field=Field.BEGIN,
            previous=shown if one is None else one.previous,
            value=until,
            before=None if one is None else shown,
            at=context.now,
            since=context.now if one is None else one.since,
            order_id=order.order_id,
        )
        text = f"job {order.preemptor} still waits for others that leave its nodes"
        reason = Reason(code=ReasonCode.STAYS_AWAY, text=text, preemptor=order.preemptor, order_id=order.order_id)
        context.actions.append(SetBegin(job_id=job_id, reason=reason, begin=until, previous=shown))
        if one is None:
            text = f"does not start again before the order ends: {text}"
            context.moved(order.order_id, job_id, "left", "left", text)

    def _put_back(self, away: Mapping[JobId, Order], context: CycleContext) -> None:
        deferred = context.changes_of(self.name)
        for job_id, one in list(deferred.items()):
            job = context.snapshot.jobs.get(job_id)
            if job_id in away or job_id in context.absent:
                continue
            if job is None or not job.pending or one.restored:
                del deferred[job_id]
            elif _is_ours(one, job):
                reason = Reason(
                    code=ReasonCode.ORDER_ENDED, text="it may start when it could have started", order_id=one.order_id
                )
                begin = max(one.previous, int(context.now))
                action = SetBegin(job_id=job_id, reason=reason, begin=begin, previous=one.value)
                refused = context.is_refused(Field.BEGIN, job.user, puts_back=True)
                context.actions += [] if refused else [action]
            elif not _is_on_its_way(one, job, context):
                del deferred[job_id]

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take back what certainly did not reach Slurm; in shadow mode, nothing did."""
        deferred = context.changes_of(self.name)
        for outcome in outcomes:
            action = outcome.action
            one: Change[int] | None = deferred.get(action.job_id)
            if one is None or not isinstance(action, SetBegin) or action.reason.code is not ReasonCode.STAYS_AWAY:
                continue
            if not certainly_failed(outcome) and outcome.status is not Status.WOULD:
                continue
            if one.before is None:
                del deferred[action.job_id]
            else:
                deferred[action.job_id] = replace(one, value=one.before, before=None)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the begin times that are to be put back. Of a job that runs none can be."""
        jobs, changes = snapshot.jobs, memory.changes_of(self.name).values()
        return sum(not one.restored and one.job_id in jobs and jobs[one.job_id].pending for one in changes)


def _comes_soon(job: Job, context: CycleContext) -> bool:
    """Check whether a waiting job is eligible, or will be in a moment; a job that is held is not."""
    if not job.pending or job.held or job.eligible_time is None:
        return False
    return job.eligible_time - context.now <= SOON_S


def _is_ours(one: Change[int], job: Job) -> bool:
    return job.eligible_time is not None and int(job.eligible_time) in {one.value, one.before}


def _is_on_its_way(one: Change[int], job: Job, context: CycleContext) -> bool:
    """Check whether the job shows what it had before a command that may yet arrive."""
    before = one.previous if one.before is None else one.before
    is_late = one.taken_at is not None or context.now - one.at > RESEND_AFTER_S
    return job.eligible_time == before and not is_late


BEGIN_TIME_LEVER = BeginTimeLever()
