"""Reports that came by the socket and were not read yet: bounded, however many a user sends.

A report is kept under its sender's number and the job that it names. So no report is in the way of another's: for
a job those are taken that its own user has sent. A job may have several processes that say one word each (`tesched
report`), so a report takes the place of an earlier one only if it says all of that again.

Where all is full, a job's newest report takes the place of its earlier ones, and the oldest go of the user that has
most: however many users fill it together, each of the others has a share as large as theirs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from math import inf

from tesched_core.model.job_report import goes_on

#: Bytes that are kept of all users, and of one.
MOST_BYTES, MOST_OF_ONE = 64 << 20, 16 << 20
#: Jobs of one user of which reports are kept, however short, and reports of one job: the newest.
MOST_JOBS, MOST_OF_A_JOB = 2000, 32
#: Seconds for which a report waits for its job to be seen: slurmctld may be away for a while. Where none was read
#: in that time, none is taken.
KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class _HeldReports:
    #: oldest first, at least one
    reports: tuple[bytes, ...]
    #: when the newest came, by the stopwatch
    since: float

    @property
    def size(self) -> int:
        """Return the number of bytes."""
        return sum(map(len, self.reports))


@dataclass
class Inbox:
    """Reports that wait. May be used by several threads."""

    stopwatch: Callable[[], float] = time.monotonic
    #: by user and job, the one that was reported on longest ago at the front
    _held: dict[tuple[int, str], _HeldReports] = field(default_factory=dict, init=False)
    #: of each user
    _jobs: Counter[int] = field(default_factory=Counter, init=False)
    _bytes: Counter[int] = field(default_factory=Counter, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _read_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin as if reports had just been read."""
        self._read_at = self.stopwatch()

    def put(self, user: int, job: str, report: bytes) -> bool:
        """Keep a report behind earlier ones of that user for that job; return whether it could be."""
        with self._lock:
            self._forget_late()
            if self.stopwatch() - self._read_at > KEPT_S:
                return False
            before = self._drop((user, job))
            made = _HeldReports(_behind(before, report), self.stopwatch())
            if self._bytes[user] + made.size > MOST_OF_ONE or self._bytes.total() + made.size > MOST_BYTES:
                made = _HeldReports((report,), made.since)
            mine = self._bytes[user] + made.size
            fits = mine <= MOST_OF_ONE and self._jobs[user] < MOST_JOBS and self._make_space(mine, made.size)
            if fits:
                self._hold((user, job), made)
            elif before is not None:
                self._hold((user, job), before)
            return fits

    def rest(self) -> None:
        """Take nothing until reports are read again: this daemon is a standby, and what it took would be lost."""
        with self._lock:
            self._read_at = -inf

    def waiting(self) -> Collection[tuple[int, str]]:
        """Return for which users and jobs there are reports; those that have waited too long are forgotten."""
        with self._lock:
            self._read_at = self.stopwatch()
            self._forget_late()
            return tuple(self._held)

    def take(self, user: int, job: str) -> bytes | None:
        """Return the user's oldest report for the job, once; None if there is none."""
        with self._lock:
            held = self._held.get((user, job))
            if held is None:
                return None
            first, *others = held.reports
            if others:
                self._held[user, job] = replace(held, reports=tuple(others))
                self._bytes[user] -= len(first)
            else:
                self._drop((user, job))
        return first

    def throw_away(self, user: int, job: str) -> int:
        """Throw away the user's reports for the job; return how many."""
        with self._lock:
            held = self._drop((user, job))
        return len(held.reports) if held else 0

    def _hold(self, key: tuple[int, str], held: _HeldReports) -> None:
        self._held[key] = held
        self._jobs[key[0]] += 1
        self._bytes[key[0]] += held.size

    def _drop(self, key: tuple[int, str]) -> _HeldReports | None:
        held = self._held.pop(key, None)
        if held is not None:
            user = key[0]
            self._jobs[user] -= 1
            self._bytes[user] -= held.size
            if not self._jobs[user]:
                del self._jobs[user], self._bytes[user]
        return held

    def _make_space(self, mine: int, more: int) -> bool:
        """Make space for `more` bytes of a user that would then have `mine`; return whether that could be had."""
        while self._bytes.total() + more > MOST_BYTES:
            user, theirs = self._bytes.most_common(1)[0]
            if theirs <= mine:
                return False
            self._drop(next(key for key in self._held if key[0] == user))
        return True

    def _forget_late(self) -> None:
        late = self.stopwatch() - KEPT_S
        while self._held and (first := next(iter(self._held.items())))[1].since < late:
            self._drop(first[0])


def _behind(before: _HeldReports | None, report: bytes) -> tuple[bytes, ...]:
    """Put a report behind those that wait, but for those that it says again."""
    earlier = before.reports if before is not None else ()
    return (*(one for one in earlier if not goes_on(one, report)), report)[-MOST_OF_A_JOB:]
