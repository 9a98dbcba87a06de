"""Delay of a BE job by TE jobs, in seconds.

Definitions
    lost        run time thrown away: from the start of the run that was ended, or from when it was last saved by the
                job's own word (`tesched_report.saved`), to its notice. Of a job that says by exit status 0 that it has
                saved, nothing
    away        from its notice (of one that has none: from its requeue) until it runs again, Slurm's own requeue delay
                included. What it does in its grace period counts as away: it is there to save its work
    suspended   while it was suspended
    bystander   while it waits for what TE jobs hold that started since it was eligible (`orders/bystanders.py`)

Principle
    The first three follow one another, so their sum is by how much the job ends later than it would have, if it waits
    and runs in turn and does again what was lost. A job that stays until it ends, or is let go, has no delay; nor has
    one that left for the turn of another BE job. One that is cancelled in the queue, or lost, is delayed until then.
    A job that is away is no bystander, so no second counts twice.

Worked example
    It starts at 100, has its notice at 160, leaves at 170 and runs again at 300: lost 60 s, away 140 s. The delay is
    200 s: at 300 it is where it was at 100.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tesched_core.intake.job_times import StateChange
from tesched_core.model.cluster import Job
from tesched_core.model.order import PREEMPTED, Departure, Purpose, Victim, VictimState
from tesched_core.model.resources import UnixSeconds

if TYPE_CHECKING:
    from tesched_core.model.job_report import Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Delay of one job, or a part of it."""

    lost_s: float = 0.0
    away_s: float = 0.0
    suspended_s: float = 0.0
    bystander_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Return all of it, seconds."""
        return self.lost_s + self.away_s + self.suspended_s + self.bystander_s

    def __add__(self, other: Delay) -> Delay:
        """Return both together."""
        return Delay(
            lost_s=self.lost_s + other.lost_s,
            away_s=self.away_s + other.away_s,
            suspended_s=self.suspended_s + other.suspended_s,
            bystander_s=self.bystander_s + other.bystander_s,
        )


def with_saved(victim: Victim, job: Job | None, reported: Reported | None) -> Victim:
    """Return a victim that is not back yet, with when it was last saved by its own word, which may come late."""
    saved_at = None if reported is None else reported.saved_at
    over = victim.state in {VictimState.BACK, VictimState.SPARED}
    if saved_at is None or over or (victim.saved_at is not None and saved_at <= victim.saved_at):
        return victim
    if job is not None and job.restarts > victim.restarts and job.start_time is not None and saved_at > job.start_time:
        return victim  # of the run after it
    return replace(victim, saved_at=saved_at)


def delay_by(victim: Victim, now: UnixSeconds) -> Delay:
    """Return the delay by one preemption until `now`; no part of it is below zero, whatever the clocks."""
    if victim.purpose is not Purpose.TE:
        return Delay()
    left_at = victim.left_at
    if left_at is not None and victim.back_at is not None:
        left_at = min(left_at, victim.back_at)  # seen late, when it ran again already
    ran_until = victim.noticed_at if victim.noticed_at is not None else left_at
    suspended_s = 0.0
    if victim.suspended_at is not None:
        ends = left_at if left_at is not None else victim.back_at
        if ends is None and victim.state is VictimState.SUSPENDED:
            ends = now
        suspended_s = 0.0 if ends is None else max(ends - victim.suspended_at, 0.0)
        ran_until = victim.suspended_at
    was_preempted = victim.departure in PREEMPTED or victim.given_up_at is not None
    if left_at is None or ran_until is None or not was_preempted:
        return Delay(suspended_s=suspended_s)
    kept_until = victim.started_at if victim.saved_at is None else max(victim.started_at, victim.saved_at)
    lost_s = 0.0 if victim.departure is Departure.SAVED else max(ran_until - kept_until, 0.0)
    away_from = ran_until if victim.suspended_at is None else left_at
    until = next((at for at in (victim.back_at, victim.given_up_at) if at is not None), now)
    return Delay(lost_s=lost_s, away_s=max(until - away_from, 0.0), suspended_s=suspended_s)


def ran_again(victim: Victim, changes: Iterable[StateChange]) -> Victim:
    """Return a victim that was awaited when its order was withdrawn, back if its job's changes show a later run.

    After `tesched undo` no cycle follows it any more.
    """
    if not victim.awaited or victim.left_at is None:
        return victim
    starts = (one.start_time for one in changes if one.restarts > victim.restarts and one.start_time is not None)
    back_at = next((at for at in starts if at > victim.started_at), None)
    return victim if back_at is None else replace(victim, state=VictimState.BACK, back_at=back_at)
