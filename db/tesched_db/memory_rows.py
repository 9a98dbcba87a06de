"""Core's orders, actions and refusals, to rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import Connection, delete, select, update
from tesched_core.model.actions import OrderId
from tesched_core.model.job_memory import NOTHING, Futility, JobMemory, Past
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.model.outlived import Outlived
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId

from tesched_db import change_rows, outlived_rows, policy_states
from tesched_db.bystander_rows import Bystanders
from tesched_db.change_rows import Changes
from tesched_db.order_rows import order_of, victims_of
from tesched_db.rows import CHUNK, Values, empty, from_row, rows_of, to_row
from tesched_db.tables import JobMemoryRow, OrderRow, PaidRow, VictimRow
from tesched_db.upsert import upsert

if TYPE_CHECKING:
    from tesched_db.job_rows import PresentJobs  # `tesched explain` reads the memory, and writes no jobs


@dataclass
class Remembered:
    """The memory as the store holds it, but for its scalars."""

    orders: dict[OrderId, Order] = field(default_factory=dict)
    jobs: dict[JobId, JobMemory] = field(default_factory=dict)
    paid: tuple[Paid, ...] = ()
    outlived: tuple[Outlived, ...] = ()
    bystanders: Bystanders = field(default_factory=Bystanders)
    changes: Changes = field(default_factory=dict)
    #: the same by the names of their rows
    stored_changes: Changes = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def load(connection: Connection, kinds: Mapping[str, type[Any]]) -> Remembered:
        """Load the memory that the store holds; `kinds` are the types of the policies' states, by the policy's name."""
        rows = rows_of(connection, select(OrderRow).where(OrderRow.in_memory.is_(True)).order_by(OrderRow.order_id))
        victims = victims_of(connection, [row.order_id for row in rows])
        by_job = rows_of(connection, select(JobMemoryRow).order_by(JobMemoryRow.job_id))
        paid = rows_of(connection, select(PaidRow).order_by(PaidRow.at, PaidRow.job_id))
        stored_changes = change_rows.stored(connection)
        return Remembered(
            orders={OrderId(row.order_id): order_of(row, victims.get(row.order_id, ())) for row in rows},
            jobs={JobId(row.job_id): _of_job(row) for row in by_job},
            paid=tuple(from_row(row, Paid) for row in paid),
            outlived=outlived_rows.load(connection),
            bystanders=Bystanders.load(connection),
            changes=change_rows.by_field(stored_changes),
            stored_changes=stored_changes,
            states=policy_states.load(connection, kinds),
        )

    def memory(self, cycle: int, next_order: int) -> Memory:
        """Return it as core knows it."""
        return Memory(
            cycle=cycle,
            next_order=OrderId(next_order),
            orders=dict(self.orders),
            jobs=dict(self.jobs),
            paid=self.paid,
            outlived=self.outlived,
            bystanders=self.bystanders.by_job,
            policy_states=dict(self.states),
            changes=self.changes,
        )

    def write(self, connection: Connection, memory: Memory, seen: PresentJobs) -> None:
        """Write in what the memory differs from what is held."""
        changed = [order for order_id, order in memory.orders.items() if self.orders.get(order_id) != order]
        dropped = [order_id for order_id in self.orders if order_id not in memory.orders]
        if dropped:
            # Ended, and so no longer part of the memory; the row stays as history.
            connection.execute(update(OrderRow).where(OrderRow.order_id.in_(dropped)).values(in_memory=False))
        if changed:
            upsert(connection, OrderRow, [_order_values(order, seen) for order in changed], keep=["preemptor_key"])
            rows = [values for order in changed for values in _victims_values(order, seen)]
            # A victim that Slurm has forgotten has no key any more; the row keeps the one that it has.
            upsert(connection, VictimRow, rows, keep=["job_key"])
            for order in changed:
                surplus = (VictimRow.order_id == order.order_id) & (VictimRow.position >= len(order.victims))
                connection.execute(delete(VictimRow).where(surplus))
        self.orders = dict(memory.orders)
        self._write_jobs(connection, memory)
        self._write_paid(connection, memory)
        self.bystanders.write(connection, memory, seen)
        outlived_rows.write(connection, self.outlived, memory.outlived)
        change_rows.write(connection, self.stored_changes, memory.changes)
        policy_states.write(connection, self.states, memory.policy_states)
        self.changes = self.stored_changes = memory.changes
        self.states, self.outlived = memory.policy_states, memory.outlived

    def _write_paid(self, connection: Connection, memory: Memory) -> None:
        if memory.paid == self.paid:
            return
        kept = set(memory.paid)
        for one in self.paid:
            if one not in kept:
                this = (PaidRow.job_id == one.job_id) & (PaidRow.at == one.at)
                connection.execute(delete(PaidRow).where(this))
        held = set(self.paid)
        upsert(connection, PaidRow, [to_row(one) for one in memory.paid if one not in held])
        self.paid = memory.paid

    def _write_jobs(self, connection: Connection, memory: Memory) -> None:
        lasting = {job_id: one.lasting for job_id, one in memory.jobs.items()}
        jobs = {job_id: one for job_id, one in lasting.items() if one != NOTHING}
        # Most are the very records of the last write, and need no comparison.
        changed = ((job_id, one) for job_id, one in jobs.items() if self.jobs.get(job_id) is not one)
        rows = [_job_values(job_id, one) for job_id, one in changed if self.jobs.get(job_id) != one]
        upsert(connection, JobMemoryRow, rows)
        forgotten = [job_id for job_id in self.jobs if job_id not in jobs]
        for start in range(0, len(forgotten), CHUNK):
            some = forgotten[start : start + CHUNK]
            connection.execute(delete(JobMemoryRow).where(JobMemoryRow.job_id.in_(some)))
        self.jobs = jobs


def _of_job(row: JobMemoryRow) -> JobMemory:
    return JobMemory(
        preemptions=row.preemptions or 0,
        lost_runs=row.lost_runs or 0,
        last_preempted=row.last_preempted,
        retry_at=row.retry_at,
        futile=None if row.futile_count is None else from_row(row, Futility, prefix="futile_"),
        past=None if row.submitted_at is None else from_row(row, Past),
    )


def _job_values(job_id: JobId, one: JobMemory) -> Values:
    return {
        "job_id": job_id,
        "preemptions": one.preemptions,
        "lost_runs": one.lost_runs,
        "last_preempted": one.last_preempted,
        "retry_at": one.retry_at,
        **(to_row(one.past) if one.past else empty(Past)),
        **(to_row(one.futile, prefix="futile_") if one.futile else empty(Futility, prefix="futile_")),
    }


def scalars(memory: Memory) -> Values:
    """Values of the daemon's own row that are part of the memory."""
    return {"cycle": memory.cycle, "next_order": memory.next_order, "refused": msgspec.to_builtins(memory.refused)}


def _order_values(order: Order, seen: PresentJobs) -> Values:
    keys = {"in_memory": True, "preemptor_key": seen.key_of(order.preemptor)}
    return to_row(replace(order, victims=()), without="victims") | keys


def _victims_values(order: Order, seen: PresentJobs) -> Iterable[Values]:
    for position, victim in enumerate(order.victims):
        keys = {"order_id": order.order_id, "position": position, "job_key": seen.key_of(victim.job_id)}
        yield to_row(victim) | keys
