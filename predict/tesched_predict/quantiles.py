"""Quantiles of run times, from the finished runs of jobs like the one to be predicted.

A job's groups are nested: its user, name pattern, size class and time limit; its user and name pattern; its user; its
account and partition; all. A group with n runs has weight n / (n + k) against its parent, whose runs have the rest:

    F_group(x) = n / (n + k) * (share of the group's runs <= x) + k / (n + k) * F_parent(x)

This is the predictive distribution of a Dirichlet process with its parent for base measure (Ferguson 1973). The
quantiles are those of F on the logarithm of the run time, so a factor counts alike for short and long jobs. To predict
from the history of user, name and size is the idea of Helios' QSSF (Hu et al., SC 2021: "Characterization and
prediction of deep learning workloads in large-scale GPU datacenters") and of Lucid's workload estimate (Hu et al.,
ASPLOS 2023); their features, not their code.

A job that has run for r seconds is told by the runs longer than r: the quantile p is F^-1(F(r) + p (1 - F(r))), which
ascends with r. Once it has outlived all runs, P(T > t | T > r) = r / t, as Harchol-Balter and Downey measured it for
processes (SIGMETRICS 1996): as likely as not, it runs as long again.

Examples, worked out (k = 5):
- A user's only run took 60 s, five others had 600 s: the user's weight is 1 / 6, so that 10 % is 60 s, 50 % is 600 s.
- Ten runs of 60 s of its own, nothing else: all quantiles are 60 s. After 100 s: 10 % is 111 s, 50 % is 200 s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import exp, log

from tesched_predict.groups import Groups, Likeness, NewestRuns
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.words import sentence

#: the quantiles of a prediction
LEVELS = (0.1, 0.5, 0.8, 0.9)
#: runs that the parent group counts for (k)
PARENT_RUNS = 5.0
RUNS_PER_GROUP = 256
RUNS_OF_ALL = 1024
GROUPS_PER_LIKENESS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Quantiles of the run time of one job, from its start, in the order of LEVELS."""

    quantiles_s: tuple[float, ...]
    #: what the group of greatest weight has in common with the job
    likeness: Likeness
    #: how many runs of that group it stands on; of a running job: how many were longer than what it has run
    runs: int
    #: share of these runs that were shorter than the 80 % quantile
    shorter: float
    #: what the job had run
    ran_s: float

    def at(self, level: float) -> float:
        """Return one quantile. Raises ValueError for a level that is not predicted."""
        return self.quantiles_s[LEVELS.index(level)]

    @property
    def explained(self) -> str:
        """Return a sentence for users."""
        return sentence(self.at(0.8), self.shorter, self.runs, self.likeness.value, self.ran_s)


@dataclass(slots=True)
class RunTimes:
    """What the finished runs tell. Bounded: see docs/reference/run-times.md for what 10^6 runs take."""

    #: runs that the parent group counts for
    parent_runs: float = PARENT_RUNS
    groups: Groups = field(default_factory=lambda: Groups(RUNS_PER_GROUP, RUNS_OF_ALL, GROUPS_PER_LIKENESS))

    def learned(self, run: FinishedRun) -> None:
        """Take one finished run, in any order."""
        self.groups.add(run)

    def shared_key(self, job: JobFacts) -> Hashable:
        """Key that jobs have in common for which, before they start, the same is predicted until more is learned."""
        return (*(id(group) for _, group in self.groups.of(job)), job.time_limit_s)

    def predict(self, job: JobFacts, *, ran_s: float = 0.0) -> Prediction | None:
        """Return the quantiles for a job that has run `ran_s` seconds; None: nothing was learned.

        None is above the time limit, or below `ran_s`.
        """
        mixture = _Mixture.of(self.groups.of(job), self.parent_runs)
        if not mixture.parts:
            return None
        limit_s = float("inf") if job.time_limit_s is None else job.time_limit_s
        quantiles_s = tuple(max(min(each, limit_s), ran_s) for each in mixture.quantiles_s(ran_s))
        likeness, group = mixture.heaviest
        before = group.at_most(log(ran_s)) if ran_s > 0 else 0
        runs = len(group) - before
        # exp(log(x)) may miss x by a rounding error; a run of just the quantile is not shorter
        below = bisect_left(group.logs, log(quantiles_s[LEVELS.index(0.8)]) - 1e-9) - before
        return Prediction(
            quantiles_s=quantiles_s,
            likeness=likeness,
            runs=runs,
            shorter=max(below, 0) / runs if runs else 0.0,
            ran_s=ran_s,
        )


@dataclass(frozen=True, slots=True)
class _Mixture:
    """A job's groups with their weights, which sum to 1."""

    parts: tuple[tuple[float, Likeness, NewestRuns], ...]

    @classmethod
    def of(cls, groups: list[tuple[Likeness, NewestRuns]], parent_runs: float) -> _Mixture:
        parts = []
        left = 1.0
        for place, (likeness, group) in enumerate(groups):
            last = place == len(groups) - 1
            weight = left if last else left * len(group) / (len(group) + parent_runs)
            parts.append((weight, likeness, group))
            left -= weight
        return cls(tuple(parts))

    @property
    def heaviest(self) -> tuple[Likeness, NewestRuns]:
        """Return the group of greatest weight, of equal ones the most telling."""
        _, likeness, group = max(self.parts, key=lambda part: part[0])
        return likeness, group

    def at_most(self, log_s: float) -> float:
        """Return the share of runs that are not longer."""
        return sum(weight * group.at_most(log_s) / len(group) for weight, _, group in self.parts)

    def quantiles_s(self, ran_s: float) -> list[float]:
        """Return the quantiles of the runs longer than `ran_s`."""
        shares = sorted(
            (log_s, weight / len(group)) for weight, _, group in self.parts for log_s in _longer(group, ran_s)
        )
        if not shares:
            return [ran_s / (1 - level) for level in LEVELS]
        total = sum(share for _, share in shares)
        found: list[float] = []
        reached = 0.0
        for log_s, share in shares:
            reached += share
            while len(found) < len(LEVELS) and reached >= LEVELS[len(found)] * total * (1 - 1e-12):
                found.append(exp(log_s))
        return found


def _longer(group: NewestRuns, ran_s: float) -> list[float]:
    return group.logs[group.at_most(log(ran_s)) :] if ran_s > 0 else group.logs
