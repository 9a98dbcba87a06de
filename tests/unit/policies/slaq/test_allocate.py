"""The number of cores of each job."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_policies.slaq.allocate import AllocationSettings, Objective, allocate, fair
from tesched_policies.slaq.curves import Family, Floats
from tesched_policies.slaq.forecast import ForecastJob, KeptCurves, forecast

from tests.unit.policies.slaq.examples import ahead, columns, expected, progress, training

#: amplitude, rate an iteration
FAST, SLOW, DONE = ((Family.LINEAR, (1.0, rate, 0.0)) for rate in (0.6931471805599453, 0.01, 0.0))


def shared(*args: object, cores: int, shares: AllocationSettings | None = None, **more: object) -> list[int]:
    found: list[int] = allocate(columns(*args, **more), cores, shares or AllocationSettings(epoch_s=1.0)).tolist()  # type: ignore[arg-type]
    return found


def test_the_next_core_goes_to_the_job_that_gains_most() -> None:
    # Job 0 gains 1/2, 3/4, 7/8 ... on 1, 2, 3 cores, job 1 about 0.01 a core: the seventh core brings job 0 less.
    assert shared([FAST, SLOW], cores=12) == [6, 6]


def test_a_job_that_has_converged_keeps_the_least() -> None:
    assert shared([DONE, FAST, DONE], cores=8) == [1, 6, 1]
    assert shared([DONE, FAST, DONE], cores=12, shares=AllocationSettings(epoch_s=1.0, least=3)) == [3, 6, 3]


def test_gains_are_counted_in_each_jobs_own_largest_drop() -> None:
    # The same curve in another unit is the same job.
    big = (Family.LINEAR, (1000.0, 0.1, 0.0))
    small = (Family.LINEAR, (1.0, 0.1, 0.0))
    assert shared([big, small], cores=20, largest_drop=[100.0, 0.1]) == [10, 10]
    assert shared([big, small], cores=20, largest_drop=[100.0, 1.0]) == [19, 1]


def test_iterations_are_fractions_so_a_slow_job_is_not_stalled() -> None:
    # On no number of these cores does job 1 end an iteration in the epoch.
    first, second = shared([DONE, FAST], cores=10, cost_core_s=[1.0, 100.0])
    assert (first, second) == (1, 9)


def test_a_job_of_which_too_little_is_known_has_its_fair_share() -> None:
    assert shared([FAST, SLOW, SLOW, SLOW], cores=42, known=[True, True, False, True])[2] == 10


def test_where_nothing_is_known_all_are_equal() -> None:
    assert shared([FAST, SLOW, SLOW], cores=11, known=[False] * 3) == [4, 4, 3]


def test_all_are_equal_where_no_job_gains() -> None:
    assert shared([DONE] * 3, cores=11) == [4, 4, 3]
    assert shared([FAST] * 3, cores=11, largest_drop=[0.0] * 3) == [4, 4, 3]


def test_cores_that_are_fewer_than_jobs_go_round_in_order() -> None:
    assert shared([SLOW, DONE, FAST], cores=2) == [1, 1, 0]
    assert shared([SLOW, DONE, FAST], cores=7, shares=AllocationSettings(epoch_s=1.0, least=3)) == [3, 3, 1]


def test_no_job_gets_more_than_it_can_use() -> None:
    forecasts = columns([FAST, SLOW, SLOW], known=[True, True, False])
    assert allocate(forecasts, 30, AllocationSettings(epoch_s=1.0), np.array([4, 100, 5])).tolist() == [4, 21, 5]
    assert allocate(forecasts, 30, AllocationSettings(epoch_s=1.0), np.array([4, 5, 6])).tolist() == [4, 5, 6]
    assert fair(3, 30, np.array([4, 100, 5])).tolist() == [4, 21, 5]


def test_a_curve_that_falls_slowly_at_first_is_credited_with_what_it_comes_to() -> None:
    # 1 / (n^2 + 4): one core brings 0.05, two 0.125, so 0.0625 each; then less. Beside it is a line of 0.055 a core.
    bend = (Family.SUBLINEAR, (1.0, 0.0, 4.0))
    line = (Family.LINEAR, (0.055e6, 1e-6, 0.0))
    assert shared([bend, line], cores=2, shares=AllocationSettings(epoch_s=1.0, least=0)) == [2, 0]
    assert shared([bend, line], cores=4, shares=AllocationSettings(epoch_s=1.0, least=0)) == [2, 2]


def test_max_min_helps_the_job_with_most_left() -> None:
    curves = [(Family.LINEAR, (0.9, 0.1, 0.0)), (Family.LINEAR, (0.1, 0.1, 0.0))]
    shares = AllocationSettings(epoch_s=1.0, objective=Objective.MAX_MIN)
    # 0.9 exp(-0.1 a) is below 0.1 exp(-0.1) after 23 cores.
    assert shared(curves, cores=10, shares=shares, remaining=[0.9, 0.1]) == [9, 1]
    assert shared(curves, cores=50, shares=shares, remaining=[0.9, 0.1]) == [36, 14]


def test_no_trainings_get_no_cores() -> None:
    assert shared([], cores=10) == []
    assert fair(0, 10).tolist() == []


@pytest.mark.parametrize("change", [{"epoch_s": 0.0}, {"epoch_s": float("nan")}, {"least": -1}])
def test_shares_that_make_no_sense_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"epoch|least"):
        AllocationSettings(**change)  # type: ignore[arg-type]


FORGED = {
    "nan": [float("nan")] * 50,
    "inf": [1.0, float("inf"), -float("inf")] * 10,
    "huge": [1e99 * (-1) ** k for k in range(40)],
    "constant": [0.7] * 50,
    "rising": list(np.linspace(1, 9, 50)),
    "one huge drop": [1e90, *np.linspace(1, 0.5, 50)],
    "tiny": [1e-300 * 0.9**k for k in range(50)],
    "negative": [-1e50 * 1.1**k for k in range(50)],
    "alternating": [float(k % 2) for k in range(50)],
}


@pytest.mark.parametrize("name", FORGED)
def test_what_a_job_forges_changes_nothing_in_what_is_expected_of_others(name: str) -> None:
    honest = [training((1 / (0.05 * np.arange(1.0, 41) + 1)).tolist()), training((0.9 ** np.arange(1.0, 41)).tolist())]
    alone = expected(*honest)
    beside = expected(*honest, training(FORGED[name]))
    for by in (0, 10, 1000):
        assert ahead(beside, by)[:2] == pytest.approx(ahead(alone, by), rel=1e-9)
    given = allocate(beside, 60)
    assert given.sum() == 60
    # No job is under the least, and two like jobs beside it still share as they would without it.
    assert given.min() >= 1
    rest = 60 - int(given[2])
    assert given[:2].tolist() == allocate(alone, rest).tolist()


@pytest.mark.parametrize("name", ["nan", "inf", "constant", "rising", "one huge drop", "alternating"])
def test_a_forger_gets_no_more_than_its_fair_share(name: str) -> None:
    honest = [training((1 / (0.05 * np.arange(1.0, 41) + 1)).tolist()) for _ in range(3)]
    assert allocate(expected(*honest, training(FORGED[name])), 60)[3] <= 15


@pytest.mark.parametrize(
    "at",
    [
        np.array([*range(1, 20), 2.0**53]),
        np.array([1, *(2.0**50 + np.arange(20))]),
        1 + np.arange(20) * 1e-9,
        2.0 ** np.arange(50),
    ],
)
@pytest.mark.parametrize("objective", Objective)
def test_iterations_that_leap_or_crawl_hold_no_other_up(at: Floats, objective: Objective) -> None:
    honest = training((1 / (0.05 * np.arange(1.0, 41) + 1)).tolist())
    losses = 1 / np.arange(1.0, len(at) + 1)
    for core_s in (np.arange(1.0, len(at) + 1), 1e-9 * np.arange(1.0, len(at) + 1)):
        forged = ForecastJob(progress=progress([]).with_reports(at, losses, core_s))
        assert forged.progress.taken == len(at)
        given = allocate(expected(honest, forged, honest), 60, AllocationSettings(objective=objective))
        assert given.sum() == 60
        assert abs(given[0] - given[2]) <= 1


def test_reports_out_of_order_are_as_good_as_none() -> None:
    at = np.arange(50.0, 0, -1)
    backwards = ForecastJob(progress=progress([]).with_reports(at, 1 / at, at))
    found, _ = forecast({"job": backwards}, KeptCurves())
    assert not found.known[0]
    assert backwards.progress.refused == 49
