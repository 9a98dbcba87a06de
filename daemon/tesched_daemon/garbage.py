"""When Python searches for garbage: between turns, and not in what the daemon keeps.

A snapshot of 100,000 jobs is a million objects, none of which becomes garbage that only a search would find: references
between them go one way. A search of all took 1 s, in the middle of a turn, and the first turn had six (22.05.8).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Let Python search for garbage after the block alone."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def never_search_this() -> None:
    """Leave what there is now out of all searches, but for what is garbage by now."""
    gc.collect()
    gc.freeze()
