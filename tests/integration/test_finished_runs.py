"""Finished runs in the store: what the daemon writes, what counts once, and how many are kept."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine
from tesched_core.model.cluster import Job, JobState, SlurmSettings
from tesched_db import finished_runs, run_time_levels
from tesched_db.finished_runs import LearnedRun, name_of
from tesched_db.journal import SqlJournal
from tesched_db.retention import prune
from tesched_db.run_time_levels import WrittenLevels
from tesched_predict.groups import RUNS_OF_ALL
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import RunTimes
from tesched_testcluster.harness.store_examples import Writer, job, snapshot


def run(number: int, *, cluster: str = "here", end_s: float | None = None) -> LearnedRun:
    ran = FinishedRun(user="ada", job_name="run", run_s=10.0, end_s=float(number) if end_s is None else end_s)
    return LearnedRun(run=ran, name=name_of(str(number), number - 10.0), cluster=cluster, source="sacct")


def runs_of(store: Engine, cluster: str = "here") -> list[float]:
    return [one.run_s for one in finished_runs.load(store, cluster)[0]]


def ending(writer: Writer, state: JobState, *, runs: bool = True) -> None:
    """Let job 4 run from 100 to 160, seen at 110 and 170 or only at its end."""
    settings = SlurmSettings(cluster_name="here")
    started: dict[str, Any] = {
        "submit_time": 90.0,
        "start_time": 100.0,
        "time_limit_s": 3600,
        "account": "lab",
        "partitions": ("gpu",),
    }
    if runs:
        writer.write(replace(snapshot(110.0, job(4, JobState.RUNNING, nodes=["n1"], **started)), settings=settings))
    writer.write(replace(snapshot(170.0, job(4, state, end_time=160.0, **started)), settings=settings))


@pytest.mark.parametrize("runs", [True, False])
def test_a_run_that_ended_by_itself_is_written_with_its_facts(store: Engine, runs: bool) -> None:
    ending(Writer(store), JobState.COMPLETED, runs=runs)
    ((found,), _) = finished_runs.load(store, "here")
    assert (found.user, found.account, found.partition, found.job_name) == ("ada", "lab", "gpu", "run")
    assert (found.run_s, found.end_s, found.time_limit_s, found.cpus) == (60.0, 160.0, 3600.0, 1)


def test_a_run_that_was_cut_short_is_not_written(store: Engine) -> None:
    ending(Writer(store), JobState.CANCELLED)
    assert finished_runs.count(store) == 0


def test_nothing_is_written_where_nothing_is_to_be_learned(store: Engine) -> None:
    writer = Writer(store)
    writer.journal = SqlJournal(store, learns=False)
    ending(writer, JobState.COMPLETED)
    assert finished_runs.count(store) == 0


def test_a_run_counts_once_wherever_it_was_learned_from(store: Engine) -> None:
    ending(Writer(store), JobState.COMPLETED)
    same = LearnedRun(
        run=FinishedRun(user="ada", run_s=60.0, end_s=160.0), name=name_of("4", 100.0), cluster="here", source="sacct"
    )
    assert finished_runs.add(store, [[same, run(200)], [run(200)]]) == 1
    assert finished_runs.count(store) == 2


def test_the_newest_are_kept(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_runs, "MOST_RUNS", 3)
    finished_runs.add(store, [[run(number) for number in (50, 20, 40, 10, 30)]])
    assert [one.end_s for one in finished_runs.load(store, "here")[0]] == [30.0, 40.0, 50.0]
    ending(Writer(store), JobState.COMPLETED)
    assert [one.end_s for one in finished_runs.load(store, "here")[0]] == [40.0, 50.0, 160.0]


def test_a_reader_gets_what_was_written_since_and_nothing_of_another_cluster(store: Engine) -> None:
    finished_runs.add(store, [[run(20), run(21, cluster=""), run(22, cluster="elsewhere")]])
    found, last = finished_runs.load(store, "here")
    assert [one.end_s for one in found] == [20.0, 21.0]
    finished_runs.add(store, [[run(15)]])
    assert [one.end_s for one in finished_runs.load(store, "here", after=last)[0]] == [15.0]
    assert finished_runs.clusters(store) == ("elsewhere", "here")


def test_with_all_runs_the_levels_that_came_of_them_are_forgotten(store: Engine) -> None:
    finished_runs.add(store, [[run(20), run(30)]])
    written = WrittenLevels(cluster="here", levels={0.9: 0.95})
    run_time_levels.write(store, written, 1.0)
    assert prune(store, 5.0, now=30.0).runs == 1
    assert run_time_levels.newest(store) == written
    assert finished_runs.forget(store) == 1
    assert run_time_levels.newest(store) is None


def test_a_reader_gets_what_was_written_after_all_was_forgotten(store: Engine) -> None:
    finished_runs.add(store, [[run(20), run(21), run(22)]])
    _, last = finished_runs.load(store, "here")
    finished_runs.forget(store)
    finished_runs.add(store, [[run(30), run(31)]])
    assert [one.end_s for one in finished_runs.load(store, "here", after=last)[0]] == [30.0, 31.0]


def test_any_number_of_runs_may_end_in_one_poll(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finished_runs, "CHUNK", 2)
    lengths: list[int] = []
    insert = finished_runs._insert

    def counted(connection: Connection, runs: Sequence[LearnedRun]) -> int:
        lengths.append(len(runs))
        return insert(connection, runs)

    monkeypatch.setattr(finished_runs, "_insert", counted)
    ended = [
        job(number, JobState.COMPLETED, start_time=100.0, end_time=100.0 + number, submit_time=90.0)
        for number in range(1, 6)
    ]
    Writer(store).write(replace(snapshot(170.0, *ended), settings=SlurmSettings(cluster_name="here")))
    assert finished_runs.count(store) == 5
    assert lengths == [2, 2, 1]


def test_pruning_forgets_runs_that_ended_long_ago(store: Engine) -> None:
    finished_runs.add(store, [[run(100), run(900)]])
    assert prune(store, 500.0, now=1000.0).runs == 1
    assert finished_runs.count(store) == 1
    assert finished_runs.forget(store) == 1


def test_a_name_of_any_bytes_is_kept(store: Engine) -> None:
    odd = replace(run(30), run=FinishedRun(user="ada", job_name="a\0b\udcffc|d\ne", run_s=5.0, end_s=30.0))
    finished_runs.add(store, [[odd]])
    ((found,), _) = finished_runs.load(store, "here")
    assert found.job_name == "a\\x00b\\udcffc|d\ne"


def facts(**fields: object) -> Job:
    return replace(job(4, JobState.PENDING), **fields)  # type: ignore[arg-type]


def test_of_several_partitions_the_first_is_a_fact() -> None:
    assert finished_runs.facts_of(facts(partitions=("a", "b"), time_limit_s=60)).partition == "a"
    assert finished_runs.facts_of(facts(partitions=(), time_limit_s=None)).time_limit_s is None


def learned_in_part(store: Engine, job: JobFacts) -> RunTimes:
    run_times = RunTimes()
    for one in finished_runs.load_groups(store, "here", job):
        run_times.learned(one, scored=False)
    return run_times


@pytest.mark.parametrize("users", [1, 40])
def test_a_job_is_predicted_by_its_groups_as_by_all_runs(store: Engine, users: int) -> None:
    chance = random.Random(users)  # noqa: S311 - no secret

    def facts() -> dict[str, Any]:
        return {
            "user": f"u{chance.randrange(users)}" if chance.random() < 0.95 else "",
            "account": chance.choice(["", "lab"]),
            "partition": chance.choice(["", "cpu", "gpu"]),
            "job_name": chance.choice(["", "eval", f"train_{chance.randrange(99)}"]),
            "gpus": chance.choice([0, 0, 0, 0, 4]),
            "cpus": chance.choice([0, 4]),
            "time_limit_s": chance.choice([None, 0.0, 3600.0, 3600.0, 3600.0]),
        }

    runs = [
        LearnedRun(
            # Many end at once.
            run=FinishedRun(**facts(), run_s=chance.lognormvariate(6.0, 1.0), end_s=float(chance.randrange(40))),
            name=str(number),
            cluster=chance.choice(["", "here", "here", "elsewhere"]),
            source="sacct",
        )
        for number in range(3000)
    ]
    finished_runs.add(store, finished_runs.in_parts(runs))
    whole = RunTimes()
    whole.learned_all(finished_runs.load(store, "here")[0])
    for ran_s in [0.0, 500.0] * 10:
        job = JobFacts(**facts())
        in_part = learned_in_part(store, job).predict(job, ran_s=ran_s, levels=whole.levels())
        assert in_part == whole.predict(job, ran_s=ran_s)


def test_of_a_user_no_more_runs_are_read_than_count(store: Engine) -> None:
    finished_runs.add(store, finished_runs.in_parts([run(number) for number in range(1000, 4000)]))
    assert len(finished_runs.load_groups(store, "here", JobFacts(user="ada", job_name="run"))) == RUNS_OF_ALL
