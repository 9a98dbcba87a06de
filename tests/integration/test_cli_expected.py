"""`tesched explain` says how long a job is expected to run, and by which word."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.model.cluster import Job, JobState
from tesched_db import finished_runs, run_time_levels
from tesched_db.engine import open_store
from tesched_db.finished_runs import LearnedRun
from tesched_db.run_time_levels import WrittenLevels
from tesched_predict.history import FinishedRun
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, snapshot

LEARNED = [
    LearnedRun(run=FinishedRun(user="ada", job_name="run", run_s=600.0, end_s=10.0), name=str(number), cluster="",
               source="trace")
    for number in range(20)
]  # fmt: skip


def explained(
    tmp_path: Path,
    shown: Job,
    run_time_s: float | None,
    learned: Sequence[LearnedRun] = LEARNED,
    levels: Sequence[WrittenLevels] = (),
) -> tuple[str, Mapping[str, Any] | None]:
    """Return what is said of a job of which its owner says this, in words and in JSON."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    finished_runs.add(engine, [learned])
    for place, one in enumerate(levels):
        run_time_levels.write(engine, one, float(place))
    seen = snapshot(220.0, shown)
    traits = {job_id: replace(one, run_time_s=run_time_s) for job_id, one in seen.traits.items()}
    Writer(engine).write(seen.with_traits(traits))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
    argv = ["explain", str(shown.job_id), "--config", str(path)]
    words = runner.invoke(main, argv, catch_exceptions=False).output
    return words, json.loads(runner.invoke(main, [*argv, "--json"], catch_exceptions=False).output)["expected"]


def test_the_owners_word_comes_before_what_was_learned(tmp_path: Path) -> None:
    words, expected = explained(tmp_path, job(1), 3600.0)
    assert "1 h in all, by its owner's word (--comment)" in words
    assert expected is not None
    assert (expected["source"], expected["quantiles_s"]) == (
        "owner",
        dict.fromkeys(("0.1", "0.5", "0.8", "0.9"), 3600.0),
    )
    assert (expected["runs"], expected["shorter"], expected["likeness"]) == (0, None, "")


@pytest.mark.parametrize("limit_s", [None, 0])
def test_without_it_what_was_learned_is_said(tmp_path: Path, limit_s: int | None) -> None:
    words, expected = explained(tmp_path, job(1, time_limit_s=limit_s), None)
    assert "expected 10 min (0 % of 20 jobs" in words
    assert expected is not None
    assert (expected["source"], expected["runs"]) == ("learned", 20)


def test_of_a_job_that_has_ended_nothing_is_expected(tmp_path: Path) -> None:
    words, expected = explained(tmp_path, job(1, JobState.COMPLETED, start_time=100.0, end_time=200.0), 3600.0)
    assert expected is None
    assert "owner's word" not in words


def test_quantiles_are_read_at_the_levels_and_of_the_cluster_of_the_last_daemon(tmp_path: Path) -> None:
    here, there = (
        [
            replace(one, name=f"{cluster}{place}", cluster=cluster, run=replace(one.run, run_s=longest_s * (place + 1)))
            for place, one in enumerate(LEARNED)
        ]
        for cluster, longest_s in (("here", 60.0), ("there", 3600.0))
    )
    levels = [
        WrittenLevels(cluster="here", levels={0.8: 0.5}),
        WrittenLevels(cluster="there", levels={0.8: 0.8}),
        WrittenLevels(cluster="here", levels={0.1: 0.05, 0.5: 0.5, 0.8: 0.95, 0.9: 1.0}),
    ]
    _, expected = explained(tmp_path, job(1), None, [*here, *there], levels)
    assert expected is not None
    found = {level: round(quantile_s) for level, quantile_s in expected["quantiles_s"].items()}
    assert found == {"0.1": 60, "0.5": 600, "0.8": 1140, "0.9": 1200}


def test_the_time_for_which_it_was_suspended_is_no_run_time(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine, now = open_store(url), time.time()
    finished_runs.add(engine, [LEARNED])
    writer = Writer(engine)
    writer.look(now - 900, job(1, JobState.RUNNING, start_time=now - 1000))
    writer.look(now - 850, job(1, JobState.SUSPENDED, start_time=now - 1000))
    writer.look(now, job(1, JobState.SUSPENDED, start_time=now - 1000))
    engine.dispose()
    argv = ["explain", "1", "--json", "--config", str(path)]
    expected = json.loads(CliRunner().invoke(main, argv, catch_exceptions=False).output)["expected"]
    assert expected["ran_s"] == pytest.approx(150, abs=5)
    assert expected["quantiles_s"]["0.5"] == pytest.approx(600, abs=1)
