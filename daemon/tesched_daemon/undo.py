"""Putting back, to the end: poll after poll, until nothing is left that tesched has changed or it takes too long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from tesched_daemon.leaving import PAUSE_S, POLLS
from tesched_daemon.loop import CycleResult, Loop


def put_all_back(
    loop: Loop, *, unseen_s: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> Iterator[CycleResult]:
    """Yield each turn of it; the last one is `settled`, or it could not be done. Raises JournalError.

    `unseen_s` is for how long the cluster has not been seen, for a loop that has not seen it itself.
    """
    poll, idle, left = 0, 0, None
    while idle < POLLS:
        if poll:
            sleep(PAUSE_S)
        turn = loop.undo(unseen_s=unseen_s + poll * PAUSE_S)
        yield turn
        if turn.settled:
            return
        # With thousands of jobs held, one poll puts back a part of them.
        poll, idle = poll + 1, 0 if left is not None and 0 < turn.left < left else idle + 1
        left = turn.left
