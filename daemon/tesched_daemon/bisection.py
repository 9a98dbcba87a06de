"""Bisection of a queue for the first job with which an error is raised, one try at a time, over several turns.

Between two turns jobs come, change and go, so what an earlier turn has found is tried again before a job is blamed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from tesched_core.model.resources import JobId


class Found(Enum):
    """What a search for a job that makes a turn raise has found."""

    #: one, which is set aside
    JOB = auto()
    #: nothing: the error came no more
    NOTHING = auto()
    #: an error that is raised without any job, too
    NO_JOBS = auto()
    #: nothing yet: its time is over, and the next turn goes on
    GOES_ON = auto()


class Between(NamedTuple):
    """Jobs between which an earlier turn was searching, by their ids."""

    #: nothing was raised with the jobs up to this one; 0: without any
    good: JobId
    #: an error was raised with the jobs up to this one
    bad: JobId


@dataclass(kw_only=True)
class Bisection:
    """One search. With the first `good` jobs nothing is raised, with the first `bad` an error is."""

    ids: Sequence[JobId]
    good: int
    bad: int
    #: it goes on from an earlier turn, and has halves to try first
    goes_on: bool
    #: the first `good` were tried in this turn
    is_sure: bool = False
    #: what was raised with the first `bad` in this turn
    error: Exception | None = None
    #: all jobs were tried once more in the end
    has_tried_all: bool = False

    @classmethod
    def begin(cls, ids: Sequence[JobId], kept: Between | None = None) -> Bisection:
        """Begin anew, or go on from what an earlier turn kept; `ids` are sorted."""
        if kept is not None:
            good, bad = bisect_right(ids, kept.good), bisect_right(ids, kept.bad)
            if good < bad:
                return cls(ids=ids, good=good, bad=bad, goes_on=True)
        return cls(ids=ids, good=0, bad=len(ids), goes_on=False)

    def kept(self) -> Between:
        """Where the next turn goes on."""
        return Between(self.ids[self.good - 1] if self.good else JobId(0), self.ids[self.bad - 1])

    def next_try(self) -> int | None:
        """Number of the jobs, of the first ones, to try next; None: the last of the first `bad` is to blame."""
        if not self.goes_on and not self.is_sure:
            return 0
        if not self.goes_on and self.error is None:
            return self.bad
        if self.bad - self.good > 1:
            return (self.good + self.bad) // 2
        if not self.is_sure:
            return self.good
        # Where each part was free of it, the last job is to blame, or the error has passed meanwhile.
        if self.error is None or (self.bad == len(self.ids) and not self.has_tried_all):
            return self.bad
        return None

    def learn(self, tried: int, error: Exception | None) -> Found | None:
        """Take in what was raised with the first `tried` jobs; what was found, if the search is over by that."""
        everything = len(self.ids)
        if error is not None:
            if tried == 0:
                return Found.NO_JOBS
            if tried == self.good:
                # It is raised by now with what an earlier turn found free of it.
                self.good = 0
            self.has_tried_all = tried == everything and self.bad - self.good == 1
            self.bad, self.error = tried, error
            return None
        if tried == everything:
            return Found.NOTHING
        if tried == self.bad:
            # Nothing is raised any more with what an earlier turn found to raise it.
            self.bad = everything
        self.good, self.is_sure = tried, True
        return None
