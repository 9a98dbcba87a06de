"""`tesched jobs --mine`: of so many times that a job may be preempted, those count that other users' TE jobs caused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_cli.mine import my_jobs
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Departure, Ending, OrderState, Purpose, VictimState
from tesched_core.model.snapshot import Snapshot
from tesched_db.engine import open_store
from tesched_db.views import JobFilter
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, order, remembering, victim

OWN, OTHERS, TURN = {"for_user": "ada"}, {"for_user": "bob"}, {"purpose": Purpose.ROUND}


@pytest.mark.parametrize(
    ("causes", "preempted", "expected"),
    [
        ([OTHERS], 1, "will not be preempted again"),
        ([OWN], 0, "may be preempted 1 time(s)"),
        ([TURN], 0, "may be preempted 1 time(s)"),
        ([OWN, OTHERS, TURN], 1, "will not be preempted again"),
    ],
)
def test_own_trials_and_turns_are_shown_and_do_not_count(
    tmp_path: Path, causes: list[dict[str, Any]], preempted: int, expected: str
) -> None:
    url = empty_store(tmp_path / "store.sqlite")
    (tmp_path / "tesched.toml").write_text(f'[store]\nurl = "{url}"\n[guard]\nmax_preemptions_per_job = 1\n')
    engine = open_store(url)
    left = {"noticed_at": 200.0, "left_at": 210.0, "departure": Departure.REQUEUED, "back_at": 300.0, "user": "ada"}
    ended: dict[str, Any] = {"state": OrderState.ENDED, "ending": Ending.STARTED_HERE, "ended_at": 301.0}
    orders = [order(at, 7, victim(3, VictimState.BACK, **left, **why), **ended) for at, why in enumerate(causes, 1)]
    running = job(3, JobState.RUNNING, nodes=["n1"], submit_time=100.0)
    Writer(engine).look(600.0, running, job(7, submit_time=100.0), te=[7], memory=remembering(*orders))
    engine.dispose()
    (mine,) = (one for one in my_jobs(tmp_path / "tesched.toml", "ada", JobFilter()) if one.job == "3")
    assert (mine.preempted, mine.most, mine.expected) == (preempted, 1, expected)
    told = [one.cause for one in mine.preemptions]
    words = {"ada": "a trial-and-error job of its own user", "bob": "a trial-and-error job"}
    assert told == [words.get(why.get("for_user", ""), "another job's turn") for why in causes]


@pytest.mark.parametrize(
    ("grace_s", "signal", "saved"),
    [
        (30.0, "USR1", "had SIGUSR1 and stayed until it was requeued 10 s later"),
        (0.0, "", "had no grace period, and had Slurm's SIGTERM alone"),
    ],
)
def test_a_signal_is_shown_only_where_it_was_sent(tmp_path: Path, grace_s: float, signal: str, saved: str) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    left = {"noticed_at": 200.0, "left_at": 210.0, "departure": Departure.REQUEUED, "user": "ada"}
    one = victim(3, VictimState.LEFT, **left, grace_period_s=grace_s)
    jobs = job(3, submit_time=100.0), job(7, submit_time=100.0)
    Writer(engine).look(600.0, *jobs, te=[7], memory=remembering(order(1, 7, one)))
    engine.dispose()
    (mine,) = (one for one in my_jobs(path, "ada", JobFilter()) if one.job == "3")
    (preemption,) = mine.preemptions
    assert preemption.signal == signal
    assert preemption.saved_state.startswith(saved)
    explained = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["explain", "3", "--config", str(path)]).output
    assert ("SIGUSR1 was sent to" in explained) == bool(signal)
    assert ("was requeued without a signal, and had left 10.0 s later" in explained) == (not signal)


@pytest.mark.parametrize(
    ("state", "comment", "restarts", "most"),
    [
        (JobState.RUNNING, "signal=USR1 grace=30", 0, 16),
        (JobState.RUNNING, "signal=USR1 grace=0", 0, 1),
        (JobState.RUNNING, "", 0, 1),
        # Its script may declare a signal: it is read when the job runs. What a job that has run declared is known.
        (JobState.PENDING, "", 0, 16),
        (JobState.PENDING, "preemptions=2", 0, 2),
        (JobState.PENDING, "", 1, 1),
        (JobState.PENDING, "signal=USR1 grace=30", 1, 16),
        (JobState.PENDING, "signal=USR1 grace=0", 0, 1),
    ],
)
def test_how_often_it_may_be_preempted_goes_by_whether_it_is_sent_a_signal(
    tmp_path: Path, state: JobState, comment: str, restarts: int, most: int
) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    one = job(3, state, comment=comment, restarts=restarts, nodes=["n1"] if state is JobState.RUNNING else ())
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=[one]), Classification()))
    engine.dispose()
    assert [mine.most for mine in my_jobs(path, "ada", JobFilter())] == [most]
