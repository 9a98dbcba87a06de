"""Deeds of admins at the command line, and the admins by the kernel's word: the caller's, not the environment's."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, select
from tesched_core.model.resources import UnixSeconds

from tesched_db.clock_skew import now_of
from tesched_db.engine import writing
from tesched_db.errors import store_errors
from tesched_db.tables import DeedRow

#: What the kernel says of a process that belongs to no login.
_NO_LOGIN = 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One of them."""

    at: UnixSeconds
    by: str
    what: str


def caller() -> str:
    """Return the user that runs this process, and the one that had logged in, where that is another (sudo, su).

    Source: getuid(2), and /proc/self/loginuid, which a login sets once and no user can change.
    """
    user = _name(os.getuid())
    try:
        login = int(Path("/proc/self/loginuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return user
    return user if login in {_NO_LOGIN, os.getuid()} else f"{user} (logged in as {_name(login)})"


def record(engine: Engine, what: str) -> None:
    """Write down what the caller did. Raises StoreError."""
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        note(connection, caller(), what)


def note(connection: Connection, by: str, what: str) -> None:
    """Write it down in the transaction of what was done."""
    connection.execute(insert(DeedRow).values({"at": now_of(connection), "by": by, "what": what}))


def recent(connection: Connection, limit: int) -> tuple[Deed, ...]:
    """Return the newest, newest first."""
    rows = connection.execute(select(DeedRow.at, DeedRow.by, DeedRow.what).order_by(DeedRow.key.desc()).limit(limit))
    return tuple(Deed(at=row.at, by=row.by, what=row.what) for row in rows)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
