"""How an array's waiting tasks are named, and when Slurm's failure means that nothing was set of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import FailureKind, Reason, ReasonCode, SetField
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field, NumberField
from tesched_core.model.resources import JobId
from tesched_slurm.waiting_tasks import address, address_to_set, is_as_set, not_nameable

from tests.builders import hold, release, waiting

ARRAY = JobId(120)
REST = replace(waiting(120, cpus=1), array_job_id=ARRAY, array_tasks="0-4,7")
LAST = replace(REST, array_tasks="", array_task_id=7)
LONG = replace(REST, array_tasks="")
WHY = Reason(code=ReasonCode.MAKE_ROOM_FIRST, text="")
BACK = Reason(code=ReasonCode.ORDER_ENDED, text="")


def number(field: NumberField, value: int, reason: Reason = WHY) -> SetField:
    return SetField(job_id=ARRAY, reason=reason, field=field, value=value, previous=0)


@pytest.mark.parametrize("field", [Field.NICE, Field.PRIORITY, Field.BEGIN])
def test_waiting_tasks_are_named_by_their_list_and_the_last_one_by_its_index(field: NumberField) -> None:
    assert address_to_set(number(field, 5), REST) == "120_[0-4,7]"
    assert address_to_set(number(field, 5), LAST) == "120_7"
    assert address_to_set(number(field, 5), waiting(120, cpus=1)) == "120"


def test_the_throttle_is_the_whole_array_s() -> None:
    assert address_to_set(number(Field.THROTTLE, 5), REST) == address(REST) == "120"


def test_of_tasks_that_cannot_be_named_nothing_is_set_but_what_is_set_is_put_back() -> None:
    for action in (hold(ARRAY, WHY), number(Field.NICE, -50)):
        failure = not_nameable(action, LONG)
        assert failure is not None
        assert failure.kind is FailureKind.REFUSED
        assert "array 120" in failure.message
        assert not_nameable(action, REST) is None
        assert not_nameable(action, LAST) is None
    assert not_nameable(release(ARRAY, WHY), LONG) is None
    assert not_nameable(number(Field.NICE, 0, BACK), LONG) is None
    assert not_nameable(number(Field.THROTTLE, 3), LONG) is None


def test_a_hold_is_there_if_slurm_shows_it_as_an_operators() -> None:
    held = replace(REST, priority=0, reason="JobHeldAdmin")
    assert is_as_set(hold(ARRAY, WHY), held, None)
    assert not is_as_set(hold(ARRAY, WHY), replace(held, reason="JobHeldUser"), None)
    assert not is_as_set(hold(ARRAY, WHY), replace(held, state=JobState.CANCELLED), None)
    assert not is_as_set(release(ARRAY, WHY), held, None)
    assert is_as_set(release(ARRAY, WHY), REST, None)


@pytest.mark.parametrize(("field", "value"), [(Field.NICE, -50), (Field.PRIORITY, 77), (Field.BEGIN, 1000)])
def test_numbers_are_compared_with_what_was_to_be_set(field: NumberField, value: int) -> None:
    job = replace(REST, nice=-50, priority=77, eligible_time=1000.0)
    assert is_as_set(number(field, value), job, None)
    assert not is_as_set(number(field, value + 1), job, None)
