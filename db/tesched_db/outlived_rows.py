"""TE runs that outlived their time limits, of the last day."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Engine, delete, insert, select
from tesched_core.guard.misuse import barred_users
from tesched_core.model.limits import TeLimits
from tesched_core.model.outlived import Barred, Outlived
from tesched_core.model.resources import UnixSeconds

from tesched_db.engine import reader
from tesched_db.rows import from_row, rows_of, to_row
from tesched_db.tables import OutlivedRow


def load(connection: Connection) -> tuple[Outlived, ...]:
    """Load the outlived bounds that the store holds, oldest first."""
    rows = rows_of(connection, select(OutlivedRow).order_by(OutlivedRow.at, OutlivedRow.job_id))
    return tuple(from_row(row, Outlived) for row in rows)


def write(connection: Connection, before: tuple[Outlived, ...], now: tuple[Outlived, ...]) -> None:
    """Write in what they differ from those of before."""
    if before == now:
        return
    for one in set(before) - set(now):
        this = (OutlivedRow.job_id == one.job_id) & (OutlivedRow.at == one.at)
        connection.execute(delete(OutlivedRow).where(this))
    rows = [to_row(one) for one in now if one not in set(before)]
    if rows:
        connection.execute(insert(OutlivedRow), rows)


def barred(engine: Engine, limits: TeLimits, now: UnixSeconds) -> Mapping[str, Barred]:
    """Return the users who have no TE jobs now, by name."""
    with reader(engine) as connection:
        return barred_users(load(connection), limits, now)
