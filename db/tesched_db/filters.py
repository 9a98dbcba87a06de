"""Filters of jobs and orders, as conditions of queries."""

from __future__ import annotations

import re

from sqlalchemy import ColumnElement, Select, and_, not_, or_, select
from tesched_core.model.cluster import FINISHED
from tesched_core.model.order import Departure, Ending

from tesched_db.tables import JobRow, OrderRow, VictimRow
from tesched_db.views import JobFilter, OrderFilter


def job_conditions(which: JobFilter) -> list[ColumnElement[bool]]:
    """Return the conditions on a job's row."""
    conditions: list[ColumnElement[bool]] = []
    if which.ids is not None:
        conditions.append(JobRow.job_id.in_(which.ids))
    if which.users:
        conditions.append(JobRow.user.in_(which.users))
    if which.account is not None:
        conditions.append(JobRow.account == which.account)
    if which.partitions:
        # A waiting job may name several, with commas between them.
        each = (f",{name}," for name in which.partitions)
        conditions.append(or_(*(("," + JobRow.partition + ",").contains(name, autoescape=True) for name in each)))
    if which.job_class is not None:
        conditions.append(JobRow.job_class == which.job_class.value)
    states, forgotten = JobRow.state.in_([state.value for state in which.states]), _is_forgotten()
    if which.forgotten:
        conditions.append(or_(forgotten, states) if which.states else forgotten)
    elif which.states:
        conditions += [states] if which.forgotten is None else [states, not_(forgotten)]
    if which.ended_since is not None:
        conditions.append(JobRow.end_time >= which.ended_since)
    if not which.with_gone:
        is_known = JobRow.last_seen.is_(None)
        conditions.append(or_(is_known, forgotten) if which.forgotten else is_known)
    return conditions


def _is_forgotten() -> ColumnElement[bool]:
    """Condition on the row of a job that Slurm forgot before its end was seen (`JobView.is_forgotten`)."""
    return and_(JobRow.last_seen.is_not(None), JobRow.state.not_in([state.value for state in FINISHED]))


def orders_query(which: OrderFilter) -> Select[OrderRow]:
    """Return the query for the orders, in no order and without a limit."""
    query = select(OrderRow)
    if which.open_only:
        query = query.where(OrderRow.ended_at.is_(None))
    if which.since is not None:
        query = query.where(OrderRow.created_at >= which.since)
    if which.until is not None:
        query = query.where(OrderRow.created_at < which.until)
    if which.users:
        theirs = select(JobRow.key).where(JobRow.user.in_(which.users))
        paying = select(VictimRow.order_id).where(VictimRow.job_key.in_(theirs))
        query = query.where(or_(OrderRow.preemptor_key.in_(theirs), OrderRow.order_id.in_(paying)))
    if which.futile_only:
        by_slurm = VictimRow.departure == Departure.REQUEUED.value
        asked = or_(VictimRow.noticed_at.is_not(None), by_slurm)
        finished = and_(
            VictimRow.job_id == OrderRow.preemptor,
            VictimRow.departure.is_not_distinct_from(Departure.FINISHED.value),
        )
        left = (
            select(VictimRow.order_id).where(VictimRow.left_at.is_not(None), asked, not_(finished)).correlate(OrderRow)
        )
        query = query.where(OrderRow.ending != Ending.STARTED_HERE.value, OrderRow.order_id.in_(left))
    return query


def named(name: str) -> ColumnElement[bool] | None:
    """Return the condition on a job's row that an id, or what squeue writes, stands for; None for anything else."""
    if task := re.fullmatch(r"(\d{1,10})_(\d{1,10})", name):
        return and_(JobRow.array_job_id == int(task[1]), JobRow.array_task_id == int(task[2]))
    if component := re.fullmatch(r"(\d{1,10})\+(\d{1,10})", name):
        return and_(JobRow.het_job_id == int(component[1]), JobRow.het_offset == int(component[2]))
    if plain := re.fullmatch(r"(\d{1,10})(_\[.*\]|_\*)?", name):
        return JobRow.job_id == int(plain[1])
    return None
