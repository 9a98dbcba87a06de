"""What the store gives a page to draw, with numbers that were counted by hand."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.snapshot import JobClass
from tesched_db import timeline as lines
from tesched_db.timeline import timeline
from tesched_testcluster.harness.store_examples import Writer, job, order, refusal, remembering, victim

RUNS, DONE = JobState.RUNNING, JobState.COMPLETED


def test_runs_that_reach_into_the_time_are_given_with_those_before_and_others_are_not(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(1, RUNS, start_time=90.0), job(2, RUNS, start_time=95.0), job(3))
    writer.look(200.0, job(1, DONE, start_time=90.0, end_time=190.0), job(2, RUNS, start_time=95.0), job(3))
    writer.look(300.0, job(2, RUNS, start_time=95.0), job(3, restarts=1))
    found = timeline(store, 250.0, ended_since=0.0)
    assert [(one.label, one.waits, len(one.runs)) for one in found.jobs] == [("2", False, 1)]
    found = timeline(store, 150.0, ended_since=0.0)
    assert [(one.label, one.runs[-1].end) for one in found.jobs] == [("1", 190.0), ("2", None)]
    assert not found.cut


def test_the_run_of_a_job_that_slurm_has_forgotten_ends_when_it_was_last_seen(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(1, RUNS, start_time=90.0), job(2, RUNS, start_time=95.0))
    writer.look(200.0, job(2, RUNS, start_time=95.0))
    found = timeline(store, 50.0, ended_since=0.0)
    assert [(one.label, one.runs[-1].end) for one in found.jobs] == [("1", 100.0), ("2", None)]


def test_runs_that_ended_before_the_time_are_not_given_though_the_job_was_cancelled_in_it(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(1, RUNS, start_time=90.0))
    writer.look(200.0, job(1, restarts=1))
    writer.look(300.0, job(1, JobState.CANCELLED, restarts=1, end_time=290.0))
    assert len(timeline(store, 150.0, ended_since=0.0).jobs) == 1
    assert timeline(store, 250.0, ended_since=0.0).jobs == ()


def test_a_te_job_that_waits_is_given_and_a_be_job_that_waits_is_not(store: Engine) -> None:
    Writer(store).look(100.0, job(1), job(2), te=[1])
    found = timeline(store, 0.0, ended_since=0.0)
    assert [(one.label, one.job_class, one.waits) for one in found.jobs] == [("1", JobClass.TE, True)]


def test_waiting_te_jobs_are_given_the_longest_wait_first_with_the_reason_that_stands(store: Engine) -> None:
    writer = Writer(store)
    jobs = [job(1, submit_time=50.0, reason="Priority"), job(2, submit_time=20.0), job(3, submit_time=1.0)]
    writer.look(100.0, *jobs, te=[1, 2], refusals=(refusal(2, 2, RefusalCode.NOTE, text="then"),))
    writer.look(
        110.0,
        *jobs,
        te=[1, 2],
        refusals=(
            refusal(2, 2, RefusalCode.BOUND, text="now"),
            refusal(3, 1, RefusalCode.BOUND, text="of a candidate"),
        ),
    )
    found = timeline(store, 0.0, ended_since=0.0)
    assert [(one.label, one.why) for one in found.waiting] == [("2", "now"), ("1", "")]
    assert found.waiting[1].reason == "Priority"
    assert found.waiting_count == 2


def test_orders_of_that_time_and_those_under_way_are_given_but_none_of_mode_shadow(store: Engine) -> None:
    ended: dict[str, Any] = {"state": OrderState.ENDED, "created_at": 100.0}
    memory = remembering(
        order(1, 7, victim(3), ending=Ending.STARTED_HERE, ended_at=150.0, **ended),
        order(2, 7, victim(3), ending=Ending.STARTED_HERE, ended_at=250.0, **ended),
        order(3, 7, victim(3), ending=Ending.SHADOW, ended_at=250.0, **ended),
        order(4, 7, victim(3), created_at=100.0),
    )
    Writer(store).look(300.0, job(3), job(7), te=[7], memory=memory)
    assert [view.order.order_id for view in timeline(store, 200.0, ended_since=0.0).orders] == [2, 4]


def test_jobs_that_ended_are_given_with_their_waits_and_slowdowns(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(1, submit_time=100.0), job(2, submit_time=100.0))
    ends: dict[str, Any] = {"submit_time": 100.0, "start_time": 110.0}
    writer.look(150.0, job(1, RUNS, **ends), job(2, RUNS, **ends))
    writer.look(300.0, job(1, DONE, **ends, end_time=130.0), job(2, DONE, **ends, end_time=290.0))
    assert [(one.label, one.waited_s) for one in timeline(store, 0.0, ended_since=200.0).ended] == [("2", 10.0)]
    both = timeline(store, 0.0, ended_since=0.0).ended
    # 10 s of waiting, and 20 s or 180 s of a run.
    assert [(one.label, one.slowdown) for one in both] == [("1", 1.5), ("2", pytest.approx(1 + 10 / 180))]


def test_of_more_jobs_than_a_read_takes_the_newest_are_given_and_it_is_said(
    store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_JOBS", 2)
    Writer(store).look(100.0, *(job(number, RUNS, start_time=90.0) for number in range(1, 5)))
    found = timeline(store, 0.0, ended_since=0.0)
    assert [one.label for one in found.jobs] == ["3", "4"]
    assert found.cut


def test_running_jobs_are_given_however_many_newer_ones_wait_or_have_ended(
    store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MOST_JOBS", 4)
    monkeypatch.setattr(lines, "MOST_WAITING", 2)
    running = job(1, RUNS, start_time=90.0)
    waiting = [job(number, submit_time=100.0 - number) for number in range(2, 12)]
    writer = Writer(store)
    writer.look(100.0, running, *waiting, te=range(2, 12))
    found = timeline(store, 0.0, ended_since=0.0)
    assert {one.label for one in found.jobs} == {"1", "10", "11"}, "of those that wait the longest waits"
    assert not found.cut
    short = [job(number, RUNS, start_time=150.0, submit_time=150.0) for number in range(20, 30)]
    writer.look(200.0, running, *short)
    writer.look(300.0, running)
    found = timeline(store, 0.0, ended_since=0.0)
    assert {one.label for one in found.jobs} == {"1", "27", "28", "29"}
    assert found.cut
