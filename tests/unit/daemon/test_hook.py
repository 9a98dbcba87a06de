"""The submission hook in Lua: how long it takes for a user's text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.snapshot import JobClass

from tests.lua_hook import OPEN, Hook

#: Lua's steps for one submission: a hundredth of a second of slurmctld's, or so
FEW_STEPS = 1_000_000


def rule(job_class: JobClass, match: Match) -> Rule:
    return Rule(name=f"{job_class}-{match}", job_class=job_class, match=match)


DEBUG = Classification(rules=(rule(JobClass.TE, Match(partitions=("debug",))),))


@pytest.mark.parametrize(
    "tasks",
    [
        "9007199254740992",
        "0-9007199254740992",
        "9007199254740992-9007199254740993",
        "1-4194305",
        "4194305",
        "1-9:9007199254740993",
        "1-4," * 1200,
        "1-100000:0",
        "1," * 3000,
        "1," * 2_000_000,
        "+1-5",
        "0x1-0x5",
    ],
    ids=lambda one: one[:20],
)
def test_an_array_that_cannot_be_counted_in_a_moment_is_one_too_many(tmp_path: Path, tasks: str) -> None:
    answer = Hook(tmp_path, DEBUG, most=4, until=OPEN).submits(partition="debug", array_inx=tasks)
    assert answer.refused
    assert answer.steps < FEW_STEPS


def test_an_array_that_repeats_its_tasks_takes_no_longer_for_a_large_limit(tmp_path: Path) -> None:
    answer = Hook(tmp_path, DEBUG, most=50_000, until=OPEN).submits(partition="debug", array_inx="1-40000," * 400)
    assert answer.refused
    assert answer.steps < FEW_STEPS


@pytest.mark.parametrize(
    ("tasks", "too_many"),
    [("1-4", False), ("1-5", True), ("[0-9:3]%2", False), ("1,1,2-3,2%1,4", False), ("4194300-4194304:2", False)],
)
def test_the_tasks_of_an_array_count_once_each(tmp_path: Path, tasks: str, too_many: bool) -> None:
    answer = Hook(tmp_path, DEBUG, most=4, until=OPEN).submits(partition="debug", array_inx=tasks)
    assert answer.refused is too_many
    assert not answer.held
