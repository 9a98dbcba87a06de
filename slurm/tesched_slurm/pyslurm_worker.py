"""The process that has pyslurm in it: `python -m tesched_slurm.pyslurm_worker`, started by `pyslurm_process.py`.

pyslurm holds Python's lock while it waits for slurmctld, ends the process if it finds no slurm.conf, and reads inner
structures of Slurm's. So it lives in a process of its own, which the daemon can give up. It ends when its standard
input does. `Job.get_resource_layout_per_node()` is never called: it ends the process with a segmentation fault.
"""

from __future__ import annotations

import importlib
import os
import pwd
import sys
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import msgspec

from tesched_slurm.federated import NO_ID
from tesched_slurm.pyslurm_wire import (
    LENGTH,
    Answer,
    Do,
    Done,
    Hello,
    JobRecord,
    LookAtJob,
    NodeRecord,
    PartitionRecord,
    PollAll,
    PolledObjects,
    Question,
    Refused,
    Version,
    frame,
    questions,
)

R = TypeVar("R", NodeRecord, PartitionRecord)


class _Collection(Protocol):
    def values(self) -> Iterable[object]: ...


class _Loads(Protocol):
    """Jobs, Nodes, Partitions and Reservations."""

    def load(self) -> _Collection: ...


class _OneJob(Protocol):
    def requeue(self) -> None: ...
    def suspend(self) -> None: ...
    def unsuspend(self) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def modify(self, changes: object) -> None: ...


class _JobType(Protocol):
    def __call__(self, job_id: int) -> _OneJob: ...
    def load(self, job_id: int) -> object: ...


class _Changes(Protocol):
    def __call__(self, *, nice: str | None = None, priority: int | None = None) -> object: ...


class Pyslurm(Protocol):
    """The part of pyslurm that we use, which publishes no types."""

    __version__: str
    Jobs: _Loads
    Nodes: _Loads
    Partitions: _Loads
    Reservations: _Loads
    Job: _JobType
    JobSubmitDescription: _Changes
    RPCError: type[Exception]


def _fields(record: type[msgspec.Struct]) -> attrgetter[tuple[Any, ...]]:
    names = ("user_id" if name == "user" else name for name in record.__struct_fields__)
    return attrgetter(*names)


_job_fields = _fields(JobRecord)
_node_fields = _fields(NodeRecord)
_partition_fields = _fields(PartitionRecord)
_ID = JobRecord.__struct_fields__.index("id")
_USER = JobRecord.__struct_fields__.index("user")
#: What a value that pyslurm cannot read raises: text that is no UTF-8, a GRES form that it does not know. And one of
#: another type: for the number that stands for "infinite", which any user may write into a job, it has a word.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, msgspec.ValidationError)


def _records(kind: type[R], fields: attrgetter[tuple[Any, ...]], found: _Collection) -> tuple[R, ...] | None:
    """Return the records of nodes or partitions; None if there is one that pyslurm cannot read."""
    try:
        return tuple(msgspec.convert(list(fields(each)), kind) for each in found.values())
    except _UNREADABLE:
        return None


class Worker:
    """Answers questions with pyslurm."""

    def __init__(self, pyslurm: Pyslurm) -> None:
        """Make ready to answer with this module."""
        self._pyslurm = pyslurm
        self._users: dict[int, str] = {}

    def answer(self, question: Question) -> Answer:
        """Return the answer; what Slurm refuses is an answer, too."""
        try:
            match question:
                case Hello():
                    return Version(self._pyslurm.__version__)
                case PollAll():
                    return self._look()
                case LookAtJob():
                    return self._read((self._pyslurm.Job.load(question.job_id),))
                case Do():
                    self._do(question)
                    return Done()
        except self._pyslurm.RPCError as error:
            return Refused(str(error))

    def _look(self) -> PolledObjects:
        seen = self._read(self._pyslurm.Jobs.load().values())
        nodes = _records(NodeRecord, _node_fields, self._pyslurm.Nodes.load())
        partitions = _records(PartitionRecord, _partition_fields, self._pyslurm.Partitions.load())
        reservations = sum(1 for _ in self._pyslurm.Reservations.load().values())
        return msgspec.structs.replace(seen, nodes=nodes, partitions=partitions, reservations=reservations)

    def _read(self, jobs: Iterable[object]) -> PolledObjects:
        records: list[JobRecord] = []
        unread: list[int] = []
        for job in jobs:
            try:
                values = list(_job_fields(job))
                if values[_ID] == NO_ID:
                    continue
                values[_USER] = self._user(values[_USER])
                records.append(msgspec.convert(values, JobRecord))
            except _UNREADABLE:
                unread.append(cast("int", attrgetter("id")(job)))
        return PolledObjects(jobs=tuple(records), unread=tuple(unread))

    def _user(self, user_id: int) -> str:
        # pyslurm asks the name service anew for each job.
        name = self._users.get(user_id)
        if name is None:
            try:
                name = self._users[user_id] = pwd.getpwuid(user_id).pw_name
            except KeyError:
                # Slurm's own word for a user that this host does not know.
                return "nobody"
        return name

    def _do(self, order: Do) -> None:
        job = self._pyslurm.Job(order.job_id)
        simple: Mapping[str, Any] = {
            "requeue": job.requeue,
            "suspend": job.suspend,
            "resume": job.unsuspend,
            "hold": job.hold,
            "release": job.release,
        }
        match order.what:
            case "nice":
                # As text: the number 0 would count as "not given", and a nice value would never be put back.
                job.modify(self._pyslurm.JobSubmitDescription(nice=str(order.value)))
            case "priority":
                job.modify(self._pyslurm.JobSubmitDescription(priority=order.value))
            case _:
                simple[order.what]()


def serve(worker: Worker, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the source ends."""
    while head := source.read(LENGTH.size):
        (length,) = LENGTH.unpack(head)
        sink.write(frame(worker.answer(questions.decode(source.read(length)))))
        sink.flush()


def main() -> None:
    """Serve on standard input and output. What libslurm prints goes to standard error, never between the frames."""
    sink = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = Worker(cast("Pyslurm", importlib.import_module("pyslurm")))
    serve(worker, sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
