"""Ranges of the configuration's numbers, declared with their types: `cool_down_s: Seconds = 600.0`.

A number beyond them makes no sense to any site, and would be beyond what slurmctld, the state store or a clock takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Least and greatest value, both allowed."""

    least: float = 0
    most: float
    #: what the greatest one is, in words
    words: str = ""


#: a hundred years
LONGEST_S = 100 * 365 * 24 * 3600
MOST = 1_000_000_000
MOST_AMOUNT = 1e12

Seconds = Annotated[float, Range(most=LONGEST_S, words=", a hundred years")]
WholeSeconds = Annotated[int, Range(most=LONGEST_S, words=", a hundred years")]
Count = Annotated[int, Range(most=MOST)]
Amount = Annotated[float, Range(most=MOST_AMOUNT)]


@cache
def ranges_of(kind: Any) -> Mapping[str, Range]:
    """Return the ranges that a class of a table declares, by key."""
    hints = get_type_hints(kind, include_extras=True)
    found = {name: _range_in(hint) for name, hint in hints.items()}
    return {name: one for name, one in found.items() if one is not None}


def _range_in(hint: Any) -> Range | None:
    """Return the range of a type, or of what stands there beside None."""
    if get_origin(hint) is Annotated:
        return next((one for one in get_args(hint) if isinstance(one, Range)), None)
    return next((found for part in get_args(hint) if (found := _range_in(part)) is not None), None)


def check_ranges(table: object, prefix: str = "") -> None:
    """Raise ValueError for the first number of a table that is out of its range; `prefix` stands before its key."""
    kind: Any = type(table)
    for name, one in ranges_of(kind).items():
        value = getattr(table, name)
        if value is None or one.least <= value <= one.most:
            continue
        number = "a whole number" if isinstance(value, int) else "a number"
        if value > one.most and value != float("inf"):
            raise ValueError(f"{prefix}{name} must be at most {_shown(one.most)}{one.words}")
        raise ValueError(f"{prefix}{name} must be {number} of at least {one.least:g}")


def _shown(most: float) -> str:
    return f"{most:.0f}" if most <= MOST_AMOUNT else f"{most:g}"
