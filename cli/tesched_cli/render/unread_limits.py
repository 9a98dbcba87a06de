"""Limits of associations and QOS that could not be read, in words, for `tesched status`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tesched_core.model.slurm_limits import UnreadLimits

from tesched_cli.common import clock


def unread_limits(unread: Iterable[UnreadLimits]) -> Iterator[str]:
    """Yield a sentence for each kind: what, since when, why, and what it means for victims."""
    for one in unread:
        yield f"{one.words} can't be read since {clock(one.since)}: {one.said}; {one.meaning}"
