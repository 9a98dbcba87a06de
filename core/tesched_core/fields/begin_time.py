"""Begin time rule: a victim that has left does not start again while another one of its order holds its nodes.

Definitions
    holding    a victim of an open order that has not left its nodes: it saves its work, ends, or is notified later
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

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Orders, final, open_now
from tesched_core.fields.reconcile import FieldRule, Want, is_on_its_way, state_of
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.order import HOLDS_RESOURCES, Order, Victim

#: A begin time is put later by so many seconds at least.
LEAST_S = 60.0
#: What half a step leaves, beyond the longest time between two polls, for the poll itself and the command, in seconds.
SPARE_S = 15.0


class BeginTimeRule(FieldRule[int]):
    """Begin times of victims that wait to run again."""

    name = Field.BEGIN
    field = Field.BEGIN

    def read(self, job: Job) -> int:
        """Return the begin time, Unix seconds; 0: Slurm shows none."""
        return int(job.eligible_time or 0)

    def wants(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> Iterable[Want[int]]:
        """Yield for each victim that has left an open order's nodes how long it stays away."""
        for order in open_now(orders):
            for victim in order.victims:
                if victim.awaited and victim.job_id not in context.preemptors:
                    yield from self._stays_away(victim, order, context)

    def back(self, one: Change[int], job: Job, context: CycleContext) -> SetField:
        """Put the job's own begin time back, or now if that has passed."""
        text = "it may start when it could have started"
        why = Reason(code=ReasonCode.ORDER_ENDED, text=text, order_id=one.order_id)
        return self.action(one.job_id, why, max(one.previous, int(context.now)), self.read(job))

    def taken_over(self, one: Change[int]) -> Change[int]:
        """Leave the begin time to others, for as long as the order is open."""
        return replace(one, restored=True)

    def was_set(self, before: Change[int] | None, after: Change[int], want: Want[int], context: CycleContext) -> None:
        """Record that a victim stays away, once."""
        if before is None and want.why.order_id is not None:
            text = f"does not start again before the order ends: {want.why.text}"
            context.moved(want.why.order_id, want.job_id, "left", "left", text)

    def unsent(self, one: Change[int], outcome: Outcome) -> Change[int] | None:
        """Take back what Slurm will not do. What it was too busy for is kept: `at` says when it was tried."""
        if not final(outcome) and outcome.status is not Status.WOULD:
            return one
        return None if one.before is None else replace(one, value=one.before, before=None)

    def _stays_away(self, victim: Victim, order: Order, context: CycleContext) -> Iterable[Want[int]]:
        job = context.snapshot.jobs.get(victim.job_id)
        one: Change[int] | None = context.changes_of(self.name).get(victim.job_id)
        if job is None:
            return
        is_soon = _comes_soon(job, context)
        if one is not None and (one.restored or is_on_its_way(one, context.now) or not is_soon):
            until = one.value
        elif is_soon and (
            self._is_in_place(one, job) or any(other.state in HOLDS_RESOURCES for other in order.victims)
        ):
            until = ceil(context.now + _step_s(context))
        else:
            return
        text = f"job {order.preemptor} still waits for others that leave its nodes"
        why = Reason(code=ReasonCode.STAYS_AWAY, text=text, preemptor=order.preemptor, order_id=order.order_id)
        yield Want(job_id=victim.job_id, value=until, why=why)

    def _is_in_place(self, one: Change[int] | None, job: Job) -> bool:
        return one is not None and state_of(one, self.read(job)).is_ours


def _comes_soon(job: Job, context: CycleContext) -> bool:
    """Check whether a waiting job is eligible, or will be in a moment; a job that is held is not."""
    if not job.pending or job.held or job.eligible_time is None:
        return False
    return job.eligible_time - context.now <= _step_s(context) / 2


def _step_s(context: CycleContext) -> float:
    """Return by how much a begin time is put later, in seconds; half of it outlasts the time between two polls."""
    return max(LEAST_S, 2 * (context.longest_wait_s + SPARE_S))


BEGIN_TIME_RULE = BeginTimeRule()
