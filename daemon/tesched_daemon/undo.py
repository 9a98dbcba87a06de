"""Putting back, to the end: poll after poll, until nothing is left that tesched has changed or it takes too long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from tesched_core.model.actions import Status
from tesched_core.model.journal_error import JournalError, LedByAnotherError

from tesched_daemon.leaving import PAUSE_S, POLLS
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.sdnotify import notify, notify_busy

log = logging.getLogger(__name__)

#: Seconds of turns in a row with trouble after which it is given up, once there were two of them: one that takes long,
#: as where a server does not answer at all, may be the last of an outage.
TROUBLE_S = 30.0


def put_all_back(
    loop: Loop,
    *,
    unseen_s: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    steady: Callable[[], float] = time.monotonic,
    only_as_leader: bool = False,
) -> Iterator[CycleResult]:
    """Yield each turn of it; the last one is `settled`, or it could not be done.

    A turn that the journal refuses has `trouble`, and what it has sent, and is made again as one that could not be
    done. Raises the JournalError of the last, and at once where another process leads by then.
    One in which Slurm cannot be seen has `trouble`, too. It is given up after `POLLS` turns in a row that put nothing
    back, and sooner where those with trouble take long (`TROUBLE_S`).
    `unseen_s` is for how long the cluster has not been seen, for a loop that has not seen it itself. With
    `only_as_leader` no turn is made where another process leads at the beginning.
    """
    poll, idle, troubled = 0, 0, 0
    troubled_at = 0.0
    left: int | None = None
    refused: JournalError | None = None
    while idle < POLLS:
        if poll:
            sleep(PAUSE_S)
        poll += 1
        began = steady()
        try:
            if only_as_leader and (leader := loop.journal.lead().leader):
                if poll == 1:
                    return
                raise LedByAnotherError(leader)
            only_as_leader = False
            turn = loop.undo(unseen_s=unseen_s + (poll - 1) * PAUSE_S)
        except JournalError as error:
            turn = CycleResult(summary=str(error), next_in_s=0.0, trouble=str(error), refused=error)
        refused = turn.refused
        if refused is not None:
            log.warning("a turn that puts back could not be written down: %s", refused)
        yield turn
        if isinstance(refused, LedByAnotherError):
            break
        if turn.settled:
            return
        # With thousands of jobs held, one poll puts back a part of them.
        puts_back = not turn.trouble and left is not None and 0 < turn.left < left
        idle = 0 if puts_back else idle + 1
        left = left if turn.trouble else turn.left
        troubled_at = troubled_at if troubled else began
        troubled = troubled + 1 if turn.trouble else 0
        if troubled > 1 and steady() - troubled_at >= TROUBLE_S:
            break
    if refused is not None:
        raise refused


def put_all_back_at_a_stop(
    loop: Loop, *, sleep: Callable[[float], None] = time.sleep, steady: Callable[[], float] = time.monotonic
) -> None:
    """Put all back as the service stops, if it leads. Raises JournalError, which says what is left, if one ends it.

    systemd gives more time after each turn in which a change was put back, and ends the stop when no more follow.
    """
    left: int | None = None
    settled = True
    try:
        for turn in put_all_back(loop, sleep=sleep, steady=steady, only_as_leader=True):
            log.info("%s", turn.summary)
            if _puts_back(turn, left):
                notify_busy()
            else:
                notify(WATCHDOG="1")
            if not turn.trouble:
                left = turn.left
            settled = turn.settled
    except JournalError as error:
        raise JournalError(f"{not_all(left)}: {error}") from error
    if not settled:
        log.warning("%s", not_all(left))


def not_all(left: int | None) -> str:
    """Sentence on an end before all is put back; `left` is what the last turn that saw the cluster left."""
    what = "what is left is not known" if left is None else f"{left} change(s) and order(s) are left"
    return f"not everything could be put back, {what}; `tesched undo` tries it again"


def _puts_back(turn: CycleResult, left_before: int | None) -> bool:
    """Check whether a change was put back in this turn, or is seen to be since the last one."""
    sent = any(outcome.status is Status.SENT for outcome in turn.outcomes)
    return sent or (not turn.trouble and left_before is not None and turn.left < left_before)
