"""Any curves, any cores: SLAQ's shares are as good as can be, and no job is forgotten."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_policies.slaq.allocate import AllocationSettings, Objective, _worths, allocate, fair
from tesched_policies.slaq.curves import Family
from tesched_policies.slaq.forecast import Forecasts

from tests.unit.policies.slaq.examples import columns


@st.composite
def forecasts(draw: st.DrawFn, *, most_jobs: int = 12, known: bool | None = None, concave: bool = False) -> Forecasts:
    """Draw what is expected of some jobs."""
    count = draw(st.integers(1, most_jobs))

    def column(low: float, high: float) -> list[float]:
        return draw(st.lists(st.floats(low, high), min_size=count, max_size=count))

    linear = st.tuples(st.just(0.0) | st.floats(1e-6, 5), st.floats(0, 3)).map(
        lambda pair: (Family.LINEAR, (*pair, 0.0))
    )
    sublinear = st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0.1, 5)).map(lambda abc: (Family.SUBLINEAR, abc))
    if concave:
        sublinear = sublinear.filter(lambda curve: curve[1][1] ** 2 >= curve[1][0] * curve[1][2])
    return columns(
        draw(st.lists(linear | sublinear, min_size=count, max_size=count)),
        cost_core_s=column(0.1, 20),
        largest_drop=draw(st.lists(st.just(0.0) | st.floats(1e-6, 3), min_size=count, max_size=count)),
        known=draw(st.lists(st.booleans(), min_size=count, max_size=count)) if known is None else [known] * count,
        remaining=column(0, 1),
    )


def gains(
    found: Forecasts, shares: AllocationSettings, cores: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the gain of each job on 0, 1, ... cores [jobs, cores + 1], by its definition."""
    reach = np.arange(cores + 1) * shares.epoch_s / found.cost_core_s[:, None]
    now = found.iteration[:, None]
    fallen = found.curves.loss(now + 0 * reach) - found.curves.loss(now + reach)
    scale = np.where(found.largest_drop > 0, 1 / np.where(found.largest_drop > 0, found.largest_drop, 1), 0)
    gained: np.ndarray[tuple[int, int], np.dtype[np.float64]] = fallen * scale[:, None]
    return gained


@given(forecasts(), st.integers(0, 60), st.integers(0, 4), st.sampled_from(Objective))
def test_all_cores_are_given_and_no_job_is_under_the_least(
    found: Forecasts, cores: int, least: int, objective: Objective
) -> None:
    count = len(found.curves)
    held = allocate(found, cores, AllocationSettings(least=least, objective=objective))
    assert held.sum() == cores
    assert held.min() >= (least if least * count <= cores else 0)
    # A job of which too little is known has at least its fair share.
    if least * count <= cores:
        assert (held[~found.known] >= cores // count).all()


@given(forecasts(most_jobs=3, known=True, concave=True), st.integers(0, 8), st.integers(0, 1))
def test_the_greedy_choice_is_the_best_of_all(found: Forecasts, cores: int, least: int) -> None:
    count = len(found.curves)
    shares = AllocationSettings(least=least)
    if count * least > cores:
        return
    table = gains(found, shares, cores)
    every = (one for one in product(range(least, cores + 1), repeat=count) if sum(one) == cores)
    best = max(sum(table[row, held] for row, held in enumerate(one)) for one in every)
    mine = sum(table[row, held] for row, held in enumerate(allocate(found, cores, shares).tolist()))
    assert mine == pytest.approx(best, rel=1e-9, abs=1e-12)


@given(forecasts(known=True))
def test_what_cores_add_never_grows_and_adds_up_to_the_gain_beyond_any_bend(found: Forecasts) -> None:
    cores = 40
    table = gains(found, AllocationSettings(), cores)
    for row, worth in enumerate(_worths(found, AllocationSettings())):
        added = [worth(held) for held in range(cores)]
        largest = max(added)
        assert all(later <= earlier + 1e-9 * largest for earlier, later in pairwise(added))
        summed = np.concatenate([[0], np.cumsum(added)])
        assert (summed >= table[row] - 1e-9 * (1 + summed)).all()
        # From where the mean gain is highest on, it is the gain itself.
        best = int(np.argmax(table[row, 1:] / np.arange(1, cores + 1))) + 2
        if best <= cores and largest > 0:
            assert summed[best:] == pytest.approx(table[row, best:], rel=1e-6, abs=1e-12)


@given(forecasts(most_jobs=3, known=True), st.integers(3, 8))
def test_max_min_leaves_the_worst_as_good_as_it_can_be(found: Forecasts, cores: int) -> None:
    count = len(found.curves)
    shares = AllocationSettings(objective=Objective.MAX_MIN)
    reach = np.arange(cores + 1) * shares.epoch_s / found.cost_core_s[:, None]
    now = found.curves.above(found.iteration)
    part = np.where(now > 0, found.remaining / np.where(now > 0, now, 1), 0)
    left = found.curves.above(found.iteration[:, None] + reach) * part[:, None]
    every = (one for one in product(range(1, cores + 1), repeat=count) if sum(one) == cores)
    best = min(max(left[row, held] for row, held in enumerate(one)) for one in every)
    mine = max(left[row, held] for row, held in enumerate(allocate(found, cores, shares).tolist()))
    assert mine == pytest.approx(best, rel=1e-9, abs=1e-12)


@given(forecasts(most_jobs=1), st.integers(1, 12), st.integers(1, 60), st.sampled_from(Objective))
def test_jobs_that_are_alike_share_equally(found: Forecasts, count: int, cores: int, objective: Objective) -> None:
    again = np.zeros(count, dtype=np.int64)
    alike = replace(
        found,
        curves=found.curves.take(again),
        **{
            name: getattr(found, name)[again]
            for name in ("iteration", "largest_drop", "remaining", "cost_core_s", "known", "fresh")
        },
    )
    held = allocate(alike, cores, AllocationSettings(objective=objective))
    assert held.max() - held.min() <= 1


@given(forecasts(known=True, concave=True), st.integers(20, 60))
def test_the_order_of_the_jobs_matters_only_in_a_tie(found: Forecasts, cores: int) -> None:
    count = len(found.curves)
    turned = np.arange(count)[::-1].copy()
    other = replace(
        found,
        curves=found.curves.take(turned),
        **{
            name: getattr(found, name)[turned]
            for name in ("iteration", "largest_drop", "remaining", "cost_core_s", "known", "fresh")
        },
    )
    table = gains(found, AllocationSettings(), cores)
    mine, theirs = allocate(found, cores), allocate(other, cores)[turned]
    assert table[np.arange(count), mine].sum() == pytest.approx(
        table[np.arange(count), theirs].sum(), rel=1e-9, abs=1e-12
    )


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(0, 200))
def test_fair_shares_are_equal_as_far_as_they_can_be(most: list[int], cores: int) -> None:
    held = fair(len(most), cores, np.array(most)).tolist()
    assert sum(held) == min(cores, sum(most))
    assert all(mine <= limit for mine, limit in zip(held, most, strict=True))
    # A job that could use more has at most one core less than any other.
    for mine, limit in zip(held, most, strict=True):
        assert mine == limit or mine >= max(held) - 1
