"""Ending of a job, judged by what it wrote and what Slurm says of it."""

from __future__ import annotations

import pytest
from tesched_testcluster.kinds import KINDS, Ending, judge


@pytest.mark.parametrize(
    ("events", "state", "restarts", "ending"),
    [
        ("begun saved resumed done", "COMPLETED", 1, Ending.RESUMED),
        ("begun resumed done", "COMPLETED", 1, Ending.RESUMED),
        ("begun begun done", "COMPLETED", 1, Ending.AGAIN),
        ("begun done", "COMPLETED", 0, Ending.UNTOUCHED),
        ("begun saved", "COMPLETED", 0, Ending.UNFINISHED),
        ("begun saved left-at-step-29", "COMPLETED", 0, Ending.UNFINISHED),
        ("begun done begun done", "COMPLETED", 1, Ending.TWICE),
        ("begun begun begun done", "COMPLETED", 2, Ending.OTHER),
        ("begun", "FAILED", 0, Ending.LOST),
        ("begun", "CANCELLED", 1, Ending.LOST),
        ("begun", "RUNNING", 0, Ending.KEPT),
        ("begun begun", "RUNNING", 1, Ending.STUCK),
        ("begun", "PENDING", 1, Ending.STUCK),
    ],
)
def test_an_ending_is_recognised_by_events_and_state(events: str, state: str, restarts: int, ending: Ending) -> None:
    assert judge(events.split(), state, restarts) is ending


def test_a_job_that_its_own_client_ends_has_ended_well() -> None:
    assert judge(("begun", "begun", "done"), "CANCELLED", 1, ends=("COMPLETED", "CANCELLED")) is Ending.AGAIN


def test_each_kind_and_each_of_its_jobs_has_a_name_of_its_own() -> None:
    parts = [part for kind in KINDS for part in kind.parts]
    assert len(parts) == len(set(parts))
    assert len(KINDS) == len({kind.name for kind in KINDS})
