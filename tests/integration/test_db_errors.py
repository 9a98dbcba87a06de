"""Which errors of a database are of a value, and which of the store: the former set a job aside, the latter do not.

The latter say which store.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg.errors
import pytest
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError, SQLAlchemyError
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.errors import RowError, StoreError, store_errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DataError("insert", {}, psycopg.errors.NumericValueOutOfRange("bigint out of range")), RowError),
        (ProgrammingError("insert", {}, sqlite3.ProgrammingError("type 'set' is not supported")), RowError),
        (ProgrammingError("insert", {}, psycopg.ProgrammingError("cannot adapt type 'set'")), RowError),
        (ProgrammingError("insert", {}, psycopg.errors.InsufficientPrivilege("permission denied")), StoreError),
        (ProgrammingError("insert", {}, psycopg.errors.UndefinedTable("no table victims")), StoreError),
        (ProgrammingError("insert", {}, psycopg.errors.UndefinedColumn("no column size")), StoreError),
    ],
)
def test_what_a_server_says_of_rights_and_tables_is_of_no_value(error: SQLAlchemyError, kind: type[StoreError]) -> None:
    with pytest.raises(StoreError) as caught, store_errors("write"):
        raise error
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "said",
    [
        psycopg.errors.UndefinedTable("no table victims"),
        psycopg.errors.UndefinedColumn("no column size"),
        sqlite3.OperationalError("no such column: daemon.bound"),
        sqlite3.OperationalError("no such table: victims"),
    ],
)
def test_a_store_of_another_development_version_is_said_to_be_one(said: Exception) -> None:
    first = "run `tesched undo` of the version that made it first, then move it away and make a new one by tesched db"
    with pytest.raises(StoreError, match=first), store_errors("read"):
        raise OperationalError("select", {}, said)


def test_a_file_system_that_is_full_is_named_where_the_index_of_the_log_does_not_fit() -> None:
    said = sqlite3.OperationalError("disk I/O error")
    # SQLITE_IOERR_SHMSIZE: so says SQLite of a store in write-ahead mode on a full tmpfs.
    said.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    with pytest.raises(StoreError, match="the file system is full, or fails"), store_errors("read"):
        raise OperationalError("select", {}, said)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE alembic_version", "the state store {} is empty; "),
        ("UPDATE alembic_version SET version_num = '0.1'", "the state store {} is of an older tesched "),
        ("UPDATE alembic_version SET version_num = '99.0'", "the state store {} is of a newer tesched "),
        ("", "cannot read the state store {}: "),
    ],
)
def test_an_error_says_which_store_it_is_of(tmp_path: Path, statement: str, says: str) -> None:
    file = tmp_path / "store.sqlite"
    url = f"sqlite:///{file}"
    migrate.upgrade(url)
    if statement:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(statement)
    else:
        file.write_bytes(b"\1" * 8192)
    with pytest.raises(StoreError, match=f"^{says.format(file)}"):
        open_store(url, read_only=True)
