"""Time that Gavel's policies take to answer: `python -m benchmarks.gavel_solve`.

M jobs, and M/4 accelerators of each of three types, as in figure 12 of the paper. Jobs are of 26 models, as in the
paper's workload, each with its own speeds, on 1, 2, 4 or 8 accelerators. Policies that share are given every pair of
jobs on the same number of accelerators. `--distinct` makes every job a model of its own, so that no two are alike.
Medians of three.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from statistics import median

import numpy as np
from tesched_policies.gavel.allocators.problem import Pairs, Problem
from tesched_policies.gavel.allocators.registry import POLICIES, policy

REPEATS = 3
MODELS = 26
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
#: Most jobs for policies that read every pair of them.
MOST_SHARING = 512
#: Most jobs for hierarchical, which solves a program for each level.
MOST_HIERARCHICAL = 1024
SHOWN = ("las", "ftf", "makespan", "fifo", "sjf", "cost-sum", "hierarchical", "las-sharing", "makespan-sharing")
#: Seconds that an answer may take.
GOALS = {("las", 2048): 0.2, ("las-sharing", 512): 5.0}


def cluster_of(jobs: int, *, sharing: bool, distinct: bool) -> Problem:
    """Return a problem of this many jobs."""
    rng = np.random.default_rng(jobs)
    models = jobs if distinct else MODELS
    # A V100, a P100 and a K80: about 1 : 0.6 : 0.2, and different for each model.
    table = rng.lognormal(1, 1, (models, 1)) * np.array([1.0, 0.6, 0.2]) * rng.lognormal(0, 0.4, (models, 3))
    model = np.arange(jobs) if distinct else rng.integers(models, size=jobs)
    wide = rng.choice([1, 2, 4, 8], jobs, p=[0.7, 0.1, 0.15, 0.05])
    throughput = table[model] * wide[:, None] ** 0.9
    pairs = None
    if sharing:
        first, second = np.triu_indices(jobs, 1)
        same = wide[first] == wide[second]
        first, second = first[same], second[same]
        kept = rng.uniform(0.3, 1, (models, models, 3))
        pairs = Pairs(
            first=first,
            second=second,
            first_throughput=throughput[first] * kept[model[first], model[second]],
            second_throughput=throughput[second] * kept[model[second], model[first]],
        )
    steps_left = throughput.max(axis=1) * 60 * 10 ** rng.uniform(1.5, 4, jobs)
    return Problem(
        throughput=throughput,
        scale_factor=wide,
        capacity=np.full(3, max(jobs // 4, 8)),
        weight=rng.choice([1.0, 5.0], jobs, p=[0.8, 0.2]),
        steps_left=steps_left,
        age_s=rng.uniform(0, 86400, jobs),
        isolated_s=rng.uniform(0, 86400, jobs),
        price=np.array([0.74, 0.43, 0.135]),
        entity=rng.integers(3, size=jobs),
        entity_weight=np.array([1.0, 2.0, 3.0]),
        pairs=pairs,
    )


def seconds(name: str, jobs: int, *, distinct: bool) -> float:
    """Return the median time that the policy takes for this many jobs.

    Raises:
        RuntimeError: the policy had to use its safe fall-back.
    """
    problem = cluster_of(jobs, sharing=name.endswith("-sharing"), distinct=distinct)
    taken = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        answer = policy(name).allocate(problem)
        taken.append(time.perf_counter() - begin)
        if answer.fallback is not None:
            raise RuntimeError(f"{name} with {jobs} jobs: {answer.fallback}")
    return median(taken)


def sizes(name: str, most: int) -> list[int]:
    """Return the numbers of jobs that the policy is tried with."""
    limit = min(most, MOST_SHARING if name.endswith("-sharing") else most)
    limit = min(limit, MOST_HIERARCHICAL if name.startswith("hierarchical") else limit)
    return [size for size in SIZES if size <= limit]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line a policy, a column a size, and how the goals were met."""
    parser = argparse.ArgumentParser(description="How long Gavel's policies take to answer.")
    parser.add_argument("--policies", nargs="+", default=list(SHOWN), choices=sorted(POLICIES), metavar="NAME")
    parser.add_argument("--most", type=int, default=SIZES[-1], metavar="JOBS", help="no more jobs than that")
    parser.add_argument("--distinct", action="store_true", help="no two jobs are of the same model")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    given = parser.parse_args(arguments)
    taken: dict[str, dict[int, float]] = {}
    for name in given.policies:
        taken[name] = {}
        for jobs in sizes(name, given.most):
            taken[name][jobs] = seconds(name, jobs, distinct=given.distinct)
        if not given.json:
            print(f"{name:17}", *(f"{jobs}: {each:.3f} s " for jobs, each in taken[name].items()), flush=True)
    met = {
        f"{name} {jobs}": {"goal_s": goal, "seconds": taken[name][jobs], "met": taken[name][jobs] <= goal}
        for (name, jobs), goal in GOALS.items()
        if jobs in taken.get(name, {})
    }
    if given.json:
        print(json.dumps({"distinct": given.distinct, "seconds": taken, "goals": met}, indent=2))
    else:
        for what, each in met.items():
            print(
                f"{what} jobs: {each['seconds']:.3f} s, goal {each['goal_s']} s: {'met' if each['met'] else 'MISSED'}"
            )


if __name__ == "__main__":
    main()
