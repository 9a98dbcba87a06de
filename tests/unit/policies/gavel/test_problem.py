"""Checks and defaults of a problem of Gavel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tesched_policies.gavel.allocators.problem import Pairs, Problem

GIVEN: dict[str, Any] = {
    "throughput": [[4.0, 1.0], [2.0, 0.0], [3.0, 3.0]],
    "scale_factor": [1, 2, 1],
    "capacity": [1, 2],
    "weight": [1.0, 1.0, 5.0],
}


def pairs(**given: Any) -> Pairs:
    speed = [[1.0, 1.0]]
    return Pairs(**{"first": [0], "second": [2], "first_throughput": speed, "second_throughput": speed, **given})


def test_what_is_not_given() -> None:
    problem = Problem(**GIVEN)
    assert problem.steps_left.tolist() == [1, 1, 1]
    assert problem.age_s.tolist() == problem.isolated_s.tolist() == [0, 0, 0]
    assert problem.deadline_s.tolist() == [float("inf")] * 3
    assert problem.price.tolist() == [1, 1]
    assert problem.entity.tolist() == [0, 0, 0]
    assert (problem.entity_weight.tolist(), problem.entity_kind) == ([1], ("fairness",))


def test_a_problem_keeps_its_own_copy() -> None:
    weight = np.array([1.0, 1.0, 1.0])
    problem = Problem(**{**GIVEN, "weight": weight})
    weight[0] = 7
    assert problem.weight.tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="read-only"):
        problem.weight[0] = 7


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"throughput": [1.0, 2.0]}, "throughput: two dimensions are expected"),
        ({"throughput": [[1.0, np.nan], [2.0, 0.0], [3.0, 3.0]]}, r"throughput: nan at 0, 1 is not a finite number"),
        ({"throughput": [[1.0, 1.0], [2.0, -1.0], [3.0, 3.0]]}, r"throughput: -1.0 at 1, 1 is negative"),
        ({"throughput": [[1.0, 1.0], [2.0, 1.0], [3.0, np.inf]]}, r"throughput: inf at 2, 1 is not a finite number"),
        ({"scale_factor": [1, 2]}, r"scale_factor: shape \(2,\), expected \(3,\)"),
        ({"scale_factor": [1, 0, 1]}, "scale_factor: 0.0 at 1 is below 1"),
        ({"scale_factor": [1, 1.5, 1]}, "scale_factor: 1.5 at 1 is not a whole number"),
        ({"capacity": [1]}, r"capacity: shape \(1,\), expected \(2,\)"),
        ({"capacity": [1, -1]}, "capacity: -1.0 at 1 is below 0"),
        ({"capacity": [1, np.nan]}, "capacity: nan at 1 is not a whole number"),
        ({"weight": [1, 0, 1]}, "weight: 0.0 at 1 is not above 0"),
        ({"steps_left": [1, -1, 1]}, "steps_left: -1.0 at 1 is negative"),
        ({"age_s": [1, 1, np.inf]}, "age_s: inf at 2 is not a finite number"),
        ({"isolated_s": [[1], [1], [1]]}, r"isolated_s: shape \(3, 1\), expected \(3,\)"),
        ({"deadline_s": [1, np.nan, 1]}, "deadline_s: nan at 1 is not a number"),
        ({"price": [0, 1]}, "price: 0.0 at 0 is not above 0"),
        ({"reference": 2}, "reference: 2 is not one of the 2 types"),
        ({"entity": [0, 0, 1]}, "entity: 1 at 2 is not one of the 1 entities"),
        ({"entity_weight": [1, -1]}, "entity_weight: -1.0 at 1 is negative"),
        ({"entity_kind": ("fifo", "fifo")}, "entity_kind: 2 kinds for 1 entities"),
        ({"entity_kind": ("lifo",)}, "entity_kind: 'lifo' is not one of fairness, fifo"),
    ],
)
def test_a_wrong_number_is_named_with_its_place(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Problem(**{**GIVEN, **wrong})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"second": [0]}, "pairs: pair 0 is job 0 with itself"),
        ({"second": [3]}, "pairs.second: 3 at 0 is not one of the 3 jobs"),
        ({"first": [-1]}, "pairs.first: -1.0 at 0 is below 0"),
        ({"second": [1, 2]}, r"pairs.second: shape \(2,\), expected \(1,\)"),
        ({"second_throughput": [[1.0]]}, r"pairs.second_throughput: shape \(1, 1\), expected \(1, 2\)"),
        ({"first_throughput": [[1.0, np.nan]]}, "pairs.first_throughput: nan at 0, 1 is not a finite number"),
        ({"first_throughput": [[1.0]], "second_throughput": [[1.0]]}, "pairs: speeds on 1 types, of 2"),
    ],
)
def test_a_wrong_pair_is_named_with_its_place(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Problem(**GIVEN, pairs=pairs(**wrong))


def test_a_type_with_too_few_accelerators_does_not_fit() -> None:
    # The second job needs 2 at once; the first type has 1, and on the other it does not run.
    assert Problem(**GIVEN).fitting().tolist() == [[4, 1], [0, 0], [3, 3]]


def test_a_policy_that_knows_no_types_reckons_with_the_reference_where_the_job_fits() -> None:
    given = {**GIVEN, "throughput": [[4.0, 1.0], [2.0, 0.0], [0.0, 3.0]], "scale_factor": [1, 1, 1]}
    assert Problem(**given).agnostic().tolist() == [[4, 4], [2, 0], [0, 3]]
    assert Problem(**given, reference=1).agnostic().tolist() == [[1, 1], [2, 0], [0, 3]]
