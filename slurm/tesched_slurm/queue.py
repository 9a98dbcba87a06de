"""The jobs of the queue: squeue's columns and scontrol's details brought together, and kept as last known.

- A record that can't be read is never a job that is gone: the job stays as it was last known, with the reason
  (`Job.doubt`), and the others are read.
- squeue and scontrol are asked at the same time, and answer one after the other. squeue says which jobs there are. What
  scontrol adds counts only if it is of the same run with the same size; a job that it doesn't know yet is read without.
- What users type adds no call. A job with two records, which a user can hardly bring about (`details.py`), stays as it
  was last known; arrays with tasks that squeue doesn't show are asked for all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job

from tesched_slurm.columns import Row, folded, read_rows
from tesched_slurm.details import Details, DetailsQuery
from tesched_slurm.job_records import UNREADABLE, read_job, unread_job
from tesched_slurm.run_command import Commands


class _Kept(NamedTuple):
    row: Row
    details: Details | None
    job: Job


@dataclass(kw_only=True)
class Queue:
    """Knowledge of each job from the polls before, and its updates."""

    commands: Commands
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def read(self, rows: Iterable[Row], query: DetailsQuery, answer: str) -> tuple[Job, ...] | Failure:
        """Return the jobs of all `rows`; `answer` is scontrol's to `query`, for all jobs, of about the same time."""
        shown = {row.job_id: row for row in rows}
        found = query.find(answer, shown)
        if found.arrays_with_hidden_tasks:
            whole = with_hidden_tasks(self.commands, shown, found.arrays_with_hidden_tasks)
            if isinstance(whole, Failure):
                return whole
            shown, found = whole, query.find(answer, whole)
        details = dict(found.by_id)
        for job_id in found.doubtful:
            before = self._kept.get(job_id)
            if before is not None and before.row == shown[job_id] and before.details is not None:
                details[job_id] = before.details
        return self.keep(shown.values(), details, forget=True)

    def read_few(self, job_ids: Collection[int]) -> tuple[Job, ...] | Failure:
        """Return these few jobs, but for those that are gone: one call of squeue, and one of scontrol for each job."""
        rows = read_rows(self.commands, "-t", "all", "-r", "-j", ",".join(map(str, sorted(job_ids))))
        if isinstance(rows, Failure):
            return () if rows.kind is FailureKind.NOT_FOUND else rows
        details: dict[str, Details] = {}
        # With the id of an array come its other tasks.
        asked = [row for row in folded(rows) if int(row.job_id) in job_ids]
        for row in asked:
            one = details_alone(self.commands, row)
            if isinstance(one, Failure):
                return one
            if one is not None:
                details[row.job_id] = one
        return self.keep(asked, details, forget=False)

    def forget_others(self, job_ids: Collection[int]) -> None:
        """Forget all jobs but these."""
        self._kept = {job_id: kept for job_id, kept in self._kept.items() if int(job_id) in job_ids}

    def keep(self, rows: Collection[Row], details: Mapping[str, Details], *, forget: bool) -> tuple[Job, ...]:
        """Return the jobs of these rows, in their order, and remember them; with `forget`, no others."""
        kept = {row.job_id: self._job(row, details.get(row.job_id)) for row in rows}
        jobs = tuple(each.job for each in kept.values())
        self._kept = kept if forget else {**self._kept, **kept}
        return jobs

    def _job(self, row: Row, details: Details | None) -> _Kept:
        before = self._kept.get(row.job_id)
        if before is not None and before.row == row and before.details == details:
            return before
        try:
            return _Kept(row, details, read_job(row, details))
        except UNREADABLE as error:
            why = f"its record could not be read ({error})"
            known = unread_job(row, why) if before is None else replace(before.job, doubt=why)
            return _Kept(row, details, known)


def details_alone(commands: Commands, row: Row) -> Details | Failure | None:
    """Return what scontrol says of this job alone; None where it knows it no more."""
    query = DetailsQuery(row.job_id)
    answer = commands.run(query.argv, query.environment)
    if isinstance(answer, Failure):
        return None if answer.kind is FailureKind.NOT_FOUND else answer
    return query.find(answer, {row.job_id: row}).by_id.get(row.job_id)


def with_hidden_tasks(commands: Commands, rows: dict[str, Row], arrays: Collection[str]) -> dict[str, Row] | Failure:
    """Return the rows, with each task of these arrays that has a record of its own.

    squeue 26.05 shows the waiting tasks of an array as one, also a task with a record of its own, such as one that was
    requeued. The arrays of which scontrol shows more are asked for once more, task by task.
    """
    again = read_rows(commands, "-t", "all", "-r", "-j", ",".join(sorted(arrays, key=int)))
    if isinstance(again, Failure):
        return rows if again.kind is FailureKind.NOT_FOUND else again
    kept = {job_id: row for job_id, row in rows.items() if row.array_job_id not in arrays}
    return kept | {row.job_id: row for row in folded(again)}
