"""Details that `scontrol -d -o show job` has and squeue lacks: what a job holds on each node, and bits of its request.

scontrol prints users' text between Slurm's own words. What is taken from it stands in a part of the record that no
user's text can reach: after the job's name, MCS label, account and QOS, each compared letter by letter with what squeue
says (`columns.py`), and before `Network=`, the first text of the user's choice that follows. Everything in between is
written by Slurm, or was checked by slurmctld when the job was submitted (nodes, features, licences, reservation).

A user's text may hold a whole forged record. Then two places look like the record of one job, and neither is believed:
that job is `doubtful`, and can be asked for alone, where its own record comes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tesched_slurm.columns import Row

_BEGIN = re.compile(
    r"^JobId=(\d+) (?:ArrayJobId=(\d+) ArrayTaskId=\S+ (?:ArrayTaskThrottle=(\d+) )?)?"
    r"(?:HetJobId=\d+ HetJobOffset=\d+ )?JobName=",
    re.MULTILINE,
)
#: names of users and groups may hold blanks
_USER = re.compile(
    r"(?: SLUID=\S+)?(?: HetJobIdSet=\S+)? UserId=[^\n]{0,512}?\((\d+)\) GroupId=[^\n]{0,512}?\(\d+\) MCS_label="
)
_PRIORITY = re.compile(r" Priority=\d+ Nice=-?\d+ Account=")
_END = " Network="
_NEXT = re.compile(r"^JobId=\d+ ", re.MULTILINE)
_PAIR = re.compile(r" ([\w/:]+)=(\S*)")
_SHARE = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Additions of scontrol to one record of squeue's, in Slurm's words."""

    #: most tasks of its array at once (ArrayTaskThrottle); 0: no limit
    throttle: int
    #: which run, and how large: to be compared with squeue's
    restarts: str
    node_list: str
    num_cpus: str
    #: how many nodes it has, or asks for: `2-4`, or `2` where it names no most
    num_nodes: str
    #: what MinMemory is for: "CPU", "Node" or "TRES"
    memory_for: str
    excluded: str
    #: its devices are bound to its sockets (GresEnforceBind), and how many tasks each of them gets (NtasksPerTRES)
    enforces_binding: bool
    tasks_per_gres: int
    #: (nodes, ids of CPUs, MiB, GRES) of each group of nodes that are alike
    shares: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Content of an answer on the jobs that it was searched for."""

    by_id: Mapping[str, Details]
    #: jobs of which two records, or one that can't be told from a user's text, are there
    doubtful: frozenset[str]


def find(answer: str, rows: Mapping[str, Row]) -> Found:
    """Return the details of the jobs of `rows`, by job id; a job without a record there is left out."""
    by_id: dict[str, Details] = {}
    doubtful: set[str] = set()
    for match in _BEGIN.finditer(answer):
        row = rows.get(match[1])
        if row is None:
            continue
        window = _window(answer, match.end(), row)
        if window is None:
            continue
        if row.job_id in by_id:
            doubtful.add(row.job_id)
            continue
        details = _details(*window, match[3] or "0")
        if details is not None:
            by_id[row.job_id] = details
    certain = {job_id: each for job_id, each in by_id.items() if job_id not in doubtful}
    return Found(by_id=certain, doubtful=frozenset(doubtful))


def find_alone(answer: str, row: Row) -> Details | None:
    """Return the details in an answer to the question for this one job; None if its record isn't there.

    With a task come the others of its array, so its record need not be the first; but before it stand only records of
    the same user.
    """
    for match in _BEGIN.finditer(answer):
        if match[1] == row.job_id:
            window = _window(answer, match.end(), row)
            if window is not None:
                return _details(*window, match[3] or "0")
    return None


def arrays_with_hidden_tasks(answer: str, rows: Mapping[str, Row]) -> frozenset[str]:
    """Return the arrays of which the answer has records that aren't among `rows`.

    squeue shows an array's waiting tasks as one, also those with records of their own: on 26.05 always.
    """
    arrays = {row.array_job_id for row in rows.values() if row.array_task_id != "N/A"}
    return frozenset(match[2] for match in _BEGIN.finditer(answer) if match[2] in arrays and match[1] not in rows)


def _window(answer: str, start: int, row: Row) -> tuple[str, str] | None:
    """Return the part of a record that Slurm alone writes, and the rest of its line; None if it is not this job's.

    `start` is where the name begins.
    """
    position = start
    for text, following in (
        (row.name, _USER),
        (_shown(row.mcs_label, "N/A"), _PRIORITY),
        (_shown(row.account, "(null)"), None),
    ):
        if not answer.startswith(text, position):
            return None
        position += len(text)
        if following is None:
            break
        match = following.match(answer, position)
        if match is None or (following is _USER and match[1] != row.user_id):
            return None
        position = match.end()
    qos = f" QOS={row.qos}"
    if not answer.startswith(qos, position):
        return None
    position += len(qos)
    wckey = f" WCKey={row.wc_key}"
    if answer.startswith(wckey, position):  # where the site keeps track of them
        position += len(wckey)
    if not answer.startswith(" JobState=", position):
        return None
    end = answer.find(_END, position)
    if end < 0:
        return None
    after = _NEXT.search(answer, end)
    return answer[position:end], answer[end : after.start() if after else len(answer)]


def _shown(value: str, nothing: str) -> str:
    """Return how scontrol prints it where squeue prints (null)."""
    return nothing if value == "(null)" else value


def _details(window: str, tail: str, throttle: str) -> Details | None:
    """Return what a record says.

    `tail` is what follows the window. A user's text stands in there, too: only what makes tesched leave the job alone
    is taken from it, and a user who hides that deceives about a job of its own.
    """
    per_gres = re.search(r" NtasksPerTRES(?::\S*)?=(\d{1,6})", tail)
    # The first of each: what a share says of its nodes comes later.
    pairs: dict[str, str] = {}
    for key, value in _PAIR.findall(window):
        pairs.setdefault(key, value)
    memory = next((key for key in pairs if key.startswith("MinMemory")), "")
    try:
        return Details(
            throttle=int(throttle),
            restarts=pairs["Restarts"],
            node_list=pairs["NodeList"],
            num_cpus=pairs["NumCPUs"],
            num_nodes=pairs["NumNodes"],
            memory_for=memory.removeprefix("MinMemory"),
            excluded=pairs["ExcNodeList"],
            enforces_binding=" GresEnforceBind=Yes" in tail,
            tasks_per_gres=int(per_gres[1]) if per_gres else 0,
            shares=tuple(_SHARE.findall(window)),
        )
    except KeyError:
        return None
