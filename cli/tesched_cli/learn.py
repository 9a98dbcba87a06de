"""`tesched learn`: run times from what ran before tesched did, from Slurm's accounting or a trace."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import click
from sqlalchemy import Engine
from tesched_core.intake.finished_runs import ENDED_BY_ITSELF
from tesched_core.model.told_error import ToldError
from tesched_daemon.config import Config
from tesched_daemon.wiring import history
from tesched_db import deeds, finished_runs
from tesched_db.finished_runs import MOST_RUNS, SHORTEST_S, LearnedRun, name_of
from tesched_predict.history import FinishedRun
from tesched_sim import traces
from tesched_sim.traces.finished import finished_run, require_times, require_unforgeable
from tesched_sim.traces.recorded import Recorded

from tesched_cli.common import (
    Duration,
    changing_config_option,
    configuration,
    json_option,
    progress,
    say,
    writable_store,
)
from tesched_cli.json_output import document, print_json


class AnotherClusterError(ToldError):
    """The store has the history of another cluster. The text names the file, the key, and what would be right."""


@document("learn")
@dataclass(frozen=True, slots=True, kw_only=True)
class LearnJson:
    """What was learned."""

    #: "sacct", or a trace's path
    source: str
    #: runs that were read, those that are new, and those that the store has now
    runs: int
    new: int
    kept: int
    #: runs that were not taken, by the reason
    left_out: Mapping[str, int]
    #: whether run times are expected by what was learned (run_times.learn)
    used: bool


@document("learn")
@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetJson:
    """What was forgotten (`tesched learn --forget`)."""

    #: runs
    forgotten: int


@click.command()
@changing_config_option
@click.option("--since", "since_s", type=Duration(), help="By Slurm's accounting (sacct), what ran so far back: 30d.")
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="From a file, such as sacct printed.")
@click.option(
    "--format", "form", type=click.Choice(traces.FORMATS), help="Of the file, where its first line says none."
)
@click.option("--forget", is_flag=True, help="Forget all that was learned.")
@json_option
def learn(
    config_path: Path, *, since_s: float | None, trace: Path | None, form: str | None, forget: bool, as_json: bool
) -> None:
    """Learn run times from Slurm's accounting, or from a trace. What is learned twice counts once.

    The daemon learns by itself from then on, and takes in what this command learns within seconds
    (docs/reference/run-times.md).
    """
    chosen = [word for word, is_set in (("--since", since_s), ("--trace", trace), ("--forget", forget)) if is_set]
    if len(chosen) != 1:
        said = " and ".join(chosen) or "none of them"
        raise click.UsageError(f"it takes one of --since 30d, --trace FILE and --forget, not {said}")
    if form and trace is None:
        raise click.UsageError("--format says what a trace is, and needs --trace")
    config = configuration(config_path)
    with writable_store(config_path) as engine:
        if forget:
            _forget(engine, as_json=as_json)
            return
        if trace is not None:
            runs, left_out = of_trace(traces.read(trace, form), trace, now=time.time())
            source = str(trace)
        else:
            runs, left_out = _of_sacct(config, since_s or 0.0)
            source = "sacct"
        _check_cluster(engine, config_path, config, runs, source)
        runs = sorted(runs, key=lambda one: one.run.end_s)
        # The store would keep no more.
        parts = finished_runs.in_parts(runs[-MOST_RUNS:])
        new = finished_runs.add(engine, progress(parts, "runs, by 500"))
        deeds.record(engine, f"learn: {new} new runs from {source}")
        kept = finished_runs.count(engine)
    if as_json:
        used = config.run_times.learn
        print_json(LearnJson(source=source, runs=len(runs), new=new, kept=kept, left_out=dict(left_out), used=used))
        return
    _show(source, len(runs), new=new, kept=kept, left_out=left_out)
    if not config.run_times.learn:
        say(f"{config_path}: run_times.learn is false: nothing of this is used until it is true")


def _show(source: str, runs: int, *, new: int, kept: int, left_out: Mapping[str, int]) -> None:
    say(f"{runs} runs from {source}: {new} are new; the state store has {kept} (the newest {MOST_RUNS} are kept)")
    for reason, count in sorted(left_out.items()):
        say(f"  {count} left out: {reason}")


def _forget(engine: Engine, *, as_json: bool) -> None:
    gone = finished_runs.forget(engine)
    deeds.record(engine, f"learn --forget: {gone} runs")
    if as_json:
        print_json(ForgetJson(forgotten=gone))
    else:
        say(f"forgotten: {gone} runs; the daemon forgets them when it starts again")


def _of_sacct(config: Config, since_s: float) -> tuple[list[LearnedRun], Counter[str]]:
    found = history(config, since_s)
    runs = [
        LearnedRun(
            run=FinishedRun(
                user=one.user,
                account=one.account,
                partition=one.partition,
                job_name=one.job_name,
                gpus=one.gpus,
                cpus=one.cpus,
                nodes=one.nodes,
                time_limit_s=one.time_limit_s,
                run_s=max(one.ran_s, SHORTEST_S),
                end_s=one.end_time,
            ),
            name=name_of(one.label, one.start_time),
            cluster=one.cluster,
            source="sacct",
        )
        for one in found.runs
    ]
    return runs, found.left_out


def _check_cluster(engine: Engine, config_path: Path, config: Config, runs: Sequence[LearnedRun], source: str) -> None:
    """Raise AnotherClusterError if these are of several clusters, or of another one than the store's history.

    Runs of a trace that names no cluster may be of any.
    """
    ours = {one.cluster for one in runs if one.cluster}
    here = ", ".join(sorted(ours))
    if len(ours) > 1:
        first = min(ours)
        raise AnotherClusterError(
            f"{source}: Cluster: the runs are of {here}, and a store has those of one cluster: sacct --clusters={first}"
        )
    others = [name for name in finished_runs.clusters(engine) if name not in ours]
    if ours and others:
        there = ", ".join(others)
        raise AnotherClusterError(
            f"{config_path}: store.url: the finished runs in {config.store.shown()} are of cluster {there}, and "
            f"{source}'s are of {here}: name the store of cluster {here}, or forget those runs: tesched learn --forget"
        )


def of_trace(recorded: Recorded, path: Path, *, now: float) -> tuple[list[LearnedRun], Counter[str]]:
    """Return the runs of a trace that ended by themselves, and how many were left out. Raises WorkloadError.

    A trace without job ids, which is none of sacct's, counts from any beginning: its last run is taken to end now.
    """
    require_times(recorded, path)
    require_unforgeable(recorded, path)
    left_out = Counter(recorded.left_out)
    found: list[tuple[str, str, FinishedRun]] = []
    told = zip(recorded.job_ids, recorded.states, recorded.clusters, strict=True)
    for row, (job_id, state, cluster) in enumerate(told):
        if state and state not in ENDED_BY_ITSELF:
            left_out[state] += 1
            continue
        run = finished_run(recorded, row)
        if job_id and run.end_s > now:
            left_out["ends in the future"] += 1
            continue
        found.append((job_id, cluster, run))
    latest = max((run.end_s for _, _, run in found), default=0.0)
    times: Counter[str] = Counter()
    runs = []
    for job_id, cluster, run in found:
        if job_id:
            name, end_s = name_of(job_id, run.end_s - run.run_s), run.end_s
        else:
            digest = _digest(run)
            times[digest] += 1
            name, end_s = f"trace:{digest}#{times[digest]}", run.end_s + now - latest
        runs.append(LearnedRun(run=replace(run, end_s=end_s), name=name, cluster=cluster, source="trace"))
    return runs, left_out


def _digest(run: FinishedRun) -> str:
    """Digest of all that a trace says of a run."""
    return sha256(repr(run).encode("utf-8", "surrogateescape")).hexdigest()[:24]
