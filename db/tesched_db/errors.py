"""The errors of the state store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError, StatementError
from tesched_core.model.journal_error import JournalError, UnwritableError

from tesched_db.checked import DamagedError

#: PostgreSQL: undefined column, undefined table
_LACKS = frozenset({"42703", "42P01"})


class StoreError(JournalError):
    """The state store cannot be opened, read or written now; the message is one line for an admin."""


class RowError(StoreError, UnwritableError):
    """What is to be written has a value that the state store cannot hold."""


@contextmanager
def store_errors(doing: str, *, reads: bool = True) -> Iterator[None]:
    """Turn whatever the database or the file system raises into a StoreError that says what was being done.

    A ValueError is one of a record where it `reads`; else one that says nothing of a record is left as it is: what is
    written may raise it.
    """
    try:
        yield
    except SQLAlchemyError as error:
        kind = RowError if _is_of_a_value(error) else StoreError
        raise kind(f"cannot {doing}: {_in_words(error)}") from error
    except (OverflowError, UnicodeError) as error:
        # Of Python's sqlite3 itself: an int beyond 64 bits, a text with half a character.
        raise RowError(f"cannot {doing}: {_first_line(error)}") from error
    except ValueError as error:
        if not (reads or isinstance(error, (DamagedError, msgspec.ValidationError))):
            raise
        # A record is read and is JSON that was cut off, a word that is none of its kind, or a value of another type.
        hint = "another version wrote it, or another hand; restore the store from a copy, or move it away"
        said = _first_line(error)
        raise StoreError(f"cannot {doing}: a record holds what tesched does not write: {said} ({hint})") from error
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot {doing}: {_first_line(error)}") from error


def _is_of_a_value(error: SQLAlchemyError) -> bool:
    if isinstance(error, DBAPIError):
        if isinstance(error, ProgrammingError):
            # A value of a type that the driver does not know; what a server says is of its tables and of rights.
            return getattr(error.orig, "sqlstate", None) is None
        return isinstance(error, (DataError, IntegrityError))
    return isinstance(error, StatementError)


def _in_words(error: SQLAlchemyError) -> str:
    if not isinstance(error, DBAPIError) or error.orig is None:
        return _first_line(error)
    said = _first_line(error.orig)
    lacks = said.startswith(("no such column", "no such table")) or getattr(error.orig, "sqlstate", None) in _LACKS
    if lacks:
        # A schema that has not been released yet changes in place. What the old store knows is to be put back first.
        return (
            f"{said} (made by another development version: run `tesched undo` of the version that made it first, then "
            "move it away and make a new one by tesched db upgrade)"
        )
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is None:
        return said
    # SQLite's extended codes carry the base code in their last byte.
    hint = {
        sqlite3.SQLITE_BUSY: "another process keeps it locked",
        sqlite3.SQLITE_FULL: "the file system is full",
        # A full one as well, where the index of the write-ahead log does not fit.
        sqlite3.SQLITE_IOERR: "the file system is full, or fails",
        sqlite3.SQLITE_READONLY: "the file, or its directory, may not be written",
        sqlite3.SQLITE_CANTOPEN: "the file, or its directory, may not be opened",
        sqlite3.SQLITE_NOTADB: "the file is not a state store",
        sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a copy",
    }.get(code & 0xFF)
    return f"{said} ({hint})" if hint else said


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
