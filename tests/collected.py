"""One test for many cases: each is tried, and one message names all that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
#: characters of a failure that are shown
_SHOWN = 500


def each(cases: Iterable[T], check: Callable[[T], None], name: Callable[[T], object] = repr) -> None:
    """Check each case. Raises AssertionError with the name of each that fails, and why; and if there is no case."""
    count, wrong = 0, list[str]()
    for case in cases:
        count += 1
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are tried, too
            wrong.append(f"{name(case)}: {type(error).__name__}: {str(error)[:_SHOWN]}")
    if wrong:
        raise AssertionError("\n".join([f"{len(wrong)} of {count} cases fail:", *wrong]))
    if not count:
        raise AssertionError("there is no case")
