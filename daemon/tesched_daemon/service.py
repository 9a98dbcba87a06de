"""The daemon as a service: turns of the loop on APScheduler, until SIGTERM or SIGINT; systemd is notified of its state.

SIGHUP has the configuration read again between two turns (`reload.py`); a poke brings the next forward (`wakeup.py`).
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from math import inf
from queue import Empty, SimpleQueue
from types import FrameType

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.job import Job
from apscheduler.schedulers.background import BackgroundScheduler
from tesched_core.model.actions import kind_of

from tesched_daemon.garbage import never_search_this, no_search_for_garbage
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.sdnotify import notify
from tesched_daemon.wakeup import Agenda

log = logging.getLogger(__name__)


#: Seconds after which the main thread checks for a signal that waits for it, and for a turn that is overdue.
WAKES_S = 1.0


class _OneThread(ThreadPoolExecutor):  # type: ignore[misc]  # APScheduler has no types
    """Runs the turns. A turn that cannot be handed to the thread, or a thread that cannot be started, is reported.

    APScheduler only logs it and drops the turn, and no other one would ever be planned.
    """

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        """Take the text on the error."""
        super().__init__(1)
        self._failed = failed

    def _do_submit_job(self, job: Job, run_times: Sequence[datetime]) -> None:
        try:
            super()._do_submit_job(job, run_times)
        except BaseException as error:
            self._failed(error)
            raise


class _Ask(Enum):
    """Events that the main thread waits for."""

    STOP = auto()
    RELOAD = auto()


class Service:
    """Runs a loop until it is to stop. One turn at a time; a turn under way is finished first."""

    def __init__(self, loop: Loop, *, reload: Callable[[Loop], str]) -> None:
        """Take the loop; nothing runs yet.

        `reload` reads the configuration again and returns what an admin has yet to do, in one line, or nothing.
        """
        self._loop = loop
        self._reload = reload
        # A signal handler may put into this queue whatever it interrupts; an Event's lock it could wait for for ever.
        self._asked: SimpleQueue[_Ask] = SimpleQueue()
        #: held while a turn is planned, so that none is once the scheduler ends: it would wait for what waits for it
        self._planning = threading.Lock()
        #: when the next turn is due; touched with `_planning` held
        self._agenda = Agenda()
        self._turning = False
        self._stopping = False
        self._reload_asked = False
        #: what is to be said of the configuration as long as it is so
        self._remark = ""
        self._failed: BaseException | None = None
        self._said = ""
        self._ready = False
        #: a turn has seen the cluster
        self._has_seen = False
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": _OneThread(self._cannot_turn)},
            # There is one thread. The second turn is the one that a reload asks for while another is under way.
            job_defaults={"coalesce": True, "max_instances": 2, "misfire_grace_time": None},
        )

    def run(self) -> None:
        """Run until `stop`, or a signal (`signals`). Raises what a turn raised, which is a bug of ours."""
        self._scheduler.start()
        with self._planning:
            self._plan()
        while self._next_ask() is _Ask.RELOAD:
            if not self._reload_asked:
                self._reload_asked = True
                with self._planning:
                    self._plan()
        with self._planning:
            self._stopping = True
            self._scheduler.remove_all_jobs()
        log.info("stopping: the turn under way is finished first")
        notify(STOPPING="1", STATUS="stopping")
        self._scheduler.shutdown(wait=True)
        if self._failed is not None:
            raise self._failed

    def _next_ask(self) -> _Ask:
        """Wait for what is requested next."""
        while True:
            # Not for ever: a signal may reach a thread of a library (BLAS, HiGHS), and Python runs its handler in the
            # main thread, when that wakes up.
            with suppress(Empty):
                return self._asked.get(timeout=WAKES_S)
            self._catch_up()

    def _catch_up(self) -> None:
        """Plan a turn anew that is due and has not begun; let systemd know that none is, however long the wait.

        The scheduler goes by the clock on the wall: where that was set back by an hour, no turn would come for an hour.
        """
        with self._planning:
            if self._turning:
                return
            if self._agenda.wait_s(time.monotonic()) <= 0:
                self._plan()
                return
        notify(WATCHDOG="1")

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take SIGTERM, SIGINT and SIGHUP in until the block ends; once it stops, none of them ends it any sooner.

        Only the main thread may do so; elsewhere (a test) nothing is changed.
        """

        def handler(number: int, _frame: FrameType | None) -> None:
            log.info("received %s%s", signal.Signals(number).name, ": already stopping" if self._stopping else "")
            self._asked.put(_Ask.RELOAD if number == signal.SIGHUP else _Ask.STOP)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, handler) for number in numbers}
        try:
            yield
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def stop(self) -> None:
        """Ask it to stop; returns at once."""
        self._asked.put(_Ask.STOP)

    def reload(self) -> None:
        """Ask for the configuration to be read again, as SIGHUP does; returns at once."""
        self._asked.put(_Ask.RELOAD)

    def poke(self, *, again: bool = True) -> None:
        """Ask for a turn at once, and with `again` for another a moment later; returns at once. Many pokes are one."""
        with self._planning:
            self._agenda.poke(time.monotonic(), again=again)
            # The end of a turn under way plans the next one.
            if not self._turning:
                self._plan()

    def _plan(self) -> None:
        """Plan the next turn in place of the one that is planned. `_planning` is held."""
        if self._stopping or not self._scheduler.running:
            return
        # A turn that ends just now must not put off the one that a reload has requested.
        in_s = 0.0 if self._reload_asked else self._agenda.wait_s(time.monotonic())
        when = datetime.now(UTC) + timedelta(seconds=in_s)
        self._scheduler.add_job(self._turn, "date", run_date=when, id="turn", replace_existing=True)

    def _turn(self) -> None:
        with self._planning:
            # One that was planned anew while it already waited for the thread.
            if not self._reload_asked and self._agenda.wait_s(time.monotonic()) > 0:
                self._plan()
                return
            self._turning = True
            began = time.monotonic()
            early = not self._reload_asked and self._agenda.begins_early(began)
            asked = not early and (self._agenda.begins(began) or self._reload_asked)
        try:
            if self._reload_asked:
                self._reload_asked = False
                self._read_again()
            with no_search_for_garbage():
                turn = self._loop.early_turn() if early else self._loop.turn(asked=asked)
                if not self._has_seen and turn is not None and turn.saw:
                    self._has_seen = True
                    never_search_this()
        except BaseException as error:  # noqa: BLE001 - a bug: the main thread raises it and the service ends
            self._failed = error
            self.stop()
            return
        if turn is None or (early and not turn.trouble):
            self._ended_early(turn, began)
            return
        self._say(turn)
        # READY also while Slurm or the store is away: the service is up, and says what it waits for.
        status = "; ".join(filter(None, (turn.summary, self._remark)))
        notify(**({} if self._ready else {"READY": "1"}), STATUS=status, WATCHDOG="1")
        self._ready = True
        with self._planning:
            self._turning = False
            ended = time.monotonic()
            self._agenda.ended(
                ended,
                took_s=ended - began,
                next_in_s=turn.next_in_s,
                troubled=bool(turn.trouble),
                pause_s=turn.pause_s,
                takes_early=turn.early,
            )
            self._plan()

    def _ended_early(self, turn: CycleResult | None, began: float) -> None:
        """Plan what comes after an early turn: its poll."""
        if turn is not None:
            self._say(turn)
        # It may have taken as long as a poll, and another one comes now.
        notify(WATCHDOG="1")
        with self._planning:
            self._turning = False
            ended = time.monotonic()
            next_in_s = turn.next_in_s if turn is not None else inf
            counts_as = self._loop.early_counts_as
            self._agenda.ended_early(ended, took_s=ended - began, next_in_s=next_in_s, counts_as=counts_as)
            self._plan()

    def _cannot_turn(self, error: BaseException) -> None:
        """End the service: a process that can never poll the cluster is to be started anew (systemd)."""
        self._failed = error
        self.stop()

    def _read_again(self) -> None:
        """Read the configuration again. systemd (Type=notify-reload) waits for both messages."""
        if self._ready:
            notify(RELOADING="1", MONOTONIC_USEC=str(time.monotonic_ns() // 1000), STATUS="reading the configuration")
        self._remark = self._reload(self._loop)
        if self._ready:
            notify(READY="1", STATUS=self._remark or "configuration reloaded")

    def _say(self, turn: CycleResult) -> None:
        for outcome in turn.outcomes:
            action = outcome.action
            log.info("%s job %s: %s (%s)", kind_of(action), action.job_id, outcome.status, action.reason.text)
        if turn.summary != self._said:
            log.log(logging.WARNING if turn.trouble else logging.INFO, "%s", turn.summary)
            self._said = turn.summary
