"""The jobs of the queue: squeue's columns and scontrol's details brought together, and kept as last known.

- A record that can't be read is never a job that is gone: the job stays as it was last known, with the reason
  (`Job.doubt`), and the others are read.
- squeue and scontrol are asked at the same time, and answer one after the other. squeue says which jobs there are. What
  scontrol adds counts only if it is of the same run with the same size; a job that it doesn't know yet is read without.
- What users type never adds a call a job: at most `ALONE` jobs are asked for one by one, and arrays with tasks that
  squeue doesn't show all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job

from tesched_slurm.columns import Row, folded, read_rows
from tesched_slurm.details import Details, arrays_with_hidden_tasks, find, find_alone
from tesched_slurm.job_records import UNREADABLE, read_job, unread_job
from tesched_slurm.run_command import Commands

#: Most jobs that are asked for one by one in one poll.
ALONE = 5
#: scontrol's question for all jobs
ALL_DETAILS = ("scontrol", "-a", "-d", "-o", "show", "job")


class _Kept(NamedTuple):
    row: Row
    details: Details | None
    job: Job


@dataclass(kw_only=True)
class Queue:
    """Knowledge of each job from the polls before, and its updates."""

    commands: Commands
    _kept: dict[str, _Kept] = field(default_factory=dict)
    #: the job that was asked for alone last
    _last_alone: int = 0

    def read(self, rows: Iterable[Row], answer: str) -> tuple[Job, ...] | Failure:
        """Return the jobs of all `rows`; `answer` is scontrol's to `ALL_DETAILS`, of about the same time."""
        by_id = {row.job_id: row for row in rows}
        shown = with_hidden_tasks(self.commands, by_id, answer)
        if isinstance(shown, Failure):
            return shown
        found = find(answer, shown)
        details = dict(found.by_id)
        for job_id in found.doubtful:
            before = self._kept.get(job_id)
            if before is not None and before.row == shown[job_id] and before.details is not None:
                details[job_id] = before.details
        alone = self._alone({job_id: shown[job_id] for job_id in found.doubtful if job_id not in details})
        if isinstance(alone, Failure):
            return alone
        return self.keep(shown.values(), details | alone, forget=True)

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

    def _alone(self, rows: Mapping[str, Row]) -> dict[str, Details] | Failure:
        """Return the details of a few of these jobs, each asked for alone; the next poll asks for others."""
        ids = sorted(map(int, rows))
        in_turn = [*(one for one in ids if one > self._last_alone), *(one for one in ids if one <= self._last_alone)]
        details: dict[str, Details] = {}
        for job_id in in_turn[:ALONE]:
            self._last_alone = job_id
            one = details_alone(self.commands, rows[str(job_id)])
            if isinstance(one, Failure):
                return one
            if one is not None:
                details[str(job_id)] = one
        return details


def details_alone(commands: Commands, row: Row) -> Details | Failure | None:
    """Return what scontrol says of this job alone; None where it knows it no more."""
    answer = commands.run((*ALL_DETAILS, row.job_id))
    if isinstance(answer, Failure):
        return None if answer.kind is FailureKind.NOT_FOUND else answer
    return find_alone(answer, row)


def with_hidden_tasks(commands: Commands, rows: Mapping[str, Row], answer: str) -> dict[str, Row] | Failure:
    """Return the rows, with each task that has a record of its own.

    squeue 26.05 shows the waiting tasks of an array as one, also a task with a record of its own, such as one that was
    requeued. The arrays of which scontrol shows more are asked for once more, task by task.
    """
    arrays = arrays_with_hidden_tasks(answer, rows)
    if not arrays:
        return dict(rows)
    again = read_rows(commands, "-t", "all", "-r", "-j", ",".join(sorted(arrays, key=int)))
    if isinstance(again, Failure):
        return dict(rows) if again.kind is FailureKind.NOT_FOUND else again
    kept = {job_id: row for job_id, row in rows.items() if row.array_job_id not in arrays}
    return kept | {row.job_id: row for row in folded(again)}
