"""A daemon that stops itself by a signal before its n-th step: `python crashing_daemon.py CONFIG N [SIGNAL [early]]`.

The signal is SIGKILL if none is given: a crash. With SIGSTOP it goes on at that step once it has SIGCONT. Steps are the
calls that write or act, of turns that mean to act: the intent, each action, the conclusion. A crash before one
is a crash after the one before. It logs each turn to stderr, as a daemon does.

With `early` its first poll counts as one that took a minute, and is followed by early turns, as if it were poked all
the time, until one has acted.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tesched_core.model.actions import kind_of
from tesched_core.model.decision import Decision
from tesched_daemon import log_lines
from tesched_daemon.config import load
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.wiring import opened_loop
from tesched_db import migrate

log = logging.getLogger(__name__)

#: seconds that its first poll seems to have taken, and between two early turns
SLOW_S, EARLY_EVERY_S = 60.0, 0.2


class Counted:
    """A port of the loop that counts its steps, and signals the process before the n-th."""

    def __init__(self, whole: Any, steps: Iterator[int], crash_before: int, blow: signal.Signals) -> None:
        """Stand before this port; all of them share `steps`."""
        self._whole, self._steps, self._crash_before, self._blow = whole, steps, crash_before, blow

    def __getattr__(self, name: str) -> Any:
        """Return the port's own, counted if it writes or acts."""
        call = getattr(self._whole, name)
        if name not in {"intend", "conclude", "act"}:
            return call

        def counting(*arguments: Any) -> Any:
            idle = name == "intend" and not any(isinstance(one, Decision) and one.actions for one in arguments)
            if not idle and next(self._steps) == self._crash_before:
                log.info("%s before step %d", self._blow.name, self._crash_before)
                os.kill(os.getpid(), self._blow)
            return call(*arguments)

        return counting


def turns(loop: Loop, *, early: bool) -> Iterator[CycleResult]:
    """Make turns, and yield each that did more than read."""
    yield loop.turn()
    made = None
    while early and made is None:
        made = loop.early_turn()
        time.sleep(EARLY_EVERY_S)
    if made is not None:
        log.info("an early turn")
        yield made
    while True:
        yield loop.turn()


def main(config_path: str, crash_before: int, blow: signal.Signals, *, early: bool) -> None:
    """Run until the crash."""
    config = load(Path(config_path))
    log_lines.set_up()
    migrate.upgrade(config.store.url)
    steps = count(1)
    with opened_loop(config) as opened:
        counted = [Counted(port, steps, crash_before, blow) for port in (opened.journal, opened.actuator)]
        # Only a whole poll that took long is followed by early turns.
        loop = replace(opened, journal=counted[0], actuator=counted[1], least_poll_s=SLOW_S)
        for turn in turns(loop, early=early):
            for outcome in turn.outcomes:
                log.info("%s job %s: %s", kind_of(outcome.action), outcome.action.job_id, outcome.status)
            log.info("%s", turn.summary)
            time.sleep(turn.next_in_s)


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        signal.Signals[sys.argv[3]] if len(sys.argv) > 3 else signal.SIGKILL,
        early=sys.argv[4:] == ["early"],
    )
