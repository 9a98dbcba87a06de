"""Sees a cluster at rest by one call: while the queue stays as it was, the last whole poll stands.

A whole poll is eight RPCs of the commands and more of pyslurm's client; `scontrol -o show job`, without `-d`, is one
(counted on 22.05), and says all that a poll reads of a job but what the job holds on each of its nodes. Its records
are compared with those before the last whole poll:

- a new or changed record of a waiting job: a whole poll at once, since it may be a TE job
- any other change (a job runs, ends, is forgotten), or a job of the last whole poll in doubt: a whole poll at once too,
  `BURST` times, and then one every `EVERY_S` seconds, however many jobs come and end; more often where Slurm forgets
  jobs sooner (MinJobAge)
- nothing has changed: the last whole poll stands, for `YOUNG_S` at least and `OLD_S` at most. What no job's record
  shows is seen that late: a node that is drained, a partition, a reservation.

None of that holds where the caller wants the `whole`: a decision never rests on an old poll (`tesched_daemon/rest.py`).
The records are compared, and never read: a text of a user's that looks like another record costs a whole poll, or
hides changes of that user's own job.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from tesched_core.model.actions import Failure
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.details import MOST_LIST
from tesched_slurm.run_command import Commands

#: Whole polls for changes of jobs that do not wait: so many at once after a rest, and one every so many seconds.
BURST = 5
EVERY_S = 20.0
#: Seconds for which a whole poll stands while nothing changes: as long as nothing had changed before it, within these.
YOUNG_S = 30.0
OLD_S = 300.0

_ARGV = ("scontrol", "-a", "-o", "show", "job")
#: changes by itself, or with each turn of slurmctld's schedulers; a poll reads none of it of a job that waits, and of
#: one that runs what it says follows from the rest: its state, its restarts, its time limit
_PASSING = re.compile(r" (?:RunTime|StartTime|EndTime|LastSchedEval|Scheduler|SchedNodeList)=\S*")
#: words for a place in the queue: they change for all that wait behind a job that has started
_PLACE = re.compile(r" Reason=(?:Resources|Priority) ")
_WAITS = " JobState=PENDING "


class WholeObserver(Protocol):
    """Reads everything with each poll."""

    def observe(self) -> Snapshot | Failure:
        """Return what Slurm says now, unclassified."""
        ...


@dataclass(slots=True, kw_only=True)
class _Known:
    """A whole poll, and the records of jobs from right before it."""

    snapshot: Snapshot
    #: hashes of the records' lines
    records: frozenset[int]
    #: when it was made, by the stopwatch
    at: float
    #: some of its jobs could not be read, or not whole
    doubtful: bool


@dataclass(kw_only=True)
class RestingObserver:
    """Sees the cluster through another observer, and at rest through one call that finds out whether jobs changed."""

    observer: WholeObserver
    commands: Commands
    stopwatch: Callable[[], float] = time.monotonic
    _known: _Known | None = None
    #: by the stopwatch, when a change was last seen
    _changed_at: float = 0.0
    #: whole polls left for changes of jobs that do not wait, and when they were counted
    _left: float = field(default=float(BURST))
    _counted_at: float = 0.0

    def observe(self, *, whole: bool = True) -> Snapshot | Failure:
        """Return what Slurm says now, unclassified; without `whole`, the last whole poll as of now where it stands.

        That is the same objects with another `taken_at`.
        """
        taken_at = time.time()
        records: frozenset[int] | None = None
        if not whole:
            answer = self.commands.run(_ARGV, {"SLURM_BITSTR_LEN": str(MOST_LIST)})
            if isinstance(answer, Failure):
                self._known = None
                return answer
            lines = {hash(line): _WAITS in line for line in _lasting(answer)}
            if self._known is not None and self._stands(self._known, lines):
                return replace(self._known.snapshot, taken_at=taken_at)
            records = frozenset(lines)
        # Whatever changes from here on differs from these records at the next poll.
        at = self.stopwatch()
        if self._known is None or whole:
            self._changed_at = at
        self._known = None
        seen = self.observer.observe()
        if records is not None and isinstance(seen, Snapshot):
            doubtful = any(job.doubt or job.partly_read for job in seen.jobs.values())
            self._known = _Known(snapshot=seen, records=records, at=at, doubtful=doubtful)
        return seen

    def _stands(self, known: _Known, lines: dict[int, bool]) -> bool:
        """Return whether the last whole poll may stand for this one; `lines` says of each record whether it waits."""
        now = self.stopwatch()
        new = lines.keys() - known.records
        if new or len(lines) != len(known.records):
            self._changed_at = now
            return not any(lines[line] for line in new) and not self._may_read(known, now)
        if known.doubtful:
            return not self._may_read(known, now)
        return now - known.at < min(max(known.at - self._changed_at, YOUNG_S), OLD_S)

    def _may_read(self, known: _Known, now: float) -> bool:
        """Take one of the whole polls for small changes; return whether there was one."""
        # A job that has ended is to be seen before Slurm forgets it.
        every_s = min(EVERY_S, (known.snapshot.settings.min_job_age_s or OLD_S) / 2)
        self._left = min(self._left + (now - self._counted_at) / every_s, float(BURST))
        self._counted_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def _lasting(answer: str) -> list[str]:
    """Return the lines of scontrol's records without what passes."""
    return _PLACE.sub(" Reason=Priority ", _PASSING.sub("", answer)).split("\n")
