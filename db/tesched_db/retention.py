"""Deletion of the past, in small bites, never of what the daemon still needs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Column, ColumnElement, Connection, Engine, and_, delete, exists, func, or_, select, true
from tesched_core.model.resources import UnixSeconds

from tesched_db import finished_runs
from tesched_db.paced_writes import PacedWrites
from tesched_db.reports import forget_throughputs
from tesched_db.tables import ActionRow, CycleRow, DaemonRow, DeedRow, JobRow, OrderRow, RefusalRow, VictimRow

#: Rows deleted in one transaction: the daemon waits no longer for its turn than this takes, and a moment more on SQLite
#: (`paced_writes.py`).
BITE = 1000
_ANY = true()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Number of deleted rows of each kind.

    A job's history and reports, an order's victims and steps, a cycle's actions go with them.
    """

    orders: int = 0
    cycles: int = 0
    refusals: int = 0
    jobs: int = 0
    #: what users' jobs reported of their speed
    throughputs: int = 0
    #: finished runs that run times were learned from
    runs: int = 0


def prune(engine: Engine, older_than_s: float, *, now: UnixSeconds | None = None, bite: int = BITE) -> Pruned:
    """Forget what ended more than `older_than_s` seconds ago; return how much that was.

    Orders that have not ended stay, with all that was done for them, and so do those with a victim that Slurm still
    knows, since they say by how much it was delayed. Jobs stay that Slurm knows, or that an order that stays is about.
    Each bite of `bite` rows is a transaction of its own, so this may run beside the daemon.

    Raises StoreError; what was forgotten until then stays forgotten.
    """
    before = (time.time() if now is None else now) - older_than_s
    open_order = exists().where(OrderRow.order_id == ActionRow.order_id, _lives())
    last_cycle = select(func.max(CycleRow.key)).scalar_subquery()
    about_a_job = or_(
        exists().where(OrderRow.preemptor_key == JobRow.key),
        exists().where(VictimRow.job_key == JobRow.key),
    )
    past = _Past(before=before, bite=bite, paced=PacedWrites(engine, "prune the state store"))
    done = Pruned()
    over = and_(~_lives(), ~_delayed_a_known_job())
    done = replace(done, orders=past.forget(OrderRow.order_id, OrderRow.ended_at, over))
    matters_no_more = and_(
        # The journal adds idle cycles to it.
        CycleRow.key < last_cycle,
        ~exists().where(ActionRow.cycle_key == CycleRow.key, open_order),
    )
    done = replace(done, cycles=past.forget(CycleRow.key, CycleRow.last_at, matters_no_more))
    with past.bites() as connection:
        done = replace(done, throughputs=forget_throughputs(connection, before))
    with past.bites() as connection:
        done = replace(done, runs=finished_runs.forget_before(connection, before))
    past.forget(DeedRow.key, DeedRow.at)
    done = replace(done, refusals=past.forget(RefusalRow.key, RefusalRow.last_seen))
    return replace(done, jobs=past.forget(JobRow.key, JobRow.last_seen, ~about_a_job))


def _lives() -> ColumnElement[bool]:
    """Return the condition on an order that the daemon is not done with it."""
    return or_(OrderRow.in_memory.is_(True), OrderRow.ended_at.is_(None))


def _delayed_a_known_job() -> ColumnElement[bool]:
    """Return the condition on an order that Slurm still knows one of its victims."""
    known = and_(VictimRow.order_id == OrderRow.order_id, VictimRow.job_key == JobRow.key, JobRow.last_seen.is_(None))
    return exists().where(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """Rows of before a time, deleted in bites of so many."""

    before: UnixSeconds
    bite: int
    paced: PacedWrites

    @contextmanager
    def bites(self) -> Iterator[Connection]:
        """Yield the connection that deletes the next bite."""
        with self.paced.begin() as connection:
            # The journal changes this row first of all, so neither works on what the other is deleting.
            connection.execute(select(DaemonRow.key).with_for_update())
            yield connection

    def forget(
        self,
        key: Column[int],
        at: Column[float] | Column[float | None],
        condition: ColumnElement[bool] = _ANY,
    ) -> int:
        """Delete the rows of before that time that meet the condition; the number of them."""
        # By the time, whose index is walked up to `before`. By the key, the last bite would read all that is kept,
        # under the lock, before it is known that no more is to be deleted.
        oldest = select(key).where(at < self.before, condition).order_by(at, key).limit(self.bite)
        total = 0
        while True:
            with self.bites() as connection:
                keys = connection.scalars(oldest).all()
                connection.execute(delete(key.table).where(key.in_(keys)))
            total += len(keys)
            if len(keys) < self.bite:
                return total
