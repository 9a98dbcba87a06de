"""How an array's waiting tasks are named, and when Slurm's failure means that nothing was set of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tesched_core.model.actions import Failure, FailureKind, Reason, ReasonCode, SetField
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field, NumberField
from tesched_core.model.resources import JobId
from tesched_slurm import waiting_tasks
from tesched_slurm.answer_bytes import Answer, as_printed
from tesched_slurm.run_command import Commands
from tesched_slurm.waiting_tasks import address, address_to_set, is_as_set, not_nameable, shortened, with_list

from tests.builders import hold, release, waiting
from tests.unit.slurm.squeue_says import MARK, PLAIN, scontrol

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


@pytest.mark.parametrize(
    ("others", "most", "short"),
    [
        # The narrowest gaps are filled first, and no more than must be.
        ((), 18, "0-4,7-11,20-30"),
        ((), 12, "0-11,20-30"),
        ((), 4, "0-30"),
        # No task with a record of its own is named, wherever it is.
        ((8, 15), 15, "0-7,9-11,20-30"),
        ((10, 31), 14, "0-9,11,20-30"),
        ((5, 8, 10, 12), 11, ""),
        ((), 3, ""),
    ],
)
def test_a_list_that_is_too_long_names_tasks_of_which_there_is_no_record_and_no_other(
    others: tuple[int, ...], most: int, short: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_tasks, "_MOST_LIST", most)
    found = shortened("0-4,7,9,11,20-30", others)
    assert found == short
    assert len(found) <= most


def test_of_a_long_list_in_steps_none_is_made() -> None:
    assert shortened("0-100:2,200", ()) == ""


def test_a_list_of_tens_of_thousands_of_pieces_is_short_enough() -> None:
    others = set(range(1, 400_000, 400))
    waits = range(0, 400_000, 10)
    short = shortened(",".join(map(str, waits)), others)
    assert 0 < len(short) <= 100_000
    named: set[int] = set()
    for one in short.split(","):
        first, _, last = one.partition("-")
        named.update(range(int(first), int(last or first) + 1))
    assert named.issuperset(waits)
    assert named.isdisjoint(others)


def test_tasks_apart_are_those_that_squeue_or_scontrol_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = PLAIN._replace(job_id="120", array_job_id="120", array_task_id="0,2,4,6,8,10", state="PENDING")
    # squeue shows that of another name, and 26.05 not the other one, which is as its array but for its nice value.
    named, changed = (
        waits._replace(job_id=job_id, array_task_id=task) for job_id, task in (("121", "3"), ("122", "5"))
    )
    named = named._replace(name="other")
    tasks = {waits: "0,2,4,6,8,10", named: "3", changed: "5"}
    records = (scontrol(row, array=f"ArrayJobId=120 ArrayTaskId={listed} ") for row, listed in tasks.items())
    answer = "".join(records)

    class Said(Commands):
        def run_bytes(
            self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
        ) -> Answer | Failure:
            mark = (variables or {})["SLURM_TIME_FORMAT"].removeprefix("%s")
            return as_printed(answer.replace(MARK, mark))

    # 26.05 may show a waiting task by itself, with its array's id.
    alone = waits._replace(array_task_id="8")
    monkeypatch.setattr(waiting_tasks, "read_rows", lambda *_: [waits, named, alone])
    whole = with_list(Said(), LONG, waits)
    assert isinstance(whole, Job)
    assert whole.array_tasks == "0,2,4,6,8,10"
    for most, listed in ((11, "0-2,4,6-10"), (7, "")):
        monkeypatch.setattr(waiting_tasks, "_MOST_LIST", most)
        found = with_list(Said(), LONG, waits)
        assert isinstance(found, Job)
        assert found.array_tasks == listed
