"""Correction of the memory after the clock was set: grace periods and waits go on as if it had not been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tesched_core.model.change import NEVER
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, Victim
from tesched_core.model.resources import UnixSeconds

#: Seconds by which the clock may differ from the stopwatch between two turns before it counts as set: time servers that
#: set it right little by little are below.
JUMP_S = 2.0


class ClockReadings(NamedTuple):
    """A clock, which may be set, and a stopwatch, read at the same time."""

    wall: float
    steady: float


def jumped_s(before: ClockReadings | None, now: ClockReadings) -> float:
    """Return by how much the clock was set between two readings of both; 0: it was not."""
    by_s = 0.0 if before is None else (now.wall - before.wall) - (now.steady - before.steady)
    return by_s if abs(by_s) > JUMP_S else 0.0


def with_none_ahead(memory: Memory, now: UnixSeconds) -> Memory:
    """Return the memory, earlier by so much that nothing in it has happened after `now`.

    A new process does not know what its clock showed when the memory was written. What is said to have happened in the
    future shows that it was set back since, or is another host's; else grace periods, waits and limits would go on
    until it is that time again. A clock that was set forward shows in nothing.
    """
    ahead_s = max(_happened(memory), default=now) - now
    return shift_times(memory, -ahead_s) if ahead_s > JUMP_S else memory


def _happened(memory: Memory) -> Iterator[UnixSeconds]:
    """Yield the times of what has happened by the daemon's clock; those that it has of Slurm's are left out."""
    for order in memory.open_orders():
        yield order.created_at
        for victim in order.victims:
            for at in (victim.noticed_at, victim.requeue_sent_at, victim.suspend_sent_at, victim.suspend_unanswered_at):
                if at is not None:
                    yield at
    for one in memory.jobs.values():
        for at in (one.last_preempted, one.missing_since):
            if at is not None:
                yield at
    yield from (paid.at for paid in memory.paid)
    yield from (change.at for by_job in memory.changes.values() for change in by_job.values())
    yield from (refused.at for refused in memory.refused.values())


def shift_times(memory: Memory, by_s: float) -> Memory:
    """Return the memory as if all in it had happened `by_s` seconds later: by so much the clock has just jumped.

    Slurm's own times (when a job was queued, started, ended) are left: they come from slurmctld's clock.
    """

    def later(at: UnixSeconds | None) -> UnixSeconds | None:
        return None if at is None else at + by_s

    def victim(one: Victim) -> Victim:
        if one.back_at is not None:
            return one  # it is over, and its times are by one clock
        return replace(
            one,
            noticed_at=later(one.noticed_at),
            requeue_sent_at=later(one.requeue_sent_at),
            suspend_sent_at=later(one.suspend_sent_at),
            suspended_at=later(one.suspended_at),
            suspend_unanswered_at=later(one.suspend_unanswered_at),
            ending_since=later(one.ending_since),
            left_at=later(one.left_at),
            given_up_at=later(one.given_up_at),
        )

    def order(one: Order) -> Order:
        return replace(
            one,
            created_at=one.created_at + by_s,
            expires_at=one.expires_at + by_s,
            waits_until=later(one.waits_until),
            run_seen_at=later(one.run_seen_at),
            ended_at=later(one.ended_at),
            victims=tuple(victim(each) for each in one.victims),
        )

    return replace(
        memory,
        orders={order_id: order(one) for order_id, one in memory.orders.items()},
        jobs={
            job_id: replace(
                one,
                last_preempted=later(one.last_preempted),
                retry_at=later(one.retry_at),
                shadowed_until=later(one.shadowed_until),
                missing_since=later(one.missing_since),
            )
            for job_id, one in memory.jobs.items()
        },
        paid=tuple(replace(one, at=one.at + by_s) for one in memory.paid),
        te_runs={
            job_id: replace(one, at=one.at + by_s, running_since=later(one.running_since))
            for job_id, one in memory.te_runs.items()
        },
        bystanders={
            job_id: replace(one, since=later(one.since), until=later(one.until))
            for job_id, one in memory.bystanders.items()
        },
        examined=None,
        put_back=tuple((one, at + by_s) for one, at in memory.put_back),
        seen_at=later(memory.seen_at),
        te_poll=None if memory.te_poll is None else (memory.te_poll[0] + by_s, memory.te_poll[1]),
        changes={
            lever: {
                job_id: replace(
                    one,
                    at=one.at if one.at == NEVER else one.at + by_s,
                    since=later(one.since),
                    taken_at=later(one.taken_at),
                    put_back_at=later(one.put_back_at),
                )
                for job_id, one in by_job.items()
            }
            for lever, by_job in memory.changes.items()
        },
        refused={name: replace(one, since=one.since + by_s, at=one.at + by_s) for name, one in memory.refused.items()},
        policy_states={name: state.shifted(by_s) for name, state in memory.policy_states.items()},
    )
