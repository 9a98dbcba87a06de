"""Deletion of the past, in small bites, never of what the daemon still needs."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sqlalchemy import Column, ColumnElement, Engine, and_, delete, exists, func, or_, select
from tesched_core.model.resources import UnixSeconds

from tesched_db import finished_runs
from tesched_db.engine import writing
from tesched_db.errors import store_errors
from tesched_db.reports import forget_throughputs
from tesched_db.tables import ActionRow, CycleRow, DaemonRow, DeedRow, JobRow, OrderRow, RefusalRow, VictimRow

#: Rows deleted in one transaction: the daemon waits no longer for its turn than this takes.
BITE = 1000


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
    done = Pruned()
    over = and_(OrderRow.ended_at < before, ~_lives(), ~_delayed_a_known_job())
    done = replace(done, orders=_forget(engine, OrderRow.order_id, over, bite))
    done = replace(
        done,
        cycles=_forget(
            engine,
            CycleRow.key,
            and_(
                CycleRow.last_at < before,
                # The journal adds idle cycles to it.
                CycleRow.key < last_cycle,
                ~exists().where(ActionRow.cycle_key == CycleRow.key, open_order),
            ),
            bite,
        ),
    )
    done = replace(done, throughputs=forget_throughputs(engine, before))
    done = replace(done, runs=finished_runs.forget(engine, before=before))
    _forget(engine, DeedRow.key, DeedRow.at < before, bite)
    done = replace(done, refusals=_forget(engine, RefusalRow.key, RefusalRow.last_seen < before, bite))
    return replace(done, jobs=_forget(engine, JobRow.key, and_(JobRow.last_seen < before, ~about_a_job), bite))


def _lives() -> ColumnElement[bool]:
    """Return the condition on an order that the daemon is not done with it."""
    return or_(OrderRow.in_memory.is_(True), OrderRow.ended_at.is_(None))


def _delayed_a_known_job() -> ColumnElement[bool]:
    """Return the condition on an order that Slurm still knows one of its victims."""
    known = and_(VictimRow.order_id == OrderRow.order_id, VictimRow.job_key == JobRow.key, JobRow.last_seen.is_(None))
    return exists().where(known)


def _forget(engine: Engine, key: Column[int], condition: ColumnElement[bool], bite: int) -> int:
    total = 0
    while True:
        with store_errors("prune the state store"), writing(engine).begin() as connection:
            # The journal changes this row first of all, so neither works on what the other is deleting.
            connection.execute(select(DaemonRow.key).with_for_update())
            keys = connection.scalars(select(key).where(condition).order_by(key).limit(bite)).all()
            connection.execute(delete(key.table).where(key.in_(keys)))
        total += len(keys)
        if len(keys) < bite:
            return total
