"""Lease: which of several daemons on one store leads, and whether an admin has paused it.

The lease is a part of the daemon's row: until when its writer leads. Each write renews it, in the transaction of the
write, so that no daemon can write without it; one that finds it run out takes it over, and the token counts up. Time is
the store's own (PostgreSQL's clock; with SQLite all are on one host), so that hosts need not agree on it; a process
that waits reads it once for each renewal (`lease_watch.py`).
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, delete, insert, select, update
from tesched_core.model.journal_error import LedByAnotherError
from tesched_core.model.lead import Lead
from tesched_core.model.resources import UnixSeconds

from tesched_db.clock_skew import now_of
from tesched_db.deeds import note
from tesched_db.engine import reader, writing
from tesched_db.errors import StoreError, store_errors
from tesched_db.lease_watch import LEASE_S, LONGER_S, LeaseWatch, of_another_clock
from tesched_db.process import alive, place
from tesched_db.tables import DaemonRow, PauseRow, StandbyRow

#: Seconds after its own next poll at which a daemon that has not written is taken for gone, or hanging; later where its
#: lease lasts longer.
LATE_S = 15.0
#: A standby says at least this often that it is there, seconds; one that has not for `SILENT_S` is taken for gone.
STANDBY_SAYS_S = 5.0
SILENT_S = 60.0

_FORM = "%Y-%m-%d %H:%M:%S"


class LeaseError(StoreError, LedByAnotherError):
    """Another process leads; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """An admin's pause."""

    since: UnixSeconds
    #: None: until it is ended
    until: UnixSeconds | None
    by: str
    reason: str

    def __str__(self) -> str:
        """Return it in words."""
        until = f" until {_in_words(self.until)}" if self.until is not None else ""
        why = f": {self.reason}" if self.reason else ""
        return f"paused by {self.by} since {_in_words(self.since)}{until}{why}"


def _in_words(at: UnixSeconds) -> str:
    return time.strftime(_FORM, time.localtime(at))


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One process, as the store knows it."""

    pid: int
    host: str
    started_at: UnixSeconds
    #: in which boot of which host, and in which process namespace, its pid counts (`process.place`)
    place: str
    #: when it was started, in clock ticks since the boot; None: not known
    ticks: int | None = field(default=None, compare=False)

    @property
    def dead(self) -> bool:
        """Check whether the process is certainly gone: that is known from the same place alone."""
        if self.place and self.place == place() and self.pid == os.getpid():
            return True  # an earlier life of ours
        return alive(self.pid, self.place, self.ticks) is False


class PollTimes:
    """Length of the leader's polls, so that its lease outlasts the next one: a poll writes nothing before it ends."""

    #: seconds after which a long poll counts no more, at least; at most twice as many
    PERIOD_S = 300.0

    def __init__(self) -> None:
        """Begin with no poll."""
        self._since = 0.0
        #: seconds of the longest poll in this period, and in the one before
        self._longest_s, self._before_s = 0.0, 0.0

    def add(self, took_s: float, now: float) -> None:
        """Take in a poll that took so long, and ended now, by a clock that only runs."""
        if now - self._since >= self.PERIOD_S:
            self._since, self._before_s, self._longest_s = now, self._longest_s, 0.0
        self._longest_s = max(self._longest_s, took_s)

    def lease_s(self) -> float:
        """Seconds for which the lease lasts after the announced poll has begun."""
        longest_s = max(self._longest_s, self._before_s)
        return LEASE_S + min(max(2.0 * longest_s - LEASE_S, 0.0), LONGER_S)


#: what is read of the daemon's row to know which process leads
LEASE = select(
    DaemonRow.pid,
    DaemonRow.pid_ticks,
    DaemonRow.host,
    DaemonRow.started_at,
    DaemonRow.lease_place,
    DaemonRow.lease_until,
    DaemonRow.lease_token,
    DaemonRow.lease_since,
    DaemonRow.revision,
    DaemonRow.mode,
    DaemonRow.leaving,
    DaemonRow.reported_at,
    DaemonRow.next_at,
)


def holder_of(row: Row[*tuple[Any, ...]]) -> Holder:
    """Return the process that wrote a row of `LEASE`."""
    return Holder(pid=row.pid, host=row.host, started_at=row.started_at, place=row.lease_place, ticks=row.pid_ticks)


def leader_of(row: Row[*tuple[Any, ...]], left_s: float, ours: Holder | None) -> str:
    """Return the holder of the lease by a row of `LEASE`, in words; empty if it is ours, or free.

    `left_s` is for how long it lasts yet.
    """
    holder = holder_of(row)
    if holder == ours or left_s <= 0.0 or holder.dead:
        return ""
    return f"process {holder.pid} on {holder.host} leads since {_in_words(row.lease_since)}"


def lead(engine: Engine, ours: Holder, watch: LeaseWatch) -> Lead:
    """Find which process leads but `ours`, and whether it is paused. Raises StoreError."""
    with reader(engine) as connection:
        row = connection.execute(LEASE).first()
        now = now_of(connection)
        paused = read_pause(connection, now)
    return Lead(
        leader=leader_of(row, watch.left_s(row, now), ours) if row else "",
        paused=f"tesched is {paused}" if paused else "",
        mode=row.mode if row else "",
        leaving=row.leaving if row else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that holds the lease."""

    #: which, and since when
    words: str
    #: seconds for which it leads yet if it does not write again
    left_s: float
    #: the clock was set back since it wrote, so that only a watch shows whether it still writes
    of_another_clock: bool

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.words}, for {self.left_s:.0f} s more if it does not write again"


def holder(engine: Engine) -> Leader | None:
    """Find the process that holds the lease; None if it is free. Raises StoreError."""
    with reader(engine) as connection:
        row = connection.execute(LEASE).first()
        now = now_of(connection)
    if row is None:
        return None
    left_s = LeaseWatch().left_s(row, now)
    words = leader_of(row, left_s, None)
    return Leader(words=words, left_s=left_s, of_another_clock=of_another_clock(row, now)) if words else None


def read_pause(connection: Connection, now: UnixSeconds) -> Pause | None:
    """Return the pause, if there is one that has not ended by itself."""
    row = connection.execute(select(PauseRow.since, PauseRow.until, PauseRow.by, PauseRow.reason)).first()
    if row is None or (row.until is not None and row.until <= now):
        return None
    return Pause(since=row.since, until=row.until, by=row.by, reason=row.reason)


def pause(engine: Engine, *, by: str, reason: str, for_s: float | None) -> Pause:
    """Pause, or say anew why and for how long; return it. Raises StoreError."""
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        now = now_of(connection)
        made = Pause(since=now, until=None if for_s is None else now + for_s, by=by, reason=reason)
        connection.execute(delete(PauseRow))
        values = {"key": 1, "since": made.since, "until": made.until, "by": made.by, "reason": made.reason}
        connection.execute(insert(PauseRow).values(values))
        note(connection, by, f"pause: {reason}" if reason else "pause")
    return made


def unpause(engine: Engine, *, by: str) -> bool:
    """End the pause; return whether there was one. Raises StoreError."""
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        was = read_pause(connection, now_of(connection)) is not None
        connection.execute(delete(PauseRow))
        if was:
            note(connection, by, "unpause")
    return was


def stand_by(engine: Engine, ours: Holder) -> None:
    """Say that we wait for the lead, for `tesched status`. Raises StoreError."""
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        now = now_of(connection)
        connection.execute(delete(StandbyRow).where(~_heard_of(now) | _mine(ours)))
        values = {"host": ours.host, "pid": ours.pid, "started_at": ours.started_at, "seen_at": now}
        connection.execute(insert(StandbyRow).values(values))


def no_standby(connection: Connection, ours: Holder) -> None:
    """Say that we wait no more: we lead, or end."""
    connection.execute(delete(StandbyRow).where(_mine(ours)))


def _heard_of(now: UnixSeconds) -> ColumnElement[bool]:
    """Standbys that have said so lately; one that has not yet was there before the clock was set back."""
    return StandbyRow.seen_at.between(now - SILENT_S, now + SILENT_S)


def _mine(ours: Holder) -> ColumnElement[bool]:
    return (StandbyRow.host == ours.host) & (StandbyRow.pid == ours.pid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """A daemon that waits for the lead."""

    host: str
    pid: int
    started_at: UnixSeconds
    #: seconds since it last said so
    silent_s: float


def read_standbys(connection: Connection) -> tuple[Standby, ...]:
    """Return the standbys, by host and process."""
    now = now_of(connection)
    rows = connection.execute(
        select(StandbyRow.host, StandbyRow.pid, StandbyRow.started_at, StandbyRow.seen_at)
        .where(_heard_of(now))
        .order_by(StandbyRow.host, StandbyRow.pid)
    )
    return tuple(
        Standby(host=row.host, pid=row.pid, started_at=row.started_at, silent_s=max(now - row.seen_at, 0.0))
        for row in rows
    )


def resign(engine: Engine, ours: Holder) -> None:
    """Say that we end; and give the lease up, if it is ours, so that a standby need not wait. Raises StoreError."""
    mine = (DaemonRow.pid == ours.pid) & (DaemonRow.host == ours.host) & (DaemonRow.started_at == ours.started_at)
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        connection.execute(update(DaemonRow).where(mine).values(lease_until=0.0, stopped_at=now_of(connection)))
        no_standby(connection, ours)
