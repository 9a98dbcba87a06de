"""Changes of jobs' states, as the store holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, select
from tesched_core.intake.job_times import StateChange, Suspensions, suspensions
from tesched_core.model.cluster import JobState

from tesched_db.rows import rows_of
from tesched_db.tables import HistoryRow


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
