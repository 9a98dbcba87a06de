"""`tesched explain` says how often a job is preempted by its owner's word, and what of that word counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.intake.class_rules import Classification, UserWord
from tesched_core.intake.classify import classified
from tesched_core.model.cluster import JobState
from tesched_core.model.snapshot import Snapshot
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job


def explained(path: Path, name: str, *more: str) -> str:
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1"})
    answer = runner.invoke(main, ["explain", name, *more, "--config", str(path)])
    assert answer.exit_code == 0, answer.output
    return answer.output


def test_how_often_a_job_is_preempted_by_its_owners_word_and_that_more_than_the_site_s_raises_nothing(
    tmp_path: Path,
) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    # None declares a signal, and none of those that run has a script that is yet to be read.
    jobs = [job(number, JobState.RUNNING, nodes=["n1"], comment=f"preemptions={number}") for number in (1, 2)]
    waits = job(3, comment="preemptions=2")
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=[*jobs, waits]), Classification()))
    engine.dispose()

    often = "  often   it is preempted at most 1 time(s) for trial-and-error jobs of other users, by its owner's word"
    above = (
        "  said    preemptions=2 (the job's comment) is not followed: guard.max_lost_runs_per_job = 1, and no "
        "job raises that; instead: it is preempted 1 time(s) at most\n"
    )
    assert [often in explained(path, name) for name in ("1", "2")] == [True, False]
    assert [above in explained(path, name) for name in ("1", "2")] == [False, True]
    seen = [json.loads(explained(path, name, "--json"))["story"]["job"] for name in ("1", "2")]
    assert [(one["most_preemptions"], len(one["not_followed"])) for one in seen] == [(1, 0), (2, 1)]
    # The script of one that waits may declare a signal.
    assert often.replace("1 time", "2 time") in explained(path, "3")
    assert "is not followed" not in explained(path, "3")


@pytest.mark.parametrize(
    ("may_say_none", "often"),
    [
        (
            False,
            "at most 1 time(s) for trial-and-error jobs of other users, by its owner's word (preemptions=0; 1 counts)",
        ),
        (True, "never for trial-and-error jobs, by its owner's word (preemptions=0)"),
    ],
)
def test_a_job_that_is_never_to_leave_may_still_take_turns_and_what_counts_of_it_is_said(
    tmp_path: Path, may_say_none: bool, often: str
) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    how = Classification(user_word=UserWord(may_say_no_preemptions=may_say_none))
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=[job(1, comment="preemptions=0")]), how))
    engine.dispose()
    assert f"  often   it is preempted {often}\n" in explained(path, "1")
