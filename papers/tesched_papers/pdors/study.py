"""Schedulers side by side: every one, every value that is swept, every seed; and what they come to on average."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import sqrt

import numpy as np
from tesched_sim.workload import WorkloadError
from tesched_sim.workloads import parameters

from tesched_papers.pdors.engine import Result
from tesched_papers.pdors.methods import Planning, check, run
from tesched_papers.pdors.optimum import optimum
from tesched_papers.pdors.workload import PdOrsWorkload, pdors_workload

_WORKLOAD, _PLAN = "workload.", "plan."


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One value of each key that is swept."""

    #: "workload.machines=20"; empty if nothing is swept
    name: str
    workload: PdOrsWorkload
    planning: Planning


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run to be made."""

    method: str
    variant: Variant
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """One run that was made."""

    trial: Trial
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Figures of one scheduler under one variant: means over the seeds."""

    variant: str
    method: str
    seeds: int
    #: sum of the utilities of all jobs, its standard error, and as a part of the first scheduler's
    utility: float
    utility_error: float
    utility_to_first: float
    #: of the offline optimum, where it was requested: the part that was reached
    utility_to_optimum: float | None
    #: parts of all jobs that were given anything, and that finished
    started: float
    finished: float
    #: slots from arrival to end; the horizon for a job that did not finish
    training_mean: float
    training_median: float
    #: part of the worker-slots on one machine with all of their job; part taken of the tightest resource
    internal: float
    used: float
    #: seconds of real time in the scheduler
    took_s: float


def variants(sets: Sequence[tuple[str, Sequence[str]]]) -> tuple[Variant, ...]:
    """Return a variant for each combination of values. Raises WorkloadError, naming the key."""
    for key, _ in sets:
        if not key.startswith((_WORKLOAD, _PLAN)):
            raise WorkloadError(f"{key}: keys begin with {_WORKLOAD} or {_PLAN}")
    swept = {key for key, values in sets if len(values) > 1}
    made = []
    for values in product(*(values for _, values in sets)):
        pairs = dict(zip((key for key, _ in sets), values, strict=True))
        made.append(
            Variant(
                name=", ".join(f"{key}={value}" for key, value in pairs.items() if key in swept),
                workload=parameters(PdOrsWorkload, _below(pairs, _WORKLOAD)),
                planning=_planning(_below(pairs, _PLAN)),
            )
        )
    return tuple(made)


def trials(methods: Sequence[str], some: Sequence[Variant], seeds: int) -> tuple[Trial, ...]:
    """Return every run. Raises WorkloadError for a scheduler that is not there."""
    for method in methods:
        check(method)
    return tuple(
        Trial(method=method, variant=variant, seed=seed)
        for variant, seed, method in product(some, range(seeds), methods)
    )


def perform(some: Sequence[Trial]) -> Iterator[Done]:
    """Make the runs, one after the other."""
    for trial in some:
        instance = pdors_workload(trial.variant.workload, trial.seed)
        yield Done(trial=trial, result=run(trial.method, instance, trial.variant.planning))


def best_of(some: Sequence[Trial], *, limit_s: float) -> Iterator[tuple[tuple[str, int], float]]:
    """Yield (variant, seed) and its offline optimum. Raises WorkloadError if one is not found in time."""
    for variant, seed in dict.fromkeys((trial.variant, trial.seed) for trial in some):
        yield (variant.name, seed), optimum(pdors_workload(variant.workload, seed), limit_s=limit_s).utility


def lines(done: Sequence[Done], best: Mapping[tuple[str, int], float]) -> tuple[Line, ...]:
    """Return the means, in the order in which the runs were requested."""
    groups: dict[tuple[str, str], list[Done]] = {}
    for one in done:
        groups.setdefault((one.trial.variant.name, one.trial.method), []).append(one)
    first: dict[str, list[Done]] = {}
    for (variant, _), group in groups.items():
        first.setdefault(variant, group)
    return tuple(_line(group, first[variant], best) for (variant, _), group in groups.items())


def _line(group: Sequence[Done], first: Sequence[Done], best: Mapping[tuple[str, int], float]) -> Line:
    results = [one.result for one in group]
    utility = np.array([result.utility for result in results])
    base = np.array([one.result.utility for one in first[: len(group)]])
    keys = [(one.trial.variant.name, one.trial.seed) for one in group]
    reached = [one / best[key] for one, key in zip(utility, keys, strict=True) if key in best and best[key] > 0]
    error = float(utility.std(ddof=1)) / sqrt(len(group)) if len(group) > 1 else 0.0
    return Line(
        variant=group[0].trial.variant.name,
        method=group[0].trial.method,
        seeds=len(group),
        utility=float(utility.mean()),
        utility_error=error,
        utility_to_first=float(utility.sum() / base.sum()) if base.sum() > 0 else 0.0,
        utility_to_optimum=float(np.mean(reached)) if reached else None,
        started=float(np.mean([result.started / len(result.jobs) for result in results])),
        finished=float(np.mean([result.finished / len(result.jobs) for result in results])),
        training_mean=float(np.mean([result.mean_training for result in results])),
        training_median=float(np.mean([result.median_training for result in results])),
        internal=float(np.mean([result.internal for result in results])),
        used=float(np.mean([result.used for result in results])),
        took_s=float(np.mean([result.took_s for result in results])),
    )


def _below(pairs: Mapping[str, str], head: str) -> dict[str, str]:
    return {key.removeprefix(head): value for key, value in pairs.items() if key.startswith(head)}


def _planning(settings: Mapping[str, str]) -> Planning:
    try:
        made: Planning = parameters(Planning, settings)
    except WorkloadError as error:
        # What reads typed values takes them all for a workload's.
        raise WorkloadError(str(error).replace(_WORKLOAD, _PLAN, 1)) from None
    return made
