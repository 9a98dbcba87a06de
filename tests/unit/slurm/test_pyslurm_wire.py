"""Answers of the pyslurm process: one job's record of another form hides no other job."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest
from tesched_slurm.pyslurm_wire import LENGTH, Done, JobRecord, Seen, Version, frame, read_answer

HINTS = get_type_hints(JobRecord)
#: fields that hold a number or nothing
NUMBERS = [name for name in JobRecord.__struct_fields__ if name != "id" and HINTS[name] in (int, int | None)]


def record(job_id: int, **changes: object) -> JobRecord:
    """Make a record with something in each field."""
    values: dict[str, Any] = {}
    for name in JobRecord.__struct_fields__:
        hint = HINTS[name]
        values[name] = "x" if hint in (str, str | None) else () if hint == tuple[str, ...] else hint is not bool
    values |= dict.fromkeys(NUMBERS, 1) | {"id": job_id, **changes}
    return JobRecord(**values)


def sent(message: object) -> bytes:
    return frame(message)[LENGTH.size :]


def test_an_answer_comes_as_it_was_sent() -> None:
    seen = Seen(jobs=(record(1), record(2)), unread=(3,))
    assert read_answer(sent(seen)) == seen
    assert read_answer(sent(Done())) == Done()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_word_in_the_place_of_a_number_makes_that_job_unread_alone(name: str) -> None:
    seen = Seen(jobs=(record(1), record(2, **{name: "UNLIMITED"}), record(4)), unread=(3,), reservations=1)
    assert read_answer(sent(seen)) == Seen(jobs=(record(1), record(4)), unread=(3, 2), reservations=1)


def test_another_form_than_a_jobs_is_an_error() -> None:
    for strange in (Version(version=7), Seen(jobs=(record("x"),)), Seen(reservations="x"), [1], 7):  # type: ignore[arg-type]
        with pytest.raises(msgspec.DecodeError):
            read_answer(sent(strange))
