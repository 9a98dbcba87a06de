"""Insertion of rows that may be there already."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from tesched_db.declared import TableBase
from tesched_db.rows import Values


def upsert(connection: Connection, table: type[TableBase], rows: Iterable[Values], *, keep: Iterable[str] = ()) -> None:
    """Insert the rows, or update those with a primary key that is there already, but for their columns `keep`."""
    rows = list(rows)
    if not rows:
        return
    keys = list(table.__table__.primary_key)
    changing = [name for name in rows[0] if name not in {*(column.key for column in keys), *keep}]
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql  # noqa: PLC0415 - most stores need none

        on_postgresql = insert_postgresql(table)
        connection.execute(
            on_postgresql.on_conflict_do_update(
                index_elements=keys, set_={name: on_postgresql.excluded[name] for name in changing}
            ),
            rows,
        )
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite  # noqa: PLC0415 - as above

        on_sqlite = insert_sqlite(table)
        connection.execute(
            on_sqlite.on_conflict_do_update(
                index_elements=keys, set_={name: on_sqlite.excluded[name] for name in changing}
            ),
            rows,
        )


def insert_new(connection: Connection, table: type[TableBase], rows: Iterable[Values]) -> None:
    """Insert the rows but for those that are there, also if another process has written one a moment ago."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as insert_postgresql  # noqa: PLC0415 - most stores need none

        connection.execute(insert_postgresql(table).on_conflict_do_nothing(), list(rows))
    else:
        from sqlalchemy.dialects.sqlite import insert as insert_sqlite  # noqa: PLC0415 - as above

        connection.execute(insert_sqlite(table).on_conflict_do_nothing(), list(rows))
