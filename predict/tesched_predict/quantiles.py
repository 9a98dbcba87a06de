"""Quantiles of run times, from the finished runs of jobs like the one to be predicted.

A job's groups are nested: its user, name pattern, size class and time limit; its user and name pattern; its user; its
account and partition; all. A group with n runs has weight n / (n + k) against its parent, whose runs have the rest:

    F_group(x) = n / (n + k) * (share of the group's runs <= x) + k / (n + k) * F_parent(x)

This is the predictive distribution of a Dirichlet process with its parent for base measure (Ferguson 1973). The
quantiles are those of F on the logarithm of the run time, so a factor counts alike for short and long jobs. To predict
from the history of user, name and size is the idea of Helios' QSSF (Hu et al., SC 2021: "Characterization and
prediction of deep learning workloads in large-scale GPU datacenters") and of Lucid's workload estimate (Hu et al.,
ASPLOS 2023); their features, not their code. At which levels they are read, `calibration.py` says.

A job that has run for r seconds is judged by the runs longer than r: the quantile p is F^-1(F(r) + p (1 - F(r))), which
ascends with r. Once it has outlived all runs, P(T > t | T > r) = r / t, as Harchol-Balter and Downey measured it for
processes (SIGMETRICS 1996): as likely as not, it runs as long again.

Examples, worked out (k = 5):
- A user's only run took 60 s, five others had 600 s: the user's weight is 1 / 6, so that 10 % is 60 s, 50 % is 600 s.
- Ten runs of 60 s of its own, nothing else: all quantiles are 60 s. After 100 s: 10 % is 111 s, 50 % is 200 s.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import exp, log

from tesched_predict.calibration import SCORED_RUNS, Calibration
from tesched_predict.groups import Groups, Likeness, NewestRuns
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.words import sentence

#: the quantiles of a prediction
LEVELS = (0.1, 0.5, 0.8, 0.9)
#: runs that the parent group counts for (k)
PARENT_RUNS = 5.0
#: of logarithms that exp and log may make of equal ones
_ROUNDING = 1e-9


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
    """What the finished runs show. Bounded: see docs/reference/run-times.md for what 10^6 runs take."""

    #: runs that the parent group counts for
    parent_runs: float = PARENT_RUNS
    groups: Groups = field(default_factory=Groups)
    calibration: Calibration = field(default_factory=Calibration)

    def learned(self, run: FinishedRun, *, scored: bool = True) -> None:
        """Take one finished run; those that are to be `scored` in the order of their ends."""
        if scored and self.calibration.is_due():
            self._score(run)
        self.groups.add(run)

    def learned_all(self, runs: Sequence[FinishedRun]) -> None:
        """Take a history in the order of its ends, of which the newest runs are scored."""
        for place, run in enumerate(runs):
            self.learned(run, scored=place >= len(runs) - SCORED_RUNS)

    def _score(self, run: FinishedRun) -> None:
        """Compare the run with what was known at its start, as far as it is kept (`calibration.py`)."""
        began_s, log_s = run.end_s - run.run_s, log(run.run_s)
        low, high = log_s - _ROUNDING, log_s + _ROUNDING
        ranks = [group.ranks_at(began_s, low, high) for _, group in self.groups.of(run)]
        known = [each for each in ranks if each[0]]
        if not known:
            return
        weights = _weights([runs for runs, _, _ in known], self.parent_runs)
        shares = [weight / runs for weight, (runs, _, _) in zip(weights, known, strict=True)]
        below = sum(share * count for share, (_, count, _) in zip(shares, known, strict=True))
        not_above = sum(share * count for share, (_, _, count) in zip(shares, known, strict=True))
        self.calibration.add(below, not_above)

    def shared_key(self, job: JobFacts) -> Hashable:
        """Key that jobs have in common for which, before they start, the same is predicted until more is learned."""
        return self.groups.keys(job), job.limit_s

    def levels(self) -> tuple[float, ...]:
        """Levels at which the quantiles LEVELS are read."""
        return self.calibration.levels(LEVELS)

    def predict(self, job: JobFacts, *, ran_s: float = 0.0, levels: Sequence[float] | None = None) -> Prediction | None:
        """Return the quantiles for a job that has run `ran_s` seconds; None: nothing was learned.

        None is above the time limit, or below `ran_s`. `levels` are read instead of its own, where a part of the
        history was learned that has none.
        """
        mixture = _Mixture.of(self.groups.of(job), self.parent_runs)
        if not mixture.parts:
            return None
        read_at = self.levels() if levels is None else levels
        quantiles_s = tuple(max(min(each, job.limit_s), ran_s) for each in mixture.quantiles_s(ran_s, read_at))
        likeness, group = mixture.heaviest
        before = group.at_most(log(ran_s)) if ran_s > 0 else 0
        runs = len(group) - before
        # exp(log(x)) may miss x by a rounding error; a run of just the quantile is not shorter
        below = bisect_left(group.logs, log(quantiles_s[LEVELS.index(0.8)]) - _ROUNDING) - before
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
        weights = _weights([len(group) for _, group in groups], parent_runs)
        return cls(tuple((weight, *each) for weight, each in zip(weights, groups, strict=True)))

    @property
    def heaviest(self) -> tuple[Likeness, NewestRuns]:
        """Return the group of greatest weight, of equal ones the most specific."""
        _, likeness, group = max(self.parts, key=lambda part: part[0])
        return likeness, group

    def at_most(self, log_s: float) -> float:
        """Return the share of runs that are not longer."""
        return sum(weight * group.at_most(log_s) / len(group) for weight, _, group in self.parts)

    def quantiles_s(self, ran_s: float, levels: Sequence[float]) -> list[float]:
        """Return the quantiles of the runs longer than `ran_s`, at these levels, which ascend."""
        shares = sorted(
            (log_s, weight / len(group)) for weight, _, group in self.parts for log_s in _longer(group, ran_s)
        )
        if not shares:
            return [ran_s / max(1 - level, 1 - LEVELS[-1]) for level in levels]
        total = sum(share for _, share in shares)
        found: list[float] = []
        reached = 0.0
        for log_s, share in shares:
            reached += share
            while len(found) < len(levels) and reached >= levels[len(found)] * total * (1 - 1e-12):
                found.append(exp(log_s))
        return found


def _weights(counts: Sequence[int], parent_runs: float) -> list[float]:
    """Weights of groups with so many runs, the most specific first; they sum to 1."""
    weights: list[float] = []
    left = 1.0
    for count in counts[:-1]:
        weights.append(left * count / (count + parent_runs))
        left -= weights[-1]
    return [*weights, left] if counts else []


def _longer(group: NewestRuns, ran_s: float) -> list[float]:
    return group.logs[group.at_most(log(ran_s)) :] if ran_s > 0 else group.logs
