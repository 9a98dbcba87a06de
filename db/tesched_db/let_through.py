"""TE jobs that another hand has released though tesched held them: they are not held again."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, or_, select
from sqlalchemy.orm import Session
from tesched_core.model.change import HOLD, LET_THROUGH
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db import change_rows
from tesched_db.engine import reading
from tesched_db.errors import store_errors
from tesched_db.tables import JobRow


@dataclass(frozen=True, slots=True, kw_only=True)
class LetThrough:
    """One such job, or an array."""

    job_id: JobId
    #: as squeue writes it; of an array its id
    job: str
    user: str
    #: when that was seen
    at: UnixSeconds


def let_through(engine: Engine) -> tuple[LetThrough, ...]:
    """Return those that Slurm still knows, by their ids."""
    with store_errors("read the state store"), Session(reading(engine)) as session:
        holds = change_rows.load(session).get(HOLD, {})
        at = {job_id: one.taken_at or one.at for job_id, one in holds.items() if one.value == LET_THROUGH}
        if not at:
            return ()
        known = or_(JobRow.job_id.in_(at), JobRow.array_job_id.in_(at))
        rows = session.scalars(select(JobRow).where(known, JobRow.last_seen.is_(None)).order_by(JobRow.key))
        found: dict[JobId, LetThrough] = {}
        for row in rows:
            for job_id in {JobId(one) for one in (row.job_id, row.array_job_id) if one in at}:
                label = str(job_id) if job_id == row.array_job_id else row.label
                found[job_id] = LetThrough(job_id=job_id, job=label, user=row.user, at=at[job_id])
    return tuple(found[job_id] for job_id in sorted(found))
