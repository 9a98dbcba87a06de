"""Changes by tesched in Slurm that are yet to be put back: one table for all fields, a row for each job and field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session
from tesched_core.model.change import Change, Mark
from tesched_core.model.field import Field, Nodes
from tesched_core.model.resources import JobId

from tesched_db.tables import ChangeRow

#: by field, then by job (of a throttle, by the array)
Changes: TypeAlias = Mapping[str, Mapping[JobId, Change[Any]]]


_TYPES: Mapping[str, Any] = {Field.NODES: Change[Nodes], Field.MARK: Change[Mark]}


def load(session: Session) -> Changes:
    """Load the changes that the store holds."""
    found: dict[str, dict[JobId, Change[Any]]] = {}
    for row in session.scalars(select(ChangeRow).order_by(ChangeRow.lever, ChangeRow.job_id)):
        one = msgspec.convert(row.record, _TYPES.get(row.record["field"], Change[int]), strict=False)
        found.setdefault(row.lever, {})[one.job_id] = one
    return found


def write(connection: Connection, before: Changes, now: Changes) -> None:
    """Write in what the changes differ from those of before."""
    held, kept = _flat(before), _flat(now)
    for lever, job_id in [key for key, one in held.items() if kept.get(key) != one]:
        connection.execute(delete(ChangeRow).where(ChangeRow.lever == lever, ChangeRow.job_id == job_id))
    rows = [
        {"lever": lever, "job_id": job_id, "record": msgspec.to_builtins(one)}
        for (lever, job_id), one in kept.items()
        if held.get((lever, job_id)) != one
    ]
    if rows:
        connection.execute(insert(ChangeRow), rows)


def _flat(changes: Changes) -> dict[tuple[str, JobId], Change[Any]]:
    return {(lever, job_id): one for lever, by_job in changes.items() for job_id, one in by_job.items()}
