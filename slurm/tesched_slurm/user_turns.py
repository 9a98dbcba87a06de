"""Work that users cause, done for one user after the other: what one user causes delays no other user's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat, zip_longest
from typing import TypeVar

T = TypeVar("T")


def in_turn(by_user: Mapping[str, Sequence[T]], last_user: str) -> Iterator[tuple[str, T]]:
    """Yield each user's first item, then each user's second, …, with its user; it begins behind the `last_user`."""
    users = sorted(by_user)
    first = bisect_right(users, last_user)
    turn = (*users[first:], *users[:first])
    for each in zip_longest(*(zip(repeat(user), by_user[user], strict=False) for user in turn)):
        yield from (one for one in each if one is not None)
