"""Gavel's policies on problems that are worked out by hand; the figures are derived beside each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_policies.gavel.allocators.ftf import FinishTimeFairness
from tesched_policies.gavel.allocators.las import Las
from tesched_policies.gavel.allocators.names import ALONE, SHARING, SIMULATED
from tesched_policies.gavel.allocators.problem import Pairs, Problem
from tesched_policies.gavel.allocators.registry import POLICIES, policy

INF = float("inf")


def two_jobs(
    throughput: list[list[float]],
    *,
    capacity: tuple[int, int] = (1, 1),
    scale_factor: tuple[int, int] = (1, 1),
    weight: tuple[float, float] = (1, 1),
    steps_left: tuple[float, float] = (1, 1),
) -> Problem:
    """Return two jobs and two types, as a rule one accelerator each."""
    return Problem(
        throughput=np.array(throughput),
        scale_factor=np.array(scale_factor),
        capacity=np.array(capacity),
        weight=np.array(weight),
        steps_left=np.array(steps_left),
    )


def paired(problem: Problem, first: list[float], second: list[float]) -> Problem:
    """Return the problem in which the two jobs may share accelerators, at these speeds on each type."""
    pairs = Pairs(
        first=np.array([0]),
        second=np.array([1]),
        first_throughput=np.array([first]),
        second_throughput=np.array([second]),
    )
    return replace(problem, pairs=pairs)


def test_the_names_are_those_of_the_policies() -> None:
    assert {*ALONE, *SHARING, *SIMULATED} == set(POLICIES)
    assert all(name.endswith("-sharing") for name in (*SHARING, *SIMULATED))


def test_las_gives_each_the_same_multiple_of_an_equal_part() -> None:
    # a on the first type for p of the time, b for 1 - p: (3 p + 1) / 2 = (2 - p) / (4/3), so p = 4/9 and both 7/6.
    answer = policy("las").allocate(two_jobs([[4, 1], [2, 1]], capacity=(1, 2)))
    assert answer.x == pytest.approx(np.array([[4 / 9, 5 / 9], [5 / 9, 4 / 9]]))
    assert answer.objective == pytest.approx(7 / 6)


def test_las_that_knows_no_types_gives_each_all_its_time_somewhere() -> None:
    answer = policy("las-agnostic").allocate(two_jobs([[4, 1], [2, 1]], capacity=(1, 2)))
    assert answer.x.sum(axis=1) == pytest.approx([1, 1])
    assert answer.objective == pytest.approx(1)


def test_las_gives_twice_the_weight_twice_the_throughput() -> None:
    # One accelerator (the other type has none): x_a / 2 = x_b, and x_a + x_b = 1.
    answer = policy("las").allocate(two_jobs([[3, 0], [5, 0]], capacity=(1, 0), weight=(2, 1)))
    assert answer.x[:, 0] == pytest.approx([2 / 3, 1 / 3])


def test_las_gives_a_job_on_two_accelerators_half_the_time() -> None:
    # Two accelerators: 2 x_a = x_b for the same service, 2 x_a + x_b <= 2: x_a = 1/2, x_b = 1.
    answer = policy("las").allocate(two_jobs([[3, 0], [5, 0]], capacity=(2, 0), scale_factor=(2, 1)))
    assert answer.x[:, 0] == pytest.approx([1 / 2, 1])


def test_las_lets_two_share_where_both_lose_little() -> None:
    # Alone on one accelerator each has half the time. Together both have 0.8 of their speed all the time.
    problem = paired(two_jobs([[10, 0], [4, 0]], capacity=(1, 0)), [8, 0], [3.2, 0])
    answer = policy("las-sharing").allocate(problem)
    assert answer.pairs_x == pytest.approx(np.array([[1, 0]]))
    assert answer.x == pytest.approx(np.zeros((2, 2)))
    assert answer.objective == pytest.approx(0.8)
    assert policy("las").allocate(problem).objective == pytest.approx(0.5)


def test_no_pair_shares_what_would_be_better_had_in_turns() -> None:
    # 0.6 and 0.3 of their speeds: in turns they have 0.5 and 0.5.
    answer = policy("las-sharing").allocate(paired(two_jobs([[10, 0], [4, 0]], capacity=(1, 0)), [6, 0], [1.2, 0]))
    assert answer.pairs_x == pytest.approx(np.zeros((1, 2)))
    assert answer.objective == pytest.approx(0.5)


def test_jobs_of_different_width_do_not_share() -> None:
    problem = paired(two_jobs([[10, 0], [4, 0]], capacity=(2, 0), scale_factor=(2, 1)), [9, 0], [4, 0])
    assert policy("las-sharing").allocate(problem).pairs_x == pytest.approx(np.zeros((1, 2)))


def test_makespan_lets_both_end_at_once() -> None:
    # 1000 / (3 p + 1) = 500 / (3 - 2 p): p = 5/7, and 1000 / (22/7) = 7000/22 s.
    answer = policy("makespan").allocate(two_jobs([[4, 1], [3, 1]], steps_left=(1000, 500)))
    assert answer.x == pytest.approx(np.array([[5 / 7, 2 / 7], [2 / 7, 5 / 7]]))
    assert answer.objective == pytest.approx(7000 / 22)


def test_makespan_that_knows_no_types_reckons_with_the_reference() -> None:
    # It believes 4 and 3 steps/s on both types; each can have all its time: 1000 / 4 = 250 s, 500 / 3 s.
    answer = policy("makespan-agnostic").allocate(two_jobs([[4, 1], [3, 1]], steps_left=(1000, 500)))
    assert answer.objective == pytest.approx(250)


def test_makespan_with_sharing_is_as_worked_out() -> None:
    # Both have 900 steps. In turns on the one accelerator: 90 s + 180 s. Together at 9 and 4.5: 200 s for the second;
    # the pair for 100 s has done 900 and 450 steps, the second alone then does 450 in 90 s: 190 s in all.
    problem = paired(two_jobs([[10, 0], [5, 0]], capacity=(1, 0), steps_left=(900, 900)), [9, 0], [4.5, 0])
    answer = policy("makespan-sharing").allocate(problem)
    assert answer.objective == pytest.approx(190)
    assert answer.pairs_x == pytest.approx(np.array([[100 / 190, 0]]))
    assert policy("makespan").allocate(problem).objective == pytest.approx(270)


def test_a_job_with_nothing_left_does_not_count() -> None:
    problem = two_jobs([[4, 1], [3, 1]], steps_left=(0, 600))
    assert policy("makespan").allocate(problem).objective == pytest.approx(200)
    for name in ("makespan", "ftf", "sjf"):
        answer = policy(name).allocate(replace(problem, steps_left=np.zeros(2)))
        assert (answer.objective, answer.fallback) == (0, None)


def test_ftf_helps_jobs_that_have_waited() -> None:
    # 0.2 + 1 / u = 1 / (5 - u) for a's thousands of steps/s u: u^2 + 5 u = 25, u = 5 (sqrt(5) - 1) / 2;
    # rho = (200 + 1000 / u) / 400 = 0.5 + (sqrt(5) + 1) / 4.
    problem = two_jobs([[4, 1], [4, 1]], steps_left=(1000, 1000))
    assert policy("ftf").allocate(problem).objective == pytest.approx(1)
    late = policy("ftf").allocate(replace(problem, age_s=np.array([200.0, 0.0])))
    assert late.objective == pytest.approx(0.5 + (5**0.5 + 1) / 4)
    assert late.x @ [4, 1] == pytest.approx([5 * (5**0.5 - 1) / 2, 5 - 5 * (5**0.5 - 1) / 2])


def test_ftf_that_knows_no_types() -> None:
    # It believes 4 and 2 steps/s everywhere, isolated half of each type, so all of the time: rho = 1 for both.
    answer = policy("ftf-agnostic").allocate(two_jobs([[4, 1], [2, 3]], steps_left=(1000, 1000)))
    assert answer.objective == pytest.approx(1)


def test_ftf_with_sharing_is_as_worked_out() -> None:
    # Isolated half of one accelerator each: 5 steps/s, 200 s. Together at 8: 125 s.
    problem = paired(two_jobs([[10, 0], [10, 0]], capacity=(1, 0), steps_left=(1000, 1000)), [8, 0], [8, 0])
    assert policy("ftf-sharing").allocate(problem).objective == pytest.approx(125 / 200)
    assert policy("ftf").allocate(problem).objective == pytest.approx(1)


def test_fifo_gives_the_first_its_fastest_and_the_second_what_it_loses_least_by() -> None:
    # Weights 2 and 1: a on its fastest 2, b then 2/3 on the other; the other way round 2/4 + 1.
    answer = policy("fifo").allocate(two_jobs([[4, 1], [3, 2]]))
    assert answer.x == pytest.approx(np.array([[1, 0], [0, 1]]))
    assert answer.objective == pytest.approx(2 + 2 / 3)


def test_fifo_moves_the_first_off_its_fastest_if_others_lose_more() -> None:
    # a loses a tenth by going (2 * 0.9 = 1.8), b nine tenths: 1.8 + 1 > 2 + 0.1.
    answer = policy("fifo").allocate(two_jobs([[10, 9], [10, 1]]))
    assert answer.x == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert answer.objective == pytest.approx(2.8)


def test_fifo_that_knows_no_types_and_with_sharing() -> None:
    problem = paired(two_jobs([[10, 0], [4, 0]], capacity=(1, 0)), [8, 0], [4, 0])
    assert policy("fifo-agnostic").allocate(problem).x[:, 0] == pytest.approx([1, 0])
    # 2 for a alone; 2 * 0.8 + 1 together.
    assert policy("fifo-sharing").allocate(problem).objective == pytest.approx(2.6)


def test_sjf_lets_the_shortest_choose_then_the_next() -> None:
    # a could end in 250 s, b in 200 s.
    answer = policy("sjf").allocate(two_jobs([[4, 1], [3, 1]], steps_left=(1000, 600)))
    assert answer.x == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert answer.objective == pytest.approx(200)


def test_sjf_that_knows_no_types_goes_by_the_reference() -> None:
    # a believes in 4 steps/s, 250 s; b in 1 step/s, though it would be the first to end on the other type.
    problem = two_jobs([[4, 1], [1, 100]], steps_left=(1000, 600))
    assert policy("sjf-agnostic").allocate(problem).objective == pytest.approx(250)
    assert policy("sjf").allocate(problem).objective == pytest.approx(6)


def test_sjf_fills_up_a_type_and_goes_on_with_the_next() -> None:
    # a, on two accelerators, has half a type's time there (1 of 2): 0.5 * 4, and half of its time on the other.
    problem = two_jobs([[9, 0], [4, 1]], capacity=(3, 2), scale_factor=(2, 2), steps_left=(9, 40))
    answer = policy("sjf").allocate(problem)
    assert answer.x == pytest.approx(np.array([[1, 0], [0.5, 0.5]]))


def dated(throughput: list[list[float]], steps_left: tuple[float, float], deadline_s: tuple[float, float]) -> Problem:
    problem = two_jobs(throughput, steps_left=steps_left)
    return replace(problem, price=np.array([1.0, 0.2]), deadline_s=np.array(deadline_s))


def test_cost_lets_run_what_is_cheapest_per_step() -> None:
    # a: 4 / 1 = 4 and 1 / 0.2 = 5 steps/s per price; b: 3 and 2.5.
    answer = policy("cost").allocate(dated([[4, 1], [3, 0.5]], (1, 1), (INF, INF)))
    assert answer.x == pytest.approx(np.array([[0, 1], [0, 0]]))
    assert answer.objective == pytest.approx(5)


def test_cost_counts_every_accelerator_of_a_job() -> None:
    # 6 steps/s on two accelerators are 3 for the price of one; the other job does 4.
    problem = two_jobs([[6, 0], [4, 0]], capacity=(2, 0), scale_factor=(2, 1))
    answer = policy("cost").allocate(problem)
    assert answer.x == pytest.approx(np.array([[0, 0], [1, 0]]), abs=1e-6)
    assert answer.objective == pytest.approx(4)


def test_cost_pays_for_a_deadline() -> None:
    # b needs 1800 / 600 = 3 steps/s, all of the first type: (1 + 3) / (0.2 + 1).
    answer = policy("cost-slo").allocate(dated([[4, 1], [3, 0.5]], (1, 1800), (INF, 600)))
    assert answer.x == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert answer.objective == pytest.approx(4 / 1.2)
    assert answer.fallback is None


def test_cost_sum_fills_the_accelerators() -> None:
    # 1 / 0.2 + 3 = 8; the other way round 4 + 0.5 / 0.2.
    answer = policy("cost-sum").allocate(dated([[4, 1], [3, 0.5]], (1, 1), (INF, INF)))
    assert answer.x == pytest.approx(np.array([[0, 1], [1, 0]]))
    assert answer.objective == pytest.approx(8)


def test_cost_sum_keeps_a_deadline() -> None:
    # a needs 4 steps/s, all of the first type; b has what is left: 4 + 0.5 / 0.2.
    answer = policy("cost-sum-slo").allocate(dated([[4, 1], [3, 0.5]], (400, 1), (100, INF)))
    assert answer.x == pytest.approx(np.array([[1, 0], [0, 1]]))
    assert answer.objective == pytest.approx(6.5)


@pytest.mark.parametrize("lost", [100.0, 0.0, -5.0])
def test_a_deadline_that_is_lost_in_any_case_does_not_cost_the_others_theirs(lost: float) -> None:
    # a needs 401 steps in the 100 s at 4 steps/s at most, or is late already; b keeps its deadline.
    answer = policy("cost-slo").allocate(dated([[4, 1], [3, 0.5]], (401, 1800), (lost, 600)))
    assert answer.x[1] == pytest.approx([1, 0])
    assert answer.fallback is None


def test_deadlines_that_exclude_each_other_are_all_dropped() -> None:
    # Both need all of the first type.
    answer = policy("cost-slo").allocate(dated([[4, 1], [3, 0.5]], (400, 1800), (100, 600)))
    assert answer.x == pytest.approx(np.array([[0, 1], [0, 0]]))
    assert answer.fallback is not None
    assert answer.fallback.startswith("the deadlines cannot all be kept")


def test_throughput_does_the_most_steps() -> None:
    # 4 + 0.5; the other way round 1 + 3.
    answer = policy("throughput").allocate(two_jobs([[4, 1], [3, 0.5]]))
    assert answer.x == pytest.approx(np.array([[1, 0], [0, 1]]))
    assert answer.objective == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("accelerators", "expected"),
    [(4, [1, 1, 1, 1]), (3, [1, 1, 1, 0]), (2, [0.75, 0.75, 0.5, 0])],
)
def test_entities_share_by_weight_and_pass_on_what_they_cannot_use(accelerators: int, expected: list[float]) -> None:
    # Weights 3 (two jobs, fairness: 1.5 each) and 1 (two jobs, fifo: the first has it all, the second 0 at first).
    problem = Problem(
        throughput=np.ones((4, 1)),
        scale_factor=np.ones(4, dtype=np.int64),
        capacity=np.array([accelerators]),
        weight=np.ones(4),
        entity=np.array([0, 0, 1, 1]),
        entity_weight=np.array([3.0, 1.0]),
        entity_kind=("fairness", "fifo"),
    )
    answer = policy("hierarchical").allocate(problem)
    assert answer.x[:, 0] == pytest.approx(expected)
    # 1.5 c <= 1, and 4 c <= accelerators.
    assert answer.objective == pytest.approx(min(2 / 3, accelerators / 4))


def test_inside_an_entity_the_jobs_weights_count() -> None:
    answer = policy("hierarchical").allocate(two_jobs([[3, 0], [5, 0]], capacity=(1, 0), weight=(3, 1)))
    assert answer.x[:, 0] == pytest.approx([3 / 4, 1 / 4])


def test_water_filling_gives_away_what_las_leaves() -> None:
    # a fits on the first type alone and b, on the second alone, can't be lifted; las stops at b's level.
    problem = two_jobs([[1, 0], [0, 1]], capacity=(1, 1), weight=(1, 3))
    filled = policy("hierarchical").allocate(problem)
    assert np.diag(filled.x) == pytest.approx([1, 1])


def test_hierarchical_with_sharing_and_without_knowing_types() -> None:
    problem = paired(two_jobs([[10, 0], [4, 0]], capacity=(1, 0)), [8, 0], [3.2, 0])
    assert policy("hierarchical-sharing").allocate(problem).pairs_x == pytest.approx(np.array([[1, 0]]))
    assert policy("hierarchical-agnostic").allocate(problem).x[:, 0] == pytest.approx([0.5, 0.5])


def test_a_policy_is_found_by_its_name() -> None:
    assert policy("las-agnostic") == Las(name="las-agnostic", aware=False)
    assert policy("ftf-sharing") == FinishTimeFairness(name="ftf-sharing", sharing=True)
    assert all(known.name == name for name, known in POLICIES.items())


def test_an_unknown_policy_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no such policy: 'themis'; there are cost, cost-slo, .*, throughput"):
        policy("themis")
