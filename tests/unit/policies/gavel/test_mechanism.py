"""Gavel's round mechanism in core: priorities, deficits, the jobs that are taken, the leases that are renewed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tesched_policies.gavel.avoid_moves import alike, booked, kept
from tesched_policies.gavel.round_scheduling import NOWHERE, assign, changes, deficits, fastest_first, priorities

ONES = np.ones((2, 2))


def taken(
    priority: list[list[float]],
    *,
    types: tuple[int, ...] = (0, 1),
    deficit_s: list[list[float]] | None = None,
    share: list[list[float]] | None = None,
    throughput: list[list[float]] | None = None,
    sizes: list[int] | None = None,
    capacity: tuple[int, ...] = (1, 1),
    entitled_only: bool = False,
) -> list[int]:
    """Return each job's type, with nothing else in the way."""
    made = np.array(priority, dtype=np.float64)
    found = assign(
        types,
        made,
        np.zeros_like(made) if deficit_s is None else np.array(deficit_s),
        np.zeros_like(made) if share is None else np.array(share),
        throughput=np.ones_like(made) if throughput is None else np.array(throughput),
        scale_factor=np.array(sizes or [1] * len(made), dtype=np.int64),
        capacity=np.array(capacity, dtype=np.int64),
        entitled_only=entitled_only,
    )
    return [int(kind) for kind in found]


def test_the_worked_example_at_the_head_of_the_file() -> None:
    share = np.array([[0.75, 0.25], [0.25, 0.5]])
    first = priorities(share, np.full((2, 2), 180.0), np.full(2, 360.0), ONES)
    assert first == pytest.approx(np.array([[1.5, 0.5], [0.5, 1.0]]))
    assert taken(first.tolist(), share=share.tolist()) == [0, 1]
    second = priorities(share, np.array([[540.0, 180.0], [180.0, 540.0]]), np.full(2, 720.0), ONES)
    assert second == pytest.approx(np.array([[1.0, 1.0], [1.0, 2 / 3]]))
    assert taken(second.tolist(), share=share.tolist()) == [0, 1]


def test_a_job_without_a_fraction_or_speed_has_no_priority_and_one_that_had_nothing_yet_comes_first() -> None:
    share = np.array([[0.0, 0.5], [0.25, 0.5]])
    received_s = np.array([[360.0, 0.0], [0.0, 360.0]])
    speed = np.array([[1.0, 1.0], [1.0, 0.0]])
    found = priorities(share, received_s, np.array([360.0, 360.0]), speed)
    assert found.tolist() == [[0.0, 0.5e9], [0.25e9, 0.0]]


@pytest.mark.parametrize(
    ("throughput", "order"),
    [
        ([[1.0, 10.0, 5.0]], [1, 2, 0]),
        # A job counts by how fast it is beside its own fastest type, not by its steps.
        ([[1.0, 2.0], [1.0, 2.0], [900.0, 850.0]], [1, 0]),
        # A type is judged by the jobs that run there alone.
        ([[0.0, 2.0], [4.0, 2.0], [0.0, 2.0]], [0, 1]),
        ([[3.0, 3.0, 3.0]], [0, 1, 2]),
        ([[0.0, 0.0]], [0, 1]),
    ],
)
def test_the_fastest_type_chooses_first(throughput: list[list[float]], order: list[int]) -> None:
    assert fastest_first(np.array(throughput)) == order


def test_types_are_in_their_own_order_while_there_is_no_job() -> None:
    assert fastest_first(np.zeros((0, 3))) == [0, 1, 2]


def test_a_deficit_is_what_was_due_less_what_was_received_and_adds_up() -> None:
    share = np.array([[0.5, 0.25], [0.5, 0.0]])
    once = deficits(np.zeros((2, 2)), share, np.array([[1000.0, 0.0], [0.0, 100.0]]), 1920.0)
    assert once.tolist() == [[-40.0, 480.0], [960.0, -100.0]]
    assert deficits(once, share, np.array([[0.0, 480.0], [960.0, 0.0]]), 1920.0).tolist() == [
        [920.0, 480.0],
        [960.0, -100.0],
    ]


def test_the_highest_priority_is_taken_then_the_deficit_then_the_fraction_then_the_age() -> None:
    assert taken([[1.0], [2.0]], types=(0,), capacity=(1,)) == [NOWHERE, 0]
    assert taken([[1.0], [1.0]], types=(0,), capacity=(1,), deficit_s=[[1.0], [2.0]]) == [NOWHERE, 0]
    assert taken([[1.0], [1.0]], types=(0,), capacity=(1,), share=[[0.1], [0.2]]) == [NOWHERE, 0]
    assert taken([[1.0], [1.0]], types=(0,), capacity=(1,)) == [0, NOWHERE]
    # Priority before deficit, deficit before fraction.
    assert taken([[2.0], [1.0]], types=(0,), capacity=(1,), deficit_s=[[0.0], [9.0]]) == [0, NOWHERE]
    assert taken([[1.0], [1.0]], types=(0,), capacity=(1,), deficit_s=[[1.0], [0.0]], share=[[0.0], [1.0]]) == [
        0,
        NOWHERE,
    ]


def test_a_job_is_taken_once_and_the_type_that_chooses_first_has_it() -> None:
    assert taken([[1.0, 5.0], [0.5, 0.5]]) == [0, 1]
    assert taken([[1.0, 5.0], [0.5, 0.5]], types=(1, 0)) == [1, 0]


def test_resources_without_an_entitled_job_are_given_unless_only_the_entitled_are_served() -> None:
    assert taken([[1.0, 0.0], [0.0, 0.0]]) == [0, 1]
    assert taken([[1.0, 0.0], [0.0, 0.0]], entitled_only=True) == [0, NOWHERE]


def test_a_job_is_not_put_where_it_has_no_speed() -> None:
    assert taken([[0.0, 0.0]], throughput=[[0.0, 2.0]]) == [1]


def test_a_job_that_is_too_large_for_what_is_left_is_passed_over() -> None:
    # Of 4: 3 fit, 2 do not, then 1 does, and 1 more does not.
    found = taken([[4.0], [3.0], [2.0], [1.0]], types=(0,), capacity=(4,), sizes=[3, 2, 1, 1])
    assert found == [0, NOWHERE, 0, NOWHERE]
    # The first may be the one that does not fit.
    assert taken([[4.0], [3.0]], types=(0,), capacity=(2,), sizes=[3, 2]) == [NOWHERE, 0]


def slowly(priority: NDArray[np.float64], sizes: list[int], capacity: list[int]) -> list[int]:
    """Return the same by the words of the paper: one job after the other."""
    found = [NOWHERE] * len(sizes)
    for kind, accelerators in enumerate(capacity):
        left = accelerators
        for job in sorted(range(len(sizes)), key=lambda row: -priority[row, kind]):
            if found[job] == NOWHERE and sizes[job] <= left:
                found[job] = kind
                left -= sizes[job]
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8]), st.lists(st.integers(0, 3), min_size=3, max_size=3)), max_size=30
    ),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_it_takes_the_jobs_that_the_papers_loop_takes(jobs: list[tuple[int, list[int]]], capacity: list[int]) -> None:
    priority = np.array([row for _, row in jobs], dtype=np.float64).reshape(-1, 3)
    sizes = [size for size, _ in jobs]
    found = assign(
        (0, 1, 2),
        priority,
        np.zeros_like(priority),
        np.zeros_like(priority),
        throughput=np.ones_like(priority),
        scale_factor=np.array(sizes, dtype=np.int64),
        capacity=np.array(capacity, dtype=np.int64),
    )
    assert found.tolist() == slowly(priority, sizes, capacity)


def test_a_lease_is_renewed_on_the_same_type_only() -> None:
    before = np.array([0, 0, NOWHERE, 1, NOWHERE])
    after = np.array([0, 1, 2, NOWHERE, NOWHERE])
    found = changes(before, after)
    assert found.renewed.tolist() == [True, False, False, False, False]
    assert found.started.tolist() == [False, True, True, False, False]
    assert found.stopped.tolist() == [False, True, False, True, False]


def stays(
    before: list[int],
    after: list[int],
    throughput: list[list[float]],
    *,
    sizes: list[int] | None = None,
    capacity: tuple[int, ...] = (1, 1, 1),
) -> list[int]:
    found = kept(
        np.array(before),
        np.array(after),
        alike_types=alike(np.array(throughput, dtype=np.float64)),
        scale_factor=np.array(sizes or [1] * len(before), dtype=np.int64),
        capacity=np.array(capacity, dtype=np.int64),
    )
    return [int(kind) for kind in found]


def test_jobs_that_are_as_fast_on_either_type_do_not_change_places() -> None:
    assert stays([0, 1], [1, 0], [[2, 2, 0], [3, 3, 0]]) == [0, 1]
    # Nor do three, by turns.
    assert stays([0, 1, 2], [1, 2, 0], [[2, 2, 2], [3, 3, 3], [1, 1, 1]]) == [0, 1, 2]
    # 1 % is as good as the same, 2 % is not.
    assert stays([0, 1], [1, 0], [[2, 2.02, 0], [3, 3, 0]]) == [0, 1]
    assert stays([0, 1], [1, 0], [[2, 2.05, 0], [3, 3, 0]]) == [1, 0]


def test_a_job_that_gains_by_it_does_move_and_so_does_one_that_is_in_the_way() -> None:
    assert stays([0, 1], [1, 0], [[2, 2, 0], [3, 1, 0]]) == [1, 0]
    # The third type is as good for job 0, but job 2 is not as fast there as where it is to come from the queue.
    assert stays([0, NOWHERE], [2, 0], [[2, 2, 2], [3, 3, 1]]) == [2, 0]
    assert stays([0, NOWHERE], [2, 0], [[2, 2, 2], [3, 3, 3]]) == [0, 2]


def test_a_job_without_a_turn_leaves_and_one_of_another_size_does_not_take_its_place() -> None:
    assert stays([0, NOWHERE], [NOWHERE, 0], [[2, 2, 0], [2, 2, 0]]) == [NOWHERE, 0]
    assert stays([0, 1], [1, 0], [[2, 2, 0], [2, 2, 0]], sizes=[1, 2], capacity=(2, 2, 0)) == [1, 0]


def test_a_job_stays_where_resources_are_free_besides() -> None:
    assert stays([0, NOWHERE], [1, 0], [[2, 2, 0], [2, 1, 0]], capacity=(2, 1, 0)) == [0, 0]


def test_time_on_types_that_are_alike_is_booked_by_the_shares_of_them() -> None:
    speed = np.array([[2.0, 2.0, 1.0], [2.0, 1.0, 2.0], [2.0, 2.0, 2.0]])
    share = np.array([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]])
    received_s = np.array([[100.0, 20.0, 7.0], [40.0, 3.0, 0.0], [5.0, 6.0, 7.0]])
    found = booked(received_s, share, alike(speed))
    assert found.tolist() == [[30.0, 90.0, 7.0], [0.0, 3.0, 40.0], [5.0, 6.0, 7.0]]


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4]), st.integers(-1, 2), st.lists(st.integers(1, 2), min_size=3, max_size=3)),
        max_size=20,
    ),
    st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_staying_costs_no_job_speed_and_no_resources_that_are_not_there(
    jobs: list[tuple[int, int, list[int]]], capacity: list[int]
) -> None:
    sizes = np.array([size for size, _, _ in jobs], dtype=np.int64)
    before = np.array([kind for _, kind, _ in jobs], dtype=np.intp)
    speed = np.array([row for _, _, row in jobs], dtype=np.float64).reshape(-1, 3)
    flat = np.zeros_like(speed)
    accelerators = np.array(capacity, dtype=np.int64)
    after = assign((0, 1, 2), flat, flat, flat, throughput=speed, scale_factor=sizes, capacity=accelerators)
    found = kept(before, after, alike_types=alike(speed), scale_factor=sizes, capacity=accelerators)
    assert ((found == NOWHERE) == (after == NOWHERE)).all()
    runs = np.flatnonzero(found != NOWHERE)
    assert (speed[runs, found[runs]] == speed[runs, after[runs]]).all()
    used = np.zeros(3, dtype=np.int64)
    np.add.at(used, found[runs], sizes[runs])
    assert (used <= accelerators).all()
    assert changes(before, found).started.sum() <= changes(before, after).started.sum()
