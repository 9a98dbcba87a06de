"""The jobs of the queue: squeue's columns and scontrol's details brought together, and kept as last known.

- A record that can't be read is never a job that is gone: the job stays as it was last known, with the reason
  (`Job.doubt`), and the others are read.
- squeue and scontrol are called at once, and answer one after the other. squeue says which jobs there are. What
  scontrol adds counts only if it is of the same run with the same size; a job that it doesn't know yet is read without.
- What users type adds no call. A job with two records, which a user can hardly bring about (`details.py`), stays as it
  was last known; tasks of arrays that squeue doesn't show are queried all at once (`hidden_tasks.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job

from tesched_slurm.answer_bytes import Answer
from tesched_slurm.columns import KnownRows, Query, QueueRow, RowsReader, read_rows
from tesched_slurm.details import NOTHING_FOUND, DetailsFound, DetailsQuery, KnownRecords
from tesched_slurm.hidden_tasks import LATE, HiddenTasks
from tesched_slurm.job_records import UNREADABLE, read_job, unread_job
from tesched_slurm.record_details import Details
from tesched_slurm.run_command import Call, Commands
from tesched_slurm.user_names import UserNames, in_doubt_if_nameless


class _KeptRow(NamedTuple):
    #: None: it has changed since, and was not read
    row: QueueRow | None
    details: Details | None
    job: Job


@dataclass(kw_only=True)
class Queue:
    """Knowledge of each job from the polls before, and its updates."""

    commands: Commands
    names: UserNames = field(default_factory=UserNames)
    _kept: dict[str, _KeptRow] = field(default_factory=dict)
    _records: KnownRecords = field(default_factory=KnownRecords)
    _hidden: HiddenTasks = field(init=False)

    def __post_init__(self) -> None:
        """Make ready to read the tasks that squeue doesn't show."""
        self._hidden = HiddenTasks(commands=self.commands)

    def read(self, rows: Iterable[QueueRow], query: DetailsQuery, answer: Answer) -> tuple[Job, ...] | Failure:
        """Return the jobs of all `rows`; `answer` is scontrol's to `query`, for all jobs, of about the same time."""
        shown = {row.job_id: row for row in rows}
        return self._brought_together(shown, query, query.find(answer, shown, self._records))

    def query(
        self, known: KnownRows | None = None, *others: Call, wanted: Collection[int] | None = None
    ) -> tuple[tuple[Job, ...], list[Answer]] | Failure:
        """Query all jobs, and at the same time what `others` ask; return the jobs, and the answers to those.

        Both answers on jobs are read while they are printed: of 100,000 jobs each is more than 100 MB. `known` and
        `wanted` as in `KnownRows` and `_brought_together`.
        """
        queue, details = Query(), DetailsQuery()
        rows = RowsReader(queue, known)
        records = details.reader(rows.by_id, self._records)
        answers = self.commands.run_together(queue.call(rows), details.call(records), *others)
        if isinstance(answers, Failure):
            return answers
        shown = rows.found()
        if isinstance(shown, Failure):
            return shown
        by_id = {row.job_id: row for row in shown}
        jobs = self._brought_together(by_id, details, records.found(), wanted=wanted)
        return jobs if isinstance(jobs, Failure) else (jobs, answers)

    def _brought_together(
        self,
        shown: dict[str, QueueRow],
        query: DetailsQuery,
        found: DetailsFound,
        *,
        wanted: Collection[int] | None = None,
    ) -> tuple[Job, ...] | Failure:
        """Return the jobs of the rows that are `shown`, by job id, with what was `found` of them in the query's answer.

        Tasks that squeue doesn't show are queried if they are `wanted`; None: all are. Where the query leaves out
        what jobs hold on their nodes, a job has what it held.
        """
        hidden = {job_id: task for job_id, task in found.hidden.items() if wanted is None or int(job_id) in wanted}
        tasks = self._hidden.read(hidden, shown)
        if isinstance(tasks, Failure):
            return tasks
        details, doubtful = dict(found.by_id), found.doubtful
        if tasks.rows:
            more = query.find(found.hidden_records, tasks.rows, self._records)
            details, doubtful = {**details, **more.by_id}, doubtful | more.doubtful
            shown |= tasks.rows
        self._records.forget_others(shown)
        for job_id in doubtful:
            before = self._kept.get(job_id)
            if before is not None and before.row == self._named(shown[job_id]) and before.details is not None:
                details[job_id] = before.details
        if not query.shares:
            details = {job_id: self._with_shares(job_id, one) for job_id, one in details.items()}
        return self.keep(shown.values(), details, late=tasks.late, forget=True)

    def _with_shares(self, job_id: str, details: Details) -> Details:
        before = self._kept.get(job_id)
        if before is None or before.details is None or replace(before.details, shares=()) != details:
            return details
        return before.details

    def read_few(
        self, job_ids: Collection[int], known: Mapping[int, QueueRow] = MappingProxyType({})
    ) -> tuple[Job, ...] | Failure:
        """Return these few jobs, but for those that are gone: one call of squeue, and one of scontrol for each job.

        Of a job with a row in `known` squeue is not queried, and of one with an unreadable row scontrol is not.
        """
        asked = [known[job_id] for job_id in sorted(job_ids) if job_id in known]
        if unknown := sorted(set(job_ids) - known.keys()):
            # Without -r: with the id of an array comes one row for its waiting tasks, however many they are.
            found = self._rows(unknown)
            if isinstance(found, Failure):
                return found
            # On 26.05 that row stands also for a task that is queried by its own id beside its array.
            if hidden := sorted(set(unknown) - found.keys()):
                more = self._rows(hidden)
                if isinstance(more, Failure):
                    return more
                found |= more
            # With an array's id come its other tasks, too.
            asked += [found[job_id] for job_id in unknown if job_id in found]
        details: dict[str, Details] = {}
        for row in asked:
            if not is_readable(row):
                continue
            one = details_alone(self.commands, row)
            if isinstance(one, Failure):
                return one
            if one is not None:
                details[row.job_id] = one
        return self.keep(asked, details, forget=False)

    def _rows(self, job_ids: Collection[int]) -> dict[int, QueueRow] | Failure:
        rows = read_rows(self.commands, "-t", "all", "-j", ",".join(map(str, job_ids)))
        if isinstance(rows, Failure):
            return {} if rows.kind is FailureKind.NOT_FOUND else rows
        return {int(row.job_id): row for row in rows}

    def forget_others(self, job_ids: Collection[int]) -> None:
        """Forget all jobs but these."""
        self._kept = {job_id: kept for job_id, kept in self._kept.items() if int(job_id) in job_ids}

    def keep(
        self,
        rows: Collection[QueueRow],
        details: Mapping[str, Details],
        *,
        late: Mapping[str, QueueRow] = MappingProxyType({}),
        forget: bool,
    ) -> tuple[Job, ...]:
        """Return the jobs of these rows, in their order, and remember them; with `forget`, no others.

        Those that are `late`, by job id, are in doubt.
        """
        kept = {row.job_id: self._job(self._named(row), details.get(row.job_id)) for row in rows}
        late = {job_id: self._named(row) for job_id, row in late.items()}
        kept |= {job_id: _KeptRow(None, None, self._doubted(row, LATE)) for job_id, row in late.items()}
        jobs = tuple(each.job for each in kept.values())
        self._kept = kept if forget else {**self._kept, **kept}
        return jobs

    def _job(self, row: QueueRow, details: Details | None) -> _KeptRow:
        before = self._kept.get(row.job_id)
        if before is not None and before.row == row and before.details == details:
            return before
        try:
            job = read_job(row, details)
            # What it is seen to have and to do is true: it alone is in doubt, and no other for it.
            return _KeptRow(row, details, in_doubt_if_nameless(job, int(row.user_id)))
        except UNREADABLE as error:
            return _KeptRow(row, details, self._doubted(row, f"its record could not be read ({error})"))

    def _named(self, row: QueueRow) -> QueueRow:
        name = self.names.of(int(row.user_id), row.user_name) if row.user_id.isdecimal() else row.user_name
        return row if name == row.user_name else row._replace(user_name=name)

    def _doubted(self, row: QueueRow, why: str) -> Job:
        before = self._kept.get(row.job_id)
        return unread_job(row, why) if before is None else replace(before.job, doubt=why)


def is_readable(row: QueueRow) -> bool:
    """Check whether a job may be read from this row, with what scontrol has to add."""
    try:
        read_job(row, None)
    except UNREADABLE:
        return False
    return True


def read_alone(commands: Commands, row: QueueRow, query: DetailsQuery) -> DetailsFound | Failure:
    """Read scontrol's records of this job alone, or of its array; `query` is of this job."""
    answer = commands.run_bytes(query.argv, query.environment)
    if isinstance(answer, Failure):
        return NOTHING_FOUND if answer.kind is FailureKind.NOT_FOUND else answer
    return query.find(answer, {row.job_id: row})


def details_alone(commands: Commands, row: QueueRow) -> Details | Failure | None:
    """Read scontrol's details of this job alone; None where it knows it no more."""
    found = read_alone(commands, row, DetailsQuery(row.job_id))
    return found if isinstance(found, Failure) else found.by_id.get(row.job_id)
