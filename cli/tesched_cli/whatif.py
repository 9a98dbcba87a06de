"""`tesched whatif`: the site's own last days again, under other policies or another configuration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from rich.table import Table
from tesched_core.cluster import FINISHED
from tesched_core.metrics import slowdown
from tesched_core.snapshot import JobClass, Snapshot
from tesched_daemon.config import Config
from tesched_daemon.wiring import look
from tesched_db import read
from tesched_db.views import JobFilter, JobView
from tesched_sim.behaviour import Behaviour
from tesched_sim.contenders import CONTENDERS, Setting, run_one
from tesched_sim.reports.summary import summarise
from tesched_sim.workload import Machines, Workload, WorkloadError

from tesched_cli.common import config_option, configuration, console, duration, json_option, print_json, store

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What became of the jobs of one class, in fact or in the simulation. Seconds; None where there is nothing."""

    case: str
    job_class: str
    jobs: int
    wait_p50_s: float | None
    wait_p95_s: float | None
    slowdown_p50: float | None
    slowdown_p95: float | None
    preempted: int
    lost_node_h: float | None = None


@click.command()
@config_option
@click.option("--days", type=click.FloatRange(0, min_open=True), default=7.0, show_default=True, help="How far back.")
@click.option(
    "--policy",
    "policies",
    help=f"Policies to try, of {', '.join(CONTENDERS)}. Default: fifo (Slurm alone) and the configured one.",
)
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Another setting, such as guard.cool_down_s=0.")
@json_option
def whatif(*, config_path: Path, days: float, policies: str | None, sets: tuple[str, ...], as_json: bool) -> None:
    """Run the jobs of the last days again on a simulated Slurm, beside what really happened.

    The jobs and their run times are the state store's, the nodes are Slurm's now, policy and guard the configuration's.
    """
    config = configuration(config_path)
    wanted = (policies or f"fifo,{config.policy.te}").split(",")
    contenders = tuple(dict.fromkeys(word.strip() for word in wanted if word.strip() != "none"))
    for contender in contenders:
        if contender not in CONTENDERS:
            raise WorkloadError(f"--policy: there is no policy {contender}; there are {', '.join(CONTENDERS)}")
    with store(config_path) as engine:
        since = time.time() - days * DAY_S
        seen = read.jobs(engine, JobFilter(with_gone=True, ended_since=since, states=frozenset(FINISHED)))
    jobs = [job for job in seen if job.ran_s is not None and job.ran_s > 0 and job.job_class is not JobClass.EXEMPT]
    if not jobs:
        raise WorkloadError(f"the state store knows of no job that ran and ended in the last {days:g} days")
    workload, left_out = _workload(jobs, look(config))
    setting = _setting(config)
    for word in sets:
        key, equals, value = word.partition("=")
        if not equals:
            raise WorkloadError(f"--set {word}: it takes the form key=value")
        setting = setting.with_value(key, value)
    lines = [*_as_it_was(jobs)]
    for contender in contenders:
        lines += _simulated(contender, setting, workload)
    if as_json:
        print_json("whatif", {"lines": lines, "jobs": len(workload), "left_out": left_out, "notes": workload.notes})
        return
    _show(lines, days, len(workload), left_out)


def _setting(config: Config) -> Setting:
    behaviour = Behaviour.slurm(poll_s=config.loop.poll_interval_s)
    return replace(Setting(), site=behaviour, policy=config.policy, guard=config.guard)


def _workload(jobs: Sequence[JobView], snapshot: Snapshot) -> tuple[Workload, int]:
    """Return the jobs on the cluster's nodes, and how many were left out because no node could hold them now."""
    nodes = [node for node in snapshot.nodes.values() if node.available]
    total = np.array([[node.total.cpus, node.total.mem_mib, node.total.gpus] for node in nodes], dtype=np.int64)
    if not nodes:
        raise WorkloadError("Slurm has no node that is up")
    machines = Machines(
        names=tuple(node.name for node in nodes), resources=("cpu", "mem_mib", "gpu"), total=total.reshape(-1, 3)
    )
    many = np.array([max(job.min_nodes, 1) for job in jobs], dtype=np.int64)
    wants = np.array([[job.cpus, job.mem_mib, job.gpus] for job in jobs], dtype=np.float64) / many[:, np.newaxis]
    demand = np.maximum(np.ceil(wants), 0).astype(np.int64)
    demand[demand.sum(axis=1) == 0, 0] = 1
    fits = np.array(
        [(np.all(machines.total >= want, axis=1)).sum() >= count for want, count in zip(demand, many, strict=True)]
    )
    if not fits.any():
        raise WorkloadError("no job of these days fits on the nodes that are up now")
    kept = [job for job, fit in zip(jobs, fits, strict=True) if fit]
    first = min(job.first_submit_time for job in kept)
    users = {name: row for row, name in enumerate(dict.fromkeys(job.user for job in kept))}
    ran_s = np.array([job.ran_s or 0.0 for job in kept])
    workload = Workload.of(
        "the last days",
        machines,
        submit_s=[job.first_submit_time - first for job in kept],
        run_s=ran_s,
        limit_s=np.maximum([np.inf if job.time_limit_s is None else job.time_limit_s for job in kept], ran_s),
        nodes=many[fits],
        demand=demand[fits],
        te=[job.job_class is JobClass.TE for job in kept],
        grace_s=[job.grace_period_s for job in kept],
        user=[users[job.user] for job in kept],
        user_names=tuple(users),
        notes=(
            "jobs, run times, classes and grace periods are the state store's; nodes are those that are up now",
            "a job that saves on notice loses its grace period; partitions, limits and dependencies are not simulated",
        ),
    )
    return workload, int((~fits).sum())


def _as_it_was(jobs: Sequence[JobView]) -> list[Line]:
    lines = []
    for job_class in (JobClass.TE, JobClass.BE):
        mine = [job for job in jobs if job.job_class is job_class]
        waits = [job.waited_s for job in mine if job.waited_s is not None]
        slow = [slowdown(job.waited_s, job.ran_s or 0.0) for job in mine if job.waited_s is not None]
        slowdowns = [value for value in slow if value is not None]
        lines.append(
            Line(
                case="as it was",
                job_class=job_class.value,
                jobs=len(mine),
                wait_p50_s=_percentile(waits, 50),
                wait_p95_s=_percentile(waits, 95),
                slowdown_p50=_percentile(slowdowns, 50),
                slowdown_p95=_percentile(slowdowns, 95),
                preempted=sum(job.preemptions > 0 for job in mine),
            )
        )
    return lines


def _simulated(contender: str, setting: Setting, workload: Workload) -> list[Line]:
    result = run_one(contender, setting, workload)
    summary = summarise(result)
    return [
        Line(
            case=contender,
            job_class=name,
            jobs=found.jobs,
            wait_p50_s=found.wait_s.p50,
            wait_p95_s=found.wait_s.p95,
            slowdown_p50=found.slowdown.p50,
            slowdown_p95=found.slowdown.p95,
            preempted=int((result.preempted[workload.te == (name == "te")] > 0).sum()),
            lost_node_h=summary.lost_node_s / 3600 if name == "be" else None,
        )
        for name, found in (("te", summary.te), ("be", summary.be))
    ]


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _show(lines: Sequence[Line], days: float, jobs: int, left_out: int) -> None:
    table = Table(title=f"{jobs} jobs of the last {days:g} days", title_justify="left", box=None, pad_edge=False)
    names = ("CASE", "CLASS", "JOBS", "WAIT 50%", "WAIT 95%", "SLOWDOWN 50%", "95%", "PREEMPTED", "LOST NODE-H")
    for name in names:
        table.add_column(name, justify="left" if name in {"CASE", "CLASS"} else "right")
    for line in lines:
        table.add_row(
            line.case,
            line.job_class.upper(),
            str(line.jobs),
            duration(line.wait_p50_s),
            duration(line.wait_p95_s),
            _number(line.slowdown_p50),
            _number(line.slowdown_p95),
            str(line.preempted),
            _number(line.lost_node_h),
        )
    out = console()
    out.print(table)
    if left_out:
        out.print(f"{left_out} job(s) are left out: no node that is up now could hold them")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
