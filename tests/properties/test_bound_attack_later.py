"""The guarantee of guard.bound under 50,000 arrivals of one seed (`tests/bound_parts.py`): the rest of its parts."""

from __future__ import annotations

import pytest

from tests.bound_parts import LATER, check_part


@pytest.mark.parametrize("part", LATER)
def test_no_job_is_delayed_by_more_than_its_bound(part: int) -> None:
    check_part(part)
