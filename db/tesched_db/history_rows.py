"""Changes of jobs' states, as the store holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, Engine, select
from tesched_core.intake.job_times import StateChange, Suspensions, suspensions
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId

from tesched_db.engine import reader
from tesched_db.rows import CHUNK, rows_of
from tesched_db.tables import HistoryRow, JobRow


def changes_of(connection: Connection, keys: Iterable[int]) -> Mapping[int, list[StateChange]]:
    """Return the changes of these jobs, by key, oldest first. At most `CHUNK` keys."""
    found: defaultdict[int, list[StateChange]] = defaultdict(list)
    query = select(HistoryRow).where(HistoryRow.job_key.in_(list(keys))).order_by(HistoryRow.key)
    for row in rows_of(connection, query):
        found[row.job_key].append(
            StateChange(
                at=row.at,
                state=JobState(row.state),
                restarts=row.restarts,
                completing=row.completing,
                submit_time=row.submit_time,
                start_time=row.start_time,
                end_time=row.end_time,
                nodes=tuple(row.nodes),
                reason=row.reason,
            )
        )
    return found


def suspensions_of(connection: Connection, keys: Iterable[int]) -> Mapping[int, Suspensions]:
    """Return the suspensions of those of these jobs that have been suspended, by key. At most `CHUNK` keys."""
    was = select(HistoryRow.job_key).where(
        HistoryRow.job_key.in_(list(keys)), HistoryRow.state == JobState.SUSPENDED.value
    )
    found = set(connection.scalars(was))
    return {key: suspensions(changes) for key, changes in changes_of(connection, found).items()} if found else {}


def suspensions_on_nodes(engine: Engine) -> Mapping[tuple[JobId, int], Suspensions]:
    """Return the suspensions of the runs under way, by job and its restarts. Raises StoreError."""
    holds = (JobState.RUNNING.value, JobState.SUSPENDED.value)
    was = select(HistoryRow.key).where(HistoryRow.job_key == JobRow.key, HistoryRow.state == JobState.SUSPENDED.value)
    query = select(JobRow.key, JobRow.job_id, JobRow.restarts).where(
        JobRow.last_seen.is_(None), JobRow.state.in_(holds), was.exists()
    )
    found: dict[tuple[JobId, int], Suspensions] = {}
    with reader(engine, "read for how long jobs were suspended") as connection:
        runs = {row.key: (JobId(row.job_id), row.restarts) for row in connection.execute(query)}
        keys = list(runs)
        for start in range(0, len(keys), CHUNK):
            for key, one in suspensions_of(connection, keys[start : start + CHUNK]).items():
                found[runs[key]] = one
    return found
