"""Details that `scontrol -d -o show job` has and squeue lacks: what a job holds on each node, and bits of its request.

scontrol prints users' text between Slurm's own words, and a user's text may hold whole forged records. So a record is
believed by what stands in its place: its times end with a mark that is drawn anew for each call, and that no user can
know before slurmctld has answered. scontrol gets it as the format of times, in its environment, which other users can't
read (`columns.py` does the same with squeue).

Between a record's beginning and its mark stand name, MCS label, account, QOS and WCKey, each compared letter by letter
with what squeue says, and Slurm's own words. Details are taken from what follows, up to `Features=`: everything before
it is written by Slurm (also when a job of a user's crontab runs), or was checked by slurmctld: nodes, which it may keep
as they were typed, with blanks between their names. Behind it stands the first text of the user's choice behind the
mark: `ClusterFeatures=`, which is `--cluster-constraint` and taken as it is where there is no federation (tried on
22.05 and 26.05).

One case is left: where a site lets users type any account or WCKey, a job's own mark may stand behind a record that is
forged in there. The job's own record comes first and takes the mark, unless its user has changed that text between the
two answers. Then the other job has two records, and none is believed: it stays as last known until the next poll.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from tesched_slurm.answer_bytes import Answer, as_printed, as_text
from tesched_slurm.columns import QueueRow, drawn
from tesched_slurm.hidden_tasks import HiddenTask, arrays_of

_BEGIN = re.compile(
    rb"^JobId=(\d+) (?:ArrayJobId=(\d+) ArrayTaskId=(\S+) (?:ArrayTaskThrottle=(\d+) )?)?"
    rb"(?:HetJobId=\d+ HetJobOffset=\d+ )?JobName=",
    re.MULTILINE,
)
#: Names of users and groups may hold blanks. A forged one must not reach over the job's own user, behind its name.
_USER = re.compile(
    rb"(?: SLUID=\S+)?(?: HetJobIdSet=\S+)? UserId=[^\n]{0,512}?\((\d+)\)"
    rb" GroupId=(?:(?! UserId=)[^\n]){0,512}?\(\d+\) MCS_label="
)
_PRIORITY = re.compile(rb" Priority=\d+ Nice=-?\d+ Account=")
#: Characters of the list of an array's waiting tasks; Slurm's own default of 64 cuts those of tasks here and there.
_MOST_LIST = 4096
#: what a record has from its state to its first time: Slurm's own words alone, on one line, and its state once
_TO_MARK = re.compile(rb" JobState=\S+(?: (?!JobState=)\w+=\S*)*? SubmitTime=(\S+)")
_END = b" Features="
#: changes with each turn of slurmctld's scheduler, and says nothing of the job
_LAST_EVALUATED = re.compile(rb" LastSchedEval=\S+")
_NEXT = re.compile(rb"^JobId=\d+ ", re.MULTILINE)
_PAIR = re.compile(r" (Restarts|NodeList|NumCPUs|NumNodes|Deadline|MinMemory\w*)=(\S*)")
#: as it was typed, with blanks between names of nodes (`scontrol update jobid=… excnodelist="n1 n2"`)
_EXCLUDED = re.compile(r" ExcNodeList=([^\n=]*) NodeList=")
#: columns of squeue's that a record is compared with before it is believed
_COMPARED = attrgetter("name", "user_id", "mcs_label", "account", "qos", "wc_key", "submit_time")
_SHARE = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Additions of scontrol to one record of squeue's, in Slurm's words."""

    #: most tasks of its array at once (ArrayTaskThrottle); 0: no limit
    throttle: int
    #: of an array, those of its waiting tasks that have no record of their own: "0,2-4", without the limit behind it
    array_tasks: str
    #: which run, and how large: to be compared with squeue's
    restarts: str
    node_list: str
    num_cpus: str
    #: how many nodes it has, or asks for: `2-4`, or `2` where it names no most
    num_nodes: str
    #: what MinMemory is for: "CPU", "Node" or "TRES"
    memory_for: str
    excluded: str
    #: by when it must have ended, Unix seconds; "N/A": no such time
    deadline: str
    #: its devices are bound to its sockets (GresEnforceBind), and how many tasks each of them gets (NtasksPerTRES)
    enforces_binding: bool
    tasks_per_gres: int
    #: (nodes, ids of CPUs, MiB, GRES) of each group of nodes that are alike
    shares: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsFound:
    """Content of an answer on the jobs that it was searched for."""

    by_id: Mapping[str, Details]
    #: jobs of which two records are there
    doubtful: frozenset[str]
    #: tasks of arrays that have records here and no rows, by job id
    hidden: Mapping[str, HiddenTask]


class _KnownRecord(NamedTuple):
    #: hash of what it was compared with
    compared: int
    length: int
    #: hash of the record
    content: int
    details: Details


@dataclass(kw_only=True)
class KnownRecords:
    """Records that were believed in the answers before, by job id: one that has not changed is not read again.

    Of each its length and hashes are kept; its text would be 1.2 kB, and squeue's record three times as much.
    """

    #: stands for the marks of all answers, or no record would stay as it was; only this process ever sees it
    mark: bytes = field(default_factory=lambda: drawn().encode())
    _by_id: dict[str, _KnownRecord] = field(default_factory=dict)

    def unchanged(self, answer: Answer, start: int, row: QueueRow, mark: bytes) -> tuple[Details, int] | None:
        """Find the details of the record at `start`, and where it ends, if it is as it was known of this job.

        `mark` is the answer's, as long as the one that stands for it here.
        """
        known = self._by_id.get(row.job_id)
        if known is None or hash(_COMPARED(row)) != known.compared:
            return None
        end = start + known.length
        # A record that is longer than it was may begin as it did.
        record = bytes(answer[start:end]).replace(mark, self.mark)
        if _content(record) != known.content or not (end == len(answer) or _NEXT.match(answer, end)):
            return None
        return known.details, end

    def add(self, row: QueueRow, record: bytes, details: Details, mark: bytes) -> None:
        """Remember the record of this row's job, with the answer's `mark` in it, and what it said."""
        content = _content(record.replace(mark, self.mark))
        self._by_id[row.job_id] = _KnownRecord(hash(_COMPARED(row)), len(record), content, details)

    def forget_others(self, job_ids: Collection[str]) -> None:
        """Forget all jobs but these."""
        if len(self._by_id) > len(job_ids):
            self._by_id = {job_id: known for job_id, known in self._by_id.items() if job_id in job_ids}


def _content(record: bytes) -> int:
    return hash(_LAST_EVALUATED.sub(b"", record))


class DetailsQuery:
    """One call of scontrol for all jobs, or for one: what it is run with, and how its answer is read."""

    def __init__(self, job_id: str = "", *, shares: bool = True) -> None:
        """Draw a mark. Without `shares` it does not say what jobs hold on each of their nodes, and is one RPC."""
        self._mark = drawn()
        self.shares = shares
        which = (job_id,) if job_id else ()
        self.argv: tuple[str, ...] = ("scontrol", "-a", *(("-d",) if shares else ()), "-o", "show", "job", *which)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the format of times: Unix seconds, and the mark. Slurm takes formats of up to 31 characters."""
        return {"SLURM_TIME_FORMAT": f"%s{self._mark}", "SLURM_BITSTR_LEN": str(_MOST_LIST)}

    def lines(self, answer: Answer) -> Iterator[bytes]:
        """Yield the lines without the marks: the same as those to another query, if nothing has changed."""
        mark, position = self._mark.encode(), 0
        while (end := answer.find(b"\n", position)) >= 0:
            yield bytes(answer[position:end]).replace(mark, b"")
            position = end + 1
        yield bytes(answer[position:]).replace(mark, b"")

    def count(self, answer: Answer) -> int:
        """Return the number of Slurm's own records in the answer: each has one time of submission with the mark."""
        marked = re.compile(rb" SubmitTime=\d+" + re.escape(self._mark.encode()))
        return sum(1 for _ in marked.finditer(answer))

    def find(self, answer: Answer, rows: Mapping[str, QueueRow], known: KnownRecords | None = None) -> DetailsFound:
        """Return the details of the jobs of `rows`, by job id; a job without a record there is left out.

        Of a record that is as it was `known`, the details are those of then; what is read is known from now on.
        """
        known = known or KnownRecords()
        mark, arrays = self._mark.encode(), arrays_of(rows)
        by_id: dict[str, Details] = {}
        doubtful: set[str] = set()
        hidden: dict[str, HiddenTask] = {}
        position = 0
        while begin := _BEGIN.search(answer, position):
            position = begin.end()
            row = rows.get(as_text(begin[1]))
            if row is None:
                array = arrays.get(as_text(begin[2] or b""))
                if array is not None:
                    position = _hidden_task(answer, begin, array, mark, hidden)
                continue
            unchanged = known.unchanged(answer, begin.start(), row, mark)
            if unchanged is not None:
                details, position = unchanged
            else:
                marked = _marked(answer, position, row)
                if marked is None or marked[1] != as_printed(row.submit_time) + mark:
                    continue
                end = answer.find(_END, marked.end())
                if end < 0:
                    break  # the answer was cut short
                after = _NEXT.search(answer, end)
                record_end = after.start() if after else len(answer)
                read = _details(as_text(answer[marked.start() : end]), as_text(answer[end:record_end]), begin)
                position = end
                if read is None:
                    continue
                details = read
                known.add(row, bytes(answer[begin.start() : record_end]), details, mark)
            if row.job_id in by_id:
                doubtful.add(row.job_id)
            by_id[row.job_id] = details
        return DetailsFound(
            by_id={job_id: each for job_id, each in by_id.items() if job_id not in doubtful},
            doubtful=frozenset(doubtful),
            hidden=hidden,
        )


def _hidden_task(
    answer: Answer, begin: re.Match[bytes], array: QueueRow, mark: bytes, hidden: dict[str, HiddenTask]
) -> int:
    """Add the task whose record this is, if it is one; return where to go on.

    Its name and its user are its array's: else squeue would have shown it.
    """
    name = as_printed(array.name)
    position = begin.end() + len(name)
    user = _USER.match(answer, position) if answer.startswith(name, begin.end()) else None
    if user is None or user[1] != as_printed(array.user_id):
        return begin.end()
    position = user.end()
    line_end = answer.find(b"\n", position)
    marked = _TO_MARK.search(answer, position, line_end) if line_end > 0 else None
    if marked is None or not marked[1].endswith(mark):
        return begin.end()
    after = _NEXT.search(answer, marked.end())
    record = bytes(answer[begin.start() : after.start() if after else len(answer)]).replace(mark, b"")
    # Its hash alone is kept: ten thousand records are 20 MB.
    found = HiddenTask(
        array_id=as_text(begin[2]), task=as_text(begin[3]), user=array.user_name, record=_content(record)
    )
    hidden[as_text(begin[1])] = found
    return marked.end()


def _marked(answer: Answer, start: int, row: QueueRow) -> re.Match[bytes] | None:
    """Match a record of this job from its state to its first time; None if it is not this job's.

    `start` is where the name begins.
    """
    name = _behind(answer, start, row.name, _USER)
    if name is None or name[1] != as_printed(row.user_id):
        return None
    # Where there is no label scontrol says N/A, and a user may type what squeue says then.
    labels = ("N/A", "(null)") if row.mcs_label == "(null)" else (row.mcs_label,)
    found = (_behind(answer, name.end(), label, _PRIORITY) for label in labels)
    priority = next((each for each in found if each is not None), None)
    if priority is None:
        return None
    position = priority.end()
    account_and_qos = as_printed(f"{row.account} QOS={row.qos}")
    if not answer.startswith(account_and_qos, position):
        return None
    position += len(account_and_qos)
    wckey = as_printed(f" WCKey={row.wc_key}")
    if answer.startswith(wckey, position):  # where the site keeps track of them
        position += len(wckey)
    return _TO_MARK.match(answer, position)


def _behind(answer: Answer, position: int, text: str, following: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Match what follows this text, if that stands there."""
    printed = as_printed(text)
    return following.match(answer, position + len(printed)) if answer.startswith(printed, position) else None


def _details(window: str, tail: str, begin: re.Match[bytes]) -> Details | None:
    """Read the details that a record has.

    `tail` is what follows the window. A user's text stands in there, too: only what makes tesched leave the job alone
    is taken from it, and a user who hides that deceives about a job of its own.
    """
    per_gres = re.search(r" NtasksPerTRES(?::\S*)?=(\d{1,6})", tail)
    # The first of each: what a share says of its nodes comes later.
    pairs: dict[str, str] = {}
    for key, value in _PAIR.findall(window):
        pairs.setdefault(key, value)
    excluded = _EXCLUDED.search(window)
    memory = next((key for key in pairs if key.startswith("MinMemory")), "")
    if excluded is None:
        return None
    try:
        return Details(
            throttle=int(begin[4] or b"0"),
            array_tasks=as_text(begin[3] or b"").partition("%")[0],
            restarts=pairs["Restarts"],
            node_list=pairs["NodeList"],
            num_cpus=pairs["NumCPUs"],
            num_nodes=pairs["NumNodes"],
            memory_for=memory.removeprefix("MinMemory"),
            excluded=excluded[1],
            # Behind each time stands the mark, which begins with a letter of no number.
            deadline=pairs["Deadline"].partition("|")[0],
            enforces_binding=" GresEnforceBind=Yes" in tail,
            tasks_per_gres=int(per_gres[1]) if per_gres else 0,
            shares=tuple(_SHARE.findall(window)),
        )
    except KeyError:
        return None
