"""Forecast of a job: its curve, what stands in for it, and when it is made again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_policies.slaq import forecast as module
from tesched_policies.slaq.curves import Curves, Family
from tesched_policies.slaq.fitting import Fitted, Windows, fit
from tesched_policies.slaq.forecast import Fits, ForecastJob, KeptCurves, forecast

from tests.unit.policies.slaq.examples import ahead, expected, progress, training

K = np.arange(1.0, 61)
SUBLINEAR = (1 / (0.08 * K + 1) + 0.3).tolist()
LINEAR = (0.9**K + 0.2).tolist()


def test_a_known_curve_is_continued() -> None:
    found = ahead(expected(training(SUBLINEAR, Family.SUBLINEAR), training(LINEAR, Family.LINEAR)), 10)
    assert found == pytest.approx([1 / (0.08 * 70 + 1) + 0.3, 0.9**70 + 0.2], rel=1e-7)


def test_where_no_family_is_known_the_one_that_fits_is_taken() -> None:
    found = expected(training(SUBLINEAR), training(LINEAR))
    assert found.curves.family.tolist() == [Family.SUBLINEAR, Family.LINEAR]
    assert ahead(found, 10) == pytest.approx([1 / (0.08 * 70 + 1) + 0.3, 0.9**70 + 0.2], rel=1e-7)


def test_a_history_that_began_late_and_has_gaps_is_continued() -> None:
    at = np.array([31, 34, 35, 40, 47, 48, 60, 61, 77, 80], dtype=np.float64)
    late = replace(training(LINEAR, Family.LINEAR), progress=progress([]).with_reports(at, 0.9**at + 0.2, 3 * at))
    assert ahead(expected(late), 20) == pytest.approx([0.9**100 + 0.2], rel=1e-7)
    assert expected(late).cost_core_s.tolist() == [3.0]


def test_nothing_is_known_before_two_losses() -> None:
    assert expected(training([]), training([0.7]), training([0.7, 0.6])).known.tolist() == [False, False, True]


def test_two_to_four_losses_go_on_by_their_mean_ratio() -> None:
    # 0.8 to 0.2 in two iterations: half an iteration.
    assert ahead(expected(training([0.8, 0.7, 0.2])), 2) == pytest.approx([0.05])


def test_the_authors_rule_is_the_last_ratio() -> None:
    found = expected(training([0.8, 0.8, 0.8, 0.8, 0.8, 0.4]), fits=Fits(curves=False))
    assert ahead(found, 3) == pytest.approx([0.05])


def test_losses_that_rise_or_stay_let_expect_nothing() -> None:
    stays = expected(training([0.5] * 20), training([0.5, 0.6]), training(list(np.linspace(1, 2, 30))))
    assert ahead(stays, 1e6) == pytest.approx(ahead(stays, 0))


def test_losses_below_zero_may_fall_again_as_much_as_they_have_and_no_more() -> None:
    # From 4 to -6, straight down: towards -16, never beyond.
    far = ahead(expected(training(list(np.linspace(4, -6, 41)))), 1e6)[0]
    assert -16 - 1e-6 <= far < -6


def test_a_curve_is_kept_until_a_twentieth_of_the_losses_is_new() -> None:
    losses = (1 / (0.05 * np.arange(1.0, 131) + 1)).tolist()
    made = []
    memory: KeptCurves[str] = KeptCurves()
    for count in range(100, 113):
        found, memory = forecast({"job": training(losses[:count])}, memory)
        made += [count] if found.fresh[0] else []
    assert made == [100, 105, 110]


def test_a_kept_curve_is_written_from_where_the_job_is_now() -> None:
    losses = (1 / (0.05 * np.arange(1.0, 131) + 1)).tolist()
    _, memory = forecast({"job": training(losses[:100])}, KeptCurves())
    found, _ = forecast({"job": training(losses[:103])}, memory)
    assert not found.fresh[0]
    assert found.iteration.tolist() == [103]
    assert found.curves.loss(np.array([130.0]))[0] == pytest.approx(losses[-1])


def test_a_job_that_is_gone_is_forgotten_and_another_job_of_that_name_starts_anew() -> None:
    _, memory = forecast({"a": training(SUBLINEAR), "b": training(LINEAR)}, KeptCurves())
    _, memory = forecast({"a": training(SUBLINEAR)}, memory)
    assert set(memory.kept) == {"a"}
    found, _ = forecast({"a": training(LINEAR[:10], Family.LINEAR)}, memory)
    assert found.fresh.tolist() == [True]
    assert ahead(found, 10) == pytest.approx([0.9**20 + 0.2], rel=1e-6)


@pytest.mark.parametrize(
    ("failures", "decays", "points"),
    [(0, [0.8], 80), (1, [0.8, 0.8], 80), (2, [0.8, 0.8, 1.0], 50), (3, [0.8, 0.8, 1.0, 1.0], 100)],
)
def test_a_fit_that_fails_is_tried_again_with_less_trust_in_the_last_points(
    monkeypatch: pytest.MonkeyPatch, failures: int, decays: list[float], points: int
) -> None:
    calls: list[tuple[float, int]] = []

    def failing(windows: Windows, family: Family, start: Curves | None = None) -> Fitted:
        weight = windows.weight[0][windows.weight[0] > 0]
        calls.append((round(float(np.sqrt(weight[-2])), 6), len(weight)))
        done = fit(windows, family, start)
        return replace(done, found=done.found & (len(calls) > failures))

    monkeypatch.setattr(module, "fit", failing)
    losses = (1 / (0.05 * np.arange(1.0, 151) + 1)).tolist()
    found = expected(training(losses, Family.SUBLINEAR), fits=Fits(window=50))
    assert [decay for decay, _ in calls] == decays
    assert calls[-1][1] == min(points, 47 if decays[-1] < 1 else points)
    assert found.fresh[0]


def test_where_every_fit_fails_the_ratio_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def hopeless(windows: Windows, family: Family, start: Curves | None = None) -> Fitted:
        done = fit(windows, family, start)
        return replace(done, found=np.zeros_like(done.found))

    monkeypatch.setattr(module, "fit", hopeless)
    halving = [2.0**-k for k in range(10)]
    found = expected(training(halving))
    assert not found.fresh[0]
    assert found.known[0]
    assert ahead(found, 3) == pytest.approx([2.0**-12])


def test_a_second_try_begins_with_the_mean_of_earlier_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    memory: KeptCurves[str] = KeptCurves()
    for rate in (0.1, 0.3):
        losses = np.exp(-rate * np.arange(1.0, 31)).tolist()
        # Two jobs one after the other under one name would start anew; so the second has more losses.
        _, memory = forecast({"job": training(losses[: 20 if rate == 0.1 else 30], Family.LINEAR)}, memory)
    starts: list[float] = []

    def failing(windows: Windows, family: Family, start: Curves | None = None) -> Fitted:
        starts.append(float("nan") if start is None else float(start.shape[0, 1]))
        done = fit(windows, family, start)
        return replace(done, found=done.found & (len(starts) > 1))

    monkeypatch.setattr(module, "fit", failing)
    forecast({"job": training(np.exp(-0.3 * np.arange(1.0, 41)).tolist(), Family.LINEAR)}, memory)
    assert starts == pytest.approx([0.3, 0.2], rel=1e-6)


def test_a_job_on_a_plateau_with_a_target_is_not_given_up() -> None:
    # From 2 to 1 in ten iterations, then hardly anything; its user knows that 0.5 can be reached.
    plateau = [*np.linspace(2, 1, 11), *np.linspace(0.9999, 0.999, 30)]
    without, with_target = expected(training(plateau), training(plateau, target=0.5)).curves.above(
        np.full((2, 2), 41.0)
    )
    assert without[0] < 0.01
    assert with_target[0] == pytest.approx(0.499)
    # (0.999 - 0.5) / (2 - 0.5) after 40 iterations, so that to the power 1/40 after one.
    assert ahead(expected(training(plateau, target=0.5)), 40)[0] == pytest.approx(0.5 + 0.499**2 / 1.5, rel=1e-6)


def test_a_job_that_has_reached_its_target_gains_nothing_more() -> None:
    found = expected(training(LINEAR[:20], target=0.35), training(LINEAR[:20], target=0.25))
    reached, not_yet = (found.curves.loss(found.iteration) - found.curves.loss(found.iteration + 1000)).tolist()
    assert reached == 0
    assert not_yet == pytest.approx(LINEAR[19] - 0.25, abs=1e-3)


def test_a_good_curve_is_kept_beside_a_target_that_it_will_reach() -> None:
    # By the mean ratio so far it would be 0.43.
    found = ahead(expected(training(SUBLINEAR, Family.SUBLINEAR, target=0.3)), 10)
    assert found == pytest.approx([1 / (0.08 * 70 + 1) + 0.3], rel=1e-6)


@pytest.mark.parametrize("change", [{"window": 4}, {"window": 101}, {"decay": 0.0}, {"decay": 1.1}])
def test_fits_that_make_no_sense_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        Fits(**change)  # type: ignore[arg-type]


def test_no_trainings_have_no_forecast() -> None:
    found, memory = forecast(dict[str, ForecastJob](), KeptCurves())
    assert len(found.curves) == 0
    assert not memory.kept
