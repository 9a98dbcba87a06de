"""New jobs found between two polls, without the submission hook: each brings the next poll forward, as a poke does.

Definitions
    state folder    StateSaveLocation of slurm.conf, where slurmctld writes the script of each batch job at its
                    submission. Watched on slurmctld's host: ten calls of stat(2) each `EACH_S`, no RPC.
    test            one RPC that reads the number of jobs submitted (sdiag). It works from any host, and sees srun
                    and salloc, too.

Principle
    A poll at rest is one RPC, and so is a test: within the 30 RPCs a minute of the polls no test finds a job sooner
    than they do. So tests are the site's to buy (loop.tests_per_minute, 0 by default), and are made only while
    a preemption could follow: while a best-effort job runs, which a trial could preempt; not on a standby, not in
    mode observe, not while tesched is paused or cannot decide, and not where slurmctld limits this user's RPCs. A test
    that takes long is followed by as long a pause, and one that fails by a longer and longer one, `MOST_S` at most.
    What is found is bounded as pokes are: by `wakeup_shares.FOUND` for all users together, and by `Agenda` with all
    other pokes. A job above that is left to the next poll.
    The state folder may be on a file server that hangs, and a stat(2) with it. So its thread alone reads it, and
    neither the loop nor the daemon's end waits for that.

Worked example
    600 tests a minute: one each 0.1 s, so a job is found 0.05 s after its submission on average. If slurmctld takes
    0.3 s to answer, the next test comes 0.3 s after that.

Source
    tesched's own; what slurmctld writes and counts, `tesched_slurm/submission_signs.py`.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import SlurmSettings
from tesched_slurm.submission_signs import ScriptFolders, SubmissionCount

from tesched_daemon.settings import Pace

log = logging.getLogger(__name__)

#: Seconds between two reads of the state folder.
EACH_S = 0.05
#: Seconds after which it is checked whether there is anything to do by now.
IDLE_S = 1.0
#: Seconds after which a folder that could not be seen is tried again, and the longest wait after tests that failed.
AGAIN_S, MOST_S = 10.0, 60.0
#: Seconds after which a read of the state folder hangs.
HANGS_S = 5.0
#: Seconds for which the daemon's end waits for each of the two threads. What a test asks ends with the process.
END_S = 1.0


def runs_here(controllers: Iterable[str]) -> bool:
    """Check whether this host is one of these, by their names without domains."""
    here = socket.gethostname().partition(".")[0]
    return here in {host.partition(".")[0] for host in controllers}


def elsewhere(settings: SlurmSettings) -> str:
    """Reason that slurmctld's state folder is not to be watched from here, in words; empty if it is. Reads no file."""
    if not settings.state_folder:
        return "slurm.conf's StateSaveLocation is not known"
    if not runs_here(settings.controllers):
        hosts = ", ".join(settings.controllers) or "another host"
        return f"slurmctld's state folder is on {hosts}"
    return ""


def while_here(controllers: Collection[str]) -> str:
    """Condition under which a state folder shows new jobs at once, in words: a backup's is read through a server."""
    return f", while slurmctld runs on this host (of {', '.join(controllers)})" if len(controllers) > 1 else ""


@dataclass(slots=True, kw_only=True)
class _Watch:
    """State folder that is watched, and how its last read went."""

    folders: ScriptFolders
    #: it was read without an error
    is_read: bool = False
    #: why it could not be read, in words
    trouble: str = ""
    #: when the read under way began, by the stopwatch
    began: float | None = None


@dataclass(slots=True, kw_only=True)
class NewJobs:
    """What finds new jobs. The loop says by `follow` what it is to go by; two threads of its own do the rest."""

    count: SubmissionCount
    #: called for each job that is found and served
    poked: Callable[[], None] = lambda: None
    #: whether it is within its share
    served: Callable[[], bool] = lambda: True
    stopwatch: Callable[[], float] = time.monotonic
    _watch: _Watch | None = field(default=None, init=False)
    #: hosts of slurmctld
    _controllers: tuple[str, ...] = field(default=(), init=False)
    #: why no folder is watched, and the tests fail, in words
    _unwatched: str = field(default="", init=False)
    _untested: str = field(default="", init=False)
    _per_minute: int = field(default=0, init=False)
    #: why no tests are made now, though some are configured
    _why_no_tests: str = field(default="", init=False)
    _failed: int = field(default=0, init=False)

    def follow(self, settings: SlurmSettings, pace: Pace, *, preempts: Callable[[], bool]) -> None:
        """Go by these settings. `preempts` says whether any job runs that a trial could preempt."""
        self._unwatched = elsewhere(settings) if pace.watch_state_folder else "loop.watch_state_folder is off"
        self._controllers = settings.controllers
        folder = Path(settings.state_folder)
        if self._unwatched:
            self._watch = None
        elif self._watch is None or self._watch.folders.folder != folder:
            self._watch = _Watch(folders=ScriptFolders(folder=folder))
        self._why_no_tests = ""
        if pace.tests_per_minute and settings.rate_limit is not None:
            self._why_no_tests = "slurmctld limits this user's RPCs"
        elif pace.tests_per_minute and not preempts():
            self._why_no_tests = "no best-effort job runs"
        self._per_minute = pace.tests_per_minute if not self._why_no_tests else 0

    def pause(self, why: str) -> None:
        """Find nothing until the next `follow`, for this reason: nothing would be decided on it."""
        self._watch, self._unwatched = None, why
        self._per_minute, self._why_no_tests = 0, why

    def said(self, pace: Pace) -> str:
        """Describe how new jobs are found now, for `tesched status`."""
        watch, found = self._watch, []
        why = self._unwatched if watch is None else self._trouble_of(watch)
        if watch is not None and watch.is_read and not why:
            here = while_here(self._controllers)
            found.append(f"batch jobs at once, by their scripts in {watch.folders.folder}{here}")
        else:
            found.append(f"by polls ({why or 'the state folder is not read yet'})")
        if per_minute := pace.tests_per_minute:
            why = self._untested or self._why_no_tests
            found.append(f"by {per_minute} tests a minute{f', but not now: {why}' if why else ''}")
        return "; ".join(found)

    def check_folders(self) -> float:
        """Check the state folder once; return the seconds until the next time."""
        watch = self._watch
        if watch is None:
            return IDLE_S
        watch.began = self.stopwatch()
        try:
            new = watch.folders.has_new()
        except OSError as error:
            if not watch.trouble:
                log.warning("new batch jobs are found by polls: %s: %s", watch.folders.folder, error.strerror)
            watch.trouble = f"{watch.folders.folder}: {error.strerror}"
            return AGAIN_S
        except Exception as error:
            # A bug of ours: the thread goes on, and `tesched status` says that nothing is found by it meanwhile.
            log.exception("new batch jobs are found by polls for %.0f s", MOST_S)
            watch.trouble = f"an error of tesched's own, {error!r}"
            return MOST_S
        finally:
            watch.began = None
        watch.is_read, watch.trouble = True, ""
        self._poke(new)
        return EACH_S

    def _trouble_of(self, watch: _Watch) -> str:
        """Reason that a watched folder shows nothing now, in words; empty if it does."""
        began = watch.began
        hangs_s = 0.0 if began is None else self.stopwatch() - began
        if hangs_s > HANGS_S:
            return f"a read of {watch.folders.folder} has hung for {hangs_s:.0f} s"
        return watch.trouble

    def test(self) -> float:
        """Make one test, if one is due; return the seconds until the next one."""
        per_minute = self._per_minute
        if not per_minute:
            self.count.forget()
            self._untested = ""
            return IDLE_S
        began = self.stopwatch()
        try:
            new = self.count.has_new()
        except Exception as error:
            log.exception("no tests for new jobs are made for %.0f s", MOST_S)
            self._untested = f"an error of tesched's own, {error!r}"
            return MOST_S
        took_s = self.stopwatch() - began
        if isinstance(new, Failure):
            self._failed += 1
            self._untested = new.message
            return min(2.0 ** min(self._failed, 6), MOST_S)
        self._failed, self._untested = 0, ""
        self._poke(new)
        return max(60.0 / per_minute - took_s, took_s)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Find new jobs until the block ends, whatever a read or a test awaits then.

        A thread that cannot be started is a warning, and the daemon polls.
        """
        stop = threading.Event()
        threads = [
            threading.Thread(target=_repeat, args=(check, stop), name=name, daemon=True)
            for name, check in (("state folder", self.check_folders), ("tests", self.test))
        ]
        started = []
        for thread in threads:
            try:
                thread.start()
                started.append(thread)
            except RuntimeError as error:
                log.warning("new jobs are found by polls alone: %s", error)
        try:
            yield
        finally:
            stop.set()
            for thread in started:
                thread.join(END_S)

    def _poke(self, new: bool) -> None:
        if new and self.served():
            self.poked()


def _repeat(check: Callable[[], float], stop: threading.Event) -> None:
    while not stop.wait(check()):
        pass
