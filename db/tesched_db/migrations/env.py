"""Alembic runs this file; the connection comes from `tesched_db.migrate`."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from tesched_db.tables import Base
from tesched_db.user_text import UserText


def render(kind: str, item: Any, _context: AutogenContext) -> str | Literal[False]:
    """Render our own type in a new migration: as what it is in the database, for it must not change later."""
    return "sa.Text()" if kind == "type" and isinstance(item, UserText) else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite changes a table by copying it.
    render_as_batch=True,
    render_item=render,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
