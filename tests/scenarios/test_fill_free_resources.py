"""fill: what a forwarded job keeps: its nodes until it has started, and the nice value that people set."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import ReasonCode
from tesched_core.model.field import Field

from tests.builders import share
from tests.scenarios.test_fill import drive, holder, queued


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_job_that_was_brought_forward_and_has_not_started_yet_keeps_its_resources(*, is_seen: bool) -> None:
    # 16 CPUs are free; job 2 wants all 32. Job 3 fits, and so does job 4, but not both.
    driver = drive(holder(), queued(2, 32), queued(3, 16, waited=60), queued(4, 16), j2=60, j3=60, j4=60)
    first = driver.cycle(0)
    assert [action.job_id for action in first if action.reason.code is ReasonCode.FILLS_ROOM] == [3]
    if is_seen:
        driver.obeys(*first)
    assert driver.cycle(2) == ()


@pytest.mark.parametrize("nice", [-100_000, 7])
def test_a_nice_value_that_a_user_has_set_meanwhile_is_left(nice: int) -> None:
    driver = drive(holder(), queued(2, 32), queued(3, 16), j2=60, j3=60)
    driver.obeys(*driver.cycle(0))
    driver.change(3, nice=nice)
    driver.starts(3, share("n1", 16), at_s=1)
    assert [action for action in driver.cycle(2) if action.job_id == 3] == []
    assert driver.memory.changes_of(Field.NICE) == {}
