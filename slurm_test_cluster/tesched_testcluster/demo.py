"""The main job, to be seen: a real Slurm full of best-effort jobs, the daemon beside it, trial-and-error jobs come.

Everything is real but the work of the jobs: slurmctld and eight nodes, in containers or on this host, `tesched daemon`
beside them, ordinary batch scripts, and two jobs that declare a signal, write a checkpoint and go on from it. No job
ends before all TE jobs run, however slow the machine is: else the BE jobs of a busy one end by themselves before.

`run_demo` returns the record of what happened (`demo_record.py`), of which a picture can be drawn (`demo_picture.py`).
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from enum import StrEnum

import msgspec
from rich.console import Console
from rich.table import Table
from tesched_core.intake.job_times import lost_node_s
from tesched_db.views import OrderView

from tesched_testcluster.cluster import Cluster
from tesched_testcluster.demo_record import DemoJob, DemoRecord, preemptions_of
from tesched_testcluster.docker import engine_available
from tesched_testcluster.load import LoadJob, OnNotice
from tesched_testcluster.stage import Stage, docker_stage, local_stage

#: Each best-effort job takes a whole node for 12 s of work; what it does on notice, and the seconds that saving takes.
#: All have the same size and grace period, so FitGpp asks them in order of their ids. The first two save their work.
BEST_EFFORT: tuple[tuple[OnNotice, float], ...] = (
    ("exit", 0.3),
    ("requeue", 0.6),
    *((("unaware", 0.0),) * 6),
)
#: seconds: the KillWait of the test clusters, which is the grace period of an ordinary script
GRACE_S = 2
BEST_EFFORT_TICKS = 120
#: so long that no trial-and-error job gets the nodes that another one leaves
TRIAL_TICKS = 90
#: trial-and-error jobs that come at once, and the GPUs that each wants
TRIALS = (8, 4, 8)


class Where(StrEnum):
    """On what the demo runs."""

    AUTO = "auto"
    DOCKER = "docker"
    LOCAL = "local"


def run_demo(where: Where = Where.AUTO) -> DemoRecord:
    """Show the main job, and return what happened. Raises ClusterError if Slurm does not do its part."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    console.rule("[bold]tesched on a real Slurm")
    if where is Where.DOCKER or (where is Where.AUTO and engine_available()):
        why = "a Docker engine answers" if where is Where.AUTO else "as requested"
        console.print(f"In containers ({why}): slurmctld, slurmdbd, PostgreSQL, tesched, and 8 nodes of 8 (fake) GPUs.")
        with docker_stage() as stage:
            return _show(stage, console)
    why = "no Docker engine answers" if where is Where.AUTO else "as requested"
    console.print(f"On this host ({why}): slurmctld, tesched, and 8 slurmd, which stand for nodes of 8 (fake) GPUs.")
    with local_stage() as stage:
        return _show(stage, console)


def _show(stage: Stage, console: Console) -> DemoRecord:
    began = time.monotonic()
    cluster = stage.cluster
    slurm = cluster.run("scontrol", "--version").stdout.strip()
    console.print(slurm)
    with ExitStack() as stack:
        with stage.held():
            victims = _fill(stage)
            console.print(f"{len(victims) - 1} best-effort jobs hold all 64 GPUs; one more waits for its turn.")
            stack.enter_context(stage.daemon())
            page = stack.enter_context(stage.page())
            if page:
                console.print(f"The live page, as long as the demo runs: {page}", soft_wrap=True)
            console.print("tesched daemon runs, mode enforce. Trial-and-error jobs come:")
            trials = _trials(stage, console)
            cluster.wait_for(lambda: _seen_to_run(stage, len(trials)), "tesched to see them run")
            status = stage.tesched("status")
        console.rule("tesched status")
        console.out(status, end="")
        console.print("Now the victims come back and all jobs finish ...")
        everybody = [job.job_id for job in (*victims, *trials)]
        cluster.wait_for(
            lambda: all(cluster.state(job_id) == "COMPLETED" for job_id in everybody),
            "all jobs to complete",
        )
        cluster.wait_for(
            lambda: all(view.order.ended_at is not None for view in _orders(stage)),
            "the orders to end, all put back",
        )
        console.print()
        orders = _orders(stage)
        _report(orders, cluster, console)
        console.rule(f"tesched explain {trials[0].job_id}")
        explain = stage.tesched("explain", str(trials[0].job_id))
        console.out(explain, end="")
        record = DemoRecord(
            slurm=slurm,
            nodes=tuple(cluster.definition.node_names),
            gpus=cluster.definition.groups[0].gres["gpu"],
            jobs=(*victims, *trials),
            events=stage.events(),
            preemptions=preemptions_of(orders),
            status=status,
            explain=explain,
        )
        if page and sys.stdin.isatty() and sys.stdout.isatty():
            console.print(f"\nLook at it: {page} (Enter ends the demo) ", end="", soft_wrap=True)
            # Ctrl-C is an end as good as Enter: it reaches daemon and page, too, which end by it.
            try:
                sys.stdin.readline()
            except KeyboardInterrupt:
                console.print()
    console.rule(f"{time.monotonic() - began:.0f} s; nothing is left behind")
    return record


def _seen_to_run(stage: Stage, trials: int) -> bool:
    """Return whether tesched has seen each TE job run, and each victim leave."""
    orders = [view.order for view in _orders(stage)]
    return len(orders) == trials and all(
        order.ending is not None and all(victim.left_at is not None for victim in order.victims) for order in orders
    )


def _orders(stage: Stage) -> tuple[OrderView, ...]:
    """Return the orders that tesched remembers."""
    return msgspec.convert(json.loads(stage.tesched("orders", "--json"))["orders"], tuple[OrderView, ...])


def _fill(stage: Stage) -> list[DemoJob]:
    jobs = [
        LoadJob(
            name=f"be-{number}",
            kind="be",
            cpus=8,
            gpus=8,
            ticks=BEST_EFFORT_TICKS,
            on_notice=on_notice,
            checkpoint_s=checkpoint_s,
            checkpoint_every=10 if checkpoint_s else 0,
            options=(f"--comment=grace={GRACE_S}",) if checkpoint_s else (),
        )
        for number, (on_notice, checkpoint_s) in enumerate(BEST_EFFORT, 1)
    ]
    submitted = [_submit(stage, job) for job in jobs]
    for job in submitted:
        stage.cluster.wait_state(job.job_id, "RUNNING")
    return [*submitted, _submit(stage, LoadJob(name="be-next", kind="be", cpus=4, gpus=4, ticks=60))]


def _submit(stage: Stage, job: LoadJob) -> DemoJob:
    at = time.time()
    return DemoJob(job_id=stage.submit(job), name=job.name, kind=job.kind, gpus=job.gpus, submitted_at=at)


def _trials(stage: Stage, console: Console) -> list[DemoJob]:
    """Submit trial-and-error jobs, and say of each when it runs."""
    begin = time.monotonic()
    trials = [
        _submit(stage, LoadJob(name=f"te-{number}", kind="te", cpus=gpus, gpus=gpus, ticks=TRIAL_TICKS))
        for number, gpus in enumerate(TRIALS, 1)
    ]
    waiting = list(trials)

    def look() -> bool:
        for job in list(waiting):
            if stage.cluster.state(job.job_id) == "RUNNING":
                waiting.remove(job)
                took_s = time.monotonic() - begin
                console.print(
                    f"  {job.name} (job {job.job_id}, {job.gpus} GPUs) [bold green]runs after {took_s:.1f} s[/]"
                )
        return not waiting

    stage.cluster.wait_for(look, "the trial-and-error jobs to run")
    return trials


def _report(orders: tuple[OrderView, ...], cluster: Cluster, console: Console) -> None:
    """Print what each trial-and-error job waited, and what it cost."""
    table = Table(title="What it cost (LOST counts a whole run, saved or not)", title_justify="left")
    for column in ("TE JOB", "WAITED", "VICTIM", "NOTICE TO GONE", "OF GRACE", "HOW IT LEFT", "AWAY", "LOST"):
        table.add_column(column, justify="right" if column in {"WAITED", "AWAY", "LOST"} else "left")
    for view in orders:
        order = view.order
        waited = cluster.run("squeue", "-h", "-t", "all", "-j", str(order.preemptor), "-O", "PendingTime").stdout
        for victim, label in zip(order.victims, view.victim_labels, strict=True):
            left, noticed, back = victim.left_at, victim.noticed_at, victim.back_at
            table.add_row(
                view.preemptor_label,
                f"{waited.strip()} s",
                label,
                f"{left - noticed:.1f} s" if left and noticed else "did not leave",
                f"{victim.grace_period_s:.0f} s",
                str(victim.departure or victim.state).replace("_", " "),
                f"{back - left:.0f} s" if left and back else "",
                f"{lost_node_s(victim):.0f} node-s",
            )
    console.print(table)
