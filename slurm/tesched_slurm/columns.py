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
from collections.abc import Mapping
from typing import NamedTuple

from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.run_command import Commands

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

    def rows(self, answer: str) -> list[QueueRow]:
        """Return the records. Raises ValueError for an answer of another form."""
        *records, rest = answer.split(f"{self._end}\n")
        if rest.strip():
            raise ValueError(f"it ends in the middle of a record: {rest[:80]!r}")
        found = []
        for record in records:
            values = record.split(self._separator)
            if len(values) != len(COLUMNS):
                raise ValueError(f"a record has {len(values)} columns, and {len(COLUMNS)} were requested")
            found.append(QueueRow._make(values))
        return found


def read_rows(commands: Commands, *options: str) -> list[QueueRow] | Failure:
    """Return the records of the jobs that these options of squeue's choose."""
    query = Query(*options)
    answer = commands.run(query.argv, query.environment)
    if isinstance(answer, Failure):
        return answer
    return rows_of(query, answer)


def rows_of(query: Query, answer: str) -> list[QueueRow] | Failure:
    """Return the records of this answer, or that it has another form than known."""
    try:
        return query.rows(answer)
    except ValueError as error:
        return strange("squeue", error)


def strange(command: str, error: Exception) -> Failure:
    """Return that the command's answer has another form than known."""
    return Failure(kind=FailureKind.UNKNOWN, message=f"{command}: unexpected answer ({type(error).__name__}: {error})")
