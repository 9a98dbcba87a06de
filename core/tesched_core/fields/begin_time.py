"""Begin time lever: a victim that has left does not start again while another one of its order holds its nodes.

Definitions
    holding    a victim of an open order that has not left its nodes: it saves its work, ends, or is asked later
    deferred   a victim that has left and waits to run again, and whose begin time has been put later
    step       by so much: a minute, or more where polls are far apart (`_step_s`)

Principle
    Slurm keeps a requeued job from starting for a while (`requeue_delay_s`), and then backfills it into what it has
    just left: the preemptor can't start there before the last victim has left, by Slurm's reckoning at that one's time
    limit. Its limits spare it there, and all have left for nothing.

    So its begin time is put later when it is about to come, and only while another victim is holding: to one step from
    now, and to one step from then when less than half of that is left, for as long as the order is open. It is put back
    as soon as the preemptor waits no more: to what it was, or to now if that has passed. A begin time passes by itself:
    a daemon that dies leaves a job that waits for a step at most, where a hold or a list of excluded nodes would stay.
    Half a step outlasts the longest time between two polls, so it does not pass between them.

    A command that Slurm was too busy for, or did not answer, is sent again after `RESEND_AFTER_S`.

    A begin time that others set is theirs, and left for as long as the order is open. One that was held is left, too.

Worked example
    Jobs 1 and 2 have had their notice for a TE job; their grace periods are 600 s, KillWait is 30 s. Job 1 leaves at
    5 s; a requeued job may start again after 121 s. Polls are up to 30 s apart, after one that failed: a step is 90 s.
    At 81 s job 2 still saves: job 1 may start at 171 s instead of 126 s. At 126 s, at 216 s instead. At 140 s job 2
    leaves, and the TE job starts: job 1 may start at 140 s.

Source
    tesched's own; what Slurm does with a begin time is in docs/reference/slurm-levers.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, final, open_now
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, Status, sets
from tesched_core.model.change import BEGIN_TIME, Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_ROOM, Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

#: A begin time is put later by so many seconds at least.
LEAST_S = 60.0
#: What half a step leaves, beyond the longest time between two polls, for the poll itself and the command, in seconds.
SPARE_S = 15.0


class BeginTimeLever(Lever):
    """Begin times of victims that wait to run again."""

    name = BEGIN_TIME

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
            elif not _is_ours(one, job) and job.eligible_time != one.previous:
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
        in_place = one is not None and _is_ours(one, job)
        if not in_place and not any(victim.state in HOLDS_ROOM for victim in order.victims):
            return
        if one is not None and (one.restored or _is_on_its_way(one, job, context)):
            return
        if context.is_refused(Field.BEGIN, job.user):
            return
        shown = int(job.eligible_time or 0)
        until = ceil(context.now + _step_s(context))
        deferred[job_id] = Change(
            lever=self.name,
            job_id=job_id,
            field=Field.BEGIN,
            previous=shown if one is None else one.previous,
            value=until,
            before=shown if in_place else None,
            at=context.now,
            since=context.now if one is None else one.since,
            order_id=order.order_id,
        )
        text = f"job {order.preemptor} still waits for others that leave its nodes"
        reason = Reason(code=ReasonCode.STAYS_AWAY, text=text, preemptor=order.preemptor, order_id=order.order_id)
        context.actions.append(_set(job, reason, until))
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
                refused = context.is_refused(Field.BEGIN, job.user, puts_back=True)
                context.actions += [] if refused else [_set(job, reason, begin)]
            elif not _is_on_its_way(one, job, context):
                del deferred[job_id]

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take back what Slurm will not do; in shadow mode, nothing was done.

        What it was too busy for, or was not asked then, is kept, as what may have arrived: `at` says when it was tried.
        """
        deferred = context.changes_of(self.name)
        for outcome in outcomes:
            action = outcome.action
            one: Change[int] | None = deferred.get(action.job_id)
            if one is None or not sets(action, Field.BEGIN) or action.reason.code is not ReasonCode.STAYS_AWAY:
                continue
            if not final(outcome) and outcome.status is not Status.WOULD:
                continue
            if one.before is None:
                del deferred[action.job_id]
            else:
                deferred[action.job_id] = replace(one, value=one.before, before=None)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the begin times that are to be put back. Of a job that runs none can be."""
        jobs, changes = snapshot.jobs, memory.changes_of(self.name).values()
        return sum(not one.restored and one.job_id in jobs and jobs[one.job_id].pending for one in changes)


def _set(job: Job, reason: Reason, begin: int) -> SetField:
    shown = int(job.eligible_time or 0)
    return SetField(job_id=job.job_id, reason=reason, field=Field.BEGIN, value=begin, previous=shown)


def _comes_soon(job: Job, context: CycleContext) -> bool:
    """Check whether a waiting job is eligible, or will be in a moment; a job that is held is not."""
    if not job.pending or job.held or job.eligible_time is None:
        return False
    return job.eligible_time - context.now <= _step_s(context) / 2


def _step_s(context: CycleContext) -> float:
    """Return by how much a begin time is put later, in seconds; half of it outlasts the time between two polls."""
    return max(LEAST_S, 2 * (context.longest_wait_s + SPARE_S))


def _is_ours(one: Change[int], job: Job) -> bool:
    return job.eligible_time is not None and int(job.eligible_time) in {one.value, one.before}


def _is_on_its_way(one: Change[int], job: Job, context: CycleContext) -> bool:
    """Check whether the job shows what it had before a command that may yet arrive."""
    before = one.previous if one.before is None else one.before
    is_late = one.taken_at is not None or context.now - one.at > RESEND_AFTER_S
    return job.eligible_time == before and not is_late


BEGIN_TIME_LEVER = BeginTimeLever()
