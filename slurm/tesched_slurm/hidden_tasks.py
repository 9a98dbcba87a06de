"""Waiting tasks of arrays that have a record of their own, and that squeue does not show (26.05).

squeue 26.05 shows all waiting tasks of an array as one, also a task with a record of its own: one that was requeued,
held or changed. Each is queried by its own id, all in one call: squeue then prints a row for each of them. By their
array's id it would print a row for each task that the array has, and any user may have an array of thousands and
requeue one task of it.

A user may bring about thousands of such tasks. So a row holds as long as its record stays as it was, at most
`MOST_TASKS` are queried in a poll, and users are served in turn. What is not read in a poll is late: it is shown as
it was last known, in doubt, and nothing is decided on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.columns import QueueRow, read_rows
from tesched_slurm.run_command import Commands
from tesched_slurm.user_turns import in_turn

#: Tasks that are queried in a poll. A command line holds some 10,000 ids, and squeue compares each job with
#: each of them.
MOST_TASKS = 1000
LATE = (
    f"it is a task with a record of its own, which was not read in this poll: it takes {MOST_TASKS} of them, those of "
    "all users in turn"
)


class HiddenTask(NamedTuple):
    """A task of which there is a record and no row."""

    array_id: str
    #: its index, where the record has it
    task: str
    user: str
    #: the record as it is now: it is compared with what it was when its row was read
    record: object


class _ReadTask(NamedTuple):
    record: object
    row: QueueRow
    #: the poll in which it was read
    poll: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRows:
    """Rows of hidden tasks, by job id. A task that is in neither is gone."""

    rows: Mapping[str, QueueRow]
    #: tasks that were not read, and what is known of them: their row as it was, or their array's
    late: Mapping[str, QueueRow]


@dataclass(kw_only=True)
class HiddenTasks:
    """Rows of hidden tasks, and the records that they belong to."""

    commands: Commands
    _read: dict[str, _ReadTask] = field(default_factory=dict)
    _poll: int = 0
    #: the user who was served last
    _last_user: str = ""

    def read(self, hidden: Mapping[str, HiddenTask], arrays: Mapping[str, QueueRow]) -> TaskRows | Failure:
        """Return the rows of these tasks; `arrays` has the row of each of their arrays, by its id."""
        self._poll += 1
        known = {job_id: each for job_id, each in self._read.items() if job_id in hidden}
        changed: dict[str, list[str]] = {}
        for job_id, task in hidden.items():
            if job_id not in known or known[job_id].record != task.record:
                changed.setdefault(task.user, []).append(job_id)
        for tasks in changed.values():  # a record that changes in each poll puts off no other for good
            tasks.sort(key=lambda job_id: known[job_id].poll if job_id in known else -1)
        asked = list(islice(in_turn(changed, self._last_user), MOST_TASKS))
        if asked:
            found = self._rows([job_id for _, job_id in asked])
            if isinstance(found, Failure):
                return found
            self._last_user = asked[-1][0]
            for _, job_id in asked:
                known.pop(job_id, None)
                if job_id in found:
                    known[job_id] = _ReadTask(hidden[job_id].record, found[job_id], self._poll)
        self._read = known
        late = {job_id for tasks in changed.values() for job_id in tasks}.difference(job_id for _, job_id in asked)
        return TaskRows(
            rows={job_id: each.row for job_id, each in known.items() if job_id not in late},
            late={job_id: self._last_known(job_id, hidden[job_id], arrays) for job_id in sorted(late, key=int)},
        )

    def _rows(self, job_ids: list[str]) -> dict[str, QueueRow] | Failure:
        rows = read_rows(self.commands, "-t", "all", "-j", ",".join(job_ids))
        if isinstance(rows, Failure):
            return {} if rows.kind is FailureKind.NOT_FOUND else rows
        return {row.job_id: row for row in rows}

    def _last_known(self, job_id: str, task: HiddenTask, arrays: Mapping[str, QueueRow]) -> QueueRow:
        if job_id in self._read:
            return self._read[job_id].row
        return arrays[task.array_id]._replace(job_id=job_id, array_task_id=task.task)


def arrays_of(rows: Mapping[str, QueueRow]) -> dict[str, QueueRow]:
    """Return the row that stands for an array's waiting tasks, by the array's id: it alone may hide any."""
    return {
        job_id: row
        for job_id, row in rows.items()
        if row.array_job_id == job_id and row.array_task_id != "N/A" and not row.array_task_id.isdecimal()
    }
