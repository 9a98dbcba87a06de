"""The queue as `squeue` prints it, in columns that no user's text can forge.

Job names, comments, accounts and many more are text of users, printed as they are: with blanks, newlines, and whatever
could be Slurm's own words. So each column ends with a separator that is drawn anew for each call and that no user can
know before slurmctld has answered: it is given to squeue in its environment, which other users can't read, and not on
its command line, which they can. A record with another number of columns than queried is no answer of squeue's.

Source: squeue(1), --Format and SQUEUE_FORMAT2. Seen on 22.05 and 26.05: a column without a size is as long as its
value; a column that the release does not know is empty, and squeue complains on standard error alone.
"""

from __future__ import annotations

import secrets
import string
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.answer_bytes import Answer, Pieces, as_printed, as_text
from tesched_slurm.federated import NO_ID
from tesched_slurm.run_command import Call, Commands

_LETTERS = string.ascii_letters + string.digits


def drawn() -> str:
    """Return a separator: 62^10 there are. squeue would take a digit at its beginning for a width."""
    return "|" + "".join(secrets.choice(_LETTERS) for _ in range(10))


class QueueRow(NamedTuple):
    """One record of the queue, each value in squeue's words; the field's name is the column's, as Python writes it."""

    job_id: str
    array_job_id: str
    array_task_id: str
    het_job_id: str
    het_job_offset: str
    #: the cluster of its federation to which it was submitted, and those that may run it: "one,two"; "NA" without one
    origin: str
    siblings_viable: str
    user_name: str
    user_id: str
    account: str
    partition: str
    qos: str
    state: str
    reason: str
    priority_long: str
    nice: str
    batch_flag: str
    requeue: str
    restart_cnt: str
    #: of the run: another one after each requeue (26.05; empty before)
    sluid: str
    submit_time: str
    eligible_time: str
    start_time: str
    end_time: str
    time_limit: str
    deadline: str
    num_nodes: str
    max_nodes: str
    num_cpus: str
    num_tasks: str
    min_cpus: str
    cpus_per_task: str
    min_memory: str
    over_subscribe: str
    #: 26.05; empty before
    exclusive: str
    feature: str
    req_nodes: str
    #: 26.05; empty before
    exc_nodes: str
    node_list: str
    reservation: str
    dependency: str
    licenses: str
    exit_code: str
    tres_alloc: str
    tres_per_node: str
    tres_per_job: str
    tres_per_task: str
    tres_per_socket: str
    cpus_per_tres: str
    mem_per_tres: str
    min_tmp_disk: str
    contiguous: str
    req_switch: str
    core_spec: str
    nt_per_node: str
    nt_per_socket: str
    nt_per_core: str
    sct: str
    mcs_label: str
    wc_key: str
    admin_comment: str
    comment: str
    name: str


#: squeue's own name of each column
COLUMNS: tuple[str, ...] = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "HetJobOffset",
    "Origin",
    "SiblingsViable",
    "UserName",
    "UserID",
    "Account",
    "Partition",
    "QOS",
    "State",
    "Reason",
    "PriorityLong",
    "Nice",
    "BatchFlag",
    "Requeue",
    "RestartCnt",
    "SLUID",
    "SubmitTime",
    "EligibleTime",
    "StartTime",
    "EndTime",
    "TimeLimit",
    "Deadline",
    "NumNodes",
    "MaxNodes",
    "NumCPUs",
    "NumTasks",
    "MinCpus",
    "cpus-per-task",
    "MinMemory",
    "OverSubscribe",
    "Exclusive",
    "Feature",
    "ReqNodes",
    "ExcNodes",
    "NodeList",
    "Reservation",
    "Dependency",
    "Licenses",
    "exit_code",
    "tres-alloc",
    "tres-per-node",
    "tres-per-job",
    "tres-per-task",
    "tres-per-socket",
    "cpus-per-tres",
    "mem-per-tres",
    "MinTmpDisk",
    "Contiguous",
    "ReqSwitch",
    "CoreSpec",
    "NTPerNode",
    "NTPerSocket",
    "NTPerCore",
    "SCT",
    "MCSLabel",
    "WCKey",
    "admin_comment",
    "Comment",
    "Name",
)


#: whether a column's value is a job's own, for most jobs
_OF_ITS_OWN = tuple(
    column
    in {
        *("JobID", "ArrayTaskID", "SLUID", "SubmitTime", "EligibleTime", "StartTime", "EndTime", "PriorityLong"),
        *("NodeList", "Comment", "admin_comment"),
    }
    for column in COLUMNS
)
#: Values that are kept for other records.
_MOST_SHARED = 50_000


_NO_ID = str(NO_ID)


class Query:
    """One call of squeue: what it is run with, and how its answer is read."""

    def __init__(self, *options: str) -> None:
        """Draw separators. `options` say which jobs, such as `-t`, `PENDING`; without, all."""
        self._separator, self._end = drawn(), drawn()
        self.argv: tuple[str, ...] = ("squeue", "-a", "-h", *(options or ("-t", "all")))

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the columns, and that tasks of one array which have records of their own are not shown as one."""
        *most, last = COLUMNS
        asked = ",".join((*(f"{column}:{self._separator}" for column in most), f"{last}:{self._end}"))
        # 22.05 heeds the second; later releases have no word for it (`hidden_tasks.py`).
        return {"SQUEUE_FORMAT2": asked, "SQUEUE_ARRAY_UNIQUE": "1"}

    def call(self, reader: RowsReader) -> Call:
        """Return the call whose answer this reader reads."""
        return Call(self.argv, self.environment, reader)

    def rows(self, answer: Answer, known: KnownRows | None = None) -> list[QueueRow]:
        """Return the records, which are `known` from now on. Raises ValueError for an answer of another form."""
        reader = RowsReader(self, known)
        reader.feed(bytes(answer))
        reader.end(well=True)
        return reader.rows()

    @property
    def marks(self) -> tuple[bytes, bytes]:
        """The separators behind each column and behind each record, as they are printed."""
        return self._separator.encode(), f"{self._end}\n".encode()


class RowsReader:
    """Reads the records of squeue's answer while it is printed; nothing else of it is kept."""

    def __init__(self, query: Query, known: KnownRows | None = None) -> None:
        """Begin an answer to this query; its records are `known` once it was read whole."""
        self._separator, self._mark = query.marks
        self._known = known or KnownRows()
        self._known.begin()
        self._rows: list[QueueRow] = []
        self._pieces = Pieces(self._read)
        self._error: ValueError | None = None
        self._is_whole = False
        self._has_ended = threading.Event()

    def feed(self, piece: bytes) -> None:
        """Read on. What follows a record of another form is thrown away: the command is to end as it would."""
        try:
            if self._error is None:
                self._pieces.feed(piece)
        except ValueError as error:
            self._error = error

    def end(self, *, well: bool) -> None:
        """Let those go on who wait for the rows."""
        try:
            if well and self._error is None:
                self._pieces.end()
                self._known.end()
                self._is_whole = True
        except ValueError as error:
            self._error = error
        finally:
            self._has_ended.set()

    def rows(self) -> list[QueueRow]:
        """Return the records, once there are no more. Raises ValueError for an answer of another form."""
        if self._error is not None:
            raise self._error
        return self._rows

    def found(self) -> list[QueueRow] | Failure:
        """Return the records, once there are no more, or that the answer has another form than known."""
        return self._rows if self._error is None else strange("squeue", self._error)

    def by_id(self) -> dict[str, QueueRow] | None:
        """Wait for the answer's end, and return its records by job id; None where it was not read whole."""
        self._has_ended.wait()
        return {row.job_id: row for row in self._rows} if self._is_whole else None

    def _read(self, said: bytes, ended: bool) -> int:
        position, mark, row = 0, self._mark, self._known.row
        while (end := said.find(mark, position)) >= 0:
            read = row(said[position:end], self._separator)
            if read.job_id != _NO_ID:
                self._rows.append(read)
            position = end + len(mark)
        if ended and (rest := said[position : position + 80].strip()):
            raise ValueError(f"it ends in the middle of a record: {as_text(rest)!r}")
        return position


@dataclass(kw_only=True)
class KnownRows:
    """Records of the answer before: one that has not changed is the same object, and is not taken apart again.

    Of each its hash is kept beside the record; its text would be 0.9 kB.
    """

    #: stands for the separators of all answers, or no record would stay as it was; only this process ever sees it
    mark: bytes = field(default_factory=lambda: drawn().encode())
    _by_content: dict[int, QueueRow] = field(default_factory=dict)
    _now: dict[int, QueueRow] = field(default_factory=dict)
    #: values that many records share, each once: a record of its own has 3 kB of texts
    _shared: dict[str, str] = field(default_factory=dict)
    #: the one that was taken apart last
    _last: QueueRow = field(default_factory=lambda: QueueRow._make("" for _ in COLUMNS))

    def begin(self) -> None:
        """Begin an answer."""
        self._now = {}
        if len(self._shared) > _MOST_SHARED:
            self._shared = {}

    def end(self) -> None:
        """End an answer: what was not in it is forgotten."""
        self._by_content, self._now = self._now, {}

    def row(self, record: bytes, separator: bytes) -> QueueRow:
        """Return the record that was printed so. Raises ValueError for one of another form."""
        content = hash(record.replace(separator, self.mark))
        row = self._by_content.get(content)
        if row is None or not record.startswith(as_printed(row.job_id) + separator):
            values = as_text(record).split(as_text(separator))
            if len(values) != len(COLUMNS):
                raise ValueError(f"a record has {len(values)} columns, and {len(COLUMNS)} were requested")
            share = self._shared.setdefault
            # What is a job's own is often that of the job before it, too: the times of an array's tasks, no comment.
            row = self._last = QueueRow._make(
                (before if value == before else value) if own else share(value, value)
                for value, own, before in zip(values, _OF_ITS_OWN, self._last, strict=True)
            )
        self._now[content] = row
        return row


def read_rows(commands: Commands, *options: str) -> list[QueueRow] | Failure:
    """Return the records of the few jobs that these options of squeue's choose."""
    query = Query(*options)
    answer = commands.run_bytes(query.argv, query.environment)
    return answer if isinstance(answer, Failure) else rows_of(query, answer)


def read_all_rows(commands: Commands, known: KnownRows) -> list[QueueRow] | Failure:
    """Return the records of all jobs, read while squeue prints them; they are `known` from now on."""
    query = Query()
    reader = RowsReader(query, known)
    answers = commands.run_together(query.call(reader))
    return answers if isinstance(answers, Failure) else reader.found()


def rows_of(query: Query, answer: Answer) -> list[QueueRow] | Failure:
    """Return the records of this answer, or that it has another form than known."""
    try:
        return query.rows(answer)
    except ValueError as error:
        return strange("squeue", error)


def strange(command: str, error: Exception) -> Failure:
    """Return that the command's answer has another form than known."""
    return Failure(kind=FailureKind.UNKNOWN, message=f"{command}: unexpected answer ({type(error).__name__}: {error})")
