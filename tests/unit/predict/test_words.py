"""Lengths of time in words."""

from __future__ import annotations

import pytest
from tesched_predict.words import in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (42.4, "42 s"),
        (90, "2 min"),
        (2520, "42 min"),
        (3599, "1 h"),
        (11_100, "3 h 5 min"),
        (187_200, "2 d 4 h"),
        (172_800, "2 d"),
    ],
)
def test_the_two_greatest_units_are_shown(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
