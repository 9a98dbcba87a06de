"""Delays of bystanders, to rows and back: what is in the memory, and what is left of jobs that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select, update
from tesched_core.model.bystander import Bystander, Share, TeRunInTheWay, ended
from tesched_core.model.resources import JobId

from tesched_db.rows import CHUNK, Values
from tesched_db.tables import BystanderRow, JobRow
from tesched_db.upsert import upsert
from tesched_db.user_text import storable

if TYPE_CHECKING:
    from tesched_core.model.memory import Memory

    from tesched_db.job_rows import PresentJobs


@dataclass
class Bystanders:
    """Bystanders as the store holds them, with our keys of their jobs."""

    by_job: Mapping[JobId, Bystander] = field(default_factory=dict)
    keys: dict[JobId, int] = field(default_factory=dict)

    @staticmethod
    def load(connection: Connection) -> Bystanders:
        """Return those that are in the memory."""
        held = Bystanders()
        found: dict[JobId, Bystander] = {}
        for row in connection.execute(_ALL.where(BystanderRow.in_memory.is_(True))):
            job_id = JobId(row.job_id)
            found[job_id] = _bystander(row, row.shares)
            held.keys[job_id] = row.job_key
        held.by_job = found
        return held

    def write(self, connection: Connection, memory: Memory, seen: PresentJobs) -> None:
        """Write in what the memory differs from what is held; the row of a job that is gone stays."""
        now = memory.bystanders
        rows: list[Values] = []
        gone: dict[int, Bystander] = {}
        for job_id, one in now.items():
            before, known = self.by_job.get(job_id), self.keys.get(job_id)
            key = seen.key_of(job_id) or known
            if key is None or (before == one and key == known):
                continue
            if known is not None and before is not None and key != known:
                gone[known] = before  # another job has its id now
            self.keys[job_id] = key
            rows.append(_values(key, job_id, one))
        for job_id in self.keys.keys() - now.keys():
            gone[self.keys.pop(job_id)] = self.by_job[job_id]
        open_ones = {key: one for key, one in gone.items() if one.since is not None}
        for start in range(0, len(gone), CHUNK):
            some = sorted(gone)[start : start + CHUNK]
            connection.execute(update(BystanderRow).where(BystanderRow.job_key.in_(some)).values(in_memory=False))
        for key, one in open_ones.items():
            values = _values(key, JobId(0), ended(one, memory.seen_at or 0.0))
            changed = {name: values[name] for name in _SUMS}
            connection.execute(update(BystanderRow).where(BystanderRow.job_key == key).values(changed))
        upsert(connection, BystanderRow, rows)
        self.by_job = now


#: what the end of a delay changes
_SUMS = ("since", "by", "delayed_s", "by_own_user_s", "shares", "until")
_ALL = select(*BystanderRow.__table__.columns)
_SUMS_ALONE = select(*(column for column in BystanderRow.__table__.columns if column.key != "shares"))


def bystanders_of(connection: Connection, keys: Iterable[int], *, sums_alone: bool = False) -> Mapping[int, Bystander]:
    """Return the delays of these jobs as bystanders, by our keys. At most `CHUNK` keys.

    Of `sums_alone` no TE job that is over is named.
    """
    query = _SUMS_ALONE if sums_alone else _ALL
    rows = connection.execute(query.where(BystanderRow.job_key.in_(list(keys))))
    return {row.job_key: _bystander(row, () if sums_alone else row.shares) for row in rows}


def te_labels(connection: Connection, bystanders: Iterable[Bystander]) -> Mapping[JobId, str]:
    """Return the names, as squeue writes them, of the TE jobs that have delayed these."""
    wanted: set[JobId] = set()
    for one in bystanders:
        wanted.update(part.job_id for part in one.shares)
        wanted.update(te.job_id for te in one.by)
    found: dict[JobId, str] = {}
    ids = sorted(wanted)
    for start in range(0, len(ids), CHUNK):
        query = select(JobRow.job_id, JobRow.label).where(JobRow.job_id.in_(ids[start : start + CHUNK]))
        # Of several jobs that had one id, the last.
        found.update((JobId(row.job_id), row.label) for row in connection.execute(query.order_by(JobRow.key)))
    return found


def _bystander(row: Row[Any], shares: Iterable[Sequence[Any]]) -> Bystander:
    return Bystander(
        submitted_at=row.submitted_at,
        user=row.user,
        since=row.since,
        by=tuple(TeRunInTheWay(JobId(job_id), user, started) for job_id, user, started in row.by),
        delayed_s=row.delayed_s,
        by_own_user_s=row.by_own_user_s,
        shares=tuple(Share(job_id=JobId(job_id), user=user, seconds=seconds) for job_id, user, seconds in shares),
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
        "by": [[te.job_id, storable(te.user), te.started] for te in one.by],
        "delayed_s": one.delayed_s,
        "by_own_user_s": one.by_own_user_s,
        "shares": [[part.job_id, storable(part.user), part.seconds] for part in one.shares],
        "until": one.until,
    }
