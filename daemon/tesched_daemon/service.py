"""The daemon as a service: turns of the loop on APScheduler, until SIGTERM or SIGINT; systemd is told how it goes."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from tesched_daemon.loop import Loop, Turn
from tesched_daemon.sdnotify import notify

log = logging.getLogger(__name__)


class Service:
    """Runs a loop until it is told to stop. One turn at a time; a turn under way is finished first."""

    def __init__(self, loop: Loop) -> None:
        """Take the loop; nothing runs yet."""
        self._loop = loop
        self._stop = threading.Event()
        self._failed: BaseException | None = None
        self._said = ""
        self._ready = False
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def run(self) -> None:
        """Run until SIGTERM, SIGINT or `stop`. Raises what a turn raised, which is a bug of ours."""
        with _signals(self._stop):
            self._scheduler.start()
            self._again(0.0)
            self._stop.wait()
            log.info("stopping: the turn under way is finished first")
            notify(STOPPING="1", STATUS="stopping")
            self._scheduler.shutdown(wait=True)
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """Ask it to stop; returns at once."""
        self._stop.set()

    def _again(self, in_s: float) -> None:
        when = datetime.now(UTC) + timedelta(seconds=in_s)
        self._scheduler.add_job(self._turn, "date", run_date=when, id="turn", replace_existing=True)

    def _turn(self) -> None:
        try:
            turn = self._loop.turn()
        except BaseException as error:  # noqa: BLE001 - a bug: the main thread raises it and the service ends
            self._failed = error
            self._stop.set()
            return
        self._say(turn)
        # READY also while Slurm or the store is away: the service is up, and says what it waits for.
        notify(**({} if self._ready else {"READY": "1"}), STATUS=turn.summary, WATCHDOG="1")
        self._ready = True
        if not self._stop.is_set():
            self._again(turn.next_in_s)

    def _say(self, turn: Turn) -> None:
        for outcome in turn.outcomes:
            action = outcome.action
            log.info(
                "%s job %s: %s (%s)", type(action).__name__.lower(), action.job_id, outcome.status, action.reason.text
            )
        if turn.summary != self._said:
            log.log(logging.WARNING if turn.trouble else logging.INFO, "%s", turn.summary)
            self._said = turn.summary


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT set `stop`. Only the main thread may do so; elsewhere (a test) nothing is changed."""

    def handler(number: int, _frame: FrameType | None) -> None:
        log.info("received %s", signal.Signals(number).name)
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
