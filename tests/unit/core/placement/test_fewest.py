"""Fewest of a node's jobs that free enough together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.placement.fewest import fewest_that_free
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, rooms, running, share, view_of, waiting


def found(wanted: list[int], frees: list[list[int]], score: list[float], less_than: int = 99) -> tuple[int, ...]:
    return fewest_that_free(np.array(wanted), np.array(frees), np.array(score), less_than=less_than)


def test_two_large_ones_are_fewer_than_three_cheap_ones() -> None:
    assert found([6], [[2], [2], [4], [4]], [1.0, 1.0, 2.0, 2.0]) == (0, 2)
    assert found([7], [[2], [2], [4], [4]], [1.0, 1.0, 2.0, 2.0]) == (2, 3)


def test_sets_of_as_many_as_are_known_are_not_tried() -> None:
    assert found([7], [[2], [2], [4], [4]], [1.0, 1.0, 2.0, 2.0], less_than=2) == ()


def test_what_is_there_already_counts_for_nothing() -> None:
    # No memory is missing, so the jobs that hold much of it are not better.
    assert found([6, -100], [[3, 0], [3, 0], [2, 900]], [1.0, 1.0, 0.0]) == (0, 1)


def test_a_node_s_plan_has_the_fewest() -> None:
    jobs = [running(number, share("n1", cpus)) for number, cpus in enumerate((2, 2, 4, 4), 1)]
    view = view_of(cluster([node("n1", cpus=12)], [*jobs, waiting(9, cpus=8)]))
    (plan,) = rooms(FitGpp().propose(view, None))
    assert plan.victim_ids == (3, 4)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.floats(0, 5, allow_nan=False)), min_size=1, max_size=7),
    st.tuples(st.integers(-1, 9), st.integers(-1, 9)),
)
def test_no_smaller_set_and_none_as_small_that_is_cheaper_is_enough(
    jobs: list[tuple[int, int, float]], wanted: tuple[int, int]
) -> None:
    frees, score = np.array([job[:2] for job in jobs]), np.array([job[2] for job in jobs])
    enough = [
        rows
        for size in range(2, len(jobs) + 1)
        for rows in combinations(range(len(jobs)), size)
        if (frees[list(rows)].sum(axis=0) >= wanted).all()
    ]
    fewest = min(map(len, enough), default=0)
    single = (frees >= wanted).all(axis=1).any()
    rows = fewest_that_free(np.array(wanted), frees, score, less_than=99)
    if max(wanted) <= 0 or not enough:
        assert rows == ()
    elif not single:
        assert len(rows) == fewest
        cheapest = min(score[list(one)].sum() for one in enough if len(one) == fewest)
        assert score[list(rows)].sum() == cheapest
