"""Reports that came by the socket and were not read yet: bounded, however many a user sends.

A report is kept under its sender's number and the job that it names. So no report is in the way of another's: for
a job the one is taken that its own user has sent. Where all is full, the oldest report goes of the user that has most:
however many users fill it together, each of the others has a share as large as theirs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

#: Bytes that are kept of all users, and of one.
MOST_BYTES, MOST_OF_ONE = 64 << 20, 16 << 20
#: Reports that are kept of one user, however short.
MOST_REPORTS = 2000
#: Seconds for which a report waits for its job to be seen: slurmctld may be away for a while. Where none was read
#: in that time, none is taken: this daemon is a standby.
KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class _HeldReport:
    report: bytes
    #: by the stopwatch
    since: float


@dataclass
class Inbox:
    """Reports that wait. May be used by several threads."""

    stopwatch: Callable[[], float] = time.monotonic
    #: by user and job, the one that came first at the front
    _held: dict[tuple[int, str], _HeldReport] = field(default_factory=dict, init=False)
    #: of each user
    _reports: Counter[int] = field(default_factory=Counter, init=False)
    _bytes: Counter[int] = field(default_factory=Counter, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _read_at: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin as if reports had just been read."""
        self._read_at = self.stopwatch()

    def put(self, user: int, job: str, report: bytes) -> bool:
        """Keep a report in the place of an earlier one of that user for that job; return whether it could be."""
        with self._lock:
            self._forget_late()
            if self.stopwatch() - self._read_at > KEPT_S:
                return False
            before = self._drop((user, job))
            mine = self._bytes[user] + len(report)
            fits = mine <= MOST_OF_ONE and self._reports[user] < MOST_REPORTS and self._make_space(mine, len(report))
            if fits:
                self._hold((user, job), _HeldReport(report, self.stopwatch()))
            elif before is not None:
                self._hold((user, job), before)
            return fits

    def waiting(self) -> Collection[tuple[int, str]]:
        """Return for which users and jobs there are reports; those that have waited too long are forgotten."""
        with self._lock:
            self._read_at = self.stopwatch()
            self._forget_late()
            return tuple(self._held)

    def take(self, user: int, job: str) -> bytes | None:
        """Return the user's report for the job, once; None if there is none."""
        with self._lock:
            held = self._drop((user, job))
        return held.report if held else None

    def _hold(self, key: tuple[int, str], held: _HeldReport) -> None:
        self._held[key] = held
        self._reports[key[0]] += 1
        self._bytes[key[0]] += len(held.report)

    def _drop(self, key: tuple[int, str]) -> _HeldReport | None:
        held = self._held.pop(key, None)
        if held is not None:
            user = key[0]
            self._reports[user] -= 1
            self._bytes[user] -= len(held.report)
            if not self._reports[user]:
                del self._reports[user], self._bytes[user]
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
