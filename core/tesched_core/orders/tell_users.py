"""The user of a preempted job is notified: in the job's Slurm record, and by a command of the site's.

Definitions
    note        one line in the job's AdminComment, or its `extra`: when it was preempted, for what kind of job, what
                became of it, how often of how many times.
    told        once for each preemption, in the cycle that sees the job back in the queue; once more if it is lost. Of
                one that has ended as its owner said, by the command alone: its record can't be changed any more.

Principle
    A note is an action like any other: journalled before it is done, dry in mode shadow, bounded. It belongs to no
    order, and comes after all other actions of its cycle: that it fails, or takes long, keeps nothing from being done.
    After a crash between intent and action that preemption is not reported: twice would be worse than not at all.
    The note names no other job and no other user.

    The note is no lever: nothing in Slurm goes by it, and what it says stays true. So `tesched undo` leaves it.

Source
    tesched's own; what survives a requeue, and which users may read and write it, was tried on 22.05 and 26.05
    (docs/reference/notice.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tesched_core.model.actions import Reason, ReasonCode, Record, TellUser
from tesched_core.model.limits import Limits
from tesched_core.model.order import PREEMPTED, Departure, Order, Purpose, Victim, VictimState

if TYPE_CHECKING:
    from tesched_core.model.memory import Memory
    from tesched_core.model.snapshot import Snapshot

#: How each note begins; a text that begins otherwise is not tesched's.
_OURS = "tesched: preempted "
#: For what kind of job a job was preempted.
FOR_TRIAL, FOR_OWN, FOR_TURN = "a trial-and-error job", "a trial-and-error job of its own user", "another job's turn"
#: Slurm's first release that gives jobs an `extra`, which an Operator may write; AdminComment it may not.
_HAS_EXTRA = "23.11"
#: Notes written in one cycle: each is a query of the job and a command, some 30 ms.
MOST_NOTES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """Way in which users are notified."""

    record: Record = Record.NONE
    #: the site has a command for it
    by_command: bool = False
    #: how often a job may be preempted in its life
    limits: Limits = Limits()


def note(action: TellUser, when: str) -> str:
    """Return the line for the job's record; `when` is `action.at` in words."""
    now = "could NOT be put back in the queue, submit it again" if action.lost else "put back in the queue"
    often = f"; {action.times} of {action.most}" if action.times else ""
    return f"{_OURS}{when} for {action.cause}; {now}{often}"


def cause_of(victim: Victim) -> str:
    """Return for what kind of job it was preempted, in words."""
    if victim.purpose is not Purpose.TE:
        return FOR_TURN
    return FOR_OWN if victim.of_own_user else FOR_TRIAL


def is_note(text: str) -> bool:
    """Check whether a text in a job's record is one of tesched's notes, which a later one may replace."""
    return text.startswith(_OURS) and "\n" not in text


def tell_users(before: Memory, after: Memory, snapshot: Snapshot, telling: Telling) -> tuple[TellUser, ...]:
    """Notes on the victims that have left, or were lost, between two memories."""
    if telling.record is Record.NONE and not telling.by_command:
        return ()
    told = [
        _told(victim, after, snapshot, telling)
        for order, victim in _victims(after)
        if _is_news(victim, before.orders.get(order.order_id)) or victim.job_id in before.newly_lost
    ]
    if not telling.by_command:
        told = [one for one in told if one.record is not Record.NONE]
    over = (replace(each, record=Record.NONE) for each in told[MOST_NOTES:] if telling.by_command)
    return (*told[:MOST_NOTES], *over)


def _victims(memory: Memory) -> Iterator[tuple[Order, Victim]]:
    for order in memory.orders.values():
        for victim in order.victims:
            has_left = victim.state in {VictimState.LEFT, VictimState.BACK}
            if has_left and victim.departure in {*PREEMPTED, Departure.ENDED}:
                yield order, victim


def _is_news(victim: Victim, before: Order | None) -> bool:
    """Check whether it has left, or was lost, since."""
    earlier = None if before is None else next((one for one in before.victims if one.job_id == victim.job_id), None)
    if earlier is None or earlier.left_at is None:
        return True
    return victim.departure is Departure.LOST and earlier.departure is not Departure.LOST


def _told(victim: Victim, memory: Memory, snapshot: Snapshot, telling: Telling) -> TellUser:
    job = snapshot.jobs.get(victim.job_id)
    lost = victim.departure is Departure.LOST
    cause = cause_of(victim)
    reason = Reason(
        code=ReasonCode.TELLS_USER,
        text=f"its user is notified that it was preempted for {cause}" + (", and is lost" if lost else ""),
    )
    return TellUser(
        job_id=victim.job_id,
        reason=reason,
        label=job.label if job is not None else str(victim.job_id),
        name=job.name if job is not None else "",
        user=victim.user,
        at=victim.left_at if victim.left_at is not None else snapshot.taken_at,
        cause=cause,
        departure=victim.departure.value if victim.departure is not None else "",
        times=(memory.job(victim.job_id).preemptions or 1) if victim.is_limited else 0,
        most=_most(victim, memory, snapshot, telling),
        lost=lost,
        # Slurm changes nothing of a job that has ended.
        record=Record.NONE if victim.departure is Departure.ENDED else _record(telling, snapshot.settings.release),
    )


def _most(victim: Victim, memory: Memory, snapshot: Snapshot, telling: Telling) -> int:
    traits, one = snapshot.traits.get(victim.job_id), memory.job(victim.job_id)
    most = telling.limits.most_preemptions(
        gets_notice=not victim.loses_run, preempted=one.preemptions, lost=one.lost_runs
    )
    return most if traits is None else traits.may_be_preempted(most)


def _record(telling: Telling, release: str) -> Record:
    """Way of the note: by itself where an Operator, which is what the daemon should be, may write it."""
    if telling.record is not Record.AUTO:
        return telling.record
    return Record.EXTRA if release >= _HAS_EXTRA else Record.ADMIN_COMMENT
