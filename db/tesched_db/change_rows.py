"""Changes by tesched in Slurm that are yet to be put back: one table for all fields, a row for each job and field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Connection, delete, insert, select
from tesched_core.model.change import By, Change, Mark
from tesched_core.model.field import Field, Nodes
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId

from tesched_db.rows import rows_of
from tesched_db.tables import ChangeRow

#: by field, then by job (of a throttle, by the array)
Changes: TypeAlias = Mapping[str, Mapping[JobId, Change[Any]]]


_TYPES: Mapping[str, Any] = {Field.NODES: Change[Nodes], Field.MARK: Change[Mark]}


#: where rows of development versions belong that kept changes by lever, not by field: the strongest purpose first
_BY_LEVER: Mapping[str, tuple[Field, By | None]] = {
    "priority": (Field.NICE, By.PREEMPTOR),
    "victim_boost": (Field.NICE, By.VICTIM),
    "queue_boost": (Field.NICE, By.QUEUE),
    "node_binding": (Field.NODES, None),
    "begin_time": (Field.BEGIN, None),
    "requeue": (Field.HOLD, By.REQUEUE),
}


def load(connection: Connection) -> Changes:
    """Load the changes that the store holds."""
    return by_field(stored(connection))


def stored(connection: Connection) -> Changes:
    """Load the changes by the names under which their rows stand, which is what `write` compares with."""
    found: dict[str, dict[JobId, Change[Any]]] = {}
    for row in rows_of(connection, select(ChangeRow).order_by(ChangeRow.lever, ChangeRow.job_id)):
        one = msgspec.convert(row.record, _TYPES.get(row.record["field"], Change[int]), strict=False)
        found.setdefault(row.lever, {})[one.job_id] = one
    return found


def by_field(changes: Changes) -> Changes:
    """Return the changes by field, those of rows by lever among them: they are still to be put back."""
    found = {name: dict(by_job) for name, by_job in changes.items() if name not in _BY_LEVER}
    for lever, (field, by) in _BY_LEVER.items():
        for job_id, one in changes.get(lever, {}).items():
            first = found.setdefault(field, {}).get(job_id)
            now = replace(one, by=by)
            found[field][job_id] = now if first is None or first.restored else _one_of(first, now)
    return found


def _one_of(first: Change[Any], other: Change[Any]) -> Change[Any]:
    """Return one change for two of a job's field: the stronger, with the value that the job had before both."""
    if other.restored or first.field is not Field.NICE or other.field is not Field.NICE:
        return first
    before = other if first.previous == other.value else first
    return replace(first, previous=before.previous, own=before.own, value=min(first.value, other.value))


def write(connection: Connection, before: Changes, now: Changes) -> None:
    """Write in what the changes differ from those of before, by the names of their rows."""
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


def refused_of(held: object) -> Mapping[Field, RefusedChange]:
    """Return the kinds of change that Slurm refuses, as the daemon's row holds them."""
    return msgspec.convert(held, dict[Field, RefusedChange], strict=False)
