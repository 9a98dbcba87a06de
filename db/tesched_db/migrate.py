"""The schema's migrations: up to date, where are we, do tables and migrations agree. Alembic, without an ini file."""

from __future__ import annotations

from io import StringIO

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine

from tesched_db.engine import SCHEMA, make_engine, named_store, release_of, schema_of, writing
from tesched_db.errors import StoreError, store_errors
from tesched_db.tables import Base


def configuration(connection: Connection) -> Config:
    """Return Alembic's configuration, for what is to be done over this connection."""
    config = Config(stdout=StringIO())
    config.set_main_option("script_location", "tesched_db:migrations")
    config.attributes["connection"] = connection
    return config


def upgrade(url: str) -> str:
    """Bring the store at `url` to this code's schema, creating it if there is none; return the schema's name.

    Either all of it happens or nothing. Raises StoreError, also for a store of a newer tesched.
    """
    engine = make_engine(url, create=True)
    try:
        before = schema_of(engine)
        if before is not None and release_of(before) > release_of(SCHEMA):
            raise StoreError(f"{named_store(engine)} is of a newer tesched (schema {before}, this one knows {SCHEMA})")
        with store_errors(f"upgrade {named_store(engine)}"), writing(engine).begin() as connection:
            if connection.dialect.name == "postgresql":
                # A large table may take longer than any statement of the daemon's.
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
            try:
                command.upgrade(configuration(connection), "head")
            except CommandError as error:
                hint = "run `tesched undo` of the version that made it, move the store away, and have a new one made"
                raise StoreError(f"there is no way from schema {before} to {SCHEMA} ({error}); {hint}") from None
    finally:
        engine.dispose()
    return SCHEMA


def current(url: str) -> str | None:
    """Return the schema that the store at `url` has; None for an empty one. Raises StoreError."""
    engine = make_engine(url, read_only=True)
    try:
        return schema_of(engine)
    finally:
        engine.dispose()


def differences(engine: Engine) -> list[str]:
    """Return in what the store's tables differ from those of this code; nothing if all is well. Raises StoreError."""
    with store_errors(f"read the schema of {named_store(engine)}"), engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(difference) for difference in compare_metadata(context, Base.metadata)]
