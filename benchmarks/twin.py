"""The simulated Slurm against a real one: `python -m benchmarks.twin [--jobs N] [--policy backfill,native,fitgpp]`.

One workload, drawn from a seed, runs on a real Slurm of 84 nodes on this host (a minute of the paper is a second here,
times `--slower`), and then in the simulator: the same jobs at the submission times that they really had, with the same
policies, set alike. Printed side by side: waits by class, how often jobs were preempted and how often for nothing, and
the makespan. A policy takes about two minutes, times `--slower`, and wants the machine for itself, all the more the
faster it goes.

Policies are `backfill`, `fifo` and `native` (Slurm alone: with its backfill, without it, and with its own preemption),
and what `tesched simulate --policy` has: `fitgpp`, `patient`, `patient+fill` and so on. What a policy needs of the jobs
is an option for all policies of a run: `--types` for gavel, `--trainings` for slaq, `--workers` for pdors. A training
is simulated here, too: its tasks are real jobs, and what they would have learned is reported for them.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

import click
from tesched_sim.workload import Workload, WorkloadError
from tesched_testcluster import definition
from tesched_testcluster.definition import ClusterDefinition, PartitionDefinition
from tesched_testcluster.harness.twin.compared import Record, Seen, SeenRun, Twin, compared, table
from tesched_testcluster.harness.twin.jobs import (
    JOB_SCRIPT,
    Draw,
    Entry,
    drawn,
    entries,
    minutes,
    node_groups,
    pace_lines,
    throughput_table,
)
from tesched_testcluster.harness.twin.policies import FIFO, Contender, check_jobs, contender, toml
from tesched_testcluster.load import Event, EventName, LoadJob, read_events, scripts_in, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.stage import LocalStage

from benchmarks.twin_trainings import Trainer

#: beside [policy]; run times are not learned, as the simulated daemon learns none
DROP_IN = """[run_times]
learn = false

[reports]
spool = "{spool}"

"""


def definition_of(one: Contender, workload: Workload) -> ClusterDefinition:
    """Return the cluster: with native preemption, TE jobs have a partition of a higher tier."""
    groups = node_groups(workload)
    if one.is_native:
        partitions = (
            PartitionDefinition(name="main", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=0),
            PartitionDefinition(name="trials", priority_tier=2, preempt_mode="OFF"),
        )
        preemption = definition.NativePreemption(youngest_first=False)
        return ClusterDefinition(groups=groups, partitions=partitions, preemption=preemption)
    settings = {"SchedulerType": "sched/builtin"} if one.name == FIFO else {}
    main = PartitionDefinition(name="main", default=True)
    return ClusterDefinition(groups=groups, partitions=(main,), settings=settings)


def run_really(one: Contender, workload: Workload, of: Draw) -> SeenRun:
    """Run the workload on a real Slurm."""
    with LocalCluster(definition_of(one, workload)) as cluster, tempfile.TemporaryDirectory() as name:
        stage = LocalStage(cluster=cluster, folder=Path(name))
        scripts_in(cluster.shared)
        (cluster.shared / "paces").write_text(pace_lines(workload))
        (spool := cluster.shared / "spool").mkdir(mode=0o1777)
        if one.tables:
            _configure(stage, one, workload, spool)
        whole = list(entries(workload))
        trainer = Trainer(cluster=cluster, spool=spool)
        with stage.daemon() if one.tables else nullcontext(), trainer:
            began = time.monotonic()
            submitted: dict[str, float] = {}
            for number, job in enumerate(whole):
                at_s = float(workload.submit_s[job.rows[0]])
                time.sleep(max(0.0, began + at_s - time.monotonic()))  # the pace is the workload's
                submitted[job.name] = time.time()
                job_id = submit(cluster, _load_job(job, workload, one), cluster.shared, script=JOB_SCRIPT)
                if job.array >= 0:
                    trainer.begins(job.name, job_id, workload.trainings[job.array])
                _tell(number + 1, len(whole))

            def finished() -> bool:
                done = {event.job_name for event in read_events(cluster.shared) if event.name is EventName.DONE}
                return all(one.name in (done if one.array < 0 else trainer.done_at) for one in whole)

            cluster.wait_for(finished, "all jobs to be done", timeout_s=600 * of.slower)
            futile = int(json.loads(stage.tesched("status", "--json"))["tally"]["futile"]) if one.tables else 0
        paces = _paces(cluster.shared / "runs.log")
        by_name: dict[str, list[Event]] = {}
        for event in read_events(cluster.shared):
            by_name.setdefault(event.job_name, []).append(event)
        jobs = [_seen(job, submitted, by_name[job.name], trainer.done_at, paces) for job in whole]
        return SeenRun(jobs=tuple(jobs), futile=futile)


def _configure(stage: LocalStage, one: Contender, workload: Workload, spool: Path) -> None:
    """Write the daemon's configuration, and give it the jobs' speeds."""
    drop_in = stage.folder / "conf.d" / "twin.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(DROP_IN.format(spool=spool) + toml(one.tables))
    stage.configure()
    if workload.speed is not None:
        speeds = stage.folder / "speeds.csv"
        speeds.write_text(throughput_table(workload))
        stage.tesched("db", "upgrade")
        stage.tesched("throughputs", "import", str(speeds))


def _load_job(job: Entry, workload: Workload, one: Contender) -> LoadJob:
    row = job.rows[0]
    cpus, mem_mib, gpus = workload.demand[row, :3].tolist()
    most = workload.nodes if workload.most_nodes is None else workload.most_nodes
    words = [f"grace={workload.grace_s[row]:.0f}" if not job.te else "", f"workload={job.name}"]
    options = [f"--time={minutes(float(workload.limit_s[row]))}", "--requeue"]
    if job.array >= 0:
        throttle = int(workload.throttle[job.array])
        options.append(f"--array=0-{len(job.rows) - 1}{f'%{throttle}' if throttle else ''}")
        words.append("elastic")
    if one.is_native and job.te:
        options.append("--partition=trials")
    return LoadJob(
        name=job.name,
        kind="te" if job.te else "be",
        nodes=int(workload.nodes[row]),
        most_nodes=int(most[row]),
        cpus=cpus,
        mem_mib=max(mem_mib, 1),
        gpus=gpus,
        ticks=job.ticks,
        tick_s=1.0,
        on_notice="exit",
        checkpoint_s=float(workload.yield_s[row]),
        options=(*options, f"--comment={' '.join(word for word in words if word)}"),
    )


def _paces(log: Path) -> Mapping[int, float]:
    """Return the seconds of a tick in each job's last run."""
    return {int(line.split()[0]): float(line.split()[1]) for line in log.read_text().splitlines()}


def _seen(
    job: Entry,
    submitted: Mapping[str, float],
    mine: list[Event],
    trained: Mapping[str, float],
    paces: Mapping[int, float],
) -> Seen:
    restarts: dict[int, int] = {}
    for event in mine:
        restarts[event.job_id] = max(event.restarts, restarts.get(event.job_id, 0))
    return Seen(
        submitted=submitted[job.name],
        started=mine[0].time,
        done=trained[job.name] if job.array >= 0 else mine[-1].time,
        restarts=sum(restarts.values()),
        pace=paces[mine[-1].job_id],
    )


def _tell(done: int, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{count} submitted", end="" if done < count else "\n", file=sys.stderr, flush=True)


@contextmanager
def _said(policy: str) -> Iterator[None]:
    began = time.monotonic()
    print(f"{policy} …", file=sys.stderr, flush=True)
    yield
    print(f"{policy}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


class _RefusedError(click.ClickException):
    exit_code = 2


@click.command()
@click.option("--jobs", type=click.IntRange(10), default=500, show_default=True)
@click.option("--policy", "policies", default="backfill,native,fitgpp", show_default=True)
@click.option("--slower", type=click.IntRange(1, 60), default=1, show_default=True, help="All times so much longer.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--types", default="", help="Types of GPUs, NAME:NODES:SPEED/…, such as v100:1:1/k80:1:0.5.")
@click.option(
    "--trainings", type=click.IntRange(0), default=0, help="So many trainings beside the jobs, as job arrays."
)
@click.option("--workers", type=click.IntRange(1), default=1, help="BE jobs take up to so many nodes.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Keep what was seen, or take it from there if it is.",
)
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    jobs: int,
    policies: str,
    slower: int,
    seed: int,
    types: str,
    trainings: int,
    workers: int,
    record: Path | None,
    as_json: bool,
) -> None:
    """Print three lines a policy: real, simulated, and by how much the simulated figure is above the real one."""
    of = Draw(jobs=jobs, seed=seed, slower=slower, types=types, workers=workers, trainings=trainings)
    try:
        workload = drawn(of)
        contenders = [contender(name, of) for name in policies.split(",")]
        for one in contenders:
            check_jobs(one, workload)
        known = Record(of=of, runs={}) if record is None else Record.read(record, of)
        twins = _each(contenders, workload, known, record)
        if as_json:
            print(json.dumps([asdict(twin) for twin in twins], indent=2))
            return
        for line in table([one.name for one in contenders], twins):
            print(line, flush=True)
    except WorkloadError as error:
        raise _RefusedError(str(error)) from None


def _each(contenders: Sequence[Contender], workload: Workload, known: Record, record: Path | None) -> Iterator[Twin]:
    for one in contenders:
        if one.name not in known.runs:
            with _said(one.name):
                known.runs[one.name] = run_really(one, workload, known.of)
            if record is not None:
                known.write(record)
        yield compared(one, workload, known.runs[one.name])


if __name__ == "__main__":
    main()
