"""Sees a cluster at rest by one call: while the queue stays as it was, the last poll stands.

A whole poll is eight RPCs of the commands and about as many of pyslurm's client; `scontrol -o show job`, without `-d`,
is one (counted on 22.05), and says all that a poll reads of a job but what the job holds on each of its nodes. Its
records are compared with those before the last poll that read jobs:

- a new or changed record of a waiting job: the jobs are read at once, since it may be a TE job
- any other change (a job runs, ends, is forgotten), or a job in doubt: the jobs are read at once too, `BURST` times,
  and then every `EVERY_S` seconds, however many jobs come and end; more often where Slurm forgets jobs sooner
- nothing has changed: the last poll stands.

To read the jobs is two RPCs more (squeue). A whole poll is made after `YOUNG_S` seconds, later and later while nothing
changes, and after `OLD_S` at most: what no job's record shows is seen that late, such as a node that is drained, a
partition or a reservation.

None of that holds where the caller wants the `whole`: a decision never rests on an old poll (`tesched_daemon/rest.py`).
A text of a user's that resembles another record costs a poll, or hides changes of that user's own job: it can't stand
for a record that is still to come, as Slurm's own records are counted by their mark (`details.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, KeysView
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from tesched_core.model.actions import Failure
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.answer_bytes import Answer
from tesched_slurm.details import DetailsQuery
from tesched_slurm.run_command import Commands
from tesched_slurm.uptime import uptime_s

#: Polls for changes of jobs that do not wait: so many at once after a rest, and one every so many seconds.
BURST = 5
EVERY_S = 20.0
#: Seconds for which a whole poll stands: as long as nothing had changed before it, within these.
YOUNG_S = 60.0
OLD_S = 300.0

#: changes by itself, or with each turn of slurmctld's schedulers; a poll reads none of it of a job that waits, and of
#: one that runs what it says follows from the rest: its state, its restarts, its time limit
_PASSING = re.compile(rb" (?:RunTime|StartTime|EndTime|LastSchedEval|Scheduler|SchedNodeList)=\S*")
#: words for a place in the queue: they change for all that wait behind a job that has started
_PLACE = re.compile(rb" Reason=(?:Resources|Priority) ")
_WAITS = b" JobState=PENDING "


class WholeObserver(Protocol):
    """Reads everything with each poll."""

    def observe(self) -> Snapshot | Failure:
        """Read what Slurm says now, unclassified."""
        ...


@runtime_checkable
class JobsObserver(WholeObserver, Protocol):
    """Can read the jobs alone, too."""

    def observe_jobs(self, last: Snapshot, query: DetailsQuery, answer: Answer) -> Snapshot | Failure:
        """Read what Slurm says now of the jobs; all else is as in the `last` snapshot.

        `answer` is scontrol's to `query`, a moment old.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownPoll:
    """A poll, and the records of jobs from right before it."""

    snapshot: Snapshot
    #: hashes of the records' lines, and the number of records
    records: frozenset[int]
    count: int
    #: when everything was last read, by the stopwatch
    whole_at: float
    #: when its jobs were last known to be as they are, Unix seconds
    jobs_at: float

    @property
    def doubtful(self) -> bool:
        """Check whether some of its jobs could not be read, or not whole."""
        return any(job.doubt or job.partly_read for job in self.snapshot.jobs.values())

    def is_as(self, lines: KeysView[int], count: int) -> bool:
        """Check whether these are the same records, as many of them."""
        return count == self.count and self.records == lines


@dataclass(kw_only=True)
class RestingObserver:
    """Sees the cluster through another observer, and at rest through one call that finds out whether jobs changed."""

    observer: WholeObserver
    commands: Commands
    stopwatch: Callable[[], float] = uptime_s
    _known: _KnownPoll | None = None
    #: by the stopwatch, when a change was last seen
    _changed_at: float = 0.0
    #: polls left for changes of jobs that do not wait, and when they were counted
    _left: float = field(default=float(BURST))
    _counted_at: float = 0.0

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        """Read what Slurm says now, unclassified; without `whole`, with the last whole poll's nodes and all else.

        With `ends` the jobs are read after any change of theirs, however many come and end.
        Where no job has changed, that is the last poll, with another `taken_at`: the same objects.
        """
        at, known, self._known = self.stopwatch(), self._known, None
        if whole or known is None:
            self._changed_at = at
        if whole:
            return self.observer.observe()
        taken_at = time.time()
        query = DetailsQuery(shares=False)
        answer = self.commands.run_bytes(query.argv, query.environment)
        if isinstance(answer, Failure):
            return answer
        # Whatever changes from here on differs from these records at the next poll.
        lines = {hash(line): _WAITS in line for line in map(_lasting, query.lines(answer))}
        whole_at, count = at, query.count(answer)
        same = known is not None and known.is_as(lines.keys(), count)
        stands = known is not None and self._stands(known, lines, count, at, ends=ends)
        if known is None or not self._is_young(known, at):
            del answer  # of 100,000 jobs more than 100 MB, beside what a whole poll takes
            seen = self.observer.observe()
        elif stands:
            self._known = known = replace(known, jobs_at=taken_at) if same else known
            return replace(known.snapshot, taken_at=taken_at, jobs_at=known.jobs_at)
        elif isinstance(self.observer, JobsObserver):
            whole_at = known.whole_at
            seen = self.observer.observe_jobs(replace(known.snapshot, taken_at=taken_at), query, answer)
        else:
            seen = self.observer.observe()
        if isinstance(seen, Snapshot):
            # Another slurmctld is news once.
            lasting = replace(seen, controller_changed=False)
            self._known = _KnownPoll(
                snapshot=lasting, records=frozenset(lines), count=count, whole_at=whole_at, jobs_at=taken_at
            )
        return seen

    def _is_young(self, known: _KnownPoll, now: float) -> bool:
        return now - known.whole_at < min(max(known.whole_at - self._changed_at, YOUNG_S), OLD_S)

    def _stands(self, known: _KnownPoll, lines: dict[int, bool], count: int, now: float, *, ends: bool) -> bool:
        """Check whether the last poll may stand for this one; `lines` says of each record whether it waits."""
        new = lines.keys() - known.records
        if not known.is_as(lines.keys(), count):
            self._changed_at = now
            # More records than lines that are new: a text had the record of a job before that was there.
            waits = count - known.count > len(new) or any(lines[line] for line in new)
            return not (waits or ends or self._may_read(known, now))
        return not (known.doubtful and self._may_read(known, now))

    def _may_read(self, known: _KnownPoll, now: float) -> bool:
        """Take one of the polls for small changes; return whether there was one."""
        # A job that has ended is to be seen before Slurm forgets it.
        every_s = min(EVERY_S, (known.snapshot.settings.min_job_age_s or OLD_S) / 2)
        self._left = min(self._left + (now - self._counted_at) / every_s, float(BURST))
        self._counted_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def _lasting(line: bytes) -> bytes:
    """Return a line of scontrol's records without what passes."""
    return _PLACE.sub(b" Reason=Priority ", _PASSING.sub(b"", line))
