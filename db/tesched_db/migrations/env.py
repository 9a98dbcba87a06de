"""Alembic runs this file; the connection comes from `tesched_db.migrate`."""

from __future__ import annotations

from alembic import context

from tesched_db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    # SQLite changes a table by copying it.
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
