"""TE jobs that had to wait for `guard.bound`, counted from the refusals in the store."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, or_, select
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import UnixSeconds

from tesched_db.tables import RefusalRow

#: Refusals that are read, the newest; there may be tens of thousands for one TE job.
MOST_READ = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TeRefused:
    """TE jobs that had to wait for `guard.bound`."""

    jobs: int
    #: all refusals were read; else there may be more such jobs
    whole: bool


def te_refused(connection: Connection, since: UnixSeconds, most: int = MOST_READ) -> TeRefused:
    """Count the TE jobs that had to wait for `guard.bound` since then, by the newest `most` refusals."""
    row = RefusalRow
    columns = (row.preemptor_key, row.preemptor, row.job_id, row.code, row.last_seen)
    newest = select(*columns).order_by(row.key.desc()).limit(most).subquery()
    one = newest.c
    lately = or_(one.last_seen.is_(None), one.last_seen >= since)
    its_own = (one.code == RefusalCode.BOUND.value) & (one.job_id == one.preemptor)
    jobs = connection.scalar(select(func.count(one.preemptor_key.distinct())).where(its_own, lately))
    read = connection.scalar(select(func.count()).select_from(newest))
    return TeRefused(jobs=jobs or 0, whole=(read or 0) < most)
