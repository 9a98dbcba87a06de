"""Levels at which the daemon reads quantiles of run times: with them a prediction needs few runs of the store.

They are the result of scoring thousands of runs (`tesched_predict.calibration`), which a command has no time for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, select
from tesched_core.model.resources import UnixSeconds

from tesched_db.engine import reader, writing
from tesched_db.errors import store_errors
from tesched_db.rows import row_of
from tesched_db.tables import RunTimeLevelsRow
from tesched_db.upsert import upsert
from tesched_db.user_text import storable


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLevels:
    """Levels of the daemon of one cluster, by the nominal level."""

    cluster: str
    levels: Mapping[float, float]


def write(engine: Engine, written: WrittenLevels, at: UnixSeconds) -> None:
    """Write the levels of a cluster in the place of its last ones. Raises StoreError."""
    levels = {str(level): read_at for level, read_at in written.levels.items()}
    row = {"cluster": storable(written.cluster), "levels": levels, "written_at": at}
    with store_errors("write the levels of run times"), writing(engine).begin() as connection:
        upsert(connection, RunTimeLevelsRow, [row])


def newest(engine: Engine) -> WrittenLevels | None:
    """Levels that were written last; None: no daemon has learned enough yet. Raises StoreError."""
    with reader(engine, "read the levels of run times") as connection:
        row = row_of(connection, select(RunTimeLevelsRow).order_by(RunTimeLevelsRow.written_at.desc()).limit(1))
        if row is None:
            return None
        return WrittenLevels(cluster=row.cluster, levels={float(level): at for level, at in row.levels.items()})
