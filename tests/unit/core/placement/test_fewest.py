"""Fewest of a node's jobs that free enough together."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.cluster import Request
from tesched_core.placement.demand import demands_of
from tesched_core.placement.fewest import fewest_that_free, least_of_all
from tesched_core.placement.what_if import WhatIf
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, plans_of, running, share, view_of, waiting


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
    (plan,) = plans_of(FitGpp().propose(view, None))
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


@given(
    st.lists(st.tuples(st.sampled_from(("1", "2", "3", "12", "23")), st.integers(1, 3), st.integers(1, 3)), max_size=6),
    st.integers(1, 2),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_no_set_of_victims_is_below_the_least_of_all(
    jobs: list[tuple[str, int, int]], nodes: int, cpus: int, mem_mib: int
) -> None:
    held = [
        running(number, *(share(f"n{name}", cpus, mem_mib) for name in where))
        for number, (where, cpus, mem_mib) in enumerate(jobs, 1)
    ]
    te = waiting(
        90, Request(cpus=cpus * nodes, min_nodes=nodes, max_nodes=nodes, cpus_per_task=cpus, mem_per_node_mib=mem_mib)
    )
    size = 6
    view = view_of(cluster([node(f"n{n}", cpus=size, mem_mib=size) for n in (1, 2, 3)], [*held, te]))
    (demand,) = demands_of(te, view.snapshot, view.capacity_after_orders)
    rows, pool = range(len(view.running)), np.ones(len(view.running), dtype=np.bool_)

    def enough(victims: tuple[int, ...]) -> bool:
        what_if = WhatIf(demand, view.running, pool, np.zeros(len(pool)), view.capacity_after_orders)
        for one in victims:
            what_if.take(one)
        return what_if.rows_for_all(()) is not None

    fewest = next(
        (count for count in range(len(rows) + 1) if any(enough(victims) for victims in combinations(rows, count))),
        99,
    )
    least = least_of_all(demand, view.running, pool, view.capacity_after_orders)
    assert least <= fewest or fewest == 99


def test_where_jobs_are_alike_the_least_of_all_is_what_it_takes() -> None:
    te = waiting(90, cpus=7)
    jobs = [running(4 * n + part, share(f"n{n}", 3)) for n in (1, 2) for part in range(4)]
    view = view_of(cluster([node(f"n{n}", cpus=12) for n in (1, 2)], [*jobs, te]))
    (demand,) = demands_of(te, view.snapshot, view.capacity_after_orders)
    capacity, everyone = view.capacity_after_orders, np.ones(8, dtype=np.bool_)
    assert least_of_all(demand, view.running, everyone, capacity) == 3
    of_two = view.running.job_id % 4 < 2
    assert least_of_all(demand, view.running, of_two, capacity) > 4, "two of them on each node are not enough"
