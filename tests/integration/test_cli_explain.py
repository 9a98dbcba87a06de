"""`tesched explain` says of a victim what was asked of it, and no more."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.model.change import FREE, HOLD, LET_THROUGH, STANDS, Change, Field
from tesched_core.model.cluster import JobState
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, VictimState
from tesched_core.model.outlived import Outlived
from tesched_core.model.resources import JobId
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, order, remembering, victim

WAITS = "is asked, once the other victims of the order have left, to yield"
NEVER = "was selected, and not asked, to yield"
ASKED = "was asked to yield"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a store with one order, whose victims are in all states before they leave."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    victims = (
        victim(1, VictimState.PLANNED),
        victim(2, VictimState.SPARED),
        victim(3, VictimState.LEFT, left_at=210.0, departure=Departure.FINISHED),
        victim(4, VictimState.SPARED, noticed_at=200.0),
        victim(5, VictimState.REQUEUING, noticed_at=200.0, requeue_sent_at=200.0),
    )
    jobs = [job(number) for number in (1, 2, 3, 4, 5, 9)]
    Writer(engine).look(220.0, *jobs, te=[9], memory=remembering(order(1, 9, *victims)))
    engine.dispose()
    return path


@pytest.mark.parametrize(("job_id", "said"), [(1, WAITS), (2, NEVER), (3, NEVER), (4, ASKED), (5, ASKED)])
def test_a_victim_is_said_to_be_asked_only_when_it_was(config: Path, job_id: int, said: str) -> None:
    def explain(number: int) -> str:
        runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
        return " ".join(runner.invoke(main, ["explain", str(number), "--config", str(config)]).output.split())

    assert f"it {said} to job 9" in explain(job_id)
    assert f"job {job_id} {said}:" in explain(9)


def held(job_id: int, value: int) -> Change[int]:
    one = Change(lever=HOLD, job_id=JobId(job_id), field=Field.HOLD, previous=FREE, value=value, at=200.0, since=200.0)
    return replace(one, taken_at=210.0, restored=value == LET_THROUGH, of_array=job_id == 3)


def test_it_is_said_which_jobs_another_hand_has_released(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    jobs = [replace(job(number, user="ada"), admin_comment="") for number in (1, 2, 6)]
    task = replace(job(4, user="bob"), array_job_id=JobId(3), array_task_id=1)
    # Another task has had its run since, and of an array the last task alone was let through.
    tasks = [task, replace(task, job_id=JobId(5), array_task_id=2, restarts=1)]
    tasks += [replace(task, job_id=JobId(number), array_job_id=JobId(8), array_task_id=number) for number in (8, 9)]
    released = dict.fromkeys((1, 3, 8), LET_THROUGH)
    holds = {JobId(number): held(number, value) for number, value in {**released, 2: STANDS}.items()}
    Writer(engine).look(220.0, *jobs, *tasks, te=[1, 2, 4, 5, 6, 8, 9], memory=Memory(changes={HOLD: holds}))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TZ": "UTC"})

    def said(*argv: str) -> str:
        return " ".join(runner.invoke(main, [*argv, "--config", str(path)]).output.split())

    words = "hold released by another hand at"
    assert [words in said("explain", name) for name in ("1", "3_1", "8_8")] == [True] * 3
    assert [words in said("explain", name) for name in ("2", "3_2", "6", "8_9")] == [False] * 4
    assert json.loads(said("explain", "1", "--json"))["let_through"]["at"] == 210
    assert json.loads(said("explain", "2", "--json"))["let_through"] is None
    assert "let through: 3 TE job(s), released by another hand and not held again: 1 of ada (" in said("status")
    assert [one["job"] for one in json.loads(said("status", "--json"))["let_through"]] == ["1", "3", "8_8"]
    assert json.loads(said("status", "--json"))["changed"] == {HOLD: [2]}


def test_it_is_said_which_users_have_no_te_jobs_and_until_when(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    path.write_text(path.read_text() + "[guard.te]\nmax_outlived_per_user_day = 2\n")
    engine, now = open_store(url), time.time()
    jobs = [job(1, user="ada"), job(2, user="bob"), job(3, JobState.RUNNING, user="ada"), job(4, user="ada")]
    runs = tuple(Outlived(job_id=JobId(90 + number), at=now - 100 + number, user="ada") for number in range(3))
    Writer(engine).look(220.0, *jobs, te=[1, 2, 3], memory=Memory(outlived=runs))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "250", "NO_COLOR": "1"})

    def said(*argv: str) -> str:
        return " ".join(runner.invoke(main, [*argv, "--config", str(path)]).output.split())

    words = "user 3 TE jobs of ada outlived the time limits with which they started in the last 24 h"
    assert [words in said("explain", name) for name in "1234"] == [True, False, False, False]
    one = {"user": "ada", "count": 3, "most": 2, "until": pytest.approx(now - 99 + 86400)}
    assert json.loads(said("explain", "1", "--json"))["barred"] == one
    assert json.loads(said("explain", "2", "--json"))["barred"] is None
    assert json.loads(said("status", "--json"))["barred"] == [one]
    assert "barred: no TE job starts of 1 user(s), whose TE jobs outlived their limits: ada, 3 of 2, until" in said(
        "status"
    )
