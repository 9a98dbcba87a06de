"""From the training to the file or the socket: a call puts a value into a queue, a thread of its own does the rest.

So a file system that hangs stops the thread and not the training. At most once a second is written, or every five
seconds sent, and less often where that is slow: the thread rests twenty times as long as it took. What could not be
written or sent is tried again, after ever longer.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from typing import SupportsFloat, SupportsInt

from tesched_report.document import LONGEST_NAME, Document, Point, Sample, Saved, load, sweep, write
from tesched_report.sender import SOCKET_VARIABLE, BusyError, address_of, send
from tesched_report.where import SPOOL_VARIABLE, job_name, own_folder, speaks_for_its_job, spool_of

#: Least seconds between two writes.
INTERVAL_S = 1.0
#: Least seconds between two messages to the socket, and the longest rest after several reports that were not taken.
SEND_INTERVAL_S, LONGEST_REST_S = 5.0, 120.0
#: The thread rests so many times as long as a write took.
RESTS = 20.0
#: Seconds over which a speed is measured, at least.
MEASURED_OVER_S = 10.0
#: Losses that are kept of those that came between two writes, evenly spread, and speeds.
MOST_AT_ONCE = 200
#: Values that may wait for the thread; of more the oldest are dropped.
_WAITING = 10_000
#: Seconds that the end of the training waits for the last write.
_LAST_S = 2.0
#: Seconds after which a report that is waited for is tried again, when it could not be written: the first time.
_TRIED_AGAIN_S = 0.1
#: Seconds by which the clock of the file system may be behind Slurm's.
_CLOCK_S = 60.0


class Reporter:
    """One job's report. Its methods never raise, and never wait for a file system but for `flush`."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        interval_s: float = INTERVAL_S,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make ready; nothing is read or written yet. `environment` is the process's own unless given."""
        self._environment = os.environ if environment is None else environment
        self._interval_s = interval_s
        self._clock, self._stopwatch = clock, stopwatch
        self._said = False
        #: it is called at the end of the process and after a fork; the child of a fork inherits that
        self._registered = False
        self._begin()

    def _begin(self) -> None:
        """Start anew: at first, and in the child of a fork, which has no thread and a lock that may stay locked."""
        self._waiting: deque[Point | Sample | Saved] = deque(maxlen=_WAITING)
        #: held for moments, never while a file is read
        self._lock = threading.Lock()
        #: there are lines to write
        self._news = threading.Event()
        #: a caller waits for the thread's next write
        self._hurry = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        self._mute = False
        self._workload = ""
        self._target_loss: float | None = None
        #: when steps were counted last, and how many since
        self._counted_at: float | None = None
        self._steps = 0.0

    def about(self, *, target_loss: SupportsFloat | None = None, workload: str = "") -> None:
        """Say what is trained, and to which loss; it is written with the next report."""
        try:
            if target_loss is not None:
                self._target_loss = _finite("target_loss", float(target_loss))
            if workload:
                self._workload = _name("workload", workload)
        except Exception as error:  # noqa: BLE001 - no mistake here may end a training
            self._say(f"what is trained was not taken: {error}")

    def report(
        self,
        *,
        iteration: SupportsInt,
        loss: SupportsFloat,
        work: SupportsFloat | None = None,
        target_loss: SupportsFloat | None = None,
        workload: str = "",
    ) -> None:
        """Report the loss after an iteration; see `tesched_report.report`."""
        self.about(target_loss=target_loss, workload=workload)
        try:
            done = None if work is None else _finite("work", float(work))
            point = Point(int(_not_negative("an iteration", int(iteration))), float(loss), self._clock(), done)
            # A training that diverges says NaN; that is no mistake of its caller's.
            if isfinite(point.loss):
                self._put(point)
        except Exception as error:  # noqa: BLE001 - as above
            self._say(f"a report was not taken: {error}")

    def throughput(
        self,
        steps: SupportsFloat | None = None,
        *,
        steps_per_s: SupportsFloat | None = None,
        accelerator: str = "",
        workload: str = "",
    ) -> None:
        """Report how fast it goes; see `tesched_report.throughput`."""
        self.about(workload=workload)
        try:
            accelerator = _name("accelerator", accelerator)
            speed = self._speed(steps) if steps_per_s is None else float(steps_per_s)
            if speed is not None:
                self._put(Sample(self._clock(), accelerator, _not_negative("a speed", speed)))
        except Exception as error:  # noqa: BLE001 - as above
            self._say(f"a throughput was not taken: {error}")

    def saved(self, *, at: SupportsFloat | None = None) -> None:
        """Report that all work is saved; see `tesched_report.saved`."""
        try:
            now = self._clock()
            self._put(Saved(now if at is None else _past(float(at), now)))
        except Exception as error:  # noqa: BLE001 - as above
            self._say(f"saved() was ignored: {error}")

    def flush(self, timeout_s: float = _LAST_S) -> None:
        """Wait until what was reported is written, at most so many seconds; what fails is tried again meanwhile."""
        try:
            until = time.monotonic() + timeout_s
            again_s = _TRIED_AGAIN_S
            while self._thread is not None and (left_s := until - time.monotonic()) > 0:
                self._hurry.set()
                if self._idle.wait(min(again_s, left_s)):
                    break
                again_s *= 2.0
        except Exception as error:  # noqa: BLE001 - as above
            self._say(f"flush() was ignored: {error}")

    def _speed(self, steps: SupportsFloat | None) -> float | None:
        """Return the steps a second over the last ten seconds or more; None until they have passed."""
        done = 0.0 if steps is None else _not_negative("a number of steps", float(steps))
        now = self._stopwatch()
        if self._counted_at is None:
            # How long the steps before the first call took is unknown.
            self._counted_at = now
            return None
        self._steps += done
        took_s = now - self._counted_at
        if took_s < MEASURED_OVER_S:
            return None
        speed = self._steps / took_s
        self._counted_at, self._steps = now, 0.0
        return speed

    def _put(self, value: Point | Sample | Saved) -> None:
        if self._mute:
            return
        self._waiting.append(value)
        with self._lock:
            self._idle.clear()
            self._news.set()
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._mute:
                return
            if not speaks_for_its_job(self._environment):
                self._quiet("")
                return
            name = job_name(self._environment)
            if not name:
                self._quiet("nothing is reported: this is no Slurm job")
                return
            thread = threading.Thread(target=self._run, args=(name,), name="tesched_report", daemon=True)
            thread.start()
            self._thread = thread
            if not self._registered:
                os.register_at_fork(after_in_child=self._begin)
                atexit.register(self.flush)
                self._registered = True

    def _quiet(self, why: str) -> None:
        self._mute = True
        self._waiting.clear()
        if why:
            self._say(why)
        self._idle.set()

    def _run(self, name: str) -> None:
        try:
            address = address_of(self._environment)
            spool = None if address else spool_of(self._environment)
            if address:
                self._report_for_ever(_Sent(address, name, self._environment), max(self._interval_s, SEND_INTERVAL_S))
            elif spool is not None:
                self._report_for_ever(_WrittenReport(spool, name, _since(self._environment)), self._interval_s)
            else:
                known = f"{SPOOL_VARIABLE}, {SOCKET_VARIABLE}"
                self._quiet(f"nothing is reported: no spool folder and no socket is known ({known})")
        except Exception as error:  # noqa: BLE001 - a thread's traceback on stderr would frighten the user
            self._quiet(f"nothing more is reported: {type(error).__name__}: {error}")

    def _report_for_ever(self, way: _WrittenReport | _Sent, interval_s: float) -> None:
        document: Document | None = None
        in_vain = 0
        while True:
            self._news.wait()
            self._news.clear()
            began = self._stopwatch()
            try:
                document = way.begun() if document is None else document
                self._take(document)
                way.put(document)
                in_vain = 0
            except OSError as error:
                in_vain += 1
                if not isinstance(error, BusyError):
                    self._say(f"the report could not be {way.done}, and is tried again: {error}")
                self._news.set()
            with self._lock:
                if not self._news.is_set():
                    self._idle.set()
            took_s = self._stopwatch() - began
            rest_s = max(interval_s, RESTS * took_s)
            rest_s = min(rest_s * 2.0 ** min(in_vain, 10), max(LONGEST_REST_S, rest_s))
            self._hurry.wait(rest_s)
            self._hurry.clear()

    def _take(self, document: Document) -> None:
        """Take what waits into the document, of many losses some, the last one among them."""
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        points = [value for value in taken if isinstance(value, Point)]
        samples = [value for value in taken if isinstance(value, Sample)]
        every = max(len(points) // MOST_AT_ONCE, 1)
        for point in points[::-1][::every][::-1]:
            document.add(point)
        for sample in samples[-MOST_AT_ONCE:]:
            document.measured(sample)
        for value in taken:
            if isinstance(value, Saved):
                document.saved_at = max(value.at, document.saved_at or 0.0)
        document.workload = self._workload or document.workload
        if self._target_loss is not None:
            document.target_loss = self._target_loss

    def _say(self, text: str) -> None:
        if self._said:
            return
        self._said = True
        # A training may have closed it, or have none.
        with suppress(Exception):
            sys.stderr.write(f"tesched_report: {text} (said once; the training goes on)\n")


class _WrittenReport:
    """The report as a file in the spool."""

    done = "written"

    def __init__(self, spool: Path, name: str, since: float) -> None:
        self._spool, self._name, self._since = spool, name, since
        self._swept = False

    def begun(self) -> Document:
        """Document of what this job has said before. Raises OSError."""
        return load(own_folder(self._spool) / f"{self._name}.json", since=self._since)

    def put(self, document: Document) -> None:
        """Write it. Raises OSError."""
        folder = own_folder(self._spool)
        write(folder / f"{self._name}.json", document.text())
        if not self._swept:
            # Behind the first write, which may be the only one: a folder of many files takes a while.
            self._swept = True
            sweep(folder)


class _Sent:
    """The report as a message to the daemon, which remembers what was said before."""

    done = "sent"

    def __init__(self, address: str, name: str, environment: Mapping[str, str]) -> None:
        self._address, self._name, self._environment = address, name, environment

    def begun(self) -> Document:
        """Return an empty report."""
        return Document()

    def put(self, document: Document) -> None:
        """Send it. Raises OSError."""
        send(self._address, self._name, document.text(), self._environment)


def _finite(what: str, value: float) -> float:
    if not isfinite(value):
        raise ValueError(f"{what} is a number, not {value}")
    return value


def _not_negative(what: str, value: float) -> float:
    if not 0 <= value < inf:
        raise ValueError(f"{what} is 0 or more, not {value}")
    return value


def _past(at: float, now: float) -> float:
    if not 0 <= at <= now + _CLOCK_S:
        raise ValueError(f"at is a time in the past, in Unix seconds, not {at}")
    return at


def _name(what: str, text: str) -> str:
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise ValueError(f"{what} is a text of at most {LONGEST_NAME} printable characters, not {text[:40]!r}")
    return text


def _since(environment: Mapping[str, str]) -> float:
    """Return since when a file of this job's name is this job's."""
    restarts, started = environment.get("SLURM_RESTART_COUNT", "0"), environment.get("SLURM_JOB_START_TIME", "")
    if restarts != "0" or not started.isdecimal():
        return 0.0
    return float(started) - _CLOCK_S


#: of this process; it reads nothing before the first report
_REPORTER = Reporter()


def report(
    *,
    iteration: SupportsInt,
    loss: SupportsFloat,
    work: SupportsFloat | None = None,
    target_loss: SupportsFloat | None = None,
    workload: str = "",
) -> None:
    """Report the loss after an iteration. Returns at once, never raises.

    `iteration` counts up from 0; a lower one than before means that the training went back to there. `loss` is lower
    for a better model; NaN and infinity are passed over. `work` is the work done per core-second, in any unit that
    stays the same. `target_loss` is the loss at which the training is done, where that is known. `workload` names what
    is trained, for jobs of the same user that do the same; without it that is the job's name.
    """
    _REPORTER.report(iteration=iteration, loss=loss, work=work, target_loss=target_loss, workload=workload)


def throughput(
    steps: SupportsFloat | None = None,
    *,
    steps_per_s: SupportsFloat | None = None,
    accelerator: str = "",
    workload: str = "",
) -> None:
    """Report how fast it goes: `steps` done since the last call, or `steps_per_s`. Returns at once, never raises.

    Counted steps make a speed over ten seconds and more; the first call starts the clock. `accelerator` is the type on
    which this runs, such as "v100"; without it, it is the type that Slurm gave the job.
    """
    _REPORTER.throughput(steps, steps_per_s=steps_per_s, accelerator=accelerator, workload=workload)


def saved(*, at: SupportsFloat | None = None) -> None:
    """Report that all work up to now, or to `at` (Unix seconds), is saved. Returns at once, never raises.

    What is saved is not lost when the job is put back in the queue: tesched counts that much less as its delay.
    """
    _REPORTER.saved(at=at)


def flush(timeout_s: float = _LAST_S) -> None:
    """Wait until what was reported is written, at most so many seconds; the end of the process does so by itself."""
    _REPORTER.flush(timeout_s)
