"""TE jobs that an operator has let through, and users who have no TE jobs now, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text
from tesched_core.model.outlived import Barred
from tesched_db.let_through import LetThrough

from tesched_cli.common import clock

#: Jobs, and users, that are named at most; --json has all.
SHOWN = 5


def free_lines(jobs: Sequence[LetThrough]) -> Iterator[Text]:
    """Yield which TE jobs an operator has let through."""
    if jobs:
        named = _named(f"{one.job} of {one.user} ({clock(one.at)})" for one in jobs)
        yield Text(f"let through: {len(jobs)} TE job(s), released by another hand and not held again: {named}")


def barred_lines(users: Iterable[Barred]) -> Iterator[Text]:
    """Yield which users have no TE jobs, why, and until when."""
    found = list(users)
    if found:
        named = _named(f"{one.user}, {one.count} of {one.most}, until {clock(one.until)}" for one in found)
        yield Text(f"excluded: no TE job starts of {len(found)} user(s), whose TE jobs outlived their limits: {named}")


def barred_line(one: Barred) -> str:
    """Reason that no TE job of a user's starts, and until when."""
    return f"{one.said} (guard.te.max_outlived_per_user_day is {one.most}): none starts until {clock(one.until)}"


def _named(each: Iterable[str]) -> str:
    words = list(each)
    return "; ".join(words[:SHOWN]) + (f"; and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
