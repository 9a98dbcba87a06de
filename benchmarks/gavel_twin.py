"""Gavel on a real Slurm against its simulation: `python -m benchmarks.gavel_twin`.

Twelve nodes of two GPUs, four nodes of each type (fakes: a job sleeps for as long as its steps take at the speed that
was measured for its model on that type). The same jobs come to a real Slurm, with tesched going in rounds, and to the
simulation. Time is compressed: 10 to 100 s of work on a v100, rounds of `--round` seconds. Printed: the mean time from
submission to end (JCT) of each, and how many times shorter it is with the policy that knows types.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click
import numpy as np
from tesched_papers.gavel.policies import Contender, Optimum
from tesched_papers.gavel.rounds import Cluster
from tesched_papers.gavel.simulate import simulate
from tesched_papers.gavel.throughputs import TYPES, measured
from tesched_papers.gavel.workload import MODELS, GavelJob
from tesched_testcluster.definition import NodeGroup
from tesched_testcluster.local import LocalCluster

from benchmarks.beside_slurm import TESCHED, beside_slurm, submitted

JOB_SCRIPT = Path(__file__).with_name("gavel_job.sh")
NODES, GPUS = 4, 2
#: seconds of work on a v100: 10 to the power of a number between these
WORK = (1.0, 2.0)
#: seconds between two polls
POLL_S = 0.5

_TABLES = """
[policy.gavel]
allocator = "{policy}"
round_s = {round_s}
types = {types}
fills = true
min_run_time_s = 1
max_preemptions_per_job_hour = 10000
[guard]
max_slowdown = 1e6
max_victims_per_cycle = 1000
max_open_orders = 1000
[classes]
default_class = "be"
default_grace_period_s = 5
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """One policy, really and simulated; seconds."""

    policy: str
    jobs: int
    mean_jct_s: tuple[float, float]
    p95_jct_s: tuple[float, float]
    #: runs that began, first ones among them, for each job
    starts_per_job: tuple[float, float]


def drawn(count: int, span_s: float, seed: int) -> list[GavelJob]:
    """Return jobs of one GPU each: a model at random and its measured speeds; they come at random in the span."""
    rng = np.random.default_rng(seed)
    table = measured()
    at_s = np.sort(rng.uniform(0, span_s, count)).tolist()
    jobs = []
    for index in range(count):
        model = MODELS[int(rng.integers(len(MODELS)))]
        speed = table.alone[table.row[model, 1]]
        seconds = 10 ** float(rng.uniform(*WORK))
        jobs.append(
            GavelJob(
                index=index,
                model=model,
                scale_factor=1,
                row=table.row[model, 1],
                steps=seconds * float(speed[TYPES.index("v100")]),
                arrival_s=at_s[index] - at_s[0],
                weight=1.0,
                throughput=speed,
            )
        )
    return jobs


def simulated(
    jobs: Sequence[GavelJob], policy: str, round_s: float, restart_s: float, *, fill: bool = True
) -> tuple[list[float], float]:
    """Return the simulation's JCTs, and starts for each job."""
    cluster = Cluster(
        capacity=(NODES * GPUS,) * len(TYPES), round_s=round_s, recompute_s=0.001, restart_cost_s=restart_s, fill=fill
    )
    contender = Contender(name=policy, optimum=Optimum.CORNER)
    window = range(len(jobs))
    outcome = simulate(iter(jobs), window, cluster, contender.allocate(), manner=contender.manner(), seed=0)
    return [outcome.jct_s[job.index] for job in jobs], outcome.starts / len(jobs)


def really(jobs: Sequence[GavelJob], policy: str, round_s: float) -> tuple[list[float], float]:
    """Return the JCTs on a real Slurm, and starts for each job."""
    groups = (NodeGroup(prefix=f"{kind}-", count=NODES, gres={f"gpu:{kind}": GPUS}) for kind in TYPES)
    with beside_slurm(*groups) as slurm:
        tables = _TABLES.format(policy=policy, round_s=round_s, types=json.dumps(list(TYPES)))
        slurm.configure("gavel", poll_s=POLL_S, tables=tables)
        _import_speeds(jobs, slurm.config, slurm.folder)
        slurm.start()
        ids = submitted(jobs, lambda job: job.arrival_s, partial(_submit, slurm.cluster))
        slurm.wait_for_end()
        return _read(ids, (slurm.cluster.shared / "events").read_text())


def _import_speeds(jobs: Sequence[GavelJob], config: Path, folder: Path) -> None:
    rows = {
        f"m{job.row},{kind},{speed}\n"
        for job in jobs
        for kind, speed in zip(TYPES, job.throughput.tolist(), strict=True)
    }
    table = folder / "speeds.csv"
    table.write_text("workload,accelerator,steps_per_s\n" + "".join(sorted(rows)))
    for argv in (("db", "upgrade"), ("throughputs", "import", str(table))):
        subprocess.run([str(TESCHED), *argv, "--config", str(config)], check=True, stdout=subprocess.DEVNULL)


def _submit(cluster: LocalCluster, job: GavelJob) -> int:
    speeds = ",".join(f"{kind}={speed}" for kind, speed in zip(TYPES, job.throughput.tolist(), strict=True))
    return cluster.sbatch(
        f"--job-name=m{job.row}",
        "--gres=gpu:1",
        "--cpus-per-task=1",
        "--mem=100M",
        "--time=60",
        f"--comment=workload=m{job.row} signal=B:USR1",
        "--output=/dev/null",
        script=JOB_SCRIPT,
        arguments=(str(job.steps), speeds, str(cluster.shared), str(cluster.definition.requeue_exit)),
    )


def _read(ids: dict[int, float], events: str) -> tuple[list[float], float]:
    ended: dict[int, float] = {}
    starts = 0
    for line in events.splitlines():
        at, job_id, event, _ = line.split()
        starts += event == "start"
        if event == "done":
            ended[int(job_id)] = float(at)
    lost = [job_id for job_id in ids if job_id not in ended]
    if lost:
        raise click.ClickException(f"{len(lost)} jobs did not run to their end: {lost[:5]}")
    return [ended[job_id] - at for job_id, at in ids.items()], starts / len(ids)


def _run(jobs: Sequence[GavelJob], policies: Sequence[str], round_s: float, restart_s: float) -> Iterator[Twin]:
    for policy in policies:
        real, real_starts = really(jobs, policy, round_s)
        virtual, virtual_starts = simulated(jobs, policy, round_s, restart_s)
        yield Twin(
            policy=policy,
            jobs=len(jobs),
            mean_jct_s=(float(np.mean(real)), float(np.mean(virtual))),
            p95_jct_s=(float(np.percentile(real, 95)), float(np.percentile(virtual, 95))),
            starts_per_job=(real_starts, virtual_starts),
        )


@click.command()
@click.option("--jobs", type=click.IntRange(2), default=100, show_default=True)
@click.option("--span", "span_s", type=float, default=260.0, show_default=True, help="Seconds in which they come.")
@click.option("--round", "round_s", type=float, default=15.0, show_default=True, help="Seconds of a round.")
@click.option("--restart", "restart_s", type=float, default=1.5, show_default=True, help="What the simulation charges.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--policy", "policies", default="las,las-agnostic", show_default=True)
@click.option("--only-simulate", is_flag=True, help="Leave the real Slurm out.")
@click.option("--json", "as_json", is_flag=True)
def main(
    *,
    jobs: int,
    span_s: float,
    round_s: float,
    restart_s: float,
    seed: int,
    policies: str,
    only_simulate: bool,
    as_json: bool,
) -> None:
    """Run both and print them side by side."""
    load = drawn(jobs, span_s, seed)
    names = policies.split(",")
    if only_simulate:
        for name in names:
            for fill in (True, False):
                jct_s, starts = simulated(load, name, round_s, restart_s, fill=fill)
                how = (
                    "resources free in mid-round are filled"
                    if fill
                    else "it waits for the round, as the authors have it"
                )
                print(f"{name}: mean JCT {np.mean(jct_s):.1f} s, {starts:.2f} starts a job; {how}")
        return
    found = list(_run(load, names, round_s, restart_s))
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    print(
        f"{'policy':14} {'mean JCT, s: real':>18} {'simulated':>10} {'ratio':>6} {'starts: real':>13} {'simulated':>10}"
    )
    for one in found:
        (real, virtual), (begun, begun_there) = one.mean_jct_s, one.starts_per_job
        print(f"{one.policy:14} {real:18.1f} {virtual:10.1f} {real / virtual:6.2f} {begun:13.2f} {begun_there:10.2f}")
    if len(found) == 2:
        really_, virtually = (found[1].mean_jct_s[side] / found[0].mean_jct_s[side] for side in (0, 1))
        print(f"{found[1].policy} to {found[0].policy}: {really_:.2f} really, {virtually:.2f} simulated")


if __name__ == "__main__":
    main()
