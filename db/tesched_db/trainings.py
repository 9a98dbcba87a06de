"""Trainings, for people: jobs, and job arrays with tasks that are the workers of one training.

A task is found under its own name, and its array under the array's id. Of an array the newest tasks that reported
are gathered, those that Slurm has forgotten among them: at most `MOST_TASKS`, and with at most `MOST_ROWS` losses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, Engine, Row, func, select
from tesched_core.model.cluster import FINISHED, JobState
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.engine import reader
from tesched_db.tables import JobRow, ProgressRow, ReportRow

if TYPE_CHECKING:
    from tesched_core.model.job_report import Curve, Reported

_Row: TypeAlias = Row[tuple[Any, ...]]

#: Of an array, so many tasks are gathered at most.
MOST_TASKS = 250
#: ... and so many losses are read for it, so that the answer comes while a user waits for it.
MOST_ROWS = 20_000
_OVER = [state.value for state in FINISHED]
_HOLDS = frozenset({JobState.RUNNING.value, JobState.SUSPENDED.value})
_COLUMNS: tuple[Any, ...] = (
    *(JobRow.key, JobRow.job_id, JobRow.array_job_id, JobRow.array_task_id, JobRow.label, JobRow.name, JobRow.user),
    *(JobRow.state, JobRow.cpus, JobRow.first_submit_time, JobRow.last_seen),
    *(ReportRow.at, ReportRow.workload, ReportRow.target_loss, ReportRow.refused),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShare:
    """Resources that a training holds now."""

    cpus: int
    #: of the CPUs that all trainings hold together; None if they hold none
    part: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingView:
    """One training that has reported, as far as it is not over."""

    #: as squeue writes a job; of an array its id and "_*"
    label: str
    #: the array's id; None: it is one job
    array_job_id: JobId | None
    name: str
    user: str
    #: of the array, tasks that have reported and are not over; 1 for a job
    tasks: int
    share: HeldShare
    #: when it reported its newest loss or speed, by its own clock
    at: UnixSeconds | None
    workload: str
    target_loss: float | None
    refused: str
    curve: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingsView:
    """Trainings that are not over, those that hold most cores first."""

    shown: tuple[TrainingView, ...]
    #: how many there are besides
    more: int


def trainings(engine: Engine, *, limit: int) -> TrainingsView:
    """Return at most so many trainings that are not over. Raises StoreError."""
    with reader(engine) as connection:
        groups = _groups(connection)
        if not groups:
            return TrainingsView(shown=(), more=0)
        from tesched_db.reports import curves_of  # noqa: PLC0415 - needed where there is a training

        shown = list(groups.items())[:limit]
        curves = curves_of(connection, [rows[0].key for (array, _), (rows, _) in shown if not array])
        return TrainingsView(
            shown=tuple(
                _view(rows, _of_array(connection, JobId(number)) if array else _of_job(rows[0], curves), share)
                for (array, number), (rows, share) in shown
            ),
            more=len(groups) - len(shown),
        )


def shares(engine: Engine) -> dict[str, HeldShare]:
    """Shares that the trainings that are not over hold, by label. Raises StoreError."""
    with reader(engine) as connection:
        return {_label(rows): share for rows, share in _groups(connection).values()}


def _groups(connection: Connection) -> dict[tuple[bool, int], tuple[list[_Row], HeldShare]]:
    """Return the jobs of each training that is not over, the largest share first; (is it an array, its id or key)."""
    query = select(*_COLUMNS).join(ReportRow, ReportRow.job_key == JobRow.key)
    groups: dict[tuple[bool, int], list[_Row]] = {}
    for row in connection.execute(query.where(JobRow.last_seen.is_(None), JobRow.state.not_in(_OVER))):
        array = row.array_job_id is not None
        groups.setdefault((array, row.array_job_id if array else row.key), []).append(row)
    held = {group: sum(row.cpus for row in rows if row.state in _HOLDS) for group, rows in groups.items()}
    total = sum(held.values())
    order = sorted(groups, key=lambda group: (-held[group], -max(row.at or 0.0 for row in groups[group]), group))
    return {
        group: (groups[group], HeldShare(cpus=held[group], part=held[group] / total if total else None))
        for group in order
    }


def array(engine: Engine, array_job_id: JobId) -> TrainingView | None:
    """Read what the tasks of an array reported together, also once it is over; None if they reported nothing.

    Raises StoreError.
    """
    with reader(engine) as connection:
        told = _of_array(connection, array_job_id)
        if not len(told.curve) and not told.refused:
            return None
        rows, share = _groups(connection).get((True, array_job_id), ((), HeldShare(cpus=0, part=None)))
        tasks = len(rows)
        return replace(_view(rows or _tasks(connection, array_job_id), told, share), tasks=tasks)


def gone_tasks(engine: Engine, array_job_id: JobId, there: Collection[int]) -> tuple[Curve, ...]:
    """Return the losses of an array's tasks but for those with these indices. Raises StoreError."""
    with reader(engine) as connection:
        from tesched_db.reports import curves_of  # noqa: PLC0415 - as above

        keys = [row.key for row in _tasks(connection, array_job_id) if row.array_task_id not in there]
        return tuple(curves_of(connection, keys).values())


def _label(rows: Sequence[_Row]) -> str:
    array = rows[0].array_job_id
    return str(rows[0].label) if array is None else f"{array}_*"


def _view(rows: Sequence[_Row], told: Reported, share: HeldShare) -> TrainingView:
    first = min(rows, key=lambda row: row.job_id)
    return TrainingView(
        label=_label(rows),
        array_job_id=None if first.array_job_id is None else JobId(first.array_job_id),
        name=first.name,
        user=first.user,
        tasks=len(rows),
        share=share,
        at=max((row.at for row in rows if row.at is not None), default=None),
        workload=told.workload,
        target_loss=told.target_loss,
        refused=told.refused,
        curve=told.curve,
    )


def _of_job(row: _Row, curves: Mapping[int, Curve]) -> Reported:
    from tesched_core.model.job_report import Reported, no_curve  # noqa: PLC0415 - as above

    return Reported(
        curve=curves.get(row.key, no_curve()),
        workload=row.workload,
        target_loss=row.target_loss,
        refused=row.refused,
    )


def _of_array(connection: Connection, array_job_id: JobId) -> Reported:
    from tesched_core.intake.array_training import report_of  # noqa: PLC0415 - as above

    from tesched_db.reports import curves_of  # noqa: PLC0415 - as above

    rows = _tasks(connection, array_job_id)
    curves = curves_of(connection, [row.key for row in rows])
    return report_of({row.array_task_id: _of_job(row, curves) for row in rows})


def _tasks(connection: Connection, array_job_id: JobId) -> Sequence[_Row]:
    """Select the newest tasks of the array that have reported."""
    query = (
        select(*_COLUMNS)
        .join(ReportRow, ReportRow.job_key == JobRow.key)
        .where(JobRow.array_job_id == array_job_id, JobRow.array_task_id.is_not(None))
        .order_by(JobRow.key.desc())
        .limit(MOST_TASKS)
    )
    rows = connection.execute(query).all()
    # Ids are used again, in the end: a task that was gone before this array was submitted belongs to another one.
    present = [row.first_submit_time for row in rows if row.last_seen is None]
    since = min(present or [row.first_submit_time for row in rows[:1]], default=0.0)
    mine = [row for row in rows if row.last_seen is None or row.last_seen >= since]
    counted = select(ProgressRow.job_key, func.count()).where(ProgressRow.job_key.in_([row.key for row in mine]))
    losses = {row.job_key: row[1] for row in connection.execute(counted.group_by(ProgressRow.job_key))}
    total = accumulate(losses.get(row.key, 0) for row in mine)
    return [row for row, so_far in zip(mine, total, strict=True) if so_far <= MOST_ROWS]
