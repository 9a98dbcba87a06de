"""Outlook of a training's next losses, as people see it. Expected values are worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tesched_core.model.job_report import Curve
from tesched_policies.slaq.outlook import Outlook, outlooks, progress_of


def told(*points: tuple[float, float]) -> Curve:
    return Curve.of([(iteration, loss, 0.0, math.nan) for iteration, loss in points])


def outlook(*points: tuple[float, float], target: float | None = None) -> Outlook:
    (found,) = outlooks({"it": (told(*points), target)}).values()
    return found


def test_the_worked_example_of_the_module() -> None:
    found = outlook(*((99 + k, 1 / k + 2) for k in range(1, 51)))
    assert (found.iteration, found.ahead, found.family) == (149, 159, "sublinear")
    assert found.normalised == pytest.approx(0.02)
    assert found.predicted == pytest.approx(1 / 60 + 2)
    assert found.asymptote == pytest.approx(2)
    assert found.at(np.array([100.0, 149.0])).tolist() == pytest.approx([3, 2.02])


def test_a_training_that_reports_each_hundredth_iteration_is_predicted_ten_reports_ahead() -> None:
    found = outlook(*((100 * k, 0.5**k) for k in range(12)))
    assert (found.iteration, found.ahead, found.family) == (1100, 2100, "linear")
    assert found.predicted == pytest.approx(0.5**21, rel=1e-3)


def test_with_few_losses_the_ratio_so_far_goes_on() -> None:
    assert outlook((7, 3.0)).family == ""
    assert (outlook((7, 3.0)).normalised, outlook((7, 3.0)).predicted) == (1.0, 3.0)
    found = outlook((0, 8.0), (1, 4.0))
    # Half of it an iteration, towards 0.
    assert (found.family, found.normalised) == ("", 0.5)
    assert found.predicted == pytest.approx(4 / 1024)


def test_a_curve_does_not_go_below_the_target() -> None:
    points = [(k, 2 ** -(k / 2.0)) for k in range(12)]
    assert outlook(*points).predicted < 0.01
    assert outlook(*points, target=0.01).predicted >= 0.01


@pytest.mark.parametrize(
    "points",
    [
        [(2**53, 1.0)],
        [(k, 3.0) for k in range(20)],
        [(k, float(k)) for k in range(20)],
        [(k, 1e100 * (-1) ** k) for k in range(300)],
        [(k, -1e100 * k / 300) for k in range(300)],
        [(k * 10**12, 1e-300) for k in range(300)],
    ],
)
def test_any_report_makes_numbers(points: list[tuple[float, float]]) -> None:
    found = outlook(*points)
    assert all(map(math.isfinite, (found.loss, found.predicted, found.asymptote)))
    assert 0 <= found.normalised <= 1
    assert np.isfinite(found.at(np.array([float(points[0][0]), found.ahead]))).all()


def test_trainings_do_not_mix_and_one_that_reported_nothing_is_left_out() -> None:
    alone = outlook(*((k, 1 / (k + 1)) for k in range(30)))
    several = outlooks(
        {
            "a": (told(*((k, 1 / (k + 1)) for k in range(30))), None),
            "none": (told(), None),
            "b": (told((0, 5.0), (1, 4.0)), None),
        }
    )
    assert list(several) == ["a", "b"]
    assert several["a"].predicted == pytest.approx(alone.predicted)


def test_a_history_begins_at_iteration_one() -> None:
    found = progress_of(told((0, 5.0), (10, 4.0), (12, 3.0)))
    assert (found.iterations.tolist(), found.losses.tolist(), found.refused) == ([1, 11, 13], [5, 4, 3], 0)
    assert progress_of(told()).taken == 0
