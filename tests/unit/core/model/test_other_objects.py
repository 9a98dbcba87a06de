"""Entries of a mapping that another one does not have."""

from __future__ import annotations

import pytest
from tesched_core.model.other_objects import other_objects

A, B, C = object(), object(), object()


@pytest.mark.parametrize(
    ("now", "then", "others"),
    [
        ({}, {}, []),
        ({1: A}, {}, [1]),
        ({}, {1: A}, []),
        ({1: A, 2: B}, {1: A, 2: B}, []),
        ({1: A, 2: C}, {1: A, 2: B}, [2]),
        ({1: A, 2: B, 3: C}, {1: A, 2: B}, [3]),
        ({1: C, 2: B, 3: C}, {1: A, 2: B}, [1, 3]),
        ({3: C, 1: A, 2: B}, {1: A, 2: B}, [3]),
        ({2: B, 1: A}, {1: A, 2: B}, []),
        ({2: B}, {1: A, 2: B}, []),
        ({2: A, 3: B}, {1: A, 2: B}, [2, 3]),
        ({1: B, 2: A}, {1: A, 2: B}, [1, 2]),
    ],
)
def test_it_finds_what_is_another_object_or_has_come(
    now: dict[int, object], then: dict[int, object], others: list[int]
) -> None:
    assert other_objects(now, then) == others


def test_an_equal_object_is_another_one() -> None:
    assert other_objects({1: [1]}, {1: [1]}) == [1]
