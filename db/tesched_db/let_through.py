"""TE jobs that another hand has released though tesched held them: they are not held again for that run."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, or_, select
from tesched_core.model.change import LET_THROUGH
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db import change_rows
from tesched_db.engine import reader
from tesched_db.rows import rows_of
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


def let_through(engine: Engine, job_id: JobId | None = None) -> tuple[LetThrough, ...]:
    """Return those that Slurm still knows, by their ids; only what counts for one job, if that is named."""
    with reader(engine) as connection:
        holds = {
            one.job_id: one
            for one in change_rows.load(connection).get(Field.HOLD, {}).values()
            if one.value == LET_THROUGH
        }
        if not holds:
            return ()
        known = or_(JobRow.job_id.in_(holds), JobRow.array_job_id.in_(holds))
        if job_id is not None:
            known &= JobRow.job_id == job_id
        rows = rows_of(connection, select(JobRow).where(known, JobRow.last_seen.is_(None)).order_by(JobRow.key))
        found: dict[JobId, LetThrough] = {}
        for row in rows:
            for number in {row.job_id, row.array_job_id if row.array_job_id is not None else row.job_id}:
                one = holds.get(JobId(number))
                # As `lets_through` has it.
                if one is None or one.restarts != row.restarts or not (one.of_array or one.job_id == row.job_id):
                    continue
                label = str(number) if one.of_array else row.label
                found[one.job_id] = LetThrough(
                    job_id=one.job_id, job=label, user=row.user, at=one.at if one.taken_at is None else one.taken_at
                )
    return tuple(found[number] for number in sorted(found))
