"""Engines for the store: SQLite by default, PostgreSQL by its URL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Dialect, Engine, NullPool, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry
from tesched_core.model.extra import Extra

from tesched_db.errors import StoreError, store_errors
from tesched_db.store_file import OPTION, StoreFile, check_log, check_owner, found, make

#: The migration that this code was written for, `migrations/versions/*`.
SCHEMA = "0.2"
#: What speaks to PostgreSQL.
DRIVER = Extra(package="psycopg", module="psycopg", install=".[postgresql]")
#: Seconds to wait for another process's lock before giving up.
LOCK_WAIT_S = 5.0
#: Pages, of 4 KiB, of SQLite's write-ahead log after which a commit copies it into the file. A poll in which 1,000 of
#: 100,000 jobs have changed writes 1,500 of them: by SQLite's own 1,000 each such commit took three times as long.
LOG_PAGES = 8000
#: MiB that SQLite leaves the log's file once it begins it anew: it never shrank after one large write, or a reader that
#: kept it from being copied. It is twice what a commit copies, so that the file isn't cut and grown at each.
MOST_LOG_MIB = 64
#: KiB of a writer's pages that SQLite keeps in memory. By its own 2,000 those of such a poll were read anew each time,
#: and written before the commit.
CACHE_KIB = 16_000
#: Seconds after which PostgreSQL is to end a connection of ours that says nothing in the middle of a transaction.
IDLE_S = 5.0
#: Seconds after which PostgreSQL is to end a statement of ours.
STATEMENT_S = 60.0
#: Seconds without a sign of PostgreSQL after which we give up waiting for it. It has ended what we wait for before
#: that, unless it hangs, or a proxy before it.
ANSWER_S = STATEMENT_S + 10
#: Seconds of silence after which the kernel asks whether the peer is there, and between two such questions, and how
#: many are to be left unanswered. What was sent and is not acknowledged is given up in the same time, 20 s.
PROBE_S = 5
PROBES = 3
_NO_PORT = (
    "the port in the state store's URL is no number from 1 to 65535; "
    "in a user's name and a password write %40 for @, %3A for :, %2F for /, %23 for #, %25 for %"
)
#: the execution option with the store's name in messages: its file, or its URL without a password
_NAMED = "tesched_named"


def shown(url: str) -> str:
    """Return the URL without its passwords, for logs and screens."""
    parsed = make_url(url).difference_update_query(["password", "sslpassword"])
    return parsed.render_as_string(hide_password=True)


def named_store(engine: Engine) -> str:
    """Name of the engine's store in messages: "the state store /var/lib/…"."""
    return f"the state store {engine.get_execution_options()[_NAMED]}"


def parse_url(url: str) -> URL:
    """Return the URL with the driver that we use.

    Raises StoreError for anything but SQLite and PostgreSQL.
    """
    # No message repeats the URL, and with it a password.
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise StoreError("the state store's URL is not one of the form sqlite:////path or postgresql://…") from None
    except ValueError:
        raise StoreError(_NO_PORT) from None
    if parsed.port is not None and not 1 <= parsed.port <= 65_535:
        raise StoreError(_NO_PORT)
    backend = parsed.get_backend_name()
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError("a state store in SQLite needs a path, as in sqlite:////var/lib/tesched/tesched.sqlite")
        return parsed.set(drivername="sqlite+pysqlite")
    raise StoreError(f"a state store is SQLite or PostgreSQL, not {backend}")


def make_engine(url: str, *, read_only: bool = False, create: bool = False, lock_wait_s: float = LOCK_WAIT_S) -> Engine:
    """Make an engine for the store; its schema is not checked (see `open_store`).

    `create` makes an SQLite file where there is none, with mode 0640; its directory must exist. `read_only` is for
    users that may read the file and not write it: it makes no file, and leaves none behind. `lock_wait_s` bounds, in
    seconds, how long a call waits for another process's lock.

    Raises StoreError if the URL, the directory, the file or the driver is not right.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine, named = _sqlite(parsed, read_only, create, lock_wait_s), str(Path(parsed.database or "").absolute())
    else:
        engine, named = _postgresql(parsed, read_only, lock_wait_s), shown(url)
    return engine.execution_options(**{_NAMED: named})


def open_store(url: str, *, read_only: bool = False, lock_wait_s: float = LOCK_WAIT_S) -> Engine:
    """Return an engine for a store with the schema that this code knows.

    Raises StoreError if it is not, or if there is no store: the message says what to type.
    """
    engine = make_engine(url, read_only=read_only, lock_wait_s=lock_wait_s)
    try:
        check_schema(engine)
    except StoreError:
        engine.dispose()
        raise
    return engine


def schema_of(engine: Engine) -> str | None:
    """Return the migration that the store is at; None for an empty store."""
    with store_errors(f"read {named_store(engine)}"), engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return found


def release_of(schema: str) -> tuple[int, ...]:
    """Return a schema's release, to compare: schemas are named by the release that brought them.

    Raises StoreError for one of before the first release, which no release can bring up to date.
    """
    parts = schema.split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        raise StoreError(
            f"the state store was made before tesched's first release (schema {schema}) and cannot be brought up to "
            "date; run `tesched undo` of that version, move the store away, and let `tesched db upgrade` make a new one"
        )
    return tuple(map(int, parts))


def check_schema(engine: Engine) -> None:
    """Raise StoreError unless the store's schema is the one that this code knows."""
    found, named = schema_of(engine), named_store(engine)
    if found == SCHEMA:
        return
    if found is None:
        raise StoreError(f"{named} is empty; run `tesched db upgrade`")
    if release_of(found) < release_of(SCHEMA):
        raise StoreError(f"{named} is of an older tesched (schema {found}); run `tesched db upgrade`")
    raise StoreError(
        f"{named} is of a newer tesched (schema {found}, this one knows {SCHEMA}); install that release, "
        "and let its `tesched db upgrade` have the last word"
    )


def writing(engine: Engine) -> Engine:
    """Return the same engine with transactions that take SQLite's write lock at their start.

    A transaction that reads first and writes then fails at once if another wrote in between; waiting for the lock
    at the start does not.
    """
    return engine.execution_options(tesched_writes=True)


def reading(engine: Engine) -> Engine:
    """Return the same engine with transactions that see one instant however many queries they make."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


@contextmanager
def reader(engine: Engine, doing: str = "") -> Iterator[Connection]:
    """Yield a connection that sees one instant. Raises StoreError for what is raised while the store is read by it.

    `doing` is what cannot be done then, for its message; else it is that the store is read.
    """
    with store_errors(doing or f"read {named_store(engine)}"), reading(engine).connect() as connection:
        yield connection


def _sqlite(url: URL, read_only: bool, create: bool, lock_wait_s: float) -> Engine:
    path = Path(url.database or "").absolute()
    if not path.parent.is_dir():
        raise StoreError(
            f"the state store's directory {path.parent} does not exist; create it first, or name another in store.url"
        )
    file = None
    if read_only:
        found(path)
        engine = create_engine(
            "sqlite+pysqlite://", creator=_reader_of(path, lock_wait_s), poolclass=NullPool, hide_parameters=True
        )
    else:
        if create:
            with store_errors(f"make the state store {path}"):
                make(path)
        check_owner(path)
        engine = create_engine(
            url.set(database=f"file:{_quoted(path)}?mode=rw", query={"uri": "true"}),
            connect_args={"timeout": lock_wait_s, "check_same_thread": False},
        )
        file = StoreFile(path)

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: ConnectionPoolEntry) -> None:
        # SQLAlchemy begins transactions (below), not the driver, which would leave DDL and reads outside of them.
        connection.isolation_level = None
        try:
            cursor = connection.cursor()
            if not read_only:
                cursor.execute("PRAGMA journal_mode = WAL")
                cursor.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
                cursor.execute(f"PRAGMA journal_size_limit = {MOST_LOG_MIB * 2**20}")
                cursor.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            # An intent must outlive a power cut: what it announces is done right after it.
            cursor.execute("PRAGMA synchronous = FULL")
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.close()
        except BaseException:
            # The file is no database, say. SQLAlchemy has not taken the connection yet, and would not close it.
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("tesched_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return _watched(engine, file) if file else engine


def _reader_of(path: Path, lock_wait_s: float) -> Callable[[], sqlite3.Connection]:
    """Function that opens the file for reading, and neither makes a file beside it nor leaves one."""

    def connect() -> sqlite3.Connection:
        found(path)
        # Without a write-ahead log no process has it open, and it can be read as it is; to open it in any other way
        # would make a log.
        alone = not Path(f"{path}-wal").exists()
        if not alone:
            check_log(path)
        database = f"file:{_quoted(path)}?mode=ro{'&immutable=1' if alone else ''}"
        return sqlite3.connect(database, uri=True, timeout=lock_wait_s, check_same_thread=False)

    return connect


def _watched(engine: Engine, file: StoreFile) -> Engine:
    """Return the engine with transactions that fail once the path names another file than the one that was opened."""

    @event.listens_for(engine, "connect")
    def _on_connect(_connection: object, _record: ConnectionPoolEntry) -> None:
        file.connected()

    @event.listens_for(engine, "close")
    def _on_close(_connection: object, _record: ConnectionPoolEntry) -> None:
        file.disconnected()

    @event.listens_for(engine, "begin")
    def _on_begin(_connection: Connection) -> None:
        file.check()

    @event.listens_for(engine, "commit")
    def _on_commit(_connection: Connection) -> None:
        file.check()

    return engine.execution_options(**{OPTION: file})


def _quoted(path: Path) -> str:
    """Return the path as a SQLite URI wants it."""
    return str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def postgresql_arguments(url: URL, lock_wait_s: float) -> dict[str, Any]:
    """Return the parameters of libpq with which a store is opened, without those that its URL has itself."""
    # A daemon that is frozen in the middle of a write must not keep its standby from writing: IDLE_S.
    options = {
        "lock_timeout": lock_wait_s,
        "statement_timeout": STATEMENT_S,
        "idle_in_transaction_session_timeout": IDLE_S,
    }
    arguments = {
        "connect_timeout": 10,
        "options": " ".join(f"-c {name}={int(seconds * 1000)}" for name, seconds in options.items()),
        # On a Unix socket these count for nothing.
        "keepalives": 1,
        "keepalives_idle": PROBE_S,
        "keepalives_interval": PROBE_S,
        "keepalives_count": PROBES,
        "tcp_user_timeout": PROBE_S * (PROBES + 1) * 1000,
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def _postgresql(url: URL, read_only: bool, lock_wait_s: float) -> Engine:
    if why := DRIVER.lacking():
        raise StoreError(f"a state store in PostgreSQL (store.url) needs {why}")
    engine = create_engine(url, connect_args=postgresql_arguments(url, lock_wait_s), pool_pre_ping=True)
    from tesched_db import answering  # noqa: PLC0415 - the driver is there now

    @event.listens_for(engine, "do_connect")
    def _on_connect(_dialect: Dialect, _record: ConnectionPoolEntry, arguments: Any, parameters: Any) -> Any:
        return answering.connect(ANSWER_S, *arguments, **parameters)

    return engine.execution_options(postgresql_readonly=True) if read_only else engine
