"""Ranges of the configuration's numbers, and forms of its texts, declared with their types: `cool_down_s: Seconds`.

What is declared so is what the loader refuses, and what `tesched config schema` says to editors. A number beyond its
range makes no sense to any site, or would be beyond what slurmctld, the state store or a clock takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Annotated, Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Least and greatest value, both allowed."""

    least: float = 0
    most: float
    #: what the greatest one is, in words
    words: str = ""
    #: the least value itself is not allowed
    is_above: bool = False
    #: 0 is allowed besides, and switches the limit off
    or_zero: bool = False
    #: what would be right, in place of the usual words: "a number above 1, such as 3"
    right: str = ""
    #: `right` states the greatest value, too
    right_tells_most: bool = False

    def has(self, value: float) -> bool:
        """Check whether the value is allowed."""
        if self.or_zero and value == 0:
            return True
        return self.least <= value <= self.most and not (self.is_above and value == self.least)

    def must_be(self, value: float) -> str:
        """Requirement in place of a value that is not allowed, in words."""
        if value == inf and not self.right_tells_most:
            least = f"{'above' if self.is_above else 'at least'} {self.least:g}"
            return f"must be finite, and {self.right or least}"
        if value > self.most and not self.right_tells_most:
            return f"must be at most {_shown(self.most)}{self.words}"
        if self.right:
            return f"must be {self.right}"
        if self.is_above:
            return f"must be above {self.least:g}"
        number = "a whole number" if isinstance(value, int) else "a number"
        return f"must be {number} of at least {self.least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Form of a text: a regular expression that all of it matches, as Python, JavaScript and Rust read it alike."""

    pattern: str
    #: what is said of another text, after its key: " must be …", ": …"
    said: str

    def has(self, value: str) -> bool:
        """Check whether the text has the form."""
        return re.fullmatch(self.pattern, value) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """Words that a text may be, where they are no enumeration."""

    words: tuple[str, ...]


def between(least: float, most: float, unit: str = "") -> Range:
    """Return a range that is always shown with both ends: "between 0.5 and 300 seconds"."""
    right = f"between {_plain(least)} and {_plain(most)} {unit}".rstrip()
    return Range(least=least, most=most, right=right, right_tells_most=True)


def _plain(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


#: a hundred years
LONGEST_S = 100 * 365 * 24 * 3600
MOST = 1_000_000_000
MOST_AMOUNT = 1e12
#: the longest that a policy or a grace period may wait
DAY_S = 86_400

Seconds = Annotated[float, Range(most=LONGEST_S, words=", a hundred years")]
WholeSeconds = Annotated[int, Range(most=LONGEST_S, words=", a hundred years")]
Count = Annotated[int, Range(most=MOST)]
Amount = Annotated[float, Range(most=MOST_AMOUNT)]
Positive = Annotated[float, Range(is_above=True, most=MOST_AMOUNT)]
AtLeastOne = Annotated[int, Range(least=1, most=MOST)]
#: seconds of one day at most
SecondsOfADay = Annotated[float, between(0, DAY_S, "seconds")]
#: seconds from one turn, round or slot to the next
Period = Annotated[float, between(1, DAY_S, "seconds")]


@cache
def ranges_of(kind: Any) -> Mapping[str, Range]:
    """Return the ranges that a class of a table declares, by key."""
    return {name: one for name, one in _declared(kind) if isinstance(one, Range)}


@cache
def _elements_of(kind: Any) -> Mapping[str, Form]:
    """Return the forms that a class of a table declares for the texts of a list, by key."""
    hints = get_type_hints(kind, include_extras=True)
    lists = {name: get_args(hint)[0] for name, hint in hints.items() if get_origin(hint) is tuple}
    return {name: one for name, hint in lists.items() for one in said_of(hint) if isinstance(one, Form)}


@cache
def _texts_of(kind: Any) -> Mapping[str, Form | OneOf]:
    """Return the forms and words that a class of a table declares, by key."""
    return {name: one for name, one in _declared(kind) if isinstance(one, Form | OneOf)}


def _declared(kind: Any) -> Iterator[tuple[str, object]]:
    for name, hint in get_type_hints(kind, include_extras=True).items():
        yield from ((name, one) for one in said_of(hint))


def said_of(hint: Any) -> Iterator[object]:
    """Yield what is declared beside a type, or beside what stands there next to None; nothing of a list's elements."""
    if get_origin(hint) is Annotated:
        yield from get_args(hint)[1:]
        yield from said_of(get_args(hint)[0])
    elif type(None) in get_args(hint):
        for part in get_args(hint):
            yield from said_of(part)


def check_ranges(table: object, prefix: str = "") -> None:
    """Raise ValueError for the first value of a table that is out of its range or form; `prefix` is before its key."""
    kind: Any = type(table)
    for name, one in ranges_of(kind).items():
        value = getattr(table, name)
        if value is not None and not one.has(value):
            raise ValueError(f"{prefix}{name} {one.must_be(value)}")
    for name, form in _texts_of(kind).items():
        text = getattr(table, name)
        if text is None:
            continue
        if isinstance(form, OneOf) and text not in form.words:
            raise ValueError(f"{prefix}{name} must be one of {', '.join(form.words)}")
        if isinstance(form, Form) and not form.has(text):
            raise ValueError(f"{prefix}{name}{form.said}")
    for name, form in _elements_of(kind).items():
        if not all(map(form.has, getattr(table, name))):
            raise ValueError(f"{prefix}{name}{form.said}")


def _shown(most: float) -> str:
    return f"{most:.0f}" if most <= MOST_AMOUNT else f"{most:g}"
