"""Reads what a made-up Slurm answers (`squeue_says.py`): for tests of what is read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job
from tesched_slurm.answer_bytes import as_printed
from tesched_slurm.columns import Query, QueueRow
from tesched_slurm.details import DetailsQuery
from tesched_slurm.queue import Queue
from tesched_slurm.run_command import Commands

from tests.unit.slurm.squeue_says import MARK, said_to, squeue


@dataclass
class Slurm:
    """Answers as a Slurm with these jobs."""

    #: by the job's id, or by what else is queried
    alone: dict[str, str] = field(default_factory=dict)
    rows_by_task: list[QueueRow] = field(default_factory=list)
    asked: list[tuple[str, ...]] = field(default_factory=list)
    #: as squeue 26.05 does, a task whose array is queried as well is shown as one with it
    folds: bool = False
    #: what is said of all jobs, in pieces of so many bytes where it is read while it is printed
    all_rows: list[QueueRow] | Failure = field(default_factory=list)
    all_records: str = ""
    piece: int = 1 << 16

    def rows(self, job_ids: list[str]) -> list[QueueRow]:
        """Return what squeue shows of these ids; without `folds` all that there is."""
        if not self.folds:
            return self.rows_by_task
        return [
            row
            for row in self.rows_by_task
            if row.job_id in job_ids and (row.job_id == row.array_job_id or row.array_job_id not in job_ids)
        ]


class Answering(Commands):
    """Commands that a test answers."""

    slurm: Slurm

    def _answer(self, argv, variables=None, enough=None, reader=None):  # type: ignore[no-untyped-def]
        said = self._said(argv, variables)  # type: ignore[no-untyped-call]
        if reader is None or isinstance(said, Failure):
            return said
        for start in range(0, len(said), self.slurm.piece):
            reader.feed(said[start : start + self.slurm.piece])
        return b""

    def _said(self, argv, variables):  # type: ignore[no-untyped-def]
        self.slurm.asked.append(tuple(argv))
        if variables is None:
            return b""  # an action, and no format of an answer is wanted
        if argv[0] == "scontrol":
            said = self.slurm.all_records if argv[-1] == "job" else self.slurm.alone.get(argv[-1])
            mark = variables["SLURM_TIME_FORMAT"].removeprefix("%s")
            if said is None:
                return Failure(kind=FailureKind.NOT_FOUND, message="Invalid job id specified")
            return as_printed(said.replace(MARK, mark))
        query = Query()
        columns = query.environment["SQUEUE_FORMAT2"].split(",")
        told = variables["SQUEUE_FORMAT2"].split(",")
        if isinstance(self.slurm.all_rows, Failure):
            return self.slurm.all_rows
        rows = self.slurm.all_rows if argv[-1] == "all" else self.slurm.rows(argv[-1].split(","))
        answer = squeue(query, rows)
        for ours, theirs in zip(columns, told, strict=True):
            answer = answer.replace(ours.partition(":")[2].encode(), theirs.partition(":")[2].encode())
        return answer


def reading(slurm: Slurm) -> Queue:
    commands = Answering()
    object.__setattr__(commands, "slurm", slurm)
    return Queue(commands=commands)


def read(queue: Queue, rows: list[QueueRow], answer: str) -> dict[int, Job]:
    query = DetailsQuery()
    jobs = queue.read(rows, query, said_to(query, answer))
    assert not isinstance(jobs, Failure), jobs
    return {job.job_id: job for job in jobs}


def only(row: QueueRow, answer: str) -> Job:
    (job,) = read(reading(Slurm()), [row], answer).values()
    return job
