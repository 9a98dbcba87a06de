"""The Poisson mix has the rate, load, shares, means and sizes that its parameters say."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from tesched_sim import workloads
from tesched_sim.workload import WorkloadError
from tesched_sim.workloads.poisson import PoissonWorkload, poisson

MANY = PoissonWorkload(jobs=40_000)


def test_submissions_come_at_the_rate_and_independently() -> None:
    made = poisson(replace(MANY, rate_per_hour=120), seed=1)
    between_s = np.diff(made.submit_s)
    # The standard error of a mean of 40,000 exponential times is half a percent of it.
    assert between_s.mean() == pytest.approx(30, rel=0.02)
    assert between_s.std() == pytest.approx(30, rel=0.04)
    # Of exponential times between two, exp(-1) are above the mean; five standard errors.
    assert (between_s > between_s.mean()).mean() == pytest.approx(exp(-1), abs=0.013)
    # Each hour's count is a Poisson number: its variance is its mean.
    counts = np.bincount((made.submit_s // 3600).astype(np.int64))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.4)


@pytest.mark.parametrize(("be_sizes", "gpus"), [("1:1", 8), ("8:1", 8), ("2:1/24:1", 8), ("1:3/4:1", 4)])
def test_what_is_offered_is_the_load_of_the_tightest_resource(be_sizes: str, gpus: int) -> None:
    made = poisson(replace(MANY, load=0.6, be_sizes=be_sizes, te_sizes="1:1", gpus=gpus), seed=1)
    node_s = made.demand * (made.nodes * made.run_s)[:, np.newaxis]
    taken = node_s.sum(axis=0) / made.machines.total.sum(axis=0)
    assert float(taken.max() / made.submit_s[-1]) == pytest.approx(0.6, rel=0.001)


def test_classes_have_their_own_shares_run_times_and_sizes() -> None:
    made = poisson(replace(MANY, te_share=0.2, te_sizes="1:1", be_sizes="4:1/8:3", run_max=1e9), seed=1)
    assert made.te.mean() == pytest.approx(0.2, abs=0.01)
    # Exponential, cut off at half a minute below: mean + exp(-cut / mean) * mean beyond the cut.
    for mine, mean_min in ((made.te, 5.0), (~made.te, 60.0)):
        expected_s = 60 * (0.5 + mean_min * exp(-0.5 / mean_min))
        assert made.run_s[mine].mean() == pytest.approx(expected_s, rel=0.06)
    assert set(made.demand[made.te, 2].tolist()) == {1}
    assert (made.demand[~made.te, 2] == 8).mean() == pytest.approx(0.75, abs=0.013)
    assert (made.demand[:, 0] == made.demand[:, 2] * 4).all()
    assert (made.demand[:, 1] == made.demand[:, 2] * 32 * 1024).all()
    assert (made.grace_s[made.te] == 0).all()
    assert (made.grace_s[~made.te] <= 20 * 60).all()


def test_lognormal_run_times_have_the_mean_and_the_spread_in_minutes() -> None:
    law = replace(MANY, run_times="lognormal", te_run_spread=5.0, be_run_spread=30.0, run_min=1e-9, run_max=1e9)
    made = poisson(law, seed=1)
    for mine, mean_min, spread_min in ((made.te, 5.0, 5.0), (~made.te, 60.0, 30.0)):
        run_min = made.run_s[mine] / 60
        assert run_min.mean() == pytest.approx(mean_min, rel=0.05)
        assert run_min.std() == pytest.approx(spread_min, rel=0.15)
        # Of a lognormal distribution the median is below the mean, by the square root of 1 + (spread / mean)².
        assert np.median(run_min) == pytest.approx(mean_min / (1 + (spread_min / mean_min) ** 2) ** 0.5, rel=0.05)


def test_a_job_of_more_gpus_than_a_node_has_gets_several_nodes() -> None:
    made = poisson(replace(MANY, jobs=200, te_share=0.0, be_sizes="3:1/12:1"), seed=1)
    assert set(zip(made.nodes.tolist(), made.demand[:, 2].tolist(), strict=True)) == {(1, 3), (2, 6)}


def test_a_time_limit_is_never_below_the_run_time_and_mostly_above() -> None:
    made = poisson(MANY, seed=1)
    assert (made.limit_s >= made.run_s).all()
    assert np.median(made.limit_s / made.run_s) > 2  # the median factor, before it is rounded up
    assert poisson(replace(MANY, limit_factor=8.0), seed=1).limit_s.mean() > made.limit_s.mean()


def test_a_seed_gives_one_workload() -> None:
    small = PoissonWorkload(jobs=100)
    first, again, other = (poisson(small, seed) for seed in (1, 1, 2))
    for column in ("submit_s", "run_s", "limit_s", "demand", "te", "grace_s"):
        assert getattr(first, column).tolist() == getattr(again, column).tolist()
        assert getattr(first, column).tolist() != getattr(other, column).tolist()


def test_every_parameter_can_be_typed() -> None:
    # As `--set` gives it, which takes a comma for another value to try.
    made = workloads.make("poisson", seed=0, jobs="50", run_times="lognormal", te_sizes="2:1.5", gpus="4", te_share="1")
    assert set(made.demand[:, 2].tolist()) == {2}
    defaults = PoissonWorkload()
    typed = {name: str(getattr(defaults, name)) for name in PoissonWorkload.__slots__}
    assert not any("," in word for word in typed.values())
    assert workloads.parameters(PoissonWorkload, typed) == defaults


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("jobs", "0", "workload.jobs must be at least 1"),
        ("jobs", "1000000000", "workload.jobs must be at most 16777216; it is 1000000000"),
        ("nodes", "65537", "workload.nodes must be at most 65536; it is 65537"),
        ("gpus", "0", "workload.gpus must be at least 1"),
        ("grace_spread", "1e9", "workload.grace_mean, workload.grace_spread, workload.grace_max: less than 1 in 1,000"),
        ("cpus", "many", "workload.cpus: must be a whole number"),
        ("load", "0", "workload.load must be above 0"),
        ("load", "nan", "workload.load must be above 0"),
        ("grace_spread", "inf", "workload.grace_spread must be a finite number, not inf"),
        ("rate_per_hour", "inf", "workload.rate_per_hour must be a finite number, not inf"),
        ("rate_per_hour", "-1", "workload.rate_per_hour must be at least 0"),
        ("te_share", "1.1", "workload.te_share must be between 0 and 1"),
        ("be_run_mean", "-3", "workload.be_run_mean must be above 0"),
        ("run_min", "0", "workload.run_min must be above 0"),
        ("run_max", "0.1", "workload.run_max must not be below workload.run_min, 0.5"),
        ("run_times", "gamma", "workload.run_times must be exponential or lognormal, not gamma"),
        ("grace_mean", "30", "workload.grace_mean must be between 0 and workload.grace_max, 20"),
        ("te_sizes", "1:6/two:2", "workload.te_sizes must be GPUS:WEIGHT/GPUS:WEIGHT, such as 1:6/2:2"),
        ("te_sizes", "", "workload.te_sizes must be GPUS:WEIGHT"),
        ("be_sizes", "0:1", "workload.be_sizes must be GPUS:WEIGHT.*it is '0:1'"),
        ("be_sizes", "1:0/2:0", "workload.be_sizes must be GPUS:WEIGHT.*a weight above 0"),
        ("be_sizes", "673:1", "workload.be_sizes: 673 GPUs are more than the cluster has, 672"),
        ("rate", "1", "workload.rate: there is no such key; there are jobs, nodes"),
    ],
)
def test_what_makes_no_sense_is_named(key: str, value: str, says: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{says}"):
        workloads.make("poisson", seed=0, **{key: value})
