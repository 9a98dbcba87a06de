"""Runs the site's command that notifies a user of a preemption: a mail, a chat message, whatever the site has.

The command is run without a shell, one at a time, in a thread of its own, so that no turn of the daemon waits for it.
Its arguments are the configuration's alone; the facts come as one JSON object on standard input, so no text of a user's
is an option, a path or a shell's word. It is ended after `timeout_s`. A command that fails, hangs or is missing is
counted, and nothing else: `tesched status` shows the counts. Above `max_per_user_hour` a user is not notified; that is
counted, too.

Of what, and that it is once, core decides (`orders/tell_users.py`): an action in the journal, which mode shadow
only records. What waits here when the daemon ends is sent within `timeout_s`, or not at all.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tesched_core.model.actions import Action, Outcome, Record, Status, TellUser
from tesched_core.ports import Actuator, Barred, never_barred
from tesched_slurm.bounded_process import ours, run_bounded

from tesched_daemon.rates import Allowance, Bucket
from tesched_daemon.settings import TellConfig

log = logging.getLogger(__name__)

#: What waits for the command at most; what comes then is held off, and counted.
MOST_WAITING = 1000
#: all that the command is given of the daemon's environment
_ENVIRONMENT = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ", "USER", "LOGNAME", "SHELL"}
)
#: Characters of a failing command's words that are kept.
_MOST_SAID = 200


def facts(action: TellUser) -> dict[str, object]:
    """Facts that the command is given; docs/howto/preempted.md has the same list."""
    return {
        "version": 1,
        "job_id": action.job_id,
        "job": action.label,
        "name": action.name,
        "user": action.user,
        "preempted_at": action.at,
        "for": action.cause,
        "left": action.departure,
        "lost": action.lost,
        "times": action.times,
        "most": action.most,
    }


class Teller:
    """Runs the command for one action after the other. Its methods may be called from any thread."""

    def __init__(self, config: TellConfig, *, stopwatch: Callable[[], float] = time.monotonic) -> None:
        """Take the configuration; the thread is started with the first notification."""
        self._config = config
        self._stopwatch = stopwatch
        self._changed = threading.Condition()
        self._waiting: deque[TellUser] = deque()
        self._buckets: dict[str, Bucket] = {}
        self._thread: threading.Thread | None = None
        self._ends = False
        self._told = self._failed = self._held_off = 0
        self._last_failure = ""

    def configure(self, config: TellConfig) -> None:
        """Go on with this configuration."""
        with self._changed:
            if config.max_per_user_hour != self._config.max_per_user_hour:
                self._buckets.clear()
            self._config = config

    def tell(self, action: TellUser) -> None:
        """Queue a notification by the command; nothing is done where there is none."""
        with self._changed:
            if not self._config.command or self._ends:
                return
            if len(self._waiting) >= MOST_WAITING or not self._bucket(action.user).take(self._stopwatch()):
                self._held_off += 1
                return
            self._waiting.append(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tell-users", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:  # no thread can be started; the next one tries again
                    self._thread = None
                    self._waiting.pop()
                    self._count(f"no thread: {error}")
                    return
            self._changed.notify_all()

    def counts(self) -> Mapping[str, int | str]:
        """Counts since the daemon's start: told, failed, held_off; and how the last one failed."""
        with self._changed:
            return {
                "told": self._told,
                "failed": self._failed,
                "held_off": self._held_off,
                "last_failure": self._last_failure,
            }

    def close(self) -> None:
        """Send what waits, for `timeout_s` at most, and end."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
            thread, timeout_s = self._thread, self._config.timeout_s
        if thread is not None:
            thread.join(timeout_s)

    def _bucket(self, user: str) -> Bucket:
        if user not in self._buckets:
            most = self._config.max_per_user_hour
            self._buckets[user] = Bucket(allowance=Allowance(burst=most, every_s=3600 / most))
        return self._buckets[user]

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ends:
                        return
                    self._changed.wait()
                action, config = self._waiting.popleft(), self._config
            try:
                why = (
                    _run(config, json.dumps(facts(action)).encode())
                    if config.command
                    else "there is no command any more"
                )
            except Exception as error:
                # The users after this one are notified all the same.
                log.exception("a bug: the user of job %s could not be notified", action.label)
                why = f"an error of tesched's own, {error!r}"
            with self._changed:
                self._count(why)
            if why:
                log.warning("the user of job %s could not be notified by %s: %s", action.label, config.command[:1], why)

    def _count(self, why: str) -> None:
        if why:
            self._failed += 1
            self._last_failure = why
        else:
            self._told += 1


def _run(config: TellConfig, said: bytes) -> str:
    """Run the command; return why it failed, empty if it did not."""
    try:
        ended = run_bounded(
            config.command,
            timeout_s=config.timeout_s,
            most_out=None,
            environment=ours(_ENVIRONMENT),
            said=said,
            folder="/",
        )
    except OSError as error:
        return str(error.strerror or error)
    if ended.stopped:
        return f"it {ended.stopped}"
    if ended.status == 0:
        return ""
    lines = ended.err.decode("utf-8", "replace").strip().splitlines()
    last = f": {lines[-1][:_MOST_SAID]}" if lines else ""
    how = f"exit status {ended.status}" if ended.status > 0 else f"signal {-ended.status}"
    return f"{how}{last}"


@dataclass(frozen=True, kw_only=True)
class TellingActuator:
    """Notifies users besides what another actuator does."""

    actuator: Actuator
    teller: Teller

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform it. The outcome of a notification is that of the note in Slurm; the command's is counted."""
        if not isinstance(action, TellUser):
            return self.actuator.act(action, barred)
        self.teller.tell(action)
        if action.record is Record.NONE:
            return Outcome(action=action, status=Status.SENT, at=time.time())
        return self.actuator.act(action, barred)
