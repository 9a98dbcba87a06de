"""Many writes of one process beside the daemon, with pauses in which the daemon's own write gets its turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep

from sqlalchemy import Connection, Engine

from tesched_db.engine import writing
from tesched_db.errors import store_errors

#: Shortest pause, seconds. SQLite has no queue for its write lock: another process tries again after 100 ms at most, so
#: that it finds the lock free once in each such pause.
PAUSE_S = 0.2


class PacedWrites:
    """Transactions that write, one after another; before each but the first a pause as long as the last one took.

    In PostgreSQL, where locks are queued, there are no pauses.
    """

    def __init__(self, engine: Engine, doing: str) -> None:
        """Write to this store; `doing` is what cannot be done if that fails."""
        self._engine, self._doing = engine, doing
        self._pause_s = 0.0

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Yield the connection of the next transaction. Raises StoreError."""
        if self._pause_s:
            sleep(self._pause_s)
        began = perf_counter()
        with store_errors(self._doing), writing(self._engine).begin() as connection:
            yield connection
        if self._engine.dialect.name == "sqlite":
            self._pause_s = max(PAUSE_S, perf_counter() - began)
