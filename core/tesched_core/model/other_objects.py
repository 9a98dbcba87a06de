"""Entries of two mappings that are not the very same object: found for each job of a site, several times a turn."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice, repeat
from typing import TypeVar

K = TypeVar("K")

_NONE = object()


def other_objects(now: Mapping[K, object], then: Mapping[K, object]) -> list[K]:
    """Find the keys of `now` at which `then` has not the very same object, and no other."""
    if list(islice(now, len(then))) == list(then):
        # Nothing has gone, and what came stands last: half the time. It has no other to be compared with.
        others = chain(then.values(), repeat(_NONE))
        return [key for key, one, other in zip(now, now.values(), others, strict=False) if one is not other]
    was = then.get
    return [key for key, one in now.items() if was(key, _NONE) is not one]
