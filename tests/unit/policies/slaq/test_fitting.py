"""Loss curves: found exactly without noise, as SciPy finds them with it, and held within their bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import curve_fit
from tesched_policies.slaq.curves import Family, Floats, flat
from tesched_policies.slaq.fitting import Fitted, Windows, fit


def window(
    loss: Callable[[Floats], Floats] | Floats, *, first: int = 1, last: int = 40, decay: float = 0.8, floor: float = 0.0
) -> Windows:
    """Return one window over these iterations."""
    at = np.arange(first, last + 1, dtype=np.float64)
    seen = loss(at) if callable(loss) else loss
    return Windows(at[None], seen[None], decay ** (2 * (last - at))[None], np.array([floor]))


def loss_at(fitted: Fitted, *iterations: float) -> list[float]:
    return [float(fitted.curves.loss(np.array([at]))[0]) for at in iterations]


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize(
    ("a", "b", "c", "d"),
    [(0, 0.083, 0.988, 0.2), (0, 0.0156, 0.825, 0.3), (0.0497, 0.112, 0.848, 0.02), (0, 1, 0, 0), (0.3, 0, 0.1, 5)],
)
def test_a_sublinear_curve_is_found_exactly(
    a: float, b: float, c: float, d: float, *, unit: float, decay: float
) -> None:
    fitted = fit(window(lambda k: unit * (1 / (a * k * k + b * k + c) + d), decay=decay), Family.SUBLINEAR)
    assert fitted.found[0]
    start = fitted.curves.moved(np.zeros(1)).shape[0] * unit
    assert start == pytest.approx([a, b, c], abs=2e-5)
    assert fitted.curves.asymptote[0] / unit == pytest.approx(d, abs=2e-5)
    assert loss_at(fitted, 50.0)[0] == pytest.approx(unit * (1 / (a * 2500 + b * 50 + c) + d), rel=1e-9)


@pytest.mark.parametrize("decay", [1.0, 0.8])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize(("mu", "b", "c"), [(0.911, 0.73, 0.03), (0.739, 0.67, 0.2), (0.99, 5, 0), (0.3, 1.1, 0.01)])
def test_a_linear_curve_is_found_exactly(mu: float, b: float, c: float, *, unit: float, decay: float) -> None:
    fitted = fit(window(lambda k: unit * (mu ** (k - b) + c), last=20, decay=decay), Family.LINEAR)
    assert fitted.found[0]
    assert np.exp(-fitted.curves.shape[0, 1]) == pytest.approx(mu, abs=1e-6)
    assert fitted.curves.asymptote[0] / unit == pytest.approx(c, abs=1e-6)
    assert loss_at(fitted, 1.0, 30.0) == pytest.approx([unit * (mu ** (k - b) + c) for k in (1, 30)], rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_left_is_no_more_than_after_scipys_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = np.arange(1.0, 41)
    curves: tuple[tuple[Family, Callable[..., Floats], Floats], ...] = (
        (Family.SUBLINEAR, lambda k, a, b, c, d: 1 / (a * k * k + b * k + c) + d, np.array([0.001, 0.08, 1.0, 0.3])),
        (Family.LINEAR, lambda k, amplitude, rate, c: amplitude * np.exp(-rate * k) + c, np.array([1.0, 0.1, 0.3])),
    )
    for family, curve, true in curves:
        seen = curve(at, *true) * (1 + 0.01 * rng.standard_normal(len(at)))
        fitted = fit(window(seen), family)
        sigma = 0.8 ** -(at[-1] - at)
        theirs, _ = curve_fit(curve, at, seen, p0=true, sigma=sigma, bounds=(0, np.inf), max_nfev=5000)
        weight = sigma**-2 / (sigma**-2).sum()
        left = np.sqrt((weight * (curve(at, *theirs) - seen) ** 2).sum())
        assert fitted.found[0]
        # The valley is shallow: ours stops when a step brings less than 1e-5 of what is left.
        assert fitted.rms[0] <= left * (1 + 1e-3)


def test_recent_losses_weigh_more() -> None:
    at = np.arange(1.0, 61)
    # It fell fast at first; from 30 on it falls slowly.
    seen = np.where(at < 30, np.exp(-0.2 * at), np.exp(-6.0) * np.exp(-0.02 * (at - 30)))
    true = np.exp(-6.0) * np.exp(-0.02 * 40)
    wrong = {
        decay: abs(loss_at(fit(window(seen, last=60, decay=decay), Family.LINEAR), 70.0)[0] - true)
        for decay in (0.8, 1.0)
    }
    assert wrong[0.8] < wrong[1.0] / 3


@pytest.mark.parametrize("family", Family)
def test_no_curve_goes_below_its_floor_or_rises(family: Family) -> None:
    # A straight line that would pass 0 after ten more iterations, and one that rises.
    falling = fit(window(lambda k: 50 - k, decay=1.0), family)
    assert falling.found[0]
    assert falling.curves.asymptote[0] >= -1e-9
    assert 0 <= loss_at(falling, 1e6)[0] < 10 <= loss_at(falling, 1.0)[0]
    rising = fit(window(lambda k: 1 + k), family)
    now, later = loss_at(rising, 40.0, 1e4)
    assert now >= later >= 0


@pytest.mark.parametrize("family", Family)
def test_a_loss_that_stays_the_same_has_a_flat_curve(family: Family) -> None:
    fitted = fit(window(lambda k: np.full_like(k, 0.7)), family)
    assert fitted.found[0]
    assert loss_at(fitted, 1.0, 1e6) == [0.7, 0.7]


def test_each_window_has_the_curve_that_it_has_alone() -> None:
    rng = np.random.default_rng(0)
    at = np.arange(1.0, 31)
    rows = [1 / (0.1 * at + c) + 0.01 * rng.random(30) for c in (0.5, 1.0, 3.0)] + [at, np.full(30, 2.0)]
    many = Windows(np.tile(at, (5, 1)), np.array(rows), np.tile(0.64 ** (30 - at), (5, 1)), np.zeros(5))
    together = fit(many, Family.SUBLINEAR)
    for row in range(5):
        alone = fit(many.take(np.array([row])), Family.SUBLINEAR)
        assert alone.curves.loss(np.array([45.0]))[0] == pytest.approx(together.curves.loss(np.full(5, 45.0))[row])


def test_a_search_may_begin_with_an_earlier_curve_of_its_family_or_another() -> None:
    earlier = fit(window(lambda k: 0.9**k + 0.1, last=20), Family.LINEAR).curves
    for start in (earlier, flat(np.array([20.0]), np.array([0.2]))):
        for family, tolerance in ((Family.LINEAR, 1e-9), (Family.SUBLINEAR, 3e-2)):
            fitted = fit(window(lambda k: 0.9**k + 0.1, last=25), family, start)
            assert fitted.found[0]
            assert loss_at(fitted, 30.0)[0] == pytest.approx(0.9**30 + 0.1, rel=tolerance)


@pytest.mark.parametrize("family", Family)
def test_a_curve_written_from_another_iteration_is_the_same(family: Family) -> None:
    curves = fit(window(lambda k: 1 / (0.1 * k + 1) + 0.3), family).curves
    moved = curves.moved(np.array([3.0]))
    for at in (1.0, 17.5, 400.0):
        assert moved.loss(np.array([at]))[0] == pytest.approx(curves.loss(np.array([at]))[0], rel=1e-9)
