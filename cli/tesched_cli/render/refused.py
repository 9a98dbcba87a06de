"""Kinds of change that Slurm refuses, in words, for `tesched status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tesched_core.model.field import Field
from tesched_core.model.refused import WORDS, RefusedChange, recent

from tesched_cli.common import clock

#: Users named whose jobs Slurm refuses to change, the last ones.
SHOWN_USERS = 3


def refusals(refused: Mapping[Field, RefusedChange], now: float) -> Iterator[str]:
    """Yield a sentence for each kind: TE jobs are served without it, where that can be."""
    for field, one in recent(refused, now).items():
        if not one.count:
            continue  # an answer that was not understood; the next one may be
        times = "once" if one.count == 1 else f"{one.count} times"
        whose = "" if one.everywhere else f" of jobs of {', '.join(one.users[-SHOWN_USERS:])}"
        yield (
            f'Slurm refuses to change {WORDS[field]}{whose} (since {clock(one.since)}, {times}: "{one.said}"); '
            f"tried again from {clock(one.retry_at)} on"
        )
