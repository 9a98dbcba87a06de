"""Properties of Gavel's policies on any problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_policies.gavel.allocators.problem import Pairs, Problem
from tesched_policies.gavel.allocators.registry import POLICIES, policy

from tests.examples import examples
from tests.unit.policies.gavel.problems import Reckoned, random_problem

INSTANCES = range(examples(40))
#: Policies for which a lower objective is better.
LOWER = ("ftf", "makespan", "sjf")
#: From the least to the greatest numbers that a user may think of, and beyond.
numbers = st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1.0, 3.0, 1e4, 1e9, 1e300])
positive = numbers.filter(lambda number: number > 0)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Return any problem, most of them absurd."""
    jobs, types = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    first, second = np.triu_indices(jobs, 1)

    def some(of: st.SearchStrategy[Any], *shape: int) -> Any:
        count = int(np.prod(shape))
        return np.reshape(draw(st.lists(of, min_size=count, max_size=count)), shape)

    return Problem(
        throughput=some(numbers, jobs, types),
        scale_factor=some(st.sampled_from([1, 2, 10**6]), jobs),
        capacity=some(st.sampled_from([0, 1, 3, 10**6]), types),
        weight=some(positive, jobs),
        steps_left=some(numbers, jobs),
        age_s=some(numbers, jobs),
        isolated_s=some(numbers, jobs),
        deadline_s=some(numbers | st.sampled_from([-1.0, np.inf]), jobs),
        price=some(positive, types),
        entity=some(st.integers(0, 1), jobs),
        entity_weight=some(positive, 2),
        entity_kind=("fairness", "fifo"),
        pairs=Pairs(
            first=first,
            second=second,
            first_throughput=some(numbers, len(first), types),
            second_throughput=some(numbers, len(first), types),
        ),
    )


def seen(name: str, problem: Problem) -> Reckoned:
    return Reckoned.of(problem, aware=not name.endswith("-agnostic"), sharing=name.endswith("-sharing"))


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(problem=problems())
@settings(max_examples=examples(20))
def test_every_problem_gets_an_allocation_that_can_be_kept(name: str, problem: Problem) -> None:
    answer = policy(name).allocate(problem)
    seen(name, problem).assert_feasible(answer)
    assert np.isfinite(answer.objective) or answer.fallback is not None


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_no_job_no_accelerator_or_no_place_is_said(name: str) -> None:
    nobody = Problem(
        throughput=np.ones((0, 2)), scale_factor=np.ones(0, np.int64), capacity=np.array([1, 1]), weight=np.ones(0)
    )
    nothing = replace(random_problem(2), capacity=np.zeros(3, np.int64))
    nowhere = replace(random_problem(2), throughput=np.zeros((6, 3)))
    for problem in (nobody, nothing, nowhere):
        answer = policy(name).allocate(problem)
        assert answer.fallback == "no job fits on any type"
        assert answer.x.shape == problem.throughput.shape
        assert not answer.x.any()


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_the_same_problem_gets_the_same_answer(name: str) -> None:
    one, other = policy(name).allocate(random_problem(5)), policy(name).allocate(random_problem(5))
    assert one.x.tolist() == other.x.tolist()
    assert (one.objective, one.fallback) == (other.objective, other.fallback)
    if one.pairs_x is not None and other.pairs_x is not None:
        assert one.pairs_x.tolist() == other.pairs_x.tolist()


@pytest.mark.parametrize("name", ["las", "las-sharing", "hierarchical"])
def test_no_job_gets_less_than_with_its_part_of_the_cluster(name: str) -> None:
    """The sharing incentive: equal weights, and 1/M of the cluster is for no job more than all its time."""
    held = 0
    for seed in INSTANCES:
        problem = random_problem(seed)
        jobs = len(problem.weight)
        width = max(1, -(-int(problem.capacity.sum()) // jobs))
        fits = np.where(problem.throughput > 0, problem.throughput, 1.0)
        problem = replace(
            problem,
            weight=np.ones(jobs),
            scale_factor=np.maximum(problem.scale_factor, width),
            throughput=fits,
            entity=np.zeros(jobs, np.int64),
            entity_kind=("fairness",) * len(problem.entity_weight),
        )
        view = seen(name, problem)
        if len(view.fitting) < jobs:
            continue
        held += 1
        assert (view.throughput(policy(name).allocate(problem)) >= view.isolated * (1 - 1e-9)).all(), f"seed {seed}"
    assert held >= 10


def ample(seed: int) -> Problem:
    """Return a problem in which every type fits every job, so that none fits better in a larger cluster."""
    problem = random_problem(seed)
    return replace(problem, capacity=np.maximum(problem.capacity, problem.scale_factor.max()))


@pytest.mark.parametrize("name", ["makespan", "makespan-agnostic", "makespan-sharing", "sjf", "fifo", "fifo-sharing"])
@pytest.mark.parametrize("more", [0, 1])
def test_one_more_accelerator_does_no_harm(name: str, more: int) -> None:
    check_no_worse(name, [(ample(seed), with_more(ample(seed), more)) for seed in INSTANCES])


@pytest.mark.parametrize("name", ["throughput", "cost", "cost-sum"])
def test_one_more_accelerator_does_the_sums_no_harm(name: str) -> None:
    check_no_worse(name, [(ample(seed), with_more(ample(seed), 0)) for seed in INSTANCES])


@pytest.mark.parametrize("name", ["las", "las-agnostic", "las-sharing", "hierarchical"])
def test_twice_the_cluster_does_no_harm(name: str) -> None:
    """Twice, as with one more the yardstick of las, an equal part of each type, would be another."""
    check_no_worse(name, [(ample(seed), replace(ample(seed), capacity=2 * ample(seed).capacity)) for seed in INSTANCES])


def with_more(problem: Problem, column: int) -> Problem:
    return replace(problem, capacity=problem.capacity + np.eye(len(problem.capacity), dtype=np.int64)[column])


def check_no_worse(name: str, cases: list[tuple[Problem, Problem]]) -> None:
    """Check each larger cluster against the smaller, and that it is better in some."""
    better = 0
    for small, large in cases:
        sign = -1 if name.startswith(LOWER) else 1
        before, after = (sign * policy(name).allocate(problem).objective for problem in (small, large))
        assert after >= before - 1e-6 * abs(before)
        better += after > before + 1e-3 * abs(before)
    assert better or name in {"sjf", "cost", "makespan-agnostic"}


def of_two_models(counts: tuple[int, int], seed: int) -> Problem:
    """Return jobs of two models, with every pair; jobs of one model are alike."""
    rng = np.random.default_rng(seed)
    model = rng.permutation(np.repeat([0, 1], counts))
    throughput = rng.lognormal(1, 1, (2, 3))[model]
    first, second = np.triu_indices(len(model), 1)
    kept = rng.uniform(0.5, 1, (2, 2, 3))
    return Problem(
        throughput=throughput,
        scale_factor=np.ones(len(model), np.int64),
        capacity=np.array([1, 1, 2]),
        weight=np.ones(len(model)),
        steps_left=np.full(len(model), 1e5),
        age_s=np.full(len(model), 100.0),
        pairs=Pairs(
            first=first,
            second=second,
            first_throughput=throughput[first] * kept[model[first], model[second]],
            second_throughput=throughput[second] * kept[model[second], model[first]],
        ),
    )


@pytest.mark.parametrize("name", ["las-sharing", "makespan-sharing", "ftf-sharing", "hierarchical-sharing", "las"])
@pytest.mark.parametrize("counts", [(4, 3), (5, 1), (3, 3), (2, 5)])
def test_jobs_that_are_alike_are_treated_alike_and_as_well_as_if_they_were_not(
    name: str, counts: tuple[int, int]
) -> None:
    for seed in range(10):
        problem = of_two_models(counts, seed)
        # With weights and steps that differ a little no two are alike.
        little = 1 + 1e-8 * np.arange(sum(counts))
        apart = replace(problem, weight=problem.weight * little, steps_left=problem.steps_left * little)
        answer = policy(name).allocate(problem)
        view = seen(name, problem)
        view.assert_feasible(answer)
        assert answer.objective == pytest.approx(policy(name).allocate(apart).objective, rel=1e-6)
        for speed in np.unique(problem.throughput, axis=0):
            reached = view.throughput(answer)[(problem.throughput == speed).all(axis=1)]
            assert reached == pytest.approx(reached[0])


def test_a_pair_that_is_slower_than_its_like_is_not_taken_for_it() -> None:
    problem = of_two_models((4, 0), 3)
    pairs = problem.pairs
    assert pairs is not None
    slow = pairs.first_throughput.copy()
    # All pairs of job 0 are useless; the others do best in twos, and it alone.
    slow[pairs.first == 0] *= 1e-6
    useless = replace(problem, pairs=replace(pairs, first_throughput=slow))
    answer = policy("las-sharing").allocate(useless)
    seen("las-sharing", useless).assert_feasible(answer)
    assert answer.objective >= policy("las").allocate(problem).objective * (1 - 1e-9)
    assert (seen("las-sharing", useless).throughput(answer) > 0).all()
