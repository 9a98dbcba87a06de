"""The command line, on stores that a real loop filled."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.common import duration
from tesched_cli.main import main
from tesched_core.actions import SetNice
from tesched_core.cluster import Job, JobState
from tesched_core.snapshot import Snapshot
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal

from tests.integration.test_loop import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of


def seen(at: float, *jobs: Job) -> Snapshot:
    """Return the cluster of the loop's tests with these jobs."""
    return replace(FULL_CLUSTER, taken_at=at, jobs={job.job_id: job for job in jobs})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a configuration whose store has one preemption under way: job 1 was given notice for job 2."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    path = tmp_path / "tesched.toml"
    path.write_text(f'[store]\nurl = "{url}"\n')
    migrate.upgrade(url)
    engine = open_store(url)
    now = time.time()
    cluster = Cluster(seen=seen(now, replace(VICTIM, start_time=now - 100), replace(TRIAL, submit_time=now - 5)))
    loop = loop_of(cluster, Notebook())
    loop.journal = SqlJournal(engine)
    loop.clock = time.time
    loop.turn()
    engine.dispose()
    return path


def tesched(*argv: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(main, list(argv))


def test_status_shows_the_daemon_the_queues_and_the_order(config: Path) -> None:
    shown = tesched("status", "--config", str(config))
    assert shown.exit_code == 0, shown.output
    assert "well: pid" in shown.output
    assert "room for job 2 on n1 from 1" in shown.output
    data = json.loads(tesched("status", "--json", "--config", str(config)).output)
    assert data["meta"]["command"] == "status"
    assert [order["order"]["preemptor"] for order in data["orders"]] == [2]
    assert data["use"]["be"] == {"jobs": 1, "cpus": 8, "gpus": 8, "nodes": 1}
    assert data["tally"]["futile"] == 0


def test_jobs_shows_each_with_its_class_and_can_be_filtered(config: Path) -> None:
    everybody = json.loads(tesched("jobs", "--json", "--config", str(config)).output)["jobs"]
    assert [(job["job_id"], job["job_class"], job["rule"]) for job in everybody] == [
        (1, "be", "default"),
        (2, "te", "te"),
    ]
    waiting = json.loads(tesched("jobs", "--json", "-t", "PD", "--config", str(config)).output)["jobs"]
    assert [job["job_id"] for job in waiting] == [2]
    assert "(Resources)" in tesched("jobs", "--config", str(config)).output


def test_explain_tells_the_preemptor_whose_room_it_gets_and_the_victim_for_whom(config: Path) -> None:
    trial = tesched("explain", "2", "--config", str(config)).output
    assert "trial and error" in trial
    assert "rule: te" in trial
    assert "job 1 was asked to yield" in trial
    victim = tesched("explain", "1", "--config", str(config)).output
    assert "asked to yield to job 2" in victim
    assert "30 s between notice (SIGUSR1) and requeue" in victim


def test_explain_of_an_unknown_job_says_so(config: Path) -> None:
    answer = tesched("explain", "77", "--config", str(config))
    assert answer.exit_code == 1
    assert "job 77: tesched has never seen it" in answer.output


def test_orders_tells_each_step(config: Path) -> None:
    shown = tesched("orders", "--config", str(config)).output
    assert "job 1: notice by SIGUSR1" in shown


def test_a_daemon_that_was_not_heard_of_is_told(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = time.time() + 3600
    monkeypatch.setattr("tesched_cli.status.time.time", lambda: later)
    assert "NOT RUNNING" in tesched("status", "--config", str(config)).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mood = 1", "mood: unknown key"),
        ('[store]\nurl = "mysql://x/y"', "mysql"),
        ('[store]\nurl = "sqlite:////no/such/folder/x.sqlite"', "/no/such/folder"),
    ],
)
def test_what_cannot_be_used_ends_with_status_2_and_no_traceback(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    answer = tesched("status", "--config", str(path))
    assert answer.exit_code == 2
    assert said in answer.output
    assert "Traceback" not in answer.output


def test_a_state_that_slurm_does_not_have_is_refused(config: Path) -> None:
    answer = tesched("jobs", "-t", "PD,SLEEPING", "--config", str(config))
    assert answer.exit_code == 2
    assert "SLEEPING" in answer.output


def test_the_example_can_be_checked_as_it_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(tesched("config", "example").output)
    checked = tesched("config", "check", str(path))
    assert checked.exit_code == 0
    assert "mode shadow, policy fitgpp" in checked.output


def test_a_store_is_made_by_db_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/new.sqlite"\n')
    assert "tesched db upgrade" in tesched("status", "--config", str(path)).output
    assert tesched("db", "upgrade", "--config", str(path)).exit_code == 0
    assert "no daemon has ever run" in tesched("status", "--config", str(path)).output


def test_a_preemption_is_told_to_its_end_by_the_store_alone(config: Path) -> None:
    """The loop dies after the notice; another one with the same store brings the order to its end."""
    engine = open_store(f"sqlite:///{config.parent}/store.sqlite")
    at = time.time() + 10
    gone = replace(VICTIM, state=JobState.PENDING, restarts=1, allocation=(), start_time=None, submit_time=at)
    started = replace(TRIAL, state=JobState.RUNNING, reason="", start_time=at, allocation=VICTIM.allocation)
    # Its priority of 50 had to pass the victim's 100: 51 more, and a margin of 1000.
    cluster = Cluster(seen=seen(at, gone, replace(started, nice=-1051, priority=1101)))
    loop = loop_of(cluster, Notebook())
    loop.journal = SqlJournal(engine)
    loop.clock = lambda: at
    loop.turn()
    assert [action.nice for action in cluster.acted if isinstance(action, SetNice)] == [0]
    back = replace(VICTIM, restarts=1, start_time=at + 60, submit_time=at)
    done = replace(started, state=JobState.COMPLETED, allocation=(), end_time=at + 50)
    cluster.seen = seen(at + 61, back, done)
    loop.turn()
    engine.dispose()
    story = json.loads(tesched("explain", "1", "--json", "--config", str(config)).output)["story"]
    (view,) = story["orders_as_victim"]
    assert (view["order"]["ending"], view["order"]["victims"][0]["state"]) == ("started_here", "back")
    assert view["order"]["victims"][0]["departure"] == "requeued_itself"
    assert story["job"]["preemptions"] == 1
    assert "was away for 01:00" in tesched("explain", "1", "--config", str(config)).output


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "00:00"), (61.9, "01:01"), (3600, "01:00:00"), (90061, "1-01:01:01")]
)
def test_durations_are_written_as_slurm_does(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_whatif_has_nothing_to_say_of_days_in_which_no_job_ended(config: Path) -> None:
    # Both jobs of the store are still there.
    said = tesched("whatif", "--config", str(config))
    assert said.exit_code == 2
    assert "the state store knows of no job that ran and ended in the last 7 days" in said.output
