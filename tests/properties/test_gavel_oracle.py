"""Gavel's policies against cvxpy: on 67 random problems each, and 670 by night, the same optimum.

The problems are written down here as the paper has them, on all combinations of jobs, and are solved by Clarabel, an
interior point solver that shares nothing with HiGHS. Water filling, where an error adds to the next, and its program
with whole numbers are solved by HiGHS's simplex; what is independent there is how the bottlenecks are found. Each form
is compiled once a shape; numbers come in as parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from tesched_policies.gavel.allocators.problem import Allocation
from tesched_policies.gavel.allocators.registry import policy

from tests.examples import examples
from tests.unit.policies.gavel.problems import Floats, Reckoned, random_problem

INSTANCES = examples(67)
TOLERANCE = 1e-4
#: What makes up for a job that does not count, where its throughput is read.
ANYTHING = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The allocations of one shape: variables, and the numbers that they depend on. Speeds are parts of the fastest."""

    x: Any
    pairs_x: Any
    reached: Any
    rules: list[Any]
    parameters: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, jobs: int, types: int) -> Space:
        """Return the space of this shape."""
        first, second = np.triu_indices(jobs, 1)
        count = len(first)
        at_first, at_second = np.zeros((jobs, count)), np.zeros((jobs, count))
        at_first[first, np.arange(count)] = 1
        at_second[second, np.arange(count)] = 1
        x, pairs_x = cp.Variable((jobs, types), nonneg=True), cp.Variable((count, types), nonneg=True)
        reached = cp.Variable(jobs)
        given = {
            "speed": cp.Parameter((jobs, types), nonneg=True),
            "first": cp.Parameter((count, types), nonneg=True),
            "second": cp.Parameter((count, types), nonneg=True),
            "usable": cp.Parameter((count, types), nonneg=True),
            "wide": cp.Parameter((jobs, 1), nonneg=True),
            "wide_pair": cp.Parameter((count, 1), nonneg=True),
            "capacity": cp.Parameter(types, nonneg=True),
        }
        alone = cp.sum(cp.multiply(given["speed"], x), axis=1)
        paired = at_first @ cp.sum(cp.multiply(given["first"], pairs_x), axis=1)
        paired += at_second @ cp.sum(cp.multiply(given["second"], pairs_x), axis=1)
        used = cp.sum(cp.multiply(given["wide"] @ np.ones((1, types)), x), axis=0)
        used += cp.sum(cp.multiply(given["wide_pair"] @ np.ones((1, types)), pairs_x), axis=0)
        rules = [
            reached == alone + paired,
            cp.sum(x, axis=1) + (at_first + at_second) @ cp.sum(pairs_x, axis=1) <= 1,
            used <= given["capacity"],
            pairs_x <= given["usable"],
        ]
        return cls(x=x, pairs_x=pairs_x, reached=reached, rules=rules, parameters=given)

    def give(self, seen: Reckoned, unit: Floats) -> None:
        """Set the numbers; speeds are counted in units of each job's `unit`."""
        problem = seen.problem
        pairs = problem.pairs
        assert pairs is not None
        usable = np.zeros(pairs.first_throughput.shape)
        for k, j in seen.usable:
            usable[k, j] = 1
        given = self.parameters
        given["speed"].value = seen.speed / unit[:, None]
        given["first"].value = usable * pairs.first_throughput / unit[pairs.first, None]
        given["second"].value = usable * pairs.second_throughput / unit[pairs.second, None]
        given["usable"].value = usable
        given["wide"].value = problem.scale_factor[:, None].astype(np.float64)
        given["wide_pair"].value = problem.scale_factor[pairs.first, None].astype(np.float64)
        given["capacity"].value = problem.capacity.astype(np.float64)


@cache
def levels(shape: tuple[int, int]) -> tuple[Space, Any, Any]:
    """Maximise level where reached >= floor + level need."""
    space = Space.of(*shape)
    level = cp.Variable()
    need, floor = cp.Parameter(shape[0], nonneg=True), cp.Parameter(shape[0], nonneg=True)
    space.parameters.update(need=need, floor=floor)
    rows = cp.multiply(need, cp.promote(level, (shape[0],))) + floor <= space.reached
    return space, cp.Problem(cp.Maximize(level), [*space.rules, rows]), level


@cache
def ends(shape: tuple[int, int]) -> tuple[Space, Any]:
    """Minimise the greatest of spent + left / reached, the left of a job that does not count being 0."""
    space = Space.of(*shape)
    spent, left, pad = (cp.Parameter(shape[0], nonneg=True) for _ in range(3))
    space.parameters.update(spent=spent, left=left, pad=pad)
    padded = cp.Variable(shape[0])
    worst = cp.max(spent + cp.multiply(left, cp.inv_pos(padded)))
    return space, cp.Problem(cp.Minimize(worst), [*space.rules, padded == space.reached + pad])


@cache
def sums(shape: tuple[int, int]) -> tuple[Space, Any]:
    """Maximise a weighted sum of reached and of x, where reached is at least the floor."""
    space = Space.of(*shape)
    floor, weight, gain = cp.Parameter(shape[0], nonneg=True), cp.Parameter(shape[0], nonneg=True), cp.Parameter(shape)
    space.parameters.update(floor=floor, weight=weight, gain=gain)
    total = weight @ space.reached + cp.sum(cp.multiply(gain, space.x))
    return space, cp.Problem(cp.Maximize(total), [*space.rules, space.reached >= floor])


def solved(program: Any, solver: str = cp.CLARABEL) -> float:
    """Return the optimum; infinite if there is none."""
    program.solve(solver=solver)
    assert program.status in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.INFEASIBLE}, program.status
    return float(program.value)


def unit_of(seen: Reckoned) -> Floats:
    """Return each job's fastest speed, 1 for those that fit nowhere."""
    fastest = seen.speed.max(axis=1)
    return np.where(fastest > 0, fastest, 1.0)


def only(seen: Reckoned, values: Floats, *, left: bool = False) -> Floats:
    """Return the values of the jobs that count, 0 for the others."""
    counted = np.zeros(len(values))
    rows = [m for m in seen.fitting if not left or seen.problem.steps_left[m] > 0]
    counted[rows] = values[rows]
    return counted


def las(seen: Reckoned) -> float:
    """Return the optimal level of las."""
    unit = unit_of(seen)
    space, program, _ = levels(seen.speed.shape)
    space.give(seen, unit)
    space.parameters["need"].value = only(seen, seen.problem.weight * seen.equal / seen.problem.scale_factor / unit)
    space.parameters["floor"].value = np.zeros(len(unit))
    return solved(program)


def last_end(seen: Reckoned, spent: Floats, whole: Floats) -> float:
    """Return the least greatest (spent + left / throughput) / whole."""
    unit = unit_of(seen)
    space, program = ends(seen.speed.shape)
    space.give(seen, unit)
    left = only(seen, seen.problem.steps_left, left=True)
    scale = float(max((left / unit / whole).max(), 1e-300))
    space.parameters["spent"].value = np.where(left > 0, spent / whole, 0) / scale
    space.parameters["left"].value = left / unit / whole / scale
    space.parameters["pad"].value = np.where(left > 0, 0.0, ANYTHING)
    return solved(program) * scale if left.any() else 0.0


def makespan(seen: Reckoned) -> float:
    """Return the nearest horizon."""
    jobs = len(seen.speed)
    return last_end(seen, np.zeros(jobs), np.ones(jobs))


def ftf(seen: Reckoned) -> float:
    """Return the least greatest rho."""
    problem = seen.problem
    whole = problem.isolated_s + problem.steps_left / np.where(seen.isolated > 0, seen.isolated, np.inf)
    return last_end(seen, problem.age_s, np.where(whole > 0, whole, 1.0))


def weighted(seen: Reckoned, weight: Floats, gain: Floats | None = None, floor: Floats | None = None) -> float:
    """Return the greatest sum(weight throughput) + sum(gain x) with at least the floor; infinite if there is none."""
    unit = unit_of(seen)
    space, program = sums(seen.speed.shape)
    space.give(seen, unit)
    gain = np.zeros(seen.speed.shape) if gain is None else gain
    scale = float(max((weight * unit).max(), np.abs(gain).max()))
    space.parameters["weight"].value = weight * unit / scale
    space.parameters["gain"].value = gain / scale
    space.parameters["floor"].value = np.zeros(len(unit)) if floor is None else floor / unit
    return solved(program) * scale


def fifo(seen: Reckoned) -> float:
    """Return the greatest sum of fifo."""
    return weighted(seen, only(seen, np.arange(len(seen.speed), 0, -1) / unit_of(seen)))


def throughput(seen: Reckoned) -> float:
    """Return the greatest sum of throughputs."""
    return weighted(seen, np.ones(len(seen.speed)))


def cost_sum(seen: Reckoned, floor: Floats | None = None) -> float:
    """Return the greatest sum of throughputs per price."""
    return weighted(seen, np.zeros(len(seen.speed)), seen.speed / seen.problem.price, floor)


def cost(seen: Reckoned, floor: Floats | None = None) -> float:
    """Return the greatest ratio, by Dinkelbach's method: that at which sum(throughput) - ratio * bill is 0 at most."""
    bill = seen.problem.price * seen.problem.scale_factor[:, None]
    space, _ = sums(seen.speed.shape)
    ratio = 0.0
    for _ in range(30):
        best = weighted(seen, np.ones(len(seen.speed)), -ratio * bill, floor)
        if not np.isfinite(best):
            return best
        work, paid = float((seen.speed * space.x.value).sum()), float((bill * space.x.value).sum())
        if best <= 1e-7 * work or paid < 1e-6:
            break
        ratio = work / paid
    return ratio


def with_deadlines(form: Callable[[Reckoned, Floats | None], float]) -> Callable[[Reckoned], float]:
    """Return the form with deadlines; one that the job alone can't keep is dropped, all if they exclude each other."""

    def optimum(seen: Reckoned) -> float:
        need = seen.problem.steps_left / seen.problem.deadline_s
        kept = np.where(need <= seen.speed.max(axis=1), need, 0.0)
        best = form(seen, kept)
        return best if np.isfinite(best) else form(seen, None)

    return optimum


def sjf(seen: Reckoned) -> float:
    """Return the first end: each job alone on the cluster, all in one program, for none stands in another's way."""
    problem = seen.problem
    x = cp.Variable(seen.speed.shape, nonneg=True)
    most = problem.capacity / problem.scale_factor[:, None]
    cp.Problem(
        cp.Maximize(cp.sum(cp.multiply(seen.speed / unit_of(seen)[:, None], x))), [cp.sum(x, axis=1) <= 1, x <= most]
    ).solve(solver=cp.CLARABEL)
    reached = (seen.speed * x.value).sum(axis=1)
    left = [problem.steps_left[m] / reached[m] for m in seen.fitting if problem.steps_left[m] > 0]
    return min(left, default=0.0)


@cache
def bottlenecks(shape: tuple[int, int]) -> tuple[Space, Any, Any]:
    """The paper's program with whole numbers: as many jobs as possible are lifted above what they have reached."""
    space = Space.of(*shape)
    lifted = cp.Variable(shape[0], boolean=True)
    floor, may = cp.Parameter(shape[0], nonneg=True), cp.Parameter(shape[0], nonneg=True)
    more, most = cp.Parameter(shape[0], nonneg=True), cp.Parameter(shape[0], nonneg=True)
    space.parameters.update(floor=floor, may=may, more=more, most=most)
    above = space.reached >= floor + cp.multiply(more, lifted)
    return space, cp.Problem(cp.Maximize(cp.sum(lifted)), [*space.rules, above, lifted <= may]), lifted


def water_filling(seen: Reckoned) -> Floats:
    """Return each job's service by the paper's two programs in turn, (M,)."""
    problem, jobs, unit = seen.problem, len(seen.speed), unit_of(seen)
    per_service = np.where(seen.equal > 0, seen.equal, 1.0) / problem.scale_factor / unit
    space, program, level = levels(seen.speed.shape)
    whole, choice, lifted = bottlenecks(seen.speed.shape)
    rising, reached = set(seen.fitting), np.zeros(jobs)
    while rising:
        weight = np.zeros(jobs)
        for entity, kind in enumerate(problem.entity_kind):
            members = [m for m in sorted(rising) if problem.entity[m] == entity]
            members = members[:1] if kind == "fifo" else members
            for m in members:
                weight[m] = problem.entity_weight[entity] * problem.weight[m] / problem.weight[members].sum()
        space.give(seen, unit)
        space.parameters["need"].value = weight * per_service
        # A little less than what has been reached, lest a rounding make it impossible.
        space.parameters["floor"].value = reached * per_service * (1 - 1e-9)
        solved(program, cp.HIGHS)
        reached = np.minimum(reached + max(float(level.value), 0.0) * weight, space.reached.value / per_service)
        if np.count_nonzero(weight) == 1:
            # The only one that was lifted was lifted as far as can be.
            rising.remove(int(weight.argmax()))
            continue
        whole.give(seen, unit)
        whole.parameters["floor"].value = reached * per_service * (1 - 1e-6)
        whole.parameters["may"].value = (weight > 0).astype(np.float64)
        whole.parameters["more"].value = np.full(jobs, 1e-4)
        choice.solve(solver=cp.HIGHS)
        frozen = {m for m in rising if weight[m] > 0 and lifted.value[m] < 0.5}
        if not frozen:
            break
        rising -= frozen
    return reached


ORACLES: dict[str, Callable[[Reckoned], float]] = {
    "las": las,
    "ftf": ftf,
    "makespan": makespan,
    "fifo": fifo,
    "sjf": sjf,
    "cost": cost,
    "cost-slo": with_deadlines(cost),
    "cost-sum": cost_sum,
    "cost-sum-slo": with_deadlines(cost_sum),
    "throughput": throughput,
}
VARIANTS = ["las", "ftf", "makespan", "fifo"]
NAMES = [*ORACLES, "sjf-agnostic", *(f"{name}-{kind}" for name in VARIANTS for kind in ("agnostic", "sharing"))]


def seen_by(name: str, seed: int) -> Reckoned:
    return Reckoned.of(random_problem(seed), aware=not name.endswith("-agnostic"), sharing=name.endswith("-sharing"))


def reached_objective(name: str, seen: Reckoned, answer: Allocation) -> float:
    """Return the objective that the answer's x really has."""
    problem, reached = seen.problem, seen.throughput(answer)
    left = [m for m in seen.fitting if problem.steps_left[m] > 0]
    match name.removesuffix("-agnostic").removesuffix("-sharing"):
        case "las":
            service = problem.scale_factor * reached / problem.weight
            return float(min(service[m] / seen.equal[m] for m in seen.fitting))
        case "makespan":
            return float(max((problem.steps_left[m] / reached[m] for m in left), default=0.0))
        case "sjf":
            return float(min((problem.steps_left[m] / reached[m] for m in left if reached[m] > 0), default=0.0))
        case "ftf":
            whole = {m: problem.isolated_s[m] + problem.steps_left[m] / seen.isolated[m] for m in left}
            ends = (problem.age_s[m] + problem.steps_left[m] / reached[m] for m in left)
            return float(max((end / whole[m] for m, end in zip(left, ends, strict=True)), default=0.0))
        case "fifo":
            return float(sum((len(reached) - m) * reached[m] / seen.speed[m].max() for m in seen.fitting))
        case "throughput":
            return float(reached.sum())
        case "cost" | "cost-slo":
            return float(reached.sum() / (problem.price * problem.scale_factor[:, None] * answer.x).sum())
        case _:
            return float((seen.speed / problem.price * answer.x).sum())


@pytest.mark.parametrize("name", NAMES)
def test_the_objective_is_that_of_the_oracle_and_of_the_answer(name: str) -> None:
    for seed in range(INSTANCES):
        seen = seen_by(name, seed)
        answer = policy(name).allocate(seen.problem)
        seen.assert_feasible(answer)
        if not seen.fitting:
            assert answer.fallback == "no job fits on any type"
            continue
        assert answer.fallback is None or "deadlines" in answer.fallback
        assert (answer.pairs_x is not None) == name.endswith("-sharing")
        expected = pytest.approx(ORACLES[name.removesuffix("-agnostic").removesuffix("-sharing")](seen), rel=TOLERANCE)
        assert answer.objective == expected, f"seed {seed}"
        assert reached_objective(name, seen, answer) == pytest.approx(answer.objective, rel=1e-9), f"seed {seed}"


@pytest.mark.parametrize("name", ["hierarchical", "hierarchical-agnostic", "hierarchical-sharing"])
def test_water_filling_fills_like_the_paper_s_two_programs(name: str) -> None:
    for seed in range(INSTANCES):
        seen = seen_by(name, seed)
        answer = policy(name).allocate(seen.problem)
        seen.assert_feasible(answer)
        rows = seen.fitting
        service = seen.problem.scale_factor[rows] * seen.throughput(answer)[rows] / seen.equal[rows]
        # The last program's x may give more than was given, to any job.
        promised = water_filling(seen)[rows]
        assert (service >= promised * (1 - TOLERANCE) - TOLERANCE).all(), f"seed {seed}"
