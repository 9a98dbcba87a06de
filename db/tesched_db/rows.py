"""Rows of core's dataclasses: each field in the column of its name, with a prefix where a row holds several of them.

A dataclass lists its fields once, its table its columns once. A field without a column ends the write; a column without
a value, as of a row that an earlier release wrote, is read as the field's default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar, cast

import msgspec
from sqlalchemy import Connection, Row, Select, select

from tesched_db.declared import TableBase

Values = dict[str, Any]
AnyRow = Row[*tuple[Any, ...]]
#: Rows in one statement, far below SQLite's 32,766 parameters.
CHUNK = 500
#: Of a statement with very many rows: so many are fetched at once. PostgreSQL ends a transaction of ours that is idle
#: for 5 s, as it is while we read what it has answered: 100,000 jobs took longer.
IN_PARTS = {"yield_per": 5000}
_T = TypeVar("_T")
_Row = TypeVar("_Row", bound=TableBase)


def rows_of(connection: Connection, query: Select[_Row]) -> Sequence[_Row]:
    """Rows of the query for a table, such as `select(JobRow).where(…)`."""
    return cast("Sequence[_Row]", connection.execute(query).all())


def row_of(connection: Connection, query: Select[_Row]) -> _Row | None:
    """First row of such a query; None if there is none."""
    return cast("_Row | None", connection.execute(query).first())


def row_by_key(connection: Connection, table: type[_Row], key: int) -> _Row | None:
    """Row with this primary key; None if there is none."""
    (column,) = table.__table__.primary_key
    return row_of(connection, select(table).where(column == key))


def from_row(row: TableBase | AnyRow, kind: type[_T], *, prefix: str = "", **given: Any) -> _T:
    """Dataclass that a row holds; the row has no column for the `given` fields.

    Raises:
        msgspec.ValidationError: a column holds what its field cannot.
    """
    values = {name: getattr(row, prefix + name) for name in _names(kind) if name not in given}
    held = {name: value for name, value in values.items() if value is not None}
    return msgspec.convert(held | given, kind, strict=False)


def to_row(one: Any, *, prefix: str = "", without: str = "") -> Values:
    """Values of a dataclass by column, but for one field that stands elsewhere."""
    values = msgspec.to_builtins(one)
    return {prefix + name: value for name, value in values.items() if name != without}


def empty(kind: type[Any], *, prefix: str = "") -> Values:
    """Values of a row that does not hold this dataclass."""
    return {prefix + name: None for name in _names(kind)}


def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
