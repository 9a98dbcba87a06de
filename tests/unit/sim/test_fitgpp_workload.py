"""FitGpp's synthetic workload has the means, bounds and shares that its parameters say."""

from __future__ import annotations

import re
from dataclasses import replace
from math import erf, exp, pi, sqrt
from typing import Any

import numpy as np
import pytest
from tesched_sim.workload import WorkloadError
from tesched_sim.workloads.fitgpp import FitGppWorkload, fitgpp, truncated_normal, without_times

MANY = FitGppWorkload(jobs=40_000)


def mean_of_truncated(mean: float, spread: float, least: float, most: float) -> float:
    """Return the mean of a truncated normal distribution: mean + spread (phi(a) - phi(b)) / (Phi(b) - Phi(a))."""
    a, b = (least - mean) / spread, (most - mean) / spread

    def phi(x: float) -> float:
        return exp(-x * x / 2) / sqrt(2 * pi)

    def cumulative(x: float) -> float:
        return (1 + erf(x / sqrt(2))) / 2

    return mean + spread * (phi(a) - phi(b)) / (cumulative(b) - cumulative(a))


def test_draws_have_the_mean_of_the_truncated_distribution_and_keep_the_bounds() -> None:
    drawn = truncated_normal(np.random.default_rng(1), 5, 5, (0.5, 30), 100_000, keys=())
    assert drawn.min() >= 0.5
    assert drawn.max() <= 30
    # The standard error is below 5 / sqrt(100,000) = 0.016; five of them.
    assert drawn.mean() == pytest.approx(mean_of_truncated(5, 5, 0.5, 30), abs=0.08)


#: Mean, spread and bounds. The share of the draws beyond 3.0902 spreads on one side is 1/1000.
REFUSED = [
    (5, 5, (50, 60)),
    (0, 1, (3.10, 1e9)),
    (0, 1, (-1e9, -3.10)),
    (30, 1e6, (0.5, 1440)),
    (3, 0, (4, 5)),
    (6, 0, (4, 5)),
    (3, 3, (5, 5)),
    (3, 3, (6, 5)),
]
DRAWN = [
    (0, 1, (3.08, 1e9)),
    (0, 1, (-1e9, -3.08)),
    (4.5, 0, (4, 5)),
    (4, 0, (4, 5)),
    (5, 0, (4, 5)),
    (1e9, 1e9, (0, 2e7)),
]


@pytest.mark.parametrize(("mean", "spread", "bounds"), REFUSED)
def test_bounds_that_hardly_a_draw_lies_between_are_refused_by_their_keys(
    mean: float, spread: float, bounds: tuple[float, float]
) -> None:
    drawn_from = f"a normal distribution with mean {mean:g} and spread {spread:g}"
    said = (
        f"workload.a, workload.b: less than 1 in 1,000 draws from {drawn_from} is from {bounds[0]:g} to {bounds[1]:g}"
    )
    with pytest.raises(WorkloadError, match=re.escape(said)):
        truncated_normal(np.random.default_rng(1), mean, spread, bounds, 1000, keys=("a", "b"))


@pytest.mark.parametrize(("mean", "spread", "bounds"), DRAWN)
def test_bounds_that_one_draw_of_1000_lies_between_are_drawn_from(
    mean: float, spread: float, bounds: tuple[float, float]
) -> None:
    drawn = truncated_normal(np.random.default_rng(1), mean, spread, bounds, 100, keys=())
    assert bounds[0] <= drawn.min()
    assert drawn.max() <= bounds[1]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"te_run_spread": 1e9}, "workload.te_run_mean, workload.te_run_spread, workload.te_run_max: less"),
        ({"be_run_max": 1e-9}, "workload.be_run_mean, workload.be_run_spread, workload.be_run_max: less"),
        ({"grace_max": 1e-9}, "workload.grace_mean, workload.grace_spread, workload.grace_max: less"),
        ({"gpus": 0}, "workload.gpus_mean, workload.demand_spread, workload.gpus: less"),
        ({"cpus_mean": 1e6, "demand_spread": 0.1}, "workload.cpus_mean, workload.demand_spread, workload.cpus: less"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_its_keys(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{named}"):
        without_times(FitGppWorkload(jobs=10, **keys), 1)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"mem_gib_mean": -1.0}, "workload.mem_gib_mean must be above 0"),
        ({"jobs": 10**9}, "workload.jobs must be at most 16777216; it is 1000000000"),
        ({"nodes": 10**9}, "workload.nodes must be at most 65536; it is 1000000000"),
    ],
)
def test_parameters_of_no_workload_are_refused_before_it_is_drawn(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(WorkloadError, match=f"^{named}"):
        FitGppWorkload(**keys)


def test_shares_bounds_and_units() -> None:
    made = without_times(MANY, seed=1)
    assert made.te.mean() == pytest.approx(0.3, abs=0.012)  # five standard errors
    assert made.run_s[made.te].max() <= 30 * 60
    assert made.run_s.max() <= 24 * 3600
    assert (made.run_s % 60 == 0).all()
    assert made.run_s.min() >= 60
    assert made.grace_s.max() <= 20 * 60
    assert (made.grace_s[made.te] == 0).all()
    assert (made.demand >= 1).all()
    assert (made.demand <= np.array([32, 256 * 1024, 8])).all()


def test_longer_grace_periods_are_the_same_ones_times_a_factor() -> None:
    once, often = (without_times(replace(MANY, grace_times=times), seed=1) for times in (1.0, 8.0))
    assert (often.grace_s == 8 * once.grace_s).all()


def test_another_seed_gives_other_jobs() -> None:
    first, again, other = (without_times(MANY, seed=seed) for seed in (1, 1, 2))
    assert (first.run_s == again.run_s).all()
    assert not (first.run_s == other.run_s).all()


def test_the_load_is_held() -> None:
    # What is outstanding never falls below the load while jobs are left to come, and passes it by one job at most.
    made = fitgpp(FitGppWorkload(jobs=300, nodes=4, load=2.0), seed=1)
    assert (np.diff(made.submit_s) >= 0).all()
    first = made.submit_s == 0
    capacity = made.machines.total.sum(axis=0)
    load = made.demand[first].sum(axis=0) / capacity
    assert load.max() >= 2.0
    assert (made.demand[first][:-1].sum(axis=0) / capacity).max() < 2.0


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("te_share", 1.5, "workload.te_share must be between 0 and 1"),
        ("load", 0.0, "workload.load must be above 0"),
        ("jobs", 0, "jobs and nodes must be at least 1"),
        ("grace_spread", 0.0, "workload.grace_spread must be above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(key: str, value: float, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        FitGppWorkload(**{key: value})  # type: ignore[arg-type]
