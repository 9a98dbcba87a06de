"""Learned run times beside what happened: how far predictions of a trace's second half are from the truth.

A trace is any that `tesched simulate --trace` reads, with times of submission. Its jobs are put in the order of
submission; the first half is learned, the second half predicted, each job at its submission from the runs that had
ended by then.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from pathlib import Path
from statistics import fmean, median

from tesched_cli.common import progress
from tesched_predict.history import FinishedRun
from tesched_predict.quantiles import LEVELS, RunTimes
from tesched_sim import traces
from tesched_sim.traces.finished import finished_run, require_times
from tesched_sim.traces.recorded import Recorded
from tesched_sim.workload import WorkloadError

#: a run of just the quantile is covered, also where exp(log(x)) misses x by a rounding error
ROUNDING = 1 + 1e-9
FEWEST_JOBS = 10

Quantiles = Sequence[float]


@dataclass(frozen=True, slots=True)
class Submitted:
    """One job of a trace, and what came of it."""

    submit_s: float
    run: FinishedRun


@dataclass(slots=True)
class Score:
    """What one predictor said, beside what happened."""

    predictor: str
    covered: list[int] = field(default_factory=lambda: [0] * len(LEVELS))
    inside: int = 0
    errors: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def add(self, quantiles_s: Quantiles, run_s: float) -> None:
        """Take one job."""
        for place, quantile_s in enumerate(quantiles_s):
            self.covered[place] += run_s <= quantile_s * ROUNDING
        self.inside += quantiles_s[0] <= run_s * ROUNDING and run_s <= quantiles_s[-1] * ROUNDING
        off = [log2(run_s / quantile_s) for quantile_s in quantiles_s]
        self.errors.append(abs(off[LEVELS.index(0.5)]))
        self.losses.append(
            fmean(level * each if each > 0 else (level - 1) * each for level, each in zip(LEVELS, off, strict=True))
        )

    def row(self) -> Row:
        """Return the figures."""
        jobs = len(self.errors)
        error = median(self.errors)
        return Row(
            predictor=self.predictor,
            predicted=jobs,
            coverage=tuple(count / jobs for count in self.covered),
            inside=self.inside / jobs,
            error_log2=error,
            factor=2**error,
            loss=fmean(self.losses),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Figures of one predictor on one trace."""

    predictor: str
    predicted: int
    #: in the order of LEVELS; best: LEVELS itself
    coverage: tuple[float, ...]
    #: share of runs from the first of LEVELS to the last; best: 0.8
    inside: float
    error_log2: float
    factor: float
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of one trace."""

    trace: str
    jobs: int
    tested: int
    rows: tuple[Row, ...]


def submitted(recorded: Recorded) -> list[Submitted]:
    """Return the jobs of a trace in the order of submission."""
    jobs = [Submitted(submit_s, finished_run(recorded, row)) for row, submit_s in enumerate(recorded.submit_s.tolist())]
    return sorted(jobs, key=lambda job: job.submit_s)


def measure(path: Path, form: str | None = None, *, online: bool, parent_runs: float) -> Figures:
    """Return the figures of one trace. Raises WorkloadError."""
    recorded = traces.read(path, form)
    require_times(recorded, path)
    jobs = submitted(recorded)
    if len(jobs) < FEWEST_JOBS:
        raise WorkloadError(f"{path}: it has {len(jobs)} jobs that ran; {FEWEST_JOBS} are needed at least")
    half = len(jobs) // 2
    to_learn = sorted((job.run for job in (jobs if online else jobs[:half])), key=lambda run: run.end_s)
    learned, of_all, limit = Score("learned"), Score("all runs"), Score("limit")
    run_times, runs_s = RunTimes(parent_runs=parent_runs), list[float]()
    known = 0
    for job in progress(jobs[half:], recorded.name):
        while known < len(to_learn) and to_learn[known].end_s <= job.submit_s:
            run_times.learned(to_learn[known])
            insort(runs_s, to_learn[known].run_s)
            known += 1
        prediction = run_times.predict(job.run)
        if prediction is None:
            continue
        learned.add(prediction.quantiles_s, job.run.run_s)
        of_all.add([runs_s[ceil(level * known) - 1] for level in LEVELS], job.run.run_s)
        if job.run.time_limit_s is not None:
            limit.add([job.run.time_limit_s] * len(LEVELS), job.run.run_s)
    rows = tuple(score.row() for score in (learned, of_all, limit) if score.errors)
    if not rows:
        raise WorkloadError(f"{path}: no job of its first half ended before one of its second half was submitted")
    return Figures(trace=recorded.name, jobs=len(jobs), tested=len(jobs) - half, rows=rows)
