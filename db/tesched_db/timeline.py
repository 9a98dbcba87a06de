"""Timeline: which job ran where and when lately, for which one it left, which TE jobs wait, how ended jobs fared.

What a page draws, of a bounded number of jobs: each query takes the newest rows, whatever the store's size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, or_, select
from tesched_core.intake.job_times import Run, runs, seen_until, slowdown
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass

from tesched_db.engine import reader
from tesched_db.history_rows import changes_of
from tesched_db.rows import CHUNK, rows_of
from tesched_db.tables import HistoryRow, JobRow, OrderRow, RefusalRow
from tesched_db.view_builders import order_views
from tesched_db.views import OrderView

#: Rows of the history, jobs and orders that one read takes, the newest.
MOST_CHANGES, MOST_JOBS, MOST_ORDERS = 20_000, 2000, 500
#: Waiting TE jobs that are named, those that wait longest.
MOST_WAITING = 50
#: Ended jobs of which it is said how they fared, the newest.
MOST_ENDED = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRuns:
    """Runs of one job that reach into the time that is shown."""

    #: as squeue writes it
    label: str
    job_id: JobId
    name: str
    user: str
    job_class: JobClass
    submitted_at: UnixSeconds
    #: it is a TE job, and waits for its first start
    waits: bool
    #: all its runs, oldest first
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTe:
    """A TE job that waits to start."""

    label: str
    job_id: JobId
    name: str
    user: str
    partition: str
    submitted_at: UnixSeconds
    #: why no victim is selected for it, by tesched; empty: tesched says nothing of it
    why: str
    #: Slurm's reason
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A job that has ended and was seen from its submission on."""

    label: str
    job_class: JobClass
    ended_at: UnixSeconds
    waited_s: float
    #: None: it never ran
    slowdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What a page draws, as of one instant."""

    #: by their first submission, oldest first
    jobs: tuple[JobRuns, ...]
    #: there were more jobs or changes than one read takes: some of the oldest are missing
    cut: bool
    #: orders that were given or ended in that time, or are under way; without those of mode shadow
    orders: tuple[OrderView, ...]
    #: those that wait longest first, `MOST_WAITING` of them
    waiting: tuple[WaitingTe, ...]
    #: how many there are
    waiting_count: int
    #: oldest first
    ended: tuple[EndedJob, ...]


def timeline(engine: Engine, since: UnixSeconds, *, ended_since: UnixSeconds) -> Timeline:
    """Return runs and orders since then, and the jobs that ended since `ended_since`. Raises StoreError."""
    with reader(engine) as connection:
        keys, cut = _keys(connection, since)
        waiting, count = _waiting(connection)
        lately = or_(OrderRow.ended_at.is_(None), OrderRow.ended_at >= since)
        given = or_(OrderRow.ending.is_(None), OrderRow.ending != Ending.SHADOW.value)
        newest = select(OrderRow).where(lately, given).order_by(OrderRow.order_id.desc()).limit(MOST_ORDERS)
        return Timeline(
            jobs=_jobs(connection, keys, since),
            cut=cut,
            orders=order_views(connection, newest),
            waiting=waiting,
            waiting_count=count,
            ended=_ended(connection, ended_since),
        )


def _keys(connection: Connection, since: UnixSeconds) -> tuple[Sequence[int], bool]:
    """Return the keys of the jobs that hold nodes, wait longest as TE jobs or changed since then; whether some are cut.

    Those that hold nodes come before those that changed: a long job is older than thousands that wait or ended since.
    """
    there = select(JobRow.key).where(
        JobRow.last_seen.is_(None), JobRow.state.in_([JobState.RUNNING.value, JobState.SUSPENDED.value])
    )
    present = set(connection.scalars(there.order_by(JobRow.key.desc()).limit(MOST_JOBS + 1)))
    present.update(connection.scalars(_longest_waiting().with_only_columns(JobRow.key)))
    # A job that was submitted and has not run since is no part of it: there may be a hundred thousand.
    ran = or_(HistoryRow.state != JobState.PENDING.value, HistoryRow.restarts > 0)
    newest = (
        select(HistoryRow.job_key, HistoryRow.at)
        .where(ran)
        .order_by(HistoryRow.key.desc())
        .limit(MOST_CHANGES)
        .subquery()
    )
    rows = connection.execute(select(newest.c.job_key, newest.c.at)).all()
    changed = {row.job_key for row in rows if row.at >= since}
    found = [*sorted(present, reverse=True), *sorted(changed - present, reverse=True)]
    cut = len(found) > MOST_JOBS or (len(rows) == MOST_CHANGES and min(row.at for row in rows) >= since)
    return found[:MOST_JOBS], cut


def _jobs(connection: Connection, keys: Sequence[int], since: UnixSeconds) -> tuple[JobRuns, ...]:
    found: list[JobRuns] = []
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        changes = changes_of(connection, some)
        for row in rows_of(connection, select(JobRow).where(JobRow.key.in_(some))):
            every = seen_until(runs(changes[row.key]), row.last_seen)
            pending = row.last_seen is None and row.state == JobState.PENDING.value
            waits = not every and pending and row.job_class == JobClass.TE.value
            if not waits and all(run.end is not None and run.end < since for run in every):
                continue
            found.append(
                JobRuns(
                    label=row.label,
                    job_id=JobId(row.job_id),
                    name=row.name,
                    user=row.user,
                    job_class=JobClass(row.job_class),
                    submitted_at=row.first_submit_time,
                    waits=waits,
                    runs=every,
                )
            )
    return tuple(sorted(found, key=lambda job: (job.submitted_at, job.job_id)))


def _of_waiting_te() -> tuple[ColumnElement[bool], ...]:
    return (
        JobRow.last_seen.is_(None),
        JobRow.state == JobState.PENDING.value,
        JobRow.job_class == JobClass.TE.value,
    )


def _longest_waiting() -> Select[JobRow]:
    longest = select(JobRow).where(*_of_waiting_te()).order_by(JobRow.first_submit_time, JobRow.key)
    return longest.limit(MOST_WAITING)


def _waiting(connection: Connection) -> tuple[tuple[WaitingTe, ...], int]:
    count = connection.scalar(select(func.count()).select_from(JobRow).where(*_of_waiting_te())) or 0
    rows = rows_of(connection, _longest_waiting())
    own = select(RefusalRow.preemptor_key, RefusalRow.text).where(
        RefusalRow.last_seen.is_(None),
        RefusalRow.job_id == RefusalRow.preemptor,
        RefusalRow.preemptor_key.in_([row.key for row in rows]),
    )
    why = {row.preemptor_key: row.text for row in connection.execute(own.order_by(RefusalRow.key))}
    waiting = tuple(
        WaitingTe(
            label=row.label,
            job_id=JobId(row.job_id),
            name=row.name,
            user=row.user,
            partition=row.partition,
            submitted_at=row.first_submit_time,
            why=why.get(row.key, ""),
            reason=row.reason,
        )
        for row in rows
    )
    return waiting, count


def _ended(connection: Connection, since: UnixSeconds) -> tuple[EndedJob, ...]:
    columns = (JobRow.label, JobRow.job_class, JobRow.end_time, JobRow.waited_s, JobRow.ran_s)
    query = select(*columns).where(JobRow.end_time >= since, JobRow.waited_s.is_not(None), JobRow.ran_s.is_not(None))
    newest = connection.execute(query.order_by(JobRow.end_time.desc(), JobRow.key.desc()).limit(MOST_ENDED)).all()
    return tuple(
        EndedJob(
            label=row.label,
            job_class=JobClass(row.job_class),
            ended_at=row.end_time,
            waited_s=row.waited_s,
            slowdown=slowdown(row.waited_s, row.ran_s),
        )
        for row in reversed(newest)
    )
