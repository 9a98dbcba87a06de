"""Correction of the memory's times by another clock, when another process goes on with it.

The memory's times (a notice, an order's end) are by the clock of the host that wrote them. With PostgreSQL each write
says how far that clock was ahead of the store's, so a standby with another clock knows by how much, and so does a
daemon on a host with a clock that was set while it was down. With SQLite there is one clock; then only that it was set
back is known.
"""

from __future__ import annotations

import time

from sqlalchemy import Connection, func, select
from tesched_core.model.resources import UnixSeconds

#: Seconds by which two clocks may differ before it matters.
DIFFER_S = 2.0


def later_by_s(*, ahead_then_s: float, seen_at: UnixSeconds | None, store_now: UnixSeconds) -> float:
    """Return by how many seconds times that another process wrote are to be made later, to be by our clock.

    `ahead_then_s` is the writer's clock less the store's, `seen_at` the time of its last poll, by its own clock.
    """
    now = time.time()
    by_s = (now - store_now) - ahead_then_s
    if abs(by_s) <= DIFFER_S:
        by_s = 0.0
    if seen_at is not None and seen_at + by_s > now + DIFFER_S:
        # The writer has polled by then, so that is past.
        by_s = now - seen_at
    return by_s


def now_of(connection: Connection) -> UnixSeconds:
    """Return the store's clock, Unix seconds."""
    if connection.dialect.name == "postgresql":
        return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())
    return time.time()
