"""Rounds over jobs' reports, in a thread of their own: what the loop sees of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from tesched_core.intake.array_training import Trainings
from tesched_core.model.cluster import Job
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Heard

from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.spool import Spool

log = logging.getLogger(__name__)

#: Seconds that the loop waits for a round; news of a longer one come with the next turn.
WAIT_S = 0.05
#: Seconds after which a round that does not end is logged.
LATE_S = 30.0


class SpoolReports:
    """Core's port `Reports`, on a spool folder: rounds in a thread of their own, for which the loop waits a moment."""

    def __init__(
        self,
        spool: Path | Spool | None,
        *,
        inbox: Inbox | None = None,
        stored: Callable[[Job], Reported | None] = lambda _job: None,
        earlier: Callable[[JobId, Collection[int]], Sequence[Curve]] = lambda _array, _there: (),
        wait_s: float = WAIT_S,
        late_s: float = LATE_S,
        stopwatch: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the folder; nothing is read yet. None: only what is sent counts.

        What was reported before this daemon began: `stored` gives what a job has sent, and `earlier` the losses of an
        array's tasks but for those that are still there, by index.
        """
        self._spool = spool if isinstance(spool, Spool) else Spool(spool, inbox=inbox, stored=stored)
        self._earlier = earlier
        self._wait_s, self._late_s, self._stopwatch = wait_s, late_s, stopwatch
        self._began = 0.0
        self._done: SimpleQueue[Heard | BaseException] = SimpleQueue()
        self._under_way = False
        self._logged_late = False
        self._heard = Heard()
        #: another daemon has led since the last round began
        self._stale = False
        #: touched by a round alone
        self._trainings = Trainings()

    def stand_by(self) -> None:
        """Take nothing more, and forget what was heard: the leader hears on, and its store has what it heard."""
        self._stale, self._heard = True, Heard()
        self._spool.stand_by()

    def read(self, snapshot: Snapshot) -> Heard:
        """Reports of these jobs: with this round's news, or without them if it takes too long."""
        if not self._under_way:
            self._under_way, self._began = True, self._stopwatch()
            # A daemon thread: one that hangs in a file system must not keep the service from its end.
            parts = (tuple(snapshot.jobs.values()), self._stale)
            try:
                threading.Thread(target=self._round, args=parts, daemon=True).start()
            except RuntimeError as error:
                self._under_way = False
                log.warning("no reports are read at this poll: %s", error)
                return self._heard
            self._stale = False
        with suppress(Empty):
            outcome = self._done.get(timeout=self._wait_s)
            self._under_way = self._logged_late = False
            if isinstance(outcome, BaseException):
                raise outcome
            # Of a round from before this daemon stood by nothing is used.
            self._heard = self._heard if self._stale else outcome
        if self._under_way and not self._logged_late and self._stopwatch() - self._began > self._late_s:
            self._logged_late = True
            log.warning("the spool of reports has not answered for %.0f s; tesched goes on without", self._late_s)
        return self._heard

    def _round(self, jobs: Sequence[Job], stale: bool) -> None:
        try:
            if stale:
                self._spool.forget()
                self._trainings = Trainings()
            by_job = self._spool.look(jobs)
            self._trainings = self._trainings.heard(jobs, by_job, self._earlier)
            self._done.put(Heard(by_job=by_job, by_array=self._trainings.reported))
        except BaseException as error:  # noqa: BLE001 - a bug: the loop's thread raises it, as any other
            self._done.put(error)
