"""Random problems for Gavel's policies, and what they come to, reckoned job by job and not with core's own arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.allocators.problem import Allocation, Pairs, Problem

Floats = NDArray[np.float64]

#: (jobs, types)
SHAPES = ((2, 2), (4, 3), (6, 3))


def random_problem(seed: int, shape: tuple[int, int] | None = None) -> Problem:
    """Return a small problem, with every pair of jobs; the seed alone decides."""
    jobs, types = shape or SHAPES[seed % len(SHAPES)]
    rng = np.random.default_rng(seed)
    throughput = rng.lognormal(1, 1, (jobs, 1)) * rng.uniform(0.1, 1, (jobs, types))
    throughput[rng.random((jobs, types)) < 0.1] = 0
    scale_factor = rng.choice([1, 2, 4], jobs, p=[0.8, 0.15, 0.05])
    first, second = np.triu_indices(jobs, 1)
    alone = throughput[first], throughput[second]
    inside = [speed * rng.uniform(0.4, 1, speed.shape) for speed in alone]
    inside[0][rng.random(inside[0].shape) < 0.1] = 0
    steps_left = rng.lognormal(8, 1, jobs) * (rng.random(jobs) > 0.05)
    shortest_s = np.maximum(steps_left, 1) / np.maximum(throughput.max(axis=1), 0.1)
    entities = int(rng.integers(1, 4))
    return Problem(
        throughput=throughput,
        scale_factor=scale_factor,
        capacity=np.append(rng.integers(0, jobs // 2 + 1, types - 1), jobs // 2),
        weight=rng.choice([1.0, 5.0], jobs, p=[0.8, 0.2]),
        steps_left=steps_left,
        age_s=rng.uniform(0, 5000, jobs),
        isolated_s=rng.uniform(0, 5000, jobs),
        deadline_s=np.where(rng.random(jobs) < 0.5, shortest_s * rng.uniform(0.8, 5, jobs), np.inf),
        price=rng.uniform(0.1, 1, types),
        reference=int(rng.integers(types)),
        entity=rng.integers(0, entities, jobs),
        entity_weight=rng.choice([1.0, 2.0, 3.0], entities),
        entity_kind=tuple(rng.choice(["fairness", "fifo"], entities)),
        pairs=Pairs(first=first, second=second, first_throughput=inside[0], second_throughput=inside[1]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reckoned:
    """A problem as one of the policies sees it: the paper's quantities, in loops."""

    problem: Problem
    #: T_mj, (M, T).
    speed: Floats
    #: throughput(m, equal) and throughput(m, isolated), (M,).
    equal: Floats
    isolated: Floats
    #: Jobs that fit somewhere.
    fitting: list[int]
    #: (pair, type) that may be used.
    usable: list[tuple[int, int]]

    @classmethod
    def of(cls, problem: Problem, *, aware: bool = True, sharing: bool = False) -> Reckoned:
        """Return what a policy sees."""
        jobs, types = problem.throughput.shape
        sf, capacity = problem.scale_factor.tolist(), problem.capacity.tolist()
        speed = np.zeros((jobs, types))
        for m in range(jobs):
            fits = [j for j in range(types) if problem.throughput[m, j] > 0 and sf[m] <= capacity[j]]
            for j in fits:
                known = j if aware else (problem.reference if problem.reference in fits else fits[0])
                speed[m, j] = problem.throughput[m, known]
        total = max(sum(capacity), 1)
        equal = [sum(speed[m, j] * capacity[j] / total for j in range(types)) for m in range(jobs)]
        isolated = []
        for m in range(jobs):
            share = [capacity[j] / jobs / sf[m] for j in range(types)]
            isolated.append(sum(speed[m, j] * share[j] for j in range(types)) / max(1, sum(share)))
        usable = []
        pairs = problem.pairs
        if sharing and pairs is not None:
            for k, (a, b) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
                usable += [(k, j) for j in range(types) if sf[a] == sf[b] and speed[a, j] > 0 and speed[b, j] > 0]
        return cls(
            problem=problem,
            speed=speed,
            equal=np.array(equal),
            isolated=np.array(isolated),
            fitting=[m for m in range(jobs) if speed[m].max(initial=0) > 0],
            usable=usable,
        )

    def throughput(self, answer: Allocation) -> Floats:
        """Return each job's steps per second, (M,), as the policy believes."""
        reached = np.array([math.fsum(self.speed[m] * answer.x[m]) for m in range(len(self.speed))])
        pairs = self.problem.pairs
        if answer.pairs_x is not None and pairs is not None:
            for k in range(len(pairs.first)):
                reached[pairs.first[k]] += math.fsum(pairs.first_throughput[k] * answer.pairs_x[k])
                reached[pairs.second[k]] += math.fsum(pairs.second_throughput[k] * answer.pairs_x[k])
        return reached

    def assert_feasible(self, answer: Allocation) -> None:
        """Assert that no job has more than all its time or a bad place, and no type more jobs than accelerators."""
        problem = self.problem
        pairs, pairs_x = problem.pairs, answer.pairs_x
        assert answer.x.shape == problem.throughput.shape
        assert (answer.x >= 0).all()
        assert (answer.x[self.speed == 0] == 0).all()
        time = answer.x.sum(axis=1)
        used = (problem.scale_factor[:, None] * answer.x).sum(axis=0)
        if pairs_x is not None and pairs is not None:
            assert (pairs_x >= 0).all()
            held = {(int(k), int(j)) for k, j in np.argwhere(pairs_x > 0)}
            assert held <= set(self.usable)
            for k in range(len(pairs.first)):
                time[[pairs.first[k], pairs.second[k]]] += pairs_x[k].sum()
                used += problem.scale_factor[pairs.first[k]] * pairs_x[k]
        assert (time <= 1 + 1e-9).all()
        assert (used <= problem.capacity * (1 + 1e-9)).all()
