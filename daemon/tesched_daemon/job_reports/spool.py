"""Reads what jobs report: from a spool folder in which any user may write, and what came by the socket.

`SPOOL/UID/JOB.json` is the report of job JOB (123, 120_4); UID is its user's number. What came by the socket
(`socket.py`) names its job, and its sender is known. What holds, whatever is put there or sent:

- A report counts for the job of its name alone, and only if file and folder belong to the job's user as Slurm says, or
  that user has sent it.
- What is sent goes on with what was sent before, also to an earlier daemon: that is read once of each job (`stored`).
  While it cannot be read, reports wait. A file is whole in itself.
- Links are not followed, nothing but a plain file with one name is opened for long, and no more of it is read than a
  report may have. What is in it, `tesched_core.model.job_report` checks.
- A round over the spool takes a bounded number of files and a bounded time, and goes on with the next jobs at the next
  round. Names are not listed: a folder with a million files costs nothing.
- All of it happens in a thread of its own. The loop waits a moment for it and then goes on: a file system that hangs
  delays the news and nothing else.
"""

from __future__ import annotations

import errno
import logging
import os
import pwd
import stat
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tesched_core.model.cluster import Job
from tesched_core.model.job_report import (
    MOST_BYTES,
    Read,
    Reported,
    ReportError,
    accelerator_of,
    parse_on,
    resumed,
)
from tesched_core.model.resources import JobId

from tesched_daemon.job_reports.inbox import Inbox

log = logging.getLogger(__name__)

#: Most jobs that are read in one round, and seconds after which a round ends with the job it is at.
MOST_JOBS = 2000
ROUND_S = 0.25
#: Seconds by which the file system's clock may be behind slurmctld's.
CLOCK_S = 60.0
#: Refusals that are logged in one round; more are counted.
TOLD = 20
#: Seconds between two lines of the log on reports that another than the job's user has sent.
TELL_S = 600.0


def uid_of(user: str) -> int | None:
    """Return the number of this user; None if this host does not know the name."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return None


class RefusedError(Exception):
    """A report is not used. The text says why."""


class UnreadError(Exception):
    """What a job reported before cannot be read now. The text says why."""


@dataclass(slots=True)
class _SpooledJob:
    """State of one job's reports."""

    submit_time: float
    #: of the file that was read last: device, inode, size, mtime and ctime in nanoseconds
    stamp: tuple[int, ...] = ()
    reported: Reported | None = None
    #: what of its report need not be read again
    read: Read | None = None
    #: the accelerator type that it had when it held nodes
    accelerator: str = ""
    #: it has ended, and its file was read since
    closed: bool = False


class Spool:
    """The folder, what came by the socket, and what has been read of both. One round at a time."""

    def __init__(
        self,
        folder: Path | None,
        *,
        inbox: Inbox | None = None,
        stored: Callable[[Job], Reported | None] = lambda _job: None,
        number_of: Callable[[str], int | None] = uid_of,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the folder, which need not be there yet; None: what is sent counts alone. `number_of` is a user's.

        `stored` gives what the job has reported before this reader began; it may raise UnreadError.
        """
        self._folder, self._inbox, self._stored = folder, inbox, stored
        self._number_of = number_of
        self._clock, self._stopwatch = clock, stopwatch
        self._numbers: dict[str, int] = {}
        self._known: dict[JobId, _SpooledJob] = {}
        #: the job that was read last
        self._last = JobId(0)
        self._said = self._unread = ""
        self._foreign = 0
        self._logged_foreign_at: float | None = None

    def look(self, jobs: Sequence[Job]) -> dict[JobId, Reported]:
        """Make one round; return what is known of these jobs, all that have ever been on nodes."""
        began = self._stopwatch()
        there = {job.job_id: job for job in jobs}
        for job_id in [job_id for job_id in self._known if self._is_another(there.get(job_id), self._known[job_id])]:
            del self._known[job_id]
        complaints = list(self._heard(jobs, there, began))
        for text in complaints[:TOLD]:
            log.warning("%s", text)
        if len(complaints) > TOLD:
            log.warning("%d more reports are not used", len(complaints) - TOLD)
        return {job_id: known.reported for job_id, known in self._known.items() if known.reported is not None}

    def stand_by(self) -> None:
        """Take nothing that is sent until the next round."""
        if self._inbox is not None:
            self._inbox.rest()

    def forget(self) -> None:
        """Forget what was heard: another daemon has heard on, and its store has that."""
        self._known.clear()

    def _heard(self, jobs: Sequence[Job], there: Mapping[JobId, Job], began: float) -> Iterator[str]:
        """Take in what was sent, then what is in files; yield what is wrong with it."""
        for job, number in self._sent_for(jobs):
            # What it would go on with comes first: without that it waits in the inbox.
            while self._stopwatch() - began <= ROUND_S / 2 and (known := self._known_of(job)) is not None:
                data = self._inbox.take(number, _name_of(job)) if self._inbox is not None else None
                if data is None:
                    break
                yield from self._hear(job, known, data)
        with self._opened_folder() as spool:
            for job_id in self._due(there, files=spool is not None):
                if self._stopwatch() - began > ROUND_S:
                    break
                self._last = job_id
                known = self._known_of(there[job_id])
                if spool is not None and known is not None:
                    yield from self._read_job(there[job_id], known, spool)

    def _known_of(self, job: Job) -> _SpooledJob | None:
        """State of a job's reports, with what it sent before this reader began; None while that cannot be read."""
        known = self._known.get(job.job_id)
        if known is None:
            try:
                reported = self._stored(job) if self._inbox is not None else None
            except UnreadError as error:
                if self._unread != str(error):
                    self._unread = str(error)
                    log.warning("reports wait, since what their jobs reported before cannot be read: %s", error)
                return None
            known = self._known[job.job_id] = _SpooledJob(submit_time=job.submit_time, reported=reported)
        known.accelerator = accelerator_of(job) or known.accelerator
        return known

    def _due(self, there: Mapping[JobId, Job], *, files: bool) -> list[JobId]:
        """Jobs to read, in turn: those on nodes, once where there are no files, and once more those that have ended."""
        due = sorted(
            job_id
            for job_id, job in there.items()
            if (job.on_nodes and (files or job_id not in self._known))
            or (files and (known := self._known.get(job_id)) is not None and not known.closed)
        )
        first = bisect_right(due, self._last)
        return (due[first:] + due[:first])[:MOST_JOBS]

    @staticmethod
    def _is_another(job: Job | None, known: _SpooledJob) -> bool:
        """Check whether the job is gone, or this one merely has its id. A requeue gives a new submit time, too."""
        return job is None or (job.restarts == 0 and job.submit_time != known.submit_time)

    def _sent_for(self, jobs: Sequence[Job]) -> list[tuple[Job, int]]:
        """Return the jobs reported on by their own users, and the users' numbers; others' reports are thrown away."""
        if self._inbox is None or not (waiting := self._inbox.waiting()):
            return []
        names = {name for _, name in waiting}
        by_name = {
            name: job
            for job in jobs
            # What a job says that was put back in the queue by now are its last words before that.
            if (not job.pending or job.job_id in self._known) and (name := _name_of(job)) in names
        }
        found: list[tuple[Job, int]] = []
        for sender, name in waiting:
            if (job := by_name.get(name)) is None:
                continue  # the next round may see it
            if self._number(job.user) == sender:
                found.append((job, sender))
            elif thrown := self._inbox.throw_away(sender, name):
                self._foreign += thrown
                said = f"user {sender} has sent one for job {name} of user {job.user}"
                self._log_foreign(said)
        return found

    def _log_foreign(self, example: str) -> None:
        now = self._stopwatch()
        if self._logged_foreign_at is None or now - self._logged_foreign_at > TELL_S:
            log.warning("%d report(s) are not used, since they are not by the job's user: %s", self._foreign, example)
            self._logged_foreign_at, self._foreign = now, 0

    def _hear(self, job: Job, known: _SpooledJob, data: bytes) -> Iterator[str]:
        """Take in what a job's user has sent for it; yield what is wrong with it, once."""
        before = known.reported or Reported()

        def heard() -> Reported:
            found, known.read = parse_on(data, known.read, now=self._clock(), accelerator=known.accelerator)
            # A script's next process, and one that starts again after a requeue, has nothing to go on with but this.
            return resumed(before, found)

        yield from self._taken(job, known, heard)

    @contextmanager
    def _opened_folder(self) -> Iterator[int | None]:
        if self._folder is None:
            yield None
            return
        # O_PATH: to find what is below it one need not be able to list it.
        try:
            spool = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            self._say(f"the spool of reports {self._folder} cannot be opened: {error.strerror}")
            yield None
            return
        self._say("")
        try:
            yield spool
        finally:
            os.close(spool)

    def _say(self, text: str) -> None:
        if text and text != self._said:
            log.warning("%s", text)
        self._said = text

    def _read_job(self, job: Job, known: _SpooledJob, spool: int) -> Iterator[str]:
        """Read a job's report if it is new; yield what is wrong with it, once."""
        # Its last words may have been written between the round before and its end.
        known.closed = job.finished and not job.completing

        def heard() -> Reported | None:
            data = self._news(job, known, spool)
            if data is None:
                return known.reported
            found, known.read = parse_on(data, known.read, now=self._clock(), accelerator=known.accelerator)
            return found

        yield from self._taken(job, known, heard)

    @staticmethod
    def _taken(job: Job, known: _SpooledJob, heard: Callable[[], Reported | None]) -> Iterator[str]:
        """Take what was heard; if that cannot be used, what was known before stays, and why is yielded once."""
        before = known.reported
        try:
            known.reported = heard()
        except (RefusedError, ReportError) as error:
            if before is not None and before.refused == str(error):
                return
            known.reported = replace(before or Reported(), refused=str(error))
            yield f"the report of job {job.label} is not used: {error}"

    def _news(self, job: Job, known: _SpooledJob, spool: int) -> bytes | None:
        """Read a job's file; None if it is not there, or has been read. Raises RefusedError."""
        user = self._number(job.user)
        if user is None:
            raise RefusedError(f"this host knows no user {job.user!r}")
        path = f"{user}/{_name_of(job)}.json"
        try:
            with _opened(str(user), os.O_PATH | os.O_DIRECTORY, spool) as folder:
                _check_owner(os.fstat(folder), user, "its folder")
                name = path.partition("/")[2]
                if _stamp(os.stat(name, dir_fd=folder, follow_symlinks=False)) == known.stamp:
                    return None
                # A FIFO would have us wait for a writer.
                with _opened(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, folder) as file:
                    return self._checked(file, job, known, user)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise RefusedError(f"{path} is a link, or is below a path that is no folder") from None
            raise RefusedError(f"{path} cannot be read: {error.strerror}") from None

    def _checked(self, file: int, job: Job, known: _SpooledJob, user: int) -> bytes | None:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise RefusedError("it is no plain file")
        _check_owner(found, user, "the file")
        # One that was replaced while we opened it has no name any more.
        if found.st_nlink > 1:
            raise RefusedError(f"the file has {found.st_nlink} names; a hard link may be another user's file")
        if job.restarts == 0 and found.st_mtime < job.submit_time - CLOCK_S:
            return None  # of an earlier job that had the same id
        if found.st_size > MOST_BYTES:
            raise RefusedError(f"the file is longer than {MOST_BYTES} bytes")
        data = _read(file, MOST_BYTES + 1)
        known.stamp = _stamp(found)
        return data

    def _number(self, user: str) -> int | None:
        if user not in self._numbers:
            number = self._number_of(user)
            if number is None:
                return None
            self._numbers[user] = number
        return self._numbers[user]


def _name_of(job: Job) -> str:
    """Name that the job calls itself by: 123, 120_4."""
    array = job.array_task_id is not None and job.array_job_id is not None
    return job.label if array else str(job.job_id)


@contextmanager
def _opened(name: str, flags: int, folder: int) -> Iterator[int]:
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_owner(found: os.stat_result, user: int, what: str) -> None:
    if found.st_uid != user:
        raise RefusedError(f"{what} belongs to user {found.st_uid}, the job to user {user}")


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read(file: int, most: int) -> bytes:
    """Return at most so many bytes of the file, which may grow while it is read."""
    pieces: list[bytes] = []
    left = most
    while left and (piece := os.read(file, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
