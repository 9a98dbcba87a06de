"""Levels at which quantiles are read: as many runs are covered as they say, also where what is known leans away."""

from __future__ import annotations

import random
from math import log

import pytest
from tesched_predict.calibration import FEWEST_SCORES, MOST_SCORES, STRIDE, Calibration
from tesched_predict.groups import RUNS_OF_ALL
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import RunTimes


def calibrated(scores: list[float]) -> Calibration:
    calibration = Calibration()
    for score in scores:
        calibration.add(score, score)
    return calibration


def test_worked_example_is_reproduced() -> None:
    # 100 of 1,000 are above 0.96, 150 above 0.9; below that they are spread evenly.
    scores = [0.9 * place / 850 for place in range(850)] + [0.93] * 49 + [0.96] + [0.99] * 100
    low, median, high = calibrated(scores).levels((0.1, 0.5, 0.9))
    assert (round(low, 2), median, round(high, 6)) == (0.1, 0.5, 0.99)
    assert round(calibrated(scores).levels((0.899,))[0], 6) == 0.96


def test_levels_are_nominal_until_there_are_enough_scores() -> None:
    assert calibrated([0.99] * (FEWEST_SCORES - 1)).levels((0.1, 0.9)) == (0.1, 0.9)
    assert calibrated([0.99] * FEWEST_SCORES).levels((0.1, 0.9)) != (0.1, 0.9)


def test_levels_ascend_around_the_median() -> None:
    for score in (0.0, 0.3, 0.7, 1.0):
        levels = calibrated([score] * 200).levels((0.1, 0.5, 0.8, 0.9))
        assert list(levels) == sorted(levels)
        assert all(0 <= level <= 1 for level in levels)


def test_the_newest_scores_count() -> None:
    calibration = calibrated([0.99] * MOST_SCORES + [0.5] * MOST_SCORES)
    assert calibration.levels((0.9,))[0] == pytest.approx(0.5)


def test_once_there_are_enough_one_run_in_four_is_scored() -> None:
    calibration = calibrated([0.5] * MOST_SCORES)
    assert sum(calibration.is_due() for _ in range(40)) == 40 // STRIDE


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_four_runs_in_five_are_within_the_interval(drift: float) -> None:
    """Of a user whose runs get longer by a factor of e in 4,000 runs, what is known leans to short ones."""
    chance = random.Random(1)  # noqa: S311 - no secret
    run_times = RunTimes()
    inside = 0
    for number in range(4000):
        run_s = chance.lognormvariate(log(600) + drift * number / 1000, 1.0)
        run = FinishedRun(user="ada", job_name="train", run_s=run_s, end_s=number * 100.0)
        if number >= 2000:
            prediction = run_times.predict(run)
            assert prediction is not None
            inside += prediction.at(0.1) <= run_s <= prediction.at(0.9)
        run_times.learned(run)
    assert 0.78 <= inside / 2000 <= 0.82


def test_a_run_is_scored_by_what_had_ended_when_it_began() -> None:
    run_times = RunTimes()
    run_times.learned_all([FinishedRun(run_s=10.0, end_s=float(end_s)) for end_s in range(100, 100 + FEWEST_SCORES)])
    # Those that began before 100 knew nothing, and have no score.
    before = run_times.calibration.levels((0.9,))
    assert before == (0.9,)


def test_a_run_that_outlasts_all_that_is_kept_is_scored_by_what_ended_later() -> None:
    """One run in five is so long that more end meanwhile than are kept: 90 % are covered by its length alone."""
    run_times = RunTimes()
    long_s = RUNS_OF_ALL + 200.0
    run_times.learned_all([FinishedRun(run_s=1.0 if end % 5 else long_s, end_s=float(end)) for end in range(4000)])
    prediction = run_times.predict(JobFacts())
    assert prediction is not None
    assert (prediction.at(0.5), round(prediction.at(0.9))) == (1.0, long_s)


def test_of_a_long_history_the_newest_runs_are_scored() -> None:
    runs = [FinishedRun(run_s=10.0, end_s=100.0 * number) for number in range(STRIDE * MOST_SCORES + 500)]
    scored = RunTimes()
    scored.learned_all(runs)
    one_by_one = RunTimes()
    for run in runs[500:]:
        one_by_one.learned(run)
    levels = (0.1, 0.8, 0.9)
    assert scored.calibration.levels(levels) == one_by_one.calibration.levels(levels)
