"""Pool of processes: one function for many arguments, each result as soon as it is there."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def each_done(work: Callable[[T], R], things: Sequence[T], *, processes: int | None = None) -> Iterator[tuple[T, R]]:
    """Yield each argument with its result when it is done, in any order. An interruption ends it.

    `processes` is how many at once, all cores by default; with one, it is this process, and the order is kept.
    Raises what `work` does.
    """
    count = min(processes or os.cpu_count() or 1, len(things))
    if count <= 1:
        yield from ((thing, work(thing)) for thing in things)
        return
    # Ctrl-C reaches all processes: one that took it for an error of its work would go on with the next.
    ends = (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(max_workers=count, initializer=signal.signal, initargs=ends) as pool:
        pending: dict[Future[R], T] = {pool.submit(work, thing): thing for thing in things}
        try:
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()
