"""Slurm's own preemption beside tesched, on one trace: `python -m benchmarks.native`.

Five ways take turns on a real Slurm of 84 nodes; each gets the same jobs at the same moments:

- grace 0: Slurm alone, preempt/partition_prio with PreemptMode=REQUEUE, without GraceTime: a victim is ended at once
- signal: the same with GraceTime and preempt_send_user_signal; the victims ask for the signal by --signal=B:USR1@60
- one partition: tesched, with all jobs in one partition
- tiers: tesched, with the TE jobs in a partition of a higher PriorityTier over the same nodes
- plugin: tesched with guard.lever = "plugin" (`make plugin`): Slurm preempts the marked jobs, which declare no signal,
  for the TE jobs of a partition of the same tier; they save on the SIGTERM of a requeue, for which KillWait is as long
  as the GraceTime of `signal`

Every BE job takes `--save` seconds to save its work when it has a notice, leaves with RequeueExit, and goes on from
there in its next run. All have time limits, about three times what they need. tesched has the defaults of its guard.
A victim is futile if the TE job started elsewhere; of those that Slurm chose, slurmctld's log shows it.

Waits count from before sbatch to the job's own first word. A victim is a run of a BE job that did not reach its end.
Its lost time is what its run took (an Epilog writes down when it ended) less the work that its next run had not to do
again, times its part of a node's GPUs. Exit status 1 unless every job ran to its end, once.

README's table is that of one run, whose JSON is in docs:

    python -m benchmarks.native --json > docs/native.json
    python -m benchmarks.first_screen
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click
import numpy as np
from tesched_testcluster.cluster import Cluster
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.load import Event, EventName, LoadJob, Mix, plan, read_events, submit
from tesched_testcluster.local import LocalCluster, plugin_is_built
from tesched_testcluster.stage import LocalStage

from benchmarks.native_outcome import (
    GRACE_S,
    NATIVE,
    ROWS,
    WAYS,
    Outcome,
    Trace,
    Way,
    from_json,
    headline,
    ratios,
    text_table,
)
from benchmarks.scheduling import Scheduling, scheduling_option

NODES, GPUS = 84, 8
#: seconds of work
BE_S, TE_S, TICK_S = (20, 40, 80), (5, 5, 10), 1.0
#: seconds in which 170 BE and 80 TE jobs come; shorter for fewer
SPAN_S, BE_COUNT, TE_COUNT = 65.0, 170, 80
DROP_IN = f"""[guard]
cool_down_s = 30

[classes]
default_grace_period_s = {GRACE_S}
"""
#: of the way `plugin`, besides
LEVER = """[guard]
lever = "plugin"

[slurm]
marks = "{marks}"
"""
#: slurmctld puts a victim back for another job; it starts a job, in its main pass or in its backfill
_PREEMPTION = re.compile(
    r"preempted JobId=(\d+) .* for JobId=(\d+)"
    r"|Allocate JobId=(\d+) NodeList=(\S+)|Started JobId=(\d+) in \S+ on (\S+)"
)
#: it runs where a run of a job has ended, however that came
EPILOG = """#!/bin/bash
echo "$EPOCHREALTIME $SLURM_JOB_ID" >>{ends}
"""


def trace(be_count: int, te_count: int, save_s: float, seed: int) -> tuple[LoadJob, ...]:
    """Draw the jobs."""
    share = max(be_count / BE_COUNT, te_count / TE_COUNT)
    mix = Mix(
        be_count=be_count,
        te_count=te_count,
        # The cluster is full after a third of the time.
        be_span_s=SPAN_S * share * 0.6,
        te_span_s=SPAN_S * share,
        tick_s=TICK_S,
        be_ticks=tuple(round(length / TICK_S) for length in BE_S),
        te_ticks=tuple(round(length / TICK_S) for length in TE_S),
        be_gpus=(8, 8, 4),
        te_gpus=(2, 4, 8),
        cpus_per_gpu=1,
        mem_mib_per_gpu=1000,
        # They declare a signal and leave with RequeueExit: an ordinary script has no use for Slurm's user signal.
        on_notice=("exit",),
        checkpoint_s=(save_s,),
    )
    jobs = plan(mix, random.Random(seed))  # noqa: S311 - a workload
    # A minute more than thrice the work: Slurm sends the signal of --signal=B:USR1@60 a minute before the limit, too.
    return tuple(
        replace(job, options=(*job.options, f"--time={1 + math.ceil(3 * job.ticks * TICK_S / 60)}")) for job in jobs
    )


def definition(way: Way, nodes: int, epilog: Path, scheduling: Scheduling) -> ClusterDefinition:
    """Return the cluster of one way."""
    low, high = PartitionDefinition(name="main", default=True), PartitionDefinition(name="te", priority_tier=10)
    partitions: Mapping[Way, tuple[PartitionDefinition, ...]] = {
        "grace 0": (replace(low, preempt_mode="REQUEUE"), replace(high, preempt_mode="OFF")),
        "signal": (replace(low, preempt_mode="REQUEUE", grace_time_s=GRACE_S), replace(high, preempt_mode="OFF")),
        "one partition": (low,),
        "tiers": (low, high),
        "plugin": (low, replace(high, priority_tier=None)),
    }
    cluster = ClusterDefinition(
        groups=(NodeGroup(count=nodes, gres={"gpu": GPUS}),),
        partitions=partitions[way],
        scheduling=scheduling,
        preemption=NativePreemption(send_user_signal=way == "signal") if way in NATIVE else None,
        min_job_age_s=7200,
        settings={"Epilog": str(epilog)},
    )
    if way != "plugin":
        return cluster
    plugin = NativePreemption(kind="tesched", parameters=("tesched_te_partition=te",))
    return replace(cluster, preemption=plugin, kill_wait_s=GRACE_S)


def job_of(job: LoadJob, way: Way) -> LoadJob:
    """Return the job as it is submitted in this way."""
    if job.kind == "te":
        return job if way == "one partition" else replace(job, options=(*job.options, "--partition=te"))
    if way == "plugin":
        return replace(job, on_notice="term")
    return replace(job, options=(*job.options, "--signal=B:USR1@60")) if way == "signal" else job


def run(way: Way, jobs: Sequence[LoadJob], nodes: int, scheduling: Scheduling, keep: Path | None) -> Outcome:
    """Run the trace in this way, and return what came of it; with `keep` the state store is copied there."""
    with tempfile.TemporaryDirectory(prefix="native-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        ends = folder / "ends.log"
        epilog = folder / "epilog"
        epilog.write_text(EPILOG.format(ends=ends))
        epilog.chmod(0o755)
        with LocalCluster(definition(way, nodes, epilog, scheduling)) as cluster:
            if way in NATIVE:
                return _measured(way, cluster, jobs, ends, lambda: None)
            drop_in = folder / "conf.d" / "benchmark.toml"
            drop_in.parent.mkdir()
            drop_in.write_text(DROP_IN)
            if way == "plugin":
                drop_in.with_name("lever.toml").write_text(LEVER.format(marks=cluster.marks))
            stage = LocalStage(cluster=cluster, folder=folder)

            def futile() -> int:
                cluster.wait_for(
                    lambda: not json.loads(stage.tesched("status", "--json"))["orders"],
                    "all orders to end",
                )
                return int(json.loads(stage.tesched("status", "--json"))["tally"]["futile"])

            try:
                with stage.daemon():
                    return _measured(way, cluster, jobs, ends, futile)
            finally:
                if keep is not None:
                    _kept(folder, cluster, keep / way.replace(" ", "-"))


def _kept(folder: Path, cluster: LocalCluster, where: Path) -> None:
    where.mkdir(parents=True, exist_ok=True)
    files = [*folder.glob("tesched.*"), folder / "daemon.log", folder / "ends.log"]
    for file in (*files, cluster.shared / "events.log", cluster.folder / "log" / "slurmctld.log"):
        if file.exists():
            (where / file.name).write_bytes(file.read_bytes())


def _measured(
    way: Way, cluster: LocalCluster, jobs: Sequence[LoadJob], ends: Path, futile: Callable[[], int | None]
) -> Outcome:
    loads = [os.getloadavg()[0]]
    submitted: dict[int, tuple[LoadJob, float]] = {}
    begin = time.time()
    for job in jobs:
        # The pace of the trace is its meaning; there is no condition to await.
        time.sleep(max(0.0, begin + job.submit_after_s - time.time()))
        before = time.time()
        submitted[submit(cluster, job_of(job, way), cluster.shared)] = (job, before)
        if sys.stderr.isatty():
            print(f"\r{way}: {len(submitted)}/{len(jobs)} submitted", end="", file=sys.stderr, flush=True)
    loads.append(os.getloadavg()[0])
    cluster.wait_for(lambda: _all_ended(cluster), "all jobs to end", timeout_s=600)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    loads.append(os.getloadavg()[0])
    log = cluster.slurmctld_log.read_text() if way in {"grace 0", "plugin"} else None
    counted = (futile(), None if log is None else elsewhere(log))
    return outcome(way, submitted, read_events(cluster.shared), _ends(ends), counted, float(np.mean(loads)))


def elsewhere(log: str) -> int:
    """Return how many victims Slurm has put back for a job that then started on another node, by slurmctld's log."""
    on: dict[str, str] = {}
    left_by: dict[str, list[str]] = defaultdict(list)
    found = 0
    for event in _PREEMPTION.finditer(log):
        victim, preemptor, *starts = event.groups()
        if victim:
            left_by[preemptor].append(on[victim])
        else:
            job_id, on[job_id] = (one for one in starts if one)
            found += sum(left != on[job_id] for left in left_by.pop(job_id, ()))
    return found


def _all_ended(cluster: Cluster) -> bool:
    return not cluster.run("squeue", "-h", "-t", "PD,R,CG,S").stdout.strip()


def _ends(log: Path) -> Mapping[int, list[float]]:
    """Return of each job when its runs ended."""
    ends: dict[int, list[float]] = defaultdict(list)
    for line in log.read_text().splitlines():
        moment, job_id = line.split()
        ends[int(job_id)].append(float(moment))
    return ends


def outcome(  # noqa: PLR0917 - all that is known of one way
    way: Way,
    submitted: Mapping[int, tuple[LoadJob, float]],
    events: Sequence[Event],
    ends: Mapping[int, list[float]],
    futile: tuple[int | None, int | None],
    load: float,
) -> Outcome:
    """Return what the jobs' own words amount to."""
    begun: dict[int, list[Event]] = defaultdict(list)
    done: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.name in {EventName.START, EventName.RESTART}:
            begun[event.job_id].append(event)
        elif event.name is EventName.DONE:
            done[event.job_id].append(event)
    cut: Counter[int] = Counter()
    lost_node_s = 0.0
    for job_id, (job, _) in submitted.items():
        for first, after in zip(begun[job_id], begun[job_id][1:], strict=False):
            cut[job_id] += 1
            end = max((at for at in ends.get(job_id, ()) if first.time <= at <= after.time), default=after.time)
            kept_s = (after.ticks_done - first.ticks_done) * job.tick_s
            lost_node_s += max(end - first.time - kept_s, 0.0) * job.nodes * job.gpus / GPUS
    waits = [
        begun[job_id][0].time - at for job_id, (job, at) in submitted.items() if job.kind == "te" and begun[job_id]
    ]
    completions = [
        done[job_id][-1].time - at for job_id, (job, at) in submitted.items() if job.kind == "be" and done[job_id]
    ]
    p50, p95, most = np.percentile(waits, (50, 95, 100)).tolist()
    return Outcome(
        way=way,
        te_wait_p50_s=p50,
        te_wait_p95_s=p95,
        te_wait_max_s=most,
        victims=cut.total(),
        victim_jobs=len(cut),
        most_of_one=max(cut.values(), default=0),
        lost_node_s=lost_node_s,
        be_completion_mean_s=float(np.mean(completions)),
        futile=futile[0],
        elsewhere=futile[1],
        lost=sum(not done[job_id] for job_id in submitted),
        twice=sum(len(done[job_id]) > 1 for job_id in submitted),
        took_s=max(event.time for event in events) - min(at for _, at in submitted.values()),
        load=load,
        te_waits_s=tuple(waits),
    )


@click.command()
@click.option("--be", "be_count", type=click.IntRange(1), default=BE_COUNT, show_default=True, help="Best-effort jobs.")
@click.option("--te", "te_count", type=click.IntRange(1), default=TE_COUNT, show_default=True, help="Trials.")
@click.option("--nodes", type=click.IntRange(1), default=NODES, show_default=True)
@click.option("--save", "save_s", type=click.FloatRange(0, GRACE_S - 2), default=3.0, show_default=True, help="In s.")
@click.option("--seed", type=int, default=0, show_default=True)
@scheduling_option
@click.option("--way", "ways", type=click.Choice(WAYS), multiple=True, help="Only this; may be given more than once.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Folder for the state stores and logs.")
@click.option(
    "--earlier",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run nothing: what --json printed then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print README's table, in Markdown.")
def main(
    *,
    be_count: int,
    te_count: int,
    nodes: int,
    save_s: float,
    seed: int,
    scheduling: Scheduling,
    ways: tuple[Way, ...],
    keep: Path | None,
    earlier: Path | None,
    as_json: bool,
    markdown: bool,
) -> None:
    """Run the trace in each way, one after the other, and print the table."""
    if earlier is not None:
        try:
            of, outcomes = from_json(earlier.read_text())
        except ValueError as error:
            raise click.UsageError(f"--earlier {earlier}: it is not what --json prints: {error}") from None
    else:
        jobs = trace(be_count, te_count, save_s, seed)
        of = Trace(
            be=be_count, te=te_count, nodes=nodes, save_s=save_s, seed=seed, scheduling=scheduling, slurm=_slurm()
        )
        outcomes = _run_all([way for way in WAYS if way in (ways or WAYS)], jobs, nodes, scheduling, keep)
    if as_json:
        found = {"trace": asdict(of), "ways": [asdict(one) for one in outcomes.values()], "ratios": ratios(outcomes)}
        print(json.dumps(found, indent=2))
    elif markdown:
        print(headline(of, outcomes))
    else:
        print(f"{of}\n\n{text_table(outcomes)}")
    sys.exit(1 if any(one.lost or one.twice for one in outcomes.values()) else 0)


def _run_all(
    ways: Sequence[Way], jobs: Sequence[LoadJob], nodes: int, scheduling: Scheduling, keep: Path | None
) -> dict[Way, Outcome]:
    if "plugin" in ways and not plugin_is_built():
        raise click.ClickException("the way plugin needs the plugin: run make plugin, or choose other ways by --way")
    outcomes: dict[Way, Outcome] = {}
    for way in ways:
        one = outcomes[way] = run(way, jobs, nodes, scheduling, keep)
        # If a later way fails, what is known by then is not lost.
        print(f"{way}: " + "; ".join(f"{name} {shown(one)}" for name, shown in ROWS), file=sys.stderr, flush=True)
    return outcomes


def _slurm() -> str:
    """Release of this host's Slurm; `scontrol --version` would need a slurm.conf."""
    return subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout.split()[-1]


if __name__ == "__main__":
    main()
