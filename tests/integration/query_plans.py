"""SQLite's plans of the statements that a piece of code makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event

#: Statements that read before anything else, and so can be explained.
_EXPLAINED = ("SELECT", "DELETE", "UPDATE")


@contextmanager
def query_plans(store: Engine) -> Iterator[list[str]]:
    """Give a list that holds each step of each statement's plan, once what is done in it is over: "SCAN jobs"."""
    made: list[tuple[str, Any]] = []
    plans: list[str] = []

    def note(
        _connection: Connection, _cursor: object, statement: str, parameters: Any, _context: object, many: bool
    ) -> None:
        if statement.startswith(_EXPLAINED) and not many:
            made.append((statement, parameters))

    event.listen(store, "before_cursor_execute", note)
    try:
        yield plans
    finally:
        event.remove(store, "before_cursor_execute", note)
    with store.connect() as connection:
        for statement, parameters in made:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans += [row.detail for row in rows]
