"""Changes by tesched in Slurm that are yet to be put back: one table for all levers, a row for each job and lever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session
from tesched_core.model.memory import Forwarded, Memory, NodeBinding, Throttled
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.tables import ChangeRow

#: by lever and job (of a throttle, the array)
Changes: TypeAlias = Mapping[tuple[str, JobId], Any]

#: the field of the memory, and the type of its records, by lever
_LEVERS: Mapping[str, tuple[str, type[Any]]] = {
    "hold": ("held", UnixSeconds),
    "throttle": ("throttled", Throttled),
    "boost": ("forwarded", Forwarded),
    "binding": ("bound", NodeBinding),
}


def of_memory(memory: Memory) -> Changes:
    """Return the memory's changes."""
    return {
        (lever, job_id): record
        for lever, (name, _) in _LEVERS.items()
        for job_id, record in getattr(memory, name).items()
    }


def by_field(changes: Changes) -> dict[str, dict[JobId, Any]]:
    """Return the changes as the memory has them: by field, then by job."""
    found: dict[str, dict[JobId, Any]] = {name: {} for name, _ in _LEVERS.values()}
    for (lever, job_id), record in changes.items():
        found[_LEVERS[lever][0]][job_id] = record
    return found


def load(session: Session) -> Changes:
    """Return what the store holds."""
    rows = session.scalars(select(ChangeRow).order_by(ChangeRow.lever, ChangeRow.job_id))
    return {
        (row.lever, JobId(row.job_id)): msgspec.convert(row.record, _LEVERS[row.lever][1], strict=False) for row in rows
    }


def write(connection: Connection, before: Changes, now: Changes) -> None:
    """Write in what the changes differ from those of before."""
    for key in [key for key, record in before.items() if now.get(key) != record]:
        connection.execute(delete(ChangeRow).where(ChangeRow.lever == key[0], ChangeRow.job_id == key[1]))
    rows = [
        {"lever": lever, "job_id": job_id, "record": msgspec.to_builtins(record)}
        for (lever, job_id), record in now.items()
        if before.get((lever, job_id)) != record
    ]
    if rows:
        connection.execute(insert(ChangeRow), rows)
