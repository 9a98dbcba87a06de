"""`tesched jobs --mine`: of so many times that a job may be preempted, those count that other users' TE jobs caused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tesched_cli.mine import my_jobs
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Departure, Ending, OrderState, Purpose, VictimState
from tesched_db.engine import open_store
from tesched_db.views import JobFilter
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.store_examples import Writer, job, order, remembering, victim

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
