"""Quantiles of run times, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tesched_predict.groups import Likeness
from tesched_predict.quantiles import RunTimes

from tests.unit.predict.examples import job, run, taught


def test_nothing_learned_predicts_nothing() -> None:
    assert RunTimes().predict(job()) is None


def test_a_run_of_which_nothing_is_known_teaches_all_jobs_alone() -> None:
    bare: dict[str, Any] = {"user": "", "account": "", "partition": "", "job_name": "", "gpus": 0, "cpus": 0}
    found = taught([run(60.0, **bare)]).predict(job())
    assert found is not None
    assert found.likeness is Likeness.ALL


def test_the_parent_counts_for_five_runs() -> None:
    # bob's one run has 1/6, the six of all 5/6 (one of them is that one): F(60) = 1/6 + 5/36 = 0.31.
    others: dict[str, Any] = {"account": "", "partition": "", "job_name": ""}
    runs = [run(600.0, user=f"u{number}", **others) for number in range(5)] + [run(60.0, user="bob", **others)]
    found = taught(runs).predict(job(user="bob", job_name="new", account="", partition=""))
    assert found is not None
    assert found.quantiles_s == pytest.approx((60.0, 600.0, 600.0, 600.0))


def test_many_runs_of_its_own_outweigh_all_others() -> None:
    strangers = [run(1e5, user=f"u{number}", account="x", job_name="long") for number in range(50)]
    own = [run(60.0 * (number + 1)) for number in range(60)]
    found = taught(strangers + own).predict(job(job_name="train_99"))
    assert found is not None
    assert (found.likeness, found.runs) == (Likeness.SAME_SHAPE, 60)
    assert 0.9 * 1800 < found.at(0.5) < 1.1 * 1800


def test_a_time_limit_bounds_a_prediction() -> None:
    found = taught([run(600.0, end_s=1.0, time_limit_s=None)] * 20).predict(job(time_limit_s=300.0))
    assert found is not None
    assert found.quantiles_s == (300.0,) * 4


def test_a_time_limit_of_zero_is_none() -> None:
    # `scontrol update JobId=7 TimeLimit=0` of a job's user.
    run_times = taught([run(600.0, time_limit_s=None)] * 20)
    for ran_s in (0.0, 10.0):
        assert run_times.predict(job(time_limit_s=0.0), ran_s=ran_s) == run_times.predict(job(), ran_s=ran_s)


def test_jobs_share_a_key_where_the_same_is_predicted() -> None:
    run_times = taught([run(600.0, time_limit_s=None)] * 20)
    assert run_times.shared_key(job()) == run_times.shared_key(job(job_name="train_18"))
    assert run_times.shared_key(job(job_name="new")) == run_times.shared_key(job(job_name="newer"))
    others = [job(), job(job_name="new"), job(user="bob"), job(account="x"), job(time_limit_s=60.0)]
    assert len({run_times.shared_key(one) for one in others}) == len(others)


def test_a_running_job_is_predicted_by_the_runs_that_were_longer() -> None:
    found = taught([run(float(100 * number)) for number in range(1, 11)]).predict(job(), ran_s=500.0)
    assert found is not None
    assert found.quantiles_s == pytest.approx((600.0, 800.0, 900.0, 1000.0))
    assert found.runs == 5
    assert found.shorter == pytest.approx(0.6)


def test_a_job_that_outlived_all_runs_may_run_as_long_again() -> None:
    found = taught([run(60.0)] * 10).predict(job(), ran_s=100.0)
    assert found is not None
    assert found.quantiles_s == pytest.approx((100 / 0.9, 200.0, 500.0, 1000.0))
    assert found.explained == "expected 8 min (it has run 2 min, longer than all jobs like it)"


def test_the_newest_runs_are_kept() -> None:
    old = [run(10.0, end_s=float(number)) for number in range(8)]
    new = [run(500.0, end_s=100.0 + number) for number in range(8)]
    found = taught(new + old, runs_per_group=8).predict(job())
    assert found is not None
    assert found.quantiles_s == pytest.approx((500.0,) * 4)


def test_the_groups_are_bounded_and_the_newest_are_kept() -> None:
    runs = [run(60.0, end_s=float(number), user=f"u{number}") for number in range(1000)]
    run_times = taught(runs, groups=100)
    assert all(len(groups) <= 101 for groups in run_times.groups._groups.values())
    newest, oldest = run_times.predict(job(user="u999")), run_times.predict(job(user="u0"))
    assert newest is not None
    assert oldest is not None
    assert newest.runs == 64  # of all: its one run weighs 1 / 6
    assert next(likeness for likeness, _ in run_times.groups.of(job(user="u999"))) is Likeness.SAME_SHAPE
    assert next(likeness for likeness, _ in run_times.groups.of(job(user="u0"))) is Likeness.SAME_PARTITION


def test_the_sentence_counts_the_runs_that_were_shorter() -> None:
    # 31 runs of 1 to 31 min: the 80 % quantile is the 25th, and 24 of 31 were shorter.
    found = taught([run(60.0 * minutes) for minutes in range(1, 32)]).predict(job())
    assert found is not None
    assert found.explained == "expected 25 min (77 % of 31 jobs like it ran less)"
    later = taught([run(60.0 * minutes) for minutes in range(1, 32)]).predict(job(), ran_s=1800.0)
    assert later is not None
    assert later.explained == "expected 31 min (0 % of 1 job like it that ran longer than 30 min ran less)"
