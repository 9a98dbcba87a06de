"""Last resort of a turn: a job that makes it raise is set aside, and the others are served.

The observer bounds each value of a job, so this is for inputs that were not foreseen. The job is found by bisection:
some of the jobs in the snapshot are made blank, until nothing is raised. A job that is set aside is there, and no more
is known of it: it is no victim, no resources are freed for it, and what it holds on its nodes is what the nodes' own
records say.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Decision
from tesched_core.model.journal_error import JournalError, UnwritableError
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.model.visible import shortened
from tesched_core.orders.clock_jump import ClockReadings
from tesched_core.ports import CycleReport, Journal

from tesched_daemon.bisection import Between, Bisection, Found

log = logging.getLogger(__name__)

#: Jobs of one user that are found one by one; then all of the user's are set aside, such as the tasks of an array.
MOST_OF_A_USER = 4
#: Seconds in a turn after which a search halves no more until the next turn: the watchdog waits longer. It takes
#: minutes with 100,000 jobs.
SEARCH_S = 20.0
#: Characters of an error that are shown.
_MOST_SHOWN = 200

_GOES_ON = Failure(kind=FailureKind.UNKNOWN, message="jobs make tesched fail; the search for them goes on")

#: the journal's `intend`, or `rehearse`
_Write: TypeAlias = Callable[[Snapshot, Memory, Decision, CycleReport], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """Outcome of a poll, before anything is done."""

    snapshot: Snapshot
    memory: Memory
    decision: Decision
    report: CycleReport
    #: the clock and the stopwatch when it was decided
    clocks: ClockReadings


class _Raised(NamedTuple):
    """Error of a try."""

    error: Exception
    #: the journal raised it, not what was decided
    in_journal: bool


@dataclass(kw_only=True)
class SetAside:
    """The jobs that are set aside, until they are gone or `forget`."""

    #: the user of each, and why
    _jobs: dict[JobId, tuple[str, str]] = field(default_factory=dict)
    #: why all jobs of a user are
    _users: dict[str, str] = field(default_factory=dict)
    #: where a search goes on that took too long
    _between: Between | None = None

    def forget(self) -> None:
        """Set none aside any more."""
        self._jobs, self._users, self._between = {}, {}, None

    def intended(
        self,
        seen: Snapshot,
        meant_of: Callable[[Snapshot], Meant],
        journal: Journal,
        stopwatch: Callable[[], float],
    ) -> Meant | Failure:
        """Find what is meant, once the journal knows it. A job that makes either raise is set aside first.

        Where that takes too long, the next turn goes on with it. Raises JournalError, also for what else the journal
        raises with no job in particular; and what is raised whichever job is left out: that is a bug of ours.
        """
        until = stopwatch() + SEARCH_S
        passed, found = False, None
        while True:
            seen = self.without(seen)
            failed = _tried(seen, meant_of, journal.intend)
            if isinstance(failed, Meant):
                self._between = None
                return failed
            error = failed.error
            # However long a try takes, each turn makes one of the search.
            if found is not None and stopwatch() >= until:
                return _GOES_ON
            # The journal is tried only where it was the journal that raised.
            rehearse = journal.rehearse if failed.in_journal else None

            def raised_with(trial: Snapshot, write: _Write | None = rehearse) -> Exception | None:
                raised = _tried(trial, meant_of, write)
                return None if isinstance(raised, Meant) else raised.error

            found = self.find(seen, raised_with, is_over=lambda: stopwatch() >= until)
            if found is Found.GOES_ON:
                return _GOES_ON
            if found is Found.NO_JOBS and not failed.in_journal:
                raise error
            if found is Found.NO_JOBS or (found is Found.NOTHING and passed):
                log.error("it fails, and with no job in particular: %s", _said(error), exc_info=error)
                if isinstance(error, JournalError):
                    raise error
                if failed.in_journal:
                    raise JournalError(f"it fails, and no job makes it fail: {_said(error)}") from error
                said = f"it fails now and then, and with no job in particular: {_said(error)}"
                return Failure(kind=FailureKind.UNKNOWN, message=said)
            # What has passed may have been one bad moment: it is tried once more.
            passed = found is Found.NOTHING

    def without(self, seen: Snapshot) -> Snapshot:
        """Snapshot of what was seen, each job blank that is set aside."""
        if not self._jobs and not self._users:
            return seen
        users = {job.user for job in seen.jobs.values()}
        self._jobs = {job_id: said for job_id, said in self._jobs.items() if job_id in seen.jobs}
        self._users = {user: why for user, why in self._users.items() if user in users}
        aside = {job_id: why for job_id, (_, why) in self._jobs.items()}
        aside |= {job.job_id: self._users[job.user] for job in seen.jobs.values() if job.user in self._users}
        return blank(seen, aside)

    def find(
        self,
        seen: Snapshot,
        raised_with: Callable[[Snapshot], Exception | None],
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Found:
        """Set one job more aside: the first, by job id, with which an error is raised.

        `raised_with` says what is raised with a snapshot, if anything. Once `is_over`, the next call goes on.
        """
        ids = sorted(seen.jobs)
        search, self._between = Bisection.begin(ids, self._between), None
        has_tried = False
        while (count := search.next_try()) is not None:
            # What is left where nothing can be halved any more are two tries at most, which count together alone.
            if has_tried and search.bad - search.good > 1 and is_over():
                self._between = search.kept()
                return Found.GOES_ON
            trial = seen if count == len(ids) else blank(seen, dict.fromkeys(ids[count:], "left out"))
            found, has_tried = search.learn(count, raised_with(trial)), True
            if found is not None:
                return found
        if search.error is not None:
            self._set_aside(seen.jobs[ids[search.bad - 1]], search.error)
        return Found.JOB

    def _set_aside(self, job: Job, error: Exception) -> None:
        said = _said(error)
        why = f"tesched fails on it ({said}): it is left alone"
        self._jobs[job.job_id] = job.user, why
        log.error("job %s of %s is set aside: %s", job.label, job.user, said, exc_info=error)
        if Counter(user for user, _ in self._jobs.values())[job.user] >= MOST_OF_A_USER:
            log.error("all jobs of %s are set aside", job.user)
            self._users[job.user] = f"tesched fails on jobs of this user ({said}): they are left alone"


def _tried(seen: Snapshot, meant_of: Callable[[Snapshot], Meant], write: _Write | None) -> Meant | _Raised:
    """Find what is meant, written; or what that raises, if it may be for a job. Raises any other JournalError."""
    in_journal = False
    try:
        meant = meant_of(seen)
        in_journal = True
        if write is not None:
            write(meant.snapshot, meant.memory, meant.decision, meant.report)
    except UnwritableError as error:
        return _Raised(error, in_journal=True)
    except JournalError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever one job's record may cause
        return _Raised(error, in_journal=in_journal)
    return meant


def _said(error: Exception) -> str:
    """Error in one line. It is written to the store as well, which may have refused what it quotes."""
    lines = str(error).splitlines()
    return shortened(f"{type(error).__name__}: {lines[0] if lines else ''}", _MOST_SHOWN)


def blank(seen: Snapshot, aside: Mapping[JobId, str]) -> Snapshot:
    """Return the snapshot with these jobs blank: by job id, why."""
    blanks = {job_id: _blank_job(seen.jobs[job_id], why) for job_id, why in aside.items() if job_id in seen.jobs}
    jobs = {**seen.jobs, **blanks}
    return replace(seen, jobs=MappingProxyType(jobs), columns=None)


def _blank_job(job: Job, why: str) -> Job:
    """Job with what is certain of it alone; none of it is a text that its user chose."""
    return Job(
        job_id=job.job_id,
        user=job.user,
        partitions=job.partitions,
        state=JobState.UNKNOWN,
        doubt=why,
    )
