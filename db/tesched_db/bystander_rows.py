"""Delays of bystanders, to rows and back: what is in the memory, and what is left of jobs that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from sqlalchemy import Connection, select, update
from sqlalchemy.orm import Session
from tesched_core.model.bystander import Bystander, Share
from tesched_core.model.resources import JobId

from tesched_db.job_rows import CHUNK, Seen, Values
from tesched_db.tables import BystanderRow, JobRow, storable
from tesched_db.upsert import upsert


@dataclass
class Bystanders:
    """Bystanders as the store holds them, with our keys of their jobs."""

    by_job: Mapping[JobId, Bystander] = field(default_factory=dict)
    keys: dict[JobId, int] = field(default_factory=dict)

    @staticmethod
    def load(session: Session) -> Bystanders:
        """Return those that are in the memory."""
        rows = session.scalars(select(BystanderRow).where(BystanderRow.in_memory.is_(True))).all()
        return Bystanders(
            by_job={JobId(row.job_id): bystander_of(row) for row in rows},
            keys={JobId(row.job_id): row.job_key for row in rows},
        )

    def write(self, connection: Connection, now: Mapping[JobId, Bystander], seen: Seen) -> None:
        """Write in what `now` differs from what is held; the row of a job that is gone stays."""
        rows: list[Values] = []
        gone: set[int] = set()
        for job_id, one in now.items():
            before, known = self.by_job.get(job_id), self.keys.get(job_id)
            key = seen.key_of(job_id) or known
            if key is None or (before == one and key == known):
                continue
            if known is not None and key != known:
                gone.add(known)  # another job has its id now
            self.keys[job_id] = key
            rows.append(_values(key, job_id, one))
        gone |= {self.keys.pop(job_id) for job_id in self.keys.keys() - now.keys()}
        for start in range(0, len(gone), CHUNK):
            some = sorted(gone)[start : start + CHUNK]
            connection.execute(update(BystanderRow).where(BystanderRow.job_key.in_(some)).values(in_memory=False))
        upsert(connection, BystanderRow, rows)
        self.by_job = now


def bystanders_of(session: Session, keys: Iterable[int]) -> Mapping[int, Bystander]:
    """Return the delays of these jobs as bystanders, by our keys. At most `CHUNK` keys."""
    rows = session.scalars(select(BystanderRow).where(BystanderRow.job_key.in_(list(keys))))
    return {row.job_key: bystander_of(row) for row in rows}


def te_labels(session: Session, bystanders: Iterable[Bystander]) -> Mapping[JobId, str]:
    """Return the names, as squeue writes them, of the TE jobs that have delayed these."""
    wanted: set[JobId] = set()
    for one in bystanders:
        wanted.update(part.job_id for part in one.shares)
        wanted.update(job_id for job_id, _ in one.by)
    found: dict[JobId, str] = {}
    ids = sorted(wanted)
    for start in range(0, len(ids), CHUNK):
        query = select(JobRow.job_id, JobRow.label).where(JobRow.job_id.in_(ids[start : start + CHUNK]))
        # Of several jobs that had one id, the last.
        found.update((JobId(row.job_id), row.label) for row in session.execute(query.order_by(JobRow.key)))
    return found


def bystander_of(row: BystanderRow) -> Bystander:
    """Return the bystander that a row holds."""
    return Bystander(
        submitted_at=row.submitted_at,
        user=row.user,
        since=row.since,
        by=msgspec.convert(row.by, tuple[tuple[JobId, str], ...], strict=False),
        delayed_s=row.delayed_s,
        by_own_user_s=row.by_own_user_s,
        shares=msgspec.convert(row.shares, tuple[Share, ...], strict=False),
        until=row.until,
    )


def _values(key: int, job_id: JobId, one: Bystander) -> Values:
    return {
        "job_key": key,
        "job_id": job_id,
        "in_memory": True,
        "submitted_at": one.submitted_at,
        "user": storable(one.user),
        "since": one.since,
        "by": [[te, storable(user)] for te, user in one.by],
        "delayed_s": one.delayed_s,
        "by_own_user_s": one.by_own_user_s,
        "shares": [{**msgspec.to_builtins(part), "user": storable(part.user)} for part in one.shares],
        "until": one.until,
    }
