"""The guarantee of guard.bound under 50,000 arrivals of one seed (`tests/bound_parts.py`): the first of its parts."""

from __future__ import annotations

import pytest
from tesched_testcluster.harness.bound.attack import Attack
from tesched_testcluster.harness.bound.found import EACH, run

from tests.bound_parts import FIRST, check_part


@pytest.mark.parametrize("part", FIRST)
def test_no_job_is_delayed_by_more_than_its_bound(part: int) -> None:
    check_part(part)


def test_nor_where_half_of_the_victims_end_for_good() -> None:
    attacked = run(4 * EACH, 0, Attack(ends=0.5), processes=1)
    assert attacked.violations == []
    assert attacked.counts["victims that ended for good"] > 5
    assert attacked.counts["preemptions"] > 5, "the others run again"
