"""Learned run times beside what happened: `python -m benchmarks.run_times [--online] TRACE...`.

A trace is any that `tesched simulate --trace` reads, with times of submission. Its jobs are put in the order of
submission; the first half is learned, the second half predicted, each job at its submission from the runs that had
ended by then. `--online` learns runs of the second half, too, once they have ended, as a daemon would.

For each trace, three predictors side by side: `learned` (tesched_predict), `all runs` (quantiles of all runs learned,
the same for each job) and `limit` (each job takes its time limit; only where the trace has limits, and of the jobs
that have one). Columns: share of jobs that ran at most the 10, 50, 80 and 90 % quantile, which is best at just that;
the share from the 10 to the 90 % quantile, both included, which is best at 80; the median of
|log2(median predicted / run time)| and the factor that it is; and the mean pinball loss over the four quantiles in
log2, one figure for all of it (less is better). `--cost RUNS` measures made-up runs instead: time and memory, and what
polls cost a daemon with 100,000 waiting jobs, and with 5,000 running ones beside them.
"""

from __future__ import annotations

import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import log
from pathlib import Path
from statistics import median

import click
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_daemon.run_time_source import LearnedRunTimes
from tesched_db import finished_runs, migrate
from tesched_db.engine import open_store
from tesched_db.finished_runs import LearnedRun
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import LEVELS, PARENT_RUNS, RunTimes
from tesched_sim import traces
from tesched_sim.workload import WorkloadError
from tesched_testcluster.harness.run_times import Figures, measure


def show(figures: Sequence[Figures]) -> None:
    """Print the table, one line a predictor."""
    width = max(len(each.trace) for each in figures)
    levels = "".join(f"{f'<= {100 * level:.0f} %':>8}" for level in LEVELS)
    print(
        f"{'TRACE':<{width}} {'JOBS':>7} {'TESTED':>7} {'PREDICTOR':<9}{levels}{'10-90 %':>9}"
        f" {'LOG2':>6} {'FACTOR':>7} {'LOSS':>6}"
    )
    for each in figures:
        for row in each.rows:
            shares = "".join(f"{100 * share:>6.1f} %" for share in row.coverage)
            print(
                f"{each.trace:<{width}} {each.jobs:>7} {row.predicted:>7} {row.predictor:<9}{shares}"
                f"{100 * row.inside:>7.1f} %"
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


def polls(on_nodes: int, jobs: int = 100_000, runs: int = finished_runs.MOST_RUNS) -> dict[str, float]:
    """Return seconds that polls of so many running and waiting jobs take to know what is expected of them."""
    chance = random.Random(0)  # noqa: S311 - no secret

    def name() -> str:
        return "".join(chance.choices("abcdefgh", k=4))

    learned = [
        LearnedRun(
            run=FinishedRun(
                user=f"u{number % 500}", job_name=name(), gpus=1 << chance.randrange(4), time_limit_s=86400.0,
                run_s=chance.lognormvariate(log(1800), 1.5), end_s=float(number),
            ),
            name=str(number), cluster="", source="trace",
        )
        for number in range(runs)
    ]  # fmt: skip
    queue = {
        JobId(number): Job(
            job_id=JobId(number), user=f"u{number % 500}", name=name(), partitions=("p",), time_limit_s=86400,
            state=JobState.PENDING if number > on_nodes else JobState.RUNNING,
            start_time=None if number > on_nodes else 1e6 - chance.uniform(0, 3600),
            request=Request(cpus=1, gres_per_job=(("gpu", 1 << chance.randrange(4)),)),
        )
        for number in range(1, on_nodes + jobs + 1)
    }  # fmt: skip
    one = Traits(job_class=JobClass.BE, rule="", grace_period_s=0.0, grace_source="")
    traits = {job_id: replace(one, rule=str(job_id)) for job_id in queue}
    took_s: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.sqlite"
        migrate.upgrade(url)
        engine = open_store(url)
        finished_runs.add(engine, finished_runs.in_parts(learned))
        source = LearnedRunTimes(engine=engine)
        for poll in range(180):
            # Every other poll one that has read all jobs anew.
            jobs_now = {job_id: replace(job) for job_id, job in queue.items()} if poll % 2 else queue
            seen = replace(Snapshot.of(1e6 + 2 * poll), jobs=jobs_now, traits=dict(traits))
            began = time.perf_counter()
            known = source.read(seen, waiting=True)
            took_s.append(time.perf_counter() - began)
        engine.dispose()
    later = took_s[1:]
    return {
        "running": on_nodes, "waiting": jobs, "first_s": took_s[0], "median_s": median(later), "most_s": max(later),
        "running_known": sum(job_id <= on_nodes for job_id in known),
        "waiting_known": sum(job_id > on_nodes for job_id in known),
    }  # fmt: skip


class _InputError(click.ClickException):
    exit_code = 2


@click.command()
@click.argument("paths", metavar="TRACE...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(traces.FORMATS), help="Where the first line does not show it.")
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
        of_polls = [polls(0), polls(5000)]
        more = (
            "{running} running and {waiting} waiting jobs: first poll {first_s:.2f} s, "
            "later ones {median_s:.3f} s in the median, {most_s:.3f} s at most; "
            "of {running_known} running and {waiting_known} waiting ones something is expected after 6 minutes"
        )
        if as_json:
            print(json.dumps({**figures, "polls": of_polls}))
        else:
            print(words.format(**figures), *(more.format(**one) for one in of_polls), sep="\n")
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
