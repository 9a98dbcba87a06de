"""Many cases in one test: what fails is named, all of it, and no case at all fails, too."""

from __future__ import annotations

import pytest

from tests import collected


def even(number: int) -> None:
    assert 6 // number * 0 + number % 2 == 0


def test_every_case_that_fails_is_named_with_its_reason() -> None:
    tried: list[int] = []

    def check(number: int) -> None:
        tried.append(number)
        even(number)

    with pytest.raises(AssertionError) as caught:
        collected.each([2, 3, 0, 4], check, lambda number: f"number {number}")
    first, *lines = str(caught.value).splitlines()
    assert first == "2 of 4 cases fail:"
    assert any(line.startswith("number 3: AssertionError") for line in lines)
    assert any(line.startswith("number 0: ZeroDivisionError") for line in lines)
    assert not any(line.startswith(("number 2", "number 4")) for line in lines)
    assert tried == [2, 3, 0, 4]


def test_cases_that_hold_are_no_failure_and_none_at_all_is_one() -> None:
    collected.each([2, 4], even)
    with pytest.raises(AssertionError, match="there is no case"):
        collected.each([], even)
