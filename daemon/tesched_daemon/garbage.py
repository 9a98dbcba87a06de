"""When Python searches for garbage: between turns, and not in what the daemon keeps.

A snapshot of very many jobs is as many objects again and again, none of which becomes garbage that only a search would
find: references between them go one way. With 30,000 jobs a search of all took 0.3 s, in the middle of a turn, and the
first turn had six.
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
