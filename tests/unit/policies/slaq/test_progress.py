"""Progress kept from a job's reports, and the reports that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_policies.slaq.progress import KEPT, Progress

from tests.unit.policies.slaq.examples import progress


def after(*reports: tuple[float, float, float]) -> Progress:
    """Return the history after these reports, which came together."""
    return Progress().with_reports(*np.array(reports, dtype=np.float64).T)


def test_the_cost_is_the_mean_over_all_iterations_but_the_first() -> None:
    # The first iteration took 50 core-seconds, as it read the data; the others 10.
    assert after((1, 0.9, 50), (2, 0.8, 60), (5, 0.7, 90)).cost_core_s == 10


@pytest.mark.parametrize("reports", [(), ((1, 0.9, 50),), ((1, 0.9, 50), (2, 0.8, 50))])
def test_the_cost_is_unknown_before_a_second_iteration_has_cost_time(
    reports: tuple[tuple[float, ...], ...],
) -> None:
    columns = np.array(reports, dtype=np.float64).reshape(len(reports), 3).T
    assert Progress().with_reports(*columns).cost_core_s is None


def test_the_largest_drop_is_per_iteration_and_never_falls() -> None:
    # 0.4 in four iterations, 0.2 in one, 0.1 in one, and a rise.
    assert after((1, 1.0, 1), (5, 0.6, 5), (6, 0.4, 6), (7, 0.3, 7), (8, 0.9, 8)).largest_drop == pytest.approx(0.2)


def test_reports_in_one_piece_or_many_make_the_same_history() -> None:
    rng = np.random.default_rng(0)
    at, loss = np.arange(1.0, 351), rng.random(350)
    whole = Progress().with_reports(at, loss, 2 * at)
    pieces = Progress()
    for piece in np.split(np.arange(350), [1, 2, 7, 7, 250]):
        pieces = pieces.with_reports(at[piece], loss[piece], 2 * at[piece])
    for name in ("taken", "refused", "first_loss", "lowest", "largest_drop", "iteration", "cost_core_s"):
        assert getattr(pieces, name) == getattr(whole, name), name
    assert np.array_equal(pieces.losses, whole.losses)
    assert np.array_equal(pieces.losses, loss[-KEPT:])


def test_an_endless_history_takes_bounded_space() -> None:
    history = progress([1.0])
    for start in range(1, 10**6, 10**5):
        at = np.arange(start + 1.0, start + 10**5 + 1)
        history = history.with_reports(at, 1 / at, at)
    assert history.taken == 1 + 10**6
    assert len(history.losses) == len(history.iterations) == KEPT


@pytest.mark.parametrize(
    "bad",
    [
        (np.nan, 0.5, 3),
        (3, np.nan, 3),
        (3, np.inf, 3),
        (3, -np.inf, 3),
        (3, 0.5, np.nan),
        (3, 1e300, 3),
        (1e300, 0.5, 3),
        (2, 0.5, 3),
        (1, 0.5, 3),
        (0, 0.5, 3),
        (2.0**54, 0.5, 3),
        (-4, 0.5, 3),
        (3, 0.5, 1.5),
    ],
)
def test_a_report_that_cannot_be_true_is_refused_and_changes_nothing(bad: tuple[float, float, float]) -> None:
    good = ((1.0, 0.9, 1.0), (2.0, 0.8, 2.0))
    seen = after(*good, bad, (4, 0.4, 4))
    assert (seen.taken, seen.refused) == (3, 1)
    without = after(*good, (4, 0.4, 4))
    for name in ("first_loss", "lowest", "largest_drop", "iteration", "cost_core_s"):
        assert getattr(seen, name) == getattr(without, name), name
    assert np.array_equal(seen.losses, without.losses)
