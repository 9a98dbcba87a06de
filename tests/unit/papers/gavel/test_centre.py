"""The middle of all optima: it is optimal, it is ECOS's, and it is found where a simplex method has it easy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from tesched_papers.gavel.centre import centre

Values = list[list[float]]


def level(gain: np.ndarray, size: np.ndarray, capacity: np.ndarray) -> float:
    """Return the optimum by HiGHS."""
    jobs, types = gain.shape
    rows = np.zeros((2 * jobs + types, gain.size + 1))
    for job in range(jobs):
        mine = slice(types * job, types * (job + 1))
        rows[job, mine], rows[job, -1], rows[jobs + job, mine] = -gain[job], 1.0, 1.0
    for kind in range(types):
        rows[2 * jobs + kind, kind:-1:types] = size
    bounds = np.concatenate([np.zeros(jobs), np.ones(jobs), capacity])
    aim = np.append(np.zeros(gain.size), -1.0)
    found = linprog(aim, A_ub=rows, b_ub=bounds, bounds=[(0, None)] * gain.size + [(None, None)])
    return -float(found.fun)


@pytest.mark.parametrize(
    ("gain", "size", "capacity", "ecos"),
    [
        (
            [[2, 1, 0.5], [3, 1, 1]],
            [1, 1],
            [1, 1, 1],
            [[0.666667, 0.333333, 0.0], [0.333333, 0.288572, 0.378095]],
        ),
        (
            [[4, 2, 1], [3, 2, 1], [8, 2, 0], [1, 1, 1]],
            [1, 2, 1, 4],
            [2, 2, 4],
            [
                [0.185656, 0.218472, 0.294102],
                [0.216644, 0.215896, 0.276977],
                [0.156748, 0.222425, 0.294031],
                [0.214326, 0.198498, 0.587175],
            ],
        ),
    ],
)
def test_it_is_where_ecos_ends(gain: Values, size: list[int], capacity: list[int], ecos: Values) -> None:
    """The values are ECOS 2.0.14's for the same program."""
    found = centre(np.array(gain, dtype=np.float64), np.array(size), np.array(capacity))
    assert found == pytest.approx(np.array(ecos), abs=2e-5)


def random_program(rng: np.random.Generator, jobs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return gains, some of them 0 or the same for all, and sizes."""
    gain = rng.lognormal(0, 1, (jobs, 3))
    if rng.random() < 0.3:
        gain = np.ones_like(gain)
    gain[:, 1:] *= rng.random((jobs, 2)) > 0.1
    return gain, rng.choice([1, 2, 4, 8], jobs, p=[0.7, 0.1, 0.15, 0.05])


@pytest.mark.parametrize("jobs", [1, 2, 12, 35, 60, 400])
@pytest.mark.parametrize("seed", range(5))
def test_no_job_can_be_better_off_and_everything_fits(jobs: int, seed: int) -> None:
    rng, capacity = np.random.default_rng(seed), np.array([12, 12, 12])
    gain, size = random_program(rng, jobs)
    found = centre(gain, size, capacity)
    assert (gain * found).sum(axis=1).min() == pytest.approx(level(gain, size, capacity), rel=1e-5)
    assert found.min() >= 0
    assert found.sum(axis=1).max() <= 1 + 1e-6
    assert (size @ found <= capacity + 1e-4).all()


@pytest.mark.parametrize("capacity", [(12, 12, 12), (36, 0, 0), (12, 0, 24)])
def test_as_many_jobs_as_accelerators_are_no_trouble(capacity: tuple[int, ...]) -> None:
    # The time of all jobs and all accelerators are used up: one of the prices is open, and numbers grow.
    for gain in (np.ones((36, 3)), np.tile([3.0, 2.0, 1.0], (36, 1))):
        found = centre(gain, np.ones(36, dtype=np.int64), np.array(capacity))
        expected = float(gain[0] @ np.array(capacity)) / 36
        assert (gain * found).sum(axis=1) == pytest.approx(np.full(36, expected), rel=1e-5)


def test_equals_are_treated_alike() -> None:
    found = centre(np.tile([3.0, 2.0, 1.0], (7, 1)), np.ones(7, dtype=np.int64), np.array([2, 3, 1]))
    assert found == pytest.approx(np.tile(found[0], (7, 1)), abs=1e-6)
    assert 7 * found[0] == pytest.approx([2, 3, 1], rel=1e-5)


def test_nothing_is_given_of_what_is_not_there() -> None:
    assert centre(np.ones((2, 3)), np.ones(2, dtype=np.int64), np.array([0, 4, 0]))[:, [0, 2]].tolist() == [[0, 0]] * 2
    assert centre(np.ones((0, 3)), np.ones(0, dtype=np.int64), np.array([1, 1, 1])).shape == (0, 3)
