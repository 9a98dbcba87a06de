"""Putting back, to the end: poll after poll, until nothing is left that tesched has changed or it takes too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from tesched_core.model.actions import Status
from tesched_core.model.journal_error import JournalError

from tesched_daemon.leaving import PAUSE_S, POLLS
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.sdnotify import notify, notify_busy

log = logging.getLogger(__name__)


def put_all_back(
    loop: Loop, *, unseen_s: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> Iterator[CycleResult]:
    """Yield each turn of it; the last one is `settled`, or it could not be done.

    A turn that the journal refuses is made again, as one that could not be done. Raises the JournalError of the last.
    `unseen_s` is for how long the cluster has not been seen, for a loop that has not seen it itself.
    """
    poll, idle, left = 0, 0, None
    refused: JournalError | None = None
    while idle < POLLS:
        if poll:
            sleep(PAUSE_S)
        poll += 1
        try:
            turn = loop.undo(unseen_s=unseen_s + (poll - 1) * PAUSE_S)
        except JournalError as error:
            log.warning("a turn that puts back could not be written down: %s", error)
            refused, idle = error, idle + 1
            continue
        refused = None
        yield turn
        if turn.settled:
            return
        # With thousands of jobs held, one poll puts back a part of them.
        idle = 0 if left is not None and 0 < turn.left < left else idle + 1
        left = turn.left
    if refused is not None:
        raise refused


def put_all_back_at_a_stop(loop: Loop, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Put all back as the service stops. Raises JournalError, which says what is left, if the journal ends it.

    systemd gives more time after each turn in which a change was put back, and ends the stop when no more follow.
    """
    left: int | None = None
    settled = False
    try:
        for turn in put_all_back(loop, sleep=sleep):
            log.info("%s", turn.summary)
            if _puts_back(turn, left):
                notify_busy()
            else:
                notify(WATCHDOG="1")
            if not turn.trouble:
                left = turn.left
            settled = turn.settled
    except JournalError as error:
        raise JournalError(f"{_not_all(left)}: {error}") from error
    if not settled:
        log.warning("%s", _not_all(left))


def _not_all(left: int | None) -> str:
    what = "what is left is not known" if left is None else f"{left} change(s) and order(s) are left"
    return f"not everything could be put back, {what}; `tesched undo` tries it again"


def _puts_back(turn: CycleResult, left_before: int | None) -> bool:
    """Check whether a change was put back in this turn, or is seen to be since the last one."""
    if turn.trouble:
        return False
    sent = any(outcome.status is Status.SENT for outcome in turn.outcomes)
    return sent or (left_before is not None and turn.left < left_before)
