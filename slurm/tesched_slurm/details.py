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
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from tesched_slurm.answer_bytes import Answer, Pieces, as_printed, as_text
from tesched_slurm.columns import QueueRow, drawn
from tesched_slurm.hidden_tasks import HiddenTask, arrays_of
from tesched_slurm.record_details import Details, read_details
from tesched_slurm.run_command import Call

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
#: columns of squeue's that a record is compared with before it is believed
_COMPARED = attrgetter("name", "user_id", "mcs_label", "account", "qos", "wc_key", "submit_time")


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailsFound:
    """Content of an answer on the jobs that it was searched for."""

    by_id: Mapping[str, Details]
    #: jobs of which two records are there
    doubtful: frozenset[str]
    #: tasks of arrays that have records here and no rows, by job id
    hidden: Mapping[str, HiddenTask]
    #: their records, as they were printed: an answer to the same query on them alone
    hidden_records: Answer = b""


NOTHING_FOUND = DetailsFound(by_id={}, doubtful=frozenset(), hidden={})


class _CutError(Exception):
    """More of the answer is needed to decide this."""


class _Printed(NamedTuple):
    """What scontrol has printed so far, or all of it.

    No pattern here that is matched behind a known text reaches over the end of a line. So what is behind that text, up
    to the end of its line, is enough to say whether it matches, whatever comes later.
    """

    answer: Answer
    ended: bool

    def need_line(self, position: int) -> None:
        """Raise _CutError unless what is at this position is there up to the end of its line."""
        if not self.ended and self.answer.find(b"\n", position) < 0:
            raise _CutError

    def next_record(self, position: int) -> int:
        """Find the next record's beginning behind this position, or the answer's end. Raises _CutError."""
        after = _NEXT.search(self.answer, position)
        if after is None and not self.ended:
            raise _CutError
        return after.start() if after else len(self.answer)


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

    def unchanged(self, said: _Printed, start: int, row: QueueRow, mark: bytes) -> tuple[Details, int] | None:
        """Find the details of the record at `start`, and where it ends, if it is as it was known of this job.

        `mark` is the answer's, as long as the one that stands for it here.
        """
        known = self._by_id.get(row.job_id)
        if known is None or hash(_COMPARED(row)) != known.compared:
            return None
        answer, end = said.answer, start + known.length
        # A record that is longer than it was may begin as it did.
        is_whole = _NEXT.match(answer, end) or (said.ended and end == len(answer))
        if not is_whole or _content(bytes(answer[start:end]).replace(mark, self.mark)) != known.content:
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

    def __init__(self, job_id: str = "", *, shares: bool = True, most_list: int = _MOST_LIST) -> None:
        """Draw a mark. Without `shares` it does not say what jobs hold on each of their nodes, and is one RPC.

        `most_list` are the characters of the list of an array's waiting tasks; 0: all (Slurm takes up to 4096).
        """
        self._mark = drawn()
        self.shares, self._most_list = shares, most_list
        which = (job_id,) if job_id else ()
        self.argv: tuple[str, ...] = ("scontrol", "-a", *(("-d",) if shares else ()), "-o", "show", "job", *which)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the format of times: Unix seconds, and the mark. Slurm takes formats of up to 31 characters."""
        return {"SLURM_TIME_FORMAT": f"%s{self._mark}", "SLURM_BITSTR_LEN": str(self._most_list)}

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
        search = _Search(rows, known or KnownRecords(), self._mark.encode())
        search.read(answer, True)
        return search.found()

    def call(self, reader: DetailsReader) -> Call:
        """Return the call whose answer this reader reads."""
        return Call(self.argv, self.environment, reader)

    def reader(self, rows: Callable[[], Mapping[str, QueueRow] | None], known: KnownRecords) -> DetailsReader:
        """Return a reader that finds as `find` does, while the answer is printed, for the jobs of `rows`.

        `rows` may block until they are there; None: they will not be, and nothing is found.
        """
        return DetailsReader(lambda of: _Search(of, known, self._mark.encode()), rows)


class DetailsReader:
    """Finds the details of jobs in scontrol's answer while it is printed; nothing else of it is kept.

    The jobs' rows are to be there first. Until then scontrol waits with what it prints, in the pipe.
    """

    def __init__(
        self, begin: Callable[[Mapping[str, QueueRow]], _Search], rows: Callable[[], Mapping[str, QueueRow] | None]
    ) -> None:
        """Begin an answer. `begin` gets the rows."""
        self._begin, self._rows = begin, rows
        self._search: _Search | None = None
        self._pieces: Pieces | None = None

    def feed(self, piece: bytes) -> None:
        """Wait for the rows, and read on."""
        if self._pieces is None:
            self._search = self._begin(self._rows() or {})
            self._pieces = Pieces(self._search.read)
        self._pieces.feed(piece)

    def end(self, *, well: bool) -> None:
        """Read what is left."""
        if well and self._pieces is not None:
            self._pieces.end()

    def found(self) -> DetailsFound:
        """Return the findings, once there is no more to read."""
        return self._search.found() if self._search is not None else NOTHING_FOUND


class _Search:
    """What was found in an answer so far, and where to go on."""

    def __init__(self, rows: Mapping[str, QueueRow], known: KnownRecords, mark: bytes) -> None:
        self._rows, self._known, self._mark = rows, known, mark
        self._arrays = arrays_of(rows)
        self._by_id: dict[str, Details] = {}
        self._doubtful: set[str] = set()
        self._hidden: dict[str, HiddenTask] = {}
        self._hidden_records = bytearray()
        #: where to go on in what is there, which begins with a line
        self._from = 0

    def found(self) -> DetailsFound:
        """Return all that was found."""
        return DetailsFound(
            by_id={job_id: each for job_id, each in self._by_id.items() if job_id not in self._doubtful},
            doubtful=frozenset(self._doubtful),
            hidden=self._hidden,
            hidden_records=self._hidden_records,
        )

    def read(self, answer: Answer, ended: bool) -> int:
        """Read on in what is there and has not been read; return how many bytes are done with.

        Unless it has `ended`, a record is left for later of which more might come: what is found does not depend on
        where the answer was cut.
        """
        said, position = _Printed(answer, ended), self._from
        while begin := _BEGIN.search(answer, position):
            try:
                position = self._record(said, begin)
            except _CutError:
                position = begin.start()
                break
        else:
            # Its last line may be the beginning of a record's.
            position = max(position, answer.rfind(b"\n") + 1)
        done = answer.rfind(b"\n", 0, position) + 1
        self._from = position - done
        return done

    def _record(self, said: _Printed, begin: re.Match[bytes]) -> int:
        """Read a record, or a text that begins as one; return where to go on. Raises _CutError, with nothing done."""
        answer, mark, position = said.answer, self._mark, begin.end()
        row = self._rows.get(as_text(begin[1]))
        if row is None:
            array = self._arrays.get(as_text(begin[2] or b""))
            return position if array is None else self._hidden_task(said, begin, array)
        unchanged = self._known.unchanged(said, begin.start(), row, mark)
        if unchanged is not None:
            details, position = unchanged
        else:
            marked = _marked(said, position, row)
            if marked is None or marked[1] != as_printed(row.submit_time) + mark:
                return position
            end = answer.find(_END, marked.end())
            if end < 0:
                if not said.ended:
                    raise _CutError
                return len(answer)  # the answer was cut short
            record_end = said.next_record(end)
            read = read_details(as_text(answer[marked.start() : end]), as_text(answer[end:record_end]), begin)
            position = end
            if read is None:
                return position
            details = read
            self._known.add(row, bytes(answer[begin.start() : record_end]), details, mark)
        if row.job_id in self._by_id:
            self._doubtful.add(row.job_id)
        self._by_id[row.job_id] = details
        return position

    def _hidden_task(self, said: _Printed, begin: re.Match[bytes], array: QueueRow) -> int:
        """Add the task whose record this is, if it is one; return where to go on. Raises _CutError.

        Its name and its user are its array's: else squeue would have shown it.
        """
        answer = said.answer
        user = _behind(said, begin.end(), array.name, _USER)
        if user is None or user[1] != as_printed(array.user_id):
            return begin.end()
        said.need_line(user.end())
        line_end = answer.find(b"\n", user.end())
        marked = _TO_MARK.search(answer, user.end(), line_end) if line_end > 0 else None
        if marked is None or not marked[1].endswith(self._mark):
            return begin.end()
        record = bytes(answer[begin.start() : said.next_record(marked.end())])
        # From one poll to the next its hash alone is kept: ten thousand records are 20 MB.
        content = _content(record.replace(self._mark, b""))
        self._hidden[as_text(begin[1])] = HiddenTask(
            array_id=as_text(begin[2]), task=as_text(begin[3]), user=array.user_name, record=content
        )
        self._hidden_records += record
        return marked.end()


def _marked(said: _Printed, start: int, row: QueueRow) -> re.Match[bytes] | None:
    """Match a record of this job from its state to its first time; None if it is not this job's.

    `start` is where the name begins. Raises _CutError.
    """
    name = _behind(said, start, row.name, _USER)
    if name is None or name[1] != as_printed(row.user_id):
        return None
    # Where there is no label scontrol says N/A, and a user may type what squeue says then.
    labels = ("N/A", "(null)") if row.mcs_label == "(null)" else (row.mcs_label,)
    found = (_behind(said, name.end(), label, _PRIORITY) for label in labels)
    priority = next((each for each in found if each is not None), None)
    if priority is None:
        return None
    position = priority.end()
    account_and_qos = as_printed(f"{row.account} QOS={row.qos}")
    wckey = as_printed(f" WCKey={row.wc_key}")
    said.need_line(position + len(account_and_qos) + len(wckey))
    if not said.answer.startswith(account_and_qos, position):
        return None
    position += len(account_and_qos)
    if said.answer.startswith(wckey, position):  # where the site keeps track of them
        position += len(wckey)
    return _TO_MARK.match(said.answer, position)


def _behind(said: _Printed, position: int, text: str, following: re.Pattern[bytes]) -> re.Match[bytes] | None:
    """Match what follows this text, if that stands there. Raises _CutError."""
    printed = as_printed(text)
    said.need_line(position + len(printed))
    if not said.answer.startswith(printed, position):
        return None
    return following.match(said.answer, position + len(printed))
