"""Randomised rounding: what G guarantees, counted over 1,000 seeds."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from tesched_papers.pdors.algorithm.rounding import (
    cost_factor,
    covered,
    favour_covering,
    favour_packing,
    packed,
    rounded,
)

SEEDS = 1000
DELTA = 0.2
#: machines; each takes 40 workers, 60 servers, and 60 of both
MACHINES = 12
WORKERS, SERVERS, CAPACITY, MOST_WORKERS = 300, 150, 60.0, 320


@dataclass(frozen=True, kw_only=True)
class Program:
    """The external case of one job in one slot, as the paper has it."""

    cost: NDArray[np.float64]
    cover: NDArray[np.float64]
    wanted: NDArray[np.float64]
    pack: NDArray[np.float64]
    limit: NDArray[np.float64]


def program() -> Program:
    prices = np.random.default_rng(5).uniform(1.0, 3.0, 2 * MACHINES)
    cover = np.repeat(np.eye(2), MACHINES, axis=1)
    both = np.hstack([1.5 * np.eye(MACHINES), np.eye(MACHINES)])
    return Program(
        cost=prices,
        cover=cover,
        wanted=np.array([WORKERS, SERVERS], dtype=np.float64),
        pack=np.vstack([both, cover[:1]]),
        limit=np.append(np.full(MACHINES, CAPACITY), MOST_WORKERS),
    )


def drawn_with(x: NDArray[np.float64], gain: float, seed: int) -> NDArray[np.int64]:
    return rounded(x, gain, np.random.default_rng(seed).random(x.shape))


@pytest.fixture(scope="module")
def relaxed() -> tuple[Program, NDArray[np.float64]]:
    one = program()
    found = linprog(one.cost, A_ub=np.vstack([-one.cover, one.pack]), b_ub=np.append(-one.wanted, one.limit))
    # A vertex is whole almost everywhere here; the middle of two optima of other prices is not.
    other = linprog(one.cost[::-1], A_ub=np.vstack([-one.cover, one.pack]), b_ub=np.append(-one.wanted, one.limit))
    return one, np.asarray((2 * found.x + other.x) / 3)


@pytest.mark.parametrize("width", [20.0, 100.0, 1e4])
@pytest.mark.parametrize("rows", [1, 400])
def test_each_gain_solves_the_equation_that_it_comes_from(width: float, rows: int) -> None:
    low, high = favour_packing(width, rows, 0.1), favour_covering(width, rows, 0.1)
    assert 0 < low < 1 < high
    assert (1 - low) ** 2 / low == pytest.approx(3 * log(3 * rows / 0.1) / width)
    assert (high - 1) ** 2 / high == pytest.approx(2 * log(3 * rows / 0.1) / width)


def test_the_wider_the_rows_the_nearer_to_1() -> None:
    assert favour_packing(100.0, 1, 0.3) == pytest.approx(0.769, abs=5e-4)  # the worked example
    assert favour_packing(1e9, 10, 0.1) == pytest.approx(1.0, abs=1e-3)
    assert favour_covering(1e9, 10, 0.1) == pytest.approx(1.0, abs=1e-3)


def test_a_row_too_narrow_for_any_guarantee_guarantees_nothing() -> None:
    assert covered(0.6, width=1.0, rows=2, delta=0.1) == 0.0


def test_favouring_packing_packs_and_covers_the_guaranteed_part(relaxed: tuple[Program, NDArray[np.float64]]) -> None:
    one, x = relaxed
    # The widest coefficient of a machine's row is 1.5; of the row of all workers 1.
    width = min(CAPACITY / 1.5, MOST_WORKERS)
    gain = favour_packing(width, len(one.limit), DELTA)
    assert gain >= 0.5
    part = covered(gain, width=min(WORKERS, SERVERS), rows=2, delta=DELTA)
    assert part > 0.3
    broken = 0
    for seed in range(SEEDS):
        drawn = drawn_with(x, gain, seed)
        packs, covers = (one.pack @ drawn <= one.limit).all(), (one.cover @ drawn >= part * one.wanted).all()
        cheap = one.cost @ drawn <= cost_factor(gain, DELTA) * (one.cost @ x)
        broken += not (packs and covers and cheap)
    assert broken <= DELTA * SEEDS


def test_favouring_covering_covers_and_packs_within_the_guaranteed_factor(
    relaxed: tuple[Program, NDArray[np.float64]],
) -> None:
    one, x = relaxed
    gain = favour_covering(min(WORKERS, SERVERS), 2, DELTA)
    factor = packed(gain, width=min(CAPACITY / 1.5, MOST_WORKERS), rows=len(one.limit), delta=DELTA)
    broken = 0
    for seed in range(SEEDS):
        drawn = drawn_with(x, gain, seed)
        covers, packs = (one.cover @ drawn >= one.wanted).all(), (one.pack @ drawn <= factor * one.limit).all()
        cheap = one.cost @ drawn <= cost_factor(gain, DELTA) * (one.cost @ x)
        broken += not (covers and packs and cheap)
    assert broken <= DELTA * SEEDS


def test_covering_is_broken_more_often_than_guaranteed_without_a_gain(
    relaxed: tuple[Program, NDArray[np.float64]],
) -> None:
    # That the two tests above can fail: G = 1 gives no guarantee of covering.
    one, x = relaxed
    missed = sum(not (one.cover @ drawn_with(x, 1.0, seed) >= one.wanted).all() for seed in range(SEEDS))
    assert missed > DELTA * SEEDS


def test_the_mean_of_many_roundings_is_what_was_rounded() -> None:
    x = np.array([0.0, 0.25, 1.5, 3.0, 7.9])
    many = rounded(x, 1.2, np.random.default_rng(0).random((20_000, 5)))
    assert set(many[:, 0]) == {0}
    assert set(many[:, 3]) == {3, 4}
    assert many.mean(axis=0) == pytest.approx(1.2 * x, abs=0.015)
