"""What learned run times are worth to patient and fill: `python -m benchmarks.expected_runs [--jobs N] TRACE...`.

The first half of a trace by submission is learned, and the second half's runs as they end, as a daemon would; the first
`--jobs` of the second half run on a simulated Slurm (its own backfill goes by time limits), beside `fifo`, without
tesched, once with each of three ways to know run times: by time limit alone, as predicted at each job's submission, and
the true ones. Time limits are the trace's or, where it has none, drawn with the seed: the run time times a lognormal
factor (median 2, spread 0.7, at least 1), rounded up to what people type. The daemon polls once a minute. Which jobs
are TE, grace periods and the cluster are made up as for `tesched simulate --trace` (docs/reference/workloads.md).

What was learned is of the recorded ends, not of the simulated ones; and a simulated job that outlives its median is
taken to end by its limit, where a daemon would predict again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from tesched_cli.common import progress
from tesched_predict.quantiles import RunTimes
from tesched_sim import traces, workloads
from tesched_sim.experiment import ExperimentSetting, Site, run_one
from tesched_sim.reports.summary import summarise
from tesched_sim.traces.finished import require_times
from tesched_sim.traces.recorded import Recorded
from tesched_sim.workload import Workload, WorkloadError
from tesched_sim.workloads.fill import FillModel, fill
from tesched_testcluster.harness.run_times import submitted

LEVELS = (0.1, 0.5, 0.8)
#: seconds between two polls: with the 5 s of a site, days of a trace take an hour
POLL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One run. Seconds; node-hours."""

    trace: str
    policy: str
    known: str
    te_wait_p50_s: float | None
    te_wait_p95_s: float | None
    be_wait_mean_s: float | None
    be_slowdown_mean: float | None
    be_slowdown_p95: float | None
    preemptions: int


def predicted(recorded: Recorded, first: int, count: int) -> NDArray[np.float64]:
    """Return [jobs, 3] what is expected of jobs `first` to `first + count`, in the order of submission."""
    jobs = submitted(recorded)
    to_learn = sorted((job.run for job in jobs), key=lambda run: run.end_s)
    run_times, known, found = RunTimes(), 0, []
    for job in progress(jobs[first : first + count], recorded.name):
        while known < len(to_learn) and to_learn[known].end_s <= job.submit_s:
            run_times.learned(to_learn[known])
            known += 1
        prediction = run_times.predict(job.run)
        found.append([np.inf] * 3 if prediction is None else [prediction.at(level) for level in LEVELS])
    return np.array(found, dtype=np.float64)


def measured(path: Path, jobs: int, policies: Sequence[str], seed: int, model: FillModel) -> Iterator[Line]:
    """Yield the runs of one trace. Raises WorkloadError."""
    recorded = traces.read(path)
    require_times(recorded, path)
    half = len(recorded.run_s) // 2
    rows = np.argsort(recorded.submit_s, kind="stable")[half:][:jobs]
    filled = fill(recorded.part(rows), model, seed)
    workload = filled.workload
    # Jobs that fit on no node are left out.
    expected = predicted(recorded, half, len(rows))[filled.rows]
    setting = ExperimentSetting.of(Site.SLURM).with_values({"site.poll_s": str(POLL_S)})
    true = replace(setting, site=replace(setting.site, true_run_times=True))
    yield _line(recorded.name, "fifo", "limit", setting, workload)
    for policy in policies:
        yield _line(recorded.name, policy, "limit", setting, workload)
        yield _line(recorded.name, policy, "predicted", setting, replace(workload, expected_s=expected))
        yield _line(recorded.name, policy, "true", true, workload)


def _line(trace: str, policy: str, known: str, setting: ExperimentSetting, workload: Workload) -> Line:
    summary = summarise(run_one(policy, setting, workload))
    te, be = summary.te, summary.be
    return Line(
        trace=trace,
        policy=policy,
        known=known,
        te_wait_p50_s=te.wait_s.p50,
        te_wait_p95_s=te.wait_s.p95,
        be_wait_mean_s=be.wait_s.mean,
        be_slowdown_mean=be.bounded_slowdown.mean,
        be_slowdown_p95=be.bounded_slowdown.p95,
        preemptions=summary.preemptions,
    )


@click.command()
@click.argument("paths", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--jobs", type=click.IntRange(10), default=4000, show_default=True, help="Of the second half, the first.")
@click.option("--policy", "policies", multiple=True, default=("patient", "patient+fill"))
@click.option("--seed", default=1, show_default=True)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Of the workload, such as load=0.95.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(
    *, paths: tuple[Path, ...], jobs: int, policies: tuple[str, ...], seed: int, sets: tuple[str, ...], as_json: bool
) -> None:
    """Print what learned run times are worth to patient and fill."""
    try:
        model: FillModel = workloads.parameters(FillModel, dict(word.partition("=")[::2] for word in sets))
        lines = []
        for path in paths:
            for line in measured(path, jobs, policies, seed, model):
                lines.append(line)
                if not as_json:
                    print(_shown(line), flush=True)
    except WorkloadError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))


def _shown(line: Line) -> str:
    def of(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return (
        f"{line.trace:<26} {line.policy:<13} {line.known:<10} TE wait p50 {of(line.te_wait_p50_s, '6.0f')} p95 "
        f"{of(line.te_wait_p95_s, '7.0f')} s, BE wait {of(line.be_wait_mean_s, '7.0f')} s, slowdown "
        f"{of(line.be_slowdown_mean, '7.2f')} p95 {of(line.be_slowdown_p95, '8.2f')}, {line.preemptions:5} preempted"
    )


if __name__ == "__main__":
    main()
