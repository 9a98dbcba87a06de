"""Learned run times beside what happened: `python -m benchmarks.run_times [--online] TRACE...`.

A trace is any that `tesched simulate --trace` reads, with times of submission. Its jobs are put in the order of
submission; the first half is learned, the second half predicted, each job at its submission from the runs that had
ended by then. `--online` learns runs of the second half, too, once they have ended, as a daemon would.

For each trace, three predictors side by side: `learned` (tesched_predict), `all runs` (quantiles of all runs learned,
the same for each job) and `limit` (each job takes its time limit; only where the trace tells limits, and of the jobs
that have one). Columns: share of jobs that ran at most the 10, 50, 80 and 90 % quantile, which is best at just that;
the median of |log2(median predicted / run time)| and the factor that it is; and the mean pinball loss over the four
quantiles in log2, one figure for all of it (less is better). `--cost RUNS` measures made-up runs instead: time and
memory.
"""

from __future__ import annotations

import json
import random
import resource
import time
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil, inf, isnan, log, log2
from pathlib import Path
from statistics import fmean, median

import click
from tesched_cli.common import progress
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import LEVELS, PARENT_RUNS, RunTimes
from tesched_sim import traces
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
    errors: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def add(self, quantiles_s: Quantiles, run_s: float) -> None:
        """Take one job."""
        for place, quantile_s in enumerate(quantiles_s):
            self.covered[place] += run_s <= quantile_s * ROUNDING
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
    """Return the jobs of a trace in the order of submission; where no wait is told, a job started at once."""
    jobs = []
    for place, run_s in enumerate(recorded.run_s.tolist()):
        submit_s, waited_s = float(recorded.submit_s[place]), float(recorded.waited_s[place])
        limit_s = float(recorded.limit_s[place])
        run = FinishedRun(
            user=recorded.users[place],
            account=recorded.accounts[place],
            partition=recorded.partitions[place],
            job_name=recorded.job_names[place],
            gpus=max(int(recorded.gpus[place]), 0),
            cpus=max(int(recorded.cpus[place]), 0),
            nodes=max(int(recorded.nodes[place]), 0),
            time_limit_s=None if isnan(limit_s) or limit_s == inf else limit_s,
            run_s=run_s,
            end_s=submit_s + (0.0 if isnan(waited_s) else waited_s) + run_s,
        )
        jobs.append(Submitted(submit_s, run))
    return sorted(jobs, key=lambda job: job.submit_s)


def measure(path: Path, form: str | None = None, *, online: bool, parent_runs: float) -> Figures:
    """Return the figures of one trace. Raises WorkloadError."""
    recorded = traces.read(path, form)
    if not recorded.has_times:
        raise WorkloadError(f"{path}:1: this format tells no time of submission; a trace with such times is needed")
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


def show(figures: Sequence[Figures]) -> None:
    """Print the table, one line a predictor."""
    width = max(len(each.trace) for each in figures)
    levels = "".join(f"{f'<= {100 * level:.0f} %':>8}" for level in LEVELS)
    print(
        f"{'TRACE':<{width}} {'JOBS':>7} {'TESTED':>7} {'PREDICTOR':<9}{levels} {'LOG2':>6} {'FACTOR':>7} {'LOSS':>6}"
    )
    for each in figures:
        for row in each.rows:
            shares = "".join(f"{100 * share:>6.1f} %" for share in row.coverage)
            print(
                f"{each.trace:<{width}} {each.jobs:>7} {row.predicted:>7} {row.predictor:<9}{shares}"
                f" {row.error_log2:>6.2f} {row.factor:>7.2f} {row.loss:>6.3f}"
            )


def cost(runs: int) -> dict[str, float]:
    """Return microseconds a run learned and a job predicted, and MiB held; of 5,000 users, the most that are kept."""
    chance = random.Random(0)  # noqa: S311 - no secret
    run_times = RunTimes()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def job(number: int) -> JobFacts:
        name = "".join(chance.choices("abcdefgh", k=4))
        return JobFacts(user=f"u{number % 5000}", job_name=name, gpus=1 << chance.randrange(7), time_limit_s=86400.0)

    def took_us(count: int, call: Callable[[int], object]) -> float:
        began = time.perf_counter()
        for number in range(count):
            call(number)
        return 1e6 * (time.perf_counter() - began) / count

    def learn(number: int) -> None:
        facts = job(number)
        run_s = chance.lognormvariate(log(1800), 1.5)
        run_times.learned(
            FinishedRun(
                user=facts.user, job_name=facts.job_name, gpus=facts.gpus, time_limit_s=facts.time_limit_s,
                run_s=run_s, end_s=float(number),
            )
        )  # fmt: skip

    learned_us = took_us(runs, learn)
    held_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib) / 1024
    predicted_us = took_us(1000, lambda number: run_times.predict(job(number)))
    return {"runs": runs, "learned_us": learned_us, "predicted_us": predicted_us, "held_mib": held_mib}


class _InputError(click.ClickException):
    exit_code = 2


@click.command()
@click.argument("paths", metavar="TRACE...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(traces.FORMATS), help="Where the first line does not tell it.")
@click.option("--online", is_flag=True, help="Learn the second half's runs, too, once they have ended.")
@click.option(
    "--parent-runs", type=click.FloatRange(0, min_open=True), default=PARENT_RUNS, show_default=True,
    help="Runs that the parent group counts for (k).",
)  # fmt: skip
@click.option("--cost", "cost_runs", type=click.IntRange(1), metavar="RUNS", help="Time and memory of made-up runs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    *, paths: tuple[Path, ...], form: str | None, online: bool, parent_runs: float, cost_runs: int | None, as_json: bool
) -> None:
    """Print how well run times are learned from traces."""
    if cost_runs:
        figures = cost(cost_runs)
        words = "{runs:.0f} runs: {learned_us:.0f} us a run, {predicted_us:.0f} us a prediction, {held_mib:.0f} MiB"
        print(json.dumps(figures) if as_json else words.format(**figures))
        return
    if not paths:
        raise click.UsageError("no trace is named; name files such as trace.swf.gz, or --cost RUNS")
    try:
        found = [measure(path, form, online=online, parent_runs=parent_runs) for path in paths]
    except WorkloadError as error:
        raise _InputError(str(error)) from None
    if as_json:
        learns = "both halves" if online else "first half"
        print(json.dumps({"learns": learns, "levels": LEVELS, "traces": [asdict(each) for each in found]}, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
