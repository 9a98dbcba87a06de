"""Watch of another process's lease, by a clock that only runs.

A lease ends at a time of the store's clock, and that clock may be set: one that was written while it was hours ahead
would be waited for for hours, and one that is set forward would end a lease whose holder acts at that moment. So a
process that waits reads the store's clock once for each renewal. From then on its own clock counts, which is never set,
and a lease lasts no longer than its writer can have meant.
"""

from __future__ import annotations

import time
from math import inf
from typing import Protocol

from tesched_core.model.resources import UnixSeconds

#: Seconds for which a daemon leads after the turn that it has announced: a turn may take that long before it writes.
#: More than `loop.ACT_WITHIN_S`, so that no daemon acts once its lease has run out.
LEASE_S = 10.0
#: A poll of up to half of that may take twice as long the next time. After longer ones the lease lasts longer, and at
#: most by so many seconds: as long as the six calls of a poll may take.
LONGER_S = 60.0
#: The longest pause that a configuration allows (`Pace` of the daemon), seconds.
LONGEST_PAUSE_S = 3600.0

steady = time.monotonic


class LeaseTimes(Protocol):
    """The columns of the daemon's row that say how long its lease lasts."""

    @property
    def lease_until(self) -> UnixSeconds:
        """Its end, by the store's clock."""

    @property
    def lease_token(self) -> int:
        """Its number."""

    @property
    def revision(self) -> int:
        """Number of the write that renewed it."""

    @property
    def reported_at(self) -> UnixSeconds:
        """Time of the poll, by the writer's clock."""

    @property
    def next_at(self) -> UnixSeconds:
        """Time of the next one, by the writer's clock."""


def longest_s(row: LeaseTimes) -> float:
    """Seconds from its last renewal for which this lease lasts at most."""
    announced_s = row.next_at - row.reported_at
    # Outside of these bounds the writer's clock was set between its poll and its write.
    if not 0.0 <= announced_s <= LONGEST_PAUSE_S:
        announced_s = LONGEST_PAUSE_S
    return announced_s + LEASE_S + LONGER_S


def of_another_clock(row: LeaseTimes, now: UnixSeconds) -> bool:
    """Check whether the lease ends later than it can: it was written before the store's clock was set back."""
    return remaining_s(row.lease_until, now) > longest_s(row)


def remaining_s(until: UnixSeconds, now: UnixSeconds) -> float:
    """Seconds that are left by the store's clock."""
    return until - now


class LeaseWatch:
    """Watch of one process."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._seen: tuple[int, int, float] | None = None
        #: by our clock
        self._ends_at = -inf

    def left_s(self, row: LeaseTimes, now: UnixSeconds) -> float:
        """Seconds for which the lease lasts yet if it is not renewed; `now` is the store's clock."""
        this, at = (row.lease_token, row.revision, row.lease_until), steady()
        if this != self._seen:
            self._seen = this
            self._ends_at = at + min(remaining_s(row.lease_until, now), longest_s(row))
        return self._ends_at - at
