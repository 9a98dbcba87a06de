"""Estimates of unmeasured speeds."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_policies.gavel.throughput_estimate import filled

NAN = np.nan


def test_worked_example_is_reproduced() -> None:
    assert filled(np.array([[8.0, 2.0], [4.0, NAN]])) == pytest.approx(np.array([[8, 2], [4, 1]]))


def test_what_is_of_rank_1_is_found_again_from_a_part_of_it() -> None:
    whole = np.outer([1.0, 5.0, 20.0, 0.3], [8.0, 3.0, 1.0])
    seen = whole.copy()
    seen[0, 1] = seen[1, 2] = seen[2, 0] = seen[3, 1] = NAN
    assert filled(seen) == pytest.approx(whole, rel=1e-3)


def test_what_is_measured_stays_whatever_the_others_say() -> None:
    speed = np.array([[8.0, 2.0], [1.0, 9.0], [NAN, 3.0]])
    found = filled(speed)
    known = np.isfinite(speed)
    assert (found[known] == speed[known]).all()


def test_a_job_of_which_nothing_is_known_goes_at_the_types_own_pace() -> None:
    found = filled(np.array([[8.0, 2.0], [4.0, 1.0], [NAN, NAN]]))
    assert found[2, 0] / found[2, 1] == pytest.approx(4)


def test_nothing_is_known_at_all() -> None:
    assert (filled(np.full((2, 3), NAN)) == 1).all()


def test_zero_is_known_and_counts_for_no_other_pair() -> None:
    found = filled(np.array([[8.0, 0.0], [4.0, 1.0], [6.0, NAN]]))
    assert found[0, 1] == 0
    assert 0 < found[2, 1] < 6


@pytest.mark.parametrize("wrong", [-1.0, np.inf, -np.inf])
def test_a_speed_that_makes_no_sense_counts_as_unknown(wrong: float) -> None:
    assert filled(np.array([[8.0, 2.0], [4.0, wrong]]))[1, 1] == pytest.approx(1)


def test_no_jobs_have_no_estimates() -> None:
    assert filled(np.empty((0, 3))).shape == (0, 3)
