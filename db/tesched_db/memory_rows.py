"""Core's orders, actions and refusals, to rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.orm import Session
from tesched_core.model.actions import OrderId
from tesched_core.model.field import Field
from tesched_core.model.memory import Futility, Memory, Past
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.order import (
    Departure,
    Ending,
    Order,
    OrderState,
    Purpose,
    Victim,
    VictimState,
)
from tesched_core.model.outlived import Outlived
from tesched_core.model.payment import Paid
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.size import Size

from tesched_db import change_rows, outlived_rows, policy_states
from tesched_db.bystander_rows import Bystanders
from tesched_db.change_rows import Changes
from tesched_db.job_rows import CHUNK, Seen, Values
from tesched_db.tables import DaemonRow, JobMemoryRow, OrderRow, PaidRow, VictimRow
from tesched_db.upsert import upsert


@dataclass(frozen=True, slots=True, kw_only=True)
class OfJob:
    """Memory of one job."""

    preemptions: int | None
    last_preempted: UnixSeconds | None
    retry_at: UnixSeconds | None
    futile: Futility | None
    past: Past | None


@dataclass
class Remembered:
    """The memory as the store holds it, but for its scalars."""

    orders: dict[OrderId, Order] = field(default_factory=dict)
    by_job: dict[JobId, OfJob] = field(default_factory=dict)
    paid: tuple[Paid, ...] = ()
    outlived: tuple[Outlived, ...] = ()
    bystanders: Bystanders = field(default_factory=Bystanders)
    changes: Changes = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def load(session: Session, kinds: Mapping[str, type[Any]]) -> Remembered:
        """Return what the store holds; `kinds` are the types of the policies' states, by the policy's name."""
        rows = session.scalars(select(OrderRow).where(OrderRow.in_memory.is_(True)).order_by(OrderRow.order_id)).all()
        victims = victims_of(session, [row.order_id for row in rows])
        by_job = session.scalars(select(JobMemoryRow).order_by(JobMemoryRow.job_id))
        return Remembered(
            orders={OrderId(row.order_id): order_of(row, victims.get(row.order_id, ())) for row in rows},
            by_job={JobId(row.job_id): _of_job(row) for row in by_job},
            paid=tuple(_paid_of(row) for row in session.scalars(select(PaidRow).order_by(PaidRow.at, PaidRow.job_id))),
            outlived=outlived_rows.load(session),
            bystanders=Bystanders.load(session),
            changes=change_rows.load(session),
            states=policy_states.load(session, kinds),
        )

    def memory(self, cycle: int, next_order: int) -> Memory:
        """Return it as core knows it."""
        return Memory(
            cycle=cycle,
            next_order=OrderId(next_order),
            orders=dict(self.orders),
            preemptions={job_id: one.preemptions for job_id, one in self.by_job.items() if one.preemptions is not None},
            last_preempted={
                job_id: one.last_preempted for job_id, one in self.by_job.items() if one.last_preempted is not None
            },
            paid=self.paid,
            outlived=self.outlived,
            bystanders=self.bystanders.by_job,
            past={job_id: one.past for job_id, one in self.by_job.items() if one.past is not None},
            retry_at={job_id: one.retry_at for job_id, one in self.by_job.items() if one.retry_at is not None},
            futile={job_id: one.futile for job_id, one in self.by_job.items() if one.futile is not None},
            policy_states=dict(self.states),
            changes=self.changes,
        )

    def write(self, connection: Connection, memory: Memory, seen: Seen) -> None:
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
        self._write_by_job(connection, memory)
        self._write_paid(connection, memory)
        self.bystanders.write(connection, memory, seen)
        outlived_rows.write(connection, self.outlived, memory.outlived)
        change_rows.write(connection, self.changes, memory.changes)
        policy_states.write(connection, self.states, memory.policy_states)
        self.changes, self.states, self.outlived = memory.changes, memory.policy_states, memory.outlived

    def _write_paid(self, connection: Connection, memory: Memory) -> None:
        if memory.paid == self.paid:
            return
        kept = set(memory.paid)
        for one in self.paid:
            if one not in kept:
                this = (PaidRow.job_id == one.job_id) & (PaidRow.at == one.at)
                connection.execute(delete(PaidRow).where(this))
        held = set(self.paid)
        upsert(connection, PaidRow, [_paid_values(one) for one in memory.paid if one not in held])
        self.paid = memory.paid

    def _write_by_job(self, connection: Connection, memory: Memory) -> None:
        by_job = {
            job_id: OfJob(
                preemptions=memory.preemptions.get(job_id),
                last_preempted=memory.last_preempted.get(job_id),
                retry_at=memory.retry_at.get(job_id),
                futile=memory.futile.get(job_id),
                past=memory.past.get(job_id),
            )
            for job_id in {
                *memory.preemptions,
                *memory.last_preempted,
                *memory.retry_at,
                *memory.futile,
                *memory.past,
            }
        }
        rows = [
            {
                "job_id": job_id,
                "preemptions": one.preemptions,
                "last_preempted": one.last_preempted,
                "retry_at": one.retry_at,
                "submitted_at": one.past.submitted_at if one.past else None,
                "ran_s": one.past.ran_s if one.past else None,
                "suspended_s": one.past.suspended_s if one.past else None,
                "longest_run_s": one.past.longest_run_s if one.past else None,
                "delayed_s": one.past.delayed_s if one.past else None,
                "excused_s": one.past.excused_s if one.past else None,
                **_futile_values(one.futile),
            }
            for job_id, one in by_job.items()
            if self.by_job.get(job_id) != one
        ]
        upsert(connection, JobMemoryRow, rows)
        forgotten = [job_id for job_id in self.by_job if job_id not in by_job]
        for start in range(0, len(forgotten), CHUNK):
            some = forgotten[start : start + CHUNK]
            connection.execute(delete(JobMemoryRow).where(JobMemoryRow.job_id.in_(some)))
        self.by_job = by_job


def _of_job(row: JobMemoryRow) -> OfJob:
    past = None
    if row.submitted_at is not None and row.ran_s is not None:
        past = Past(
            submitted_at=row.submitted_at,
            ran_s=row.ran_s,
            suspended_s=row.suspended_s or 0.0,
            longest_run_s=row.longest_run_s or 0.0,
            delayed_s=row.delayed_s or 0.0,
            excused_s=row.excused_s or 0.0,
        )
    return OfJob(
        preemptions=row.preemptions,
        last_preempted=row.last_preempted,
        retry_at=row.retry_at,
        futile=_futile_of(row),
        past=past,
    )


def _futile_of(row: JobMemoryRow) -> Futility | None:
    if row.futile_count is None or row.futile_ending is None:
        return None
    return Futility(
        count=row.futile_count,
        ending=Ending(row.futile_ending),
        said=row.futile_said or "",
        basis=row.futile_basis or "",
        fellows=row.futile_fellows or 0,
        changed=bool(row.futile_changed),
        first_restart=row.futile_first_restart,
    )


def _futile_values(futile: Futility | None) -> Values:
    return {
        "futile_count": futile.count if futile else None,
        "futile_ending": futile.ending.value if futile else None,
        "futile_said": futile.said if futile else None,
        "futile_basis": futile.basis if futile else None,
        "futile_fellows": futile.fellows if futile else None,
        "futile_changed": futile.changed if futile else None,
        "futile_first_restart": futile.first_restart if futile else None,
    }


def _paid_of(row: PaidRow) -> Paid:
    return Paid(
        at=row.at,
        job_id=JobId(row.job_id),
        user=row.user,
        account=row.account,
        nodes=tuple(row.nodes),
        node_s=row.node_s,
        preemptor=JobId(row.preemptor) if row.preemptor is not None else None,
        preemptor_restarts=row.preemptor_restarts,
        put_back_at=row.put_back_at,
        for_user=row.for_user,
        for_account=row.for_account,
        purpose=Purpose(row.purpose),
        withdrawn=row.withdrawn,
    )


def _paid_values(paid: Paid) -> Values:
    return {
        "at": paid.at,
        "job_id": paid.job_id,
        "user": paid.user,
        "account": paid.account,
        "nodes": list(paid.nodes),
        "node_s": paid.node_s,
        "preemptor": paid.preemptor,
        "preemptor_restarts": paid.preemptor_restarts,
        "put_back_at": paid.put_back_at,
        "for_user": paid.for_user,
        "for_account": paid.for_account,
        "purpose": paid.purpose.value,
        "withdrawn": paid.withdrawn,
    }


def refused_of(row: DaemonRow) -> Mapping[Field, RefusedChange]:
    """Return the kinds of change that Slurm refuses."""
    return msgspec.convert(row.refused, dict[Field, RefusedChange], strict=False)


def victims_of(session: Session, order_ids: list[int]) -> dict[int, list[Victim]]:
    """Return the victims of these orders, by order, in their order."""
    found: dict[int, list[Victim]] = {}
    for start in range(0, len(order_ids), CHUNK):
        some = order_ids[start : start + CHUNK]
        query = select(VictimRow).where(VictimRow.order_id.in_(some)).order_by(VictimRow.order_id, VictimRow.position)
        for row in session.scalars(query):
            found.setdefault(row.order_id, []).append(victim_of(row))
    return found


def order_of(row: OrderRow, victims: Iterable[Victim]) -> Order:
    """Return the order that a row holds."""
    return Order(
        order_id=OrderId(row.order_id),
        preemptor=JobId(row.preemptor),
        state=OrderState(row.state),
        created_at=row.created_at,
        expires_at=row.expires_at,
        nodes=tuple(row.nodes),
        victims=tuple(victims),
        waits_until=row.waits_until,
        newest_task=None if row.newest_task is None else JobId(row.newest_task),
        size=_size_of(row.size),
        restarts=row.restarts,
        run_seen_at=row.run_seen_at,
        started_at=row.started_at,
        ending=Ending(row.ending) if row.ending is not None else None,
        ended_at=row.ended_at,
    )


def _order_values(order: Order, seen: Seen) -> Values:
    return {
        "order_id": order.order_id,
        "in_memory": True,
        "preemptor": order.preemptor,
        "preemptor_key": seen.key_of(order.preemptor),
        "state": order.state.value,
        "created_at": order.created_at,
        "expires_at": order.expires_at,
        "nodes": list(order.nodes),
        "waits_until": order.waits_until,
        "newest_task": order.newest_task,
        "size": _size_value(order.size),
        "restarts": order.restarts,
        "run_seen_at": order.run_seen_at,
        "started_at": order.started_at,
        "ending": order.ending.value if order.ending else None,
        "ended_at": order.ended_at,
    }


def victim_of(row: VictimRow) -> Victim:
    """Return the victim that a row holds."""
    return Victim(
        job_id=JobId(row.job_id),
        state=VictimState(row.state),
        restarts=row.restarts,
        grace_period_s=row.grace_period_s,
        notice_signal=row.notice_signal,
        notice_target=Target(row.notice_target),
        exit0=ExitZero(row.exit0),
        score=row.score,
        why=row.why,
        nodes=tuple(row.nodes),
        started_at=row.started_at,
        queued_at=row.queued_at,
        user=row.user,
        account=row.account,
        for_user=row.for_user,
        for_account=row.for_account,
        purpose=Purpose(row.purpose),
        noticed_at=row.noticed_at,
        requeue_sent_at=row.requeue_sent_at,
        by_suspending=row.by_suspending,
        suspend_sent_at=row.suspend_sent_at,
        suspended_at=row.suspended_at,
        ending_since=row.ending_since,
        saved_at=row.saved_at,
        given_up_at=row.given_up_at,
        left_at=row.left_at,
        departure=Departure(row.departure) if row.departure is not None else None,
        back_at=row.back_at,
        held_before=row.held_before,
        ends=row.ends,
        size=_size_of(row.size),
    )


def _size_of(value: object) -> Size | None:
    return msgspec.convert(value, Size | None, strict=False)


def _size_value(size: Size | None) -> object:
    return msgspec.to_builtins(size)


def _victims_values(order: Order, seen: Seen) -> Iterable[Values]:
    for position, victim in enumerate(order.victims):
        yield {
            "order_id": order.order_id,
            "position": position,
            "job_id": victim.job_id,
            "job_key": seen.key_of(victim.job_id),
            "state": victim.state.value,
            "restarts": victim.restarts,
            "grace_period_s": victim.grace_period_s,
            "notice_signal": victim.notice_signal,
            "notice_target": victim.notice_target.value,
            "exit0": victim.exit0.value,
            "score": victim.score,
            "why": victim.why,
            "nodes": list(victim.nodes),
            "started_at": victim.started_at,
            "queued_at": victim.queued_at,
            "user": victim.user,
            "account": victim.account,
            "for_user": victim.for_user,
            "for_account": victim.for_account,
            "purpose": victim.purpose.value,
            "noticed_at": victim.noticed_at,
            "requeue_sent_at": victim.requeue_sent_at,
            "by_suspending": victim.by_suspending,
            "suspend_sent_at": victim.suspend_sent_at,
            "suspended_at": victim.suspended_at,
            "ending_since": victim.ending_since,
            "saved_at": victim.saved_at,
            "given_up_at": victim.given_up_at,
            "left_at": victim.left_at,
            "departure": victim.departure.value if victim.departure else None,
            "back_at": victim.back_at,
            "held_before": victim.held_before,
            "ends": victim.ends,
            "size": _size_value(victim.size),
        }
