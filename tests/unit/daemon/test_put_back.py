"""Putting back goes on as long as a poll puts a change back, and ten polls after that."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tesched_daemon.leaving import POLLS
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.undo import put_all_back


class Emptying(Loop):
    """A loop that has so many changes left after each poll."""

    def __init__(self, left: Iterator[int]) -> None:
        """Make no parts: none is used."""
        self.lefts = left

    def undo(self, *, unseen_s: float = 0.0) -> CycleResult:
        left = next(self.lefts)
        return CycleResult(summary="", next_in_s=0.0, settled=not left, left=left)


@pytest.mark.parametrize(
    ("left", "looks"),
    [
        ([0], 1),
        ([3, 0], 2),
        ([*range(1000, -1, -50)], 21),
        ([5] * 100, POLLS),
        ([9, 8, *[7] * 100], 3 + POLLS),
    ],
)
def test_it_goes_on_while_a_change_is_put_back(left: list[int], looks: int) -> None:
    turns = list(put_all_back(Emptying(iter(left)), sleep=lambda _: None))
    assert len(turns) == looks
    assert turns[-1].settled == (0 in left)
