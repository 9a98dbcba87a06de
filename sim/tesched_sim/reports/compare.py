"""Policies beside each other, over several seeds: means, their confidence intervals, and differences to a baseline.

A mean over n seeds has the interval mean ± t * s / sqrt(n): s is the values' standard deviation (with n - 1), t the
97.5 % point of Student's t with n - 1 degrees of freedom. One seed has no interval.

A difference is taken seed by seed, as every policy gets the same workload for a seed: 100 * (policy / baseline - 1), in
per cent; its mean and interval are those of these values. Worked example: 10 and 20 with the baseline, 9 and 16 with
the policy: -10 and -20 %, mean -15 %, s = 7.07, t = 12.71, so -15 ± 63.5 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import cos, pi, sin, sqrt, tan
from typing import Any

from tesched_sim.reports.run_summary import Case, RunReportError

#: Probability with which an interval holds the mean.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    #: half the width of the confidence interval; None if there is none
    half_width: float | None
    #: seeds in which there was a value
    seeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One policy, or one value of what is swept under it."""

    policy: str
    variant: str
    seeds: tuple[int, ...]
    #: by the summary's keys, as in "te.slowdown.p95"; a figure that no seed has is missing
    figures: Mapping[str, Estimate]
    #: in per cent of the baseline's, which has none; missing where the baseline's is 0 or missing
    difference_percent: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Key that all its cases share (`Case.column`)."""
        return self.variant, self.policy

    @property
    def title(self) -> str:
        """Heading of the column: policy and variant."""
        return f"{self.policy} {self.variant}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Everything that was run, in the order in which it was given."""

    columns: tuple[ComparedRun, ...]
    #: the policy that differences are taken to, within each variant
    baseline: str | None
    #: what the reader must know to read the figures: jobs that did not finish, intervals that could not be made
    warnings: tuple[str, ...]
    #: what the workload is, what was left out of it and what was made up; with several seeds, that of the first
    notes: tuple[str, ...] = ()
    #: probability with which an interval holds the mean
    confidence: float = CONFIDENCE


def compare(cases: Sequence[Case], *, baseline: str | None = None) -> Comparison:
    """Return the cases beside each other; without a baseline there are no differences.

    Raises ReportError if there are no cases, if one comes twice, if no case has the baseline's policy, or if a seed's
    workload is not the same for policy and baseline.
    """
    if not cases:
        raise RunReportError("there is no run to report on")
    groups = grouped(cases)
    if baseline is not None and all(policy != baseline for _, policy in groups):
        known = ", ".join(dict.fromkeys(policy for _, policy in groups))
        raise RunReportError(f"no run of the baseline {baseline}; there are runs of {known}")
    columns = tuple(
        ComparedRun(
            policy=policy,
            variant=variant,
            seeds=tuple(mine),
            figures=_means([_flat(case) for case in mine.values()]),
            difference_percent=_differences(mine, groups.get((variant, baseline), {}))
            if baseline is not None and policy != baseline
            else {},
        )
        for (variant, policy), mine in groups.items()
    )
    first = min(case.seed for case in cases)
    notes = tuple(dict.fromkeys(note for case in cases if case.seed == first for note in case.notes))
    return Comparison(columns=columns, baseline=baseline, warnings=tuple(_warnings(columns, cases)), notes=notes)


def grouped(cases: Sequence[Case]) -> dict[tuple[str, str], dict[int, Case]]:
    """Return the cases by (variant, policy), then by seed in ascending order. Raises ReportError if one comes twice."""
    groups: dict[tuple[str, str], dict[int, Case]] = {}
    for case in cases:
        mine = groups.setdefault(case.column, {})
        if case.seed in mine:
            raise RunReportError(f"there are two runs of {case.policy} {case.variant} with seed {case.seed}")
        mine[case.seed] = case
    return {column: dict(sorted(mine.items())) for column, mine in groups.items()}


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of the values (at least one) with its interval."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Estimate(mean=mean, half_width=None, seeds=count)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Estimate(mean=mean, half_width=student_t(count - 1) * deviation / sqrt(count), seeds=count)


@cache
def student_t(freedom: int) -> float:
    """Return the point that Student's t, with so many degrees of freedom, passes with (1 - CONFIDENCE) / 2."""
    low, high = 0.0, pi / 2
    for _ in range(60):  # beyond a float's 53 bits
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return sqrt(freedom) * tan(low)


def _within(theta: float, freedom: int) -> float:
    """Return the probability that Student's t is at most sqrt(freedom) * tan(theta) away from 0.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 (odd degrees of freedom) and 26.7.4 (even).
    """
    odd = freedom % 2 == 1
    term, total = sin(theta) * (cos(theta) if odd else 1.0), 0.0
    for count in range(2 if odd else 1, freedom, 2):
        total += term
        term *= cos(theta) ** 2 * count / (count + 1)
    return 2 / pi * (theta + total) if odd else total


def _means(flats: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    keys = dict.fromkeys(key for flat in flats for key in flat)
    return {key: estimate([flat[key] for flat in flats if key in flat]) for key in keys}


def _differences(mine: Mapping[int, Case], theirs: Mapping[int, Case]) -> dict[str, Estimate]:
    pairs: list[dict[str, float]] = []
    for seed, case in mine.items():
        other = theirs.get(seed)
        if other is None:
            continue
        if other.fingerprint != case.fingerprint:
            raise RunReportError(f"seed {seed}: {case.policy} and {other.policy} did not get the same workload")
        base = _flat(other)
        pairs.append(
            {key: 100 * (value / base[key] - 1) for key, value in _flat(case).items() if base.get(key, 0) != 0}
        )
    return _means(pairs)


def _flat(case: Case) -> dict[str, float]:
    return dict(_leaves(case.summary.as_json(), ""))


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{key}", float(value)


def _warnings(columns: Sequence[ComparedRun], cases: Sequence[Case]) -> Iterator[str]:
    for column in columns:
        open_jobs = column.figures["all_jobs.not_finished"]
        if open_jobs.mean:
            jobs = round(open_jobs.mean * open_jobs.seeds)
            yield f"{column.title}: jobs not finished: {jobs}; its percentiles are those of the others"
    titles = {column.key: column.title for column in columns}
    for key, case in {case.column: case for case in cases}.items():
        if case.summary.bound is not None and case.summary.bound.why_not_kept:
            yield f"{titles[key]}: {case.summary.bound.why_not_kept}"
    yield from _left_out(cases)
    if len({case.seed for case in cases}) == 1:
        yield "one seed: no confidence intervals"
    if len({column.seeds for column in columns}) > 1:
        yield "not every policy has run with every seed; differences are taken over the seeds that both have"


def _left_out(cases: Sequence[Case]) -> Iterator[str]:
    """Yield for each variant how many jobs of its trace are in no run, if there are any."""
    for variant in dict.fromkeys(case.variant for case in cases):
        counts = {case.left_out for case in cases if case.variant == variant}
        if most := max(counts):
            number = str(most) if len(counts) == 1 else f"{min(counts)} to {most} (by seed)"
            head = f"{variant}: " if variant else ""
            yield f"{head}{number} job(s) of the trace are left out: they do not fit on the nodes, even empty ones"
