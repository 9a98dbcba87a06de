"""The main job, to look at: a real Slurm full of best-effort jobs, the daemon beside it, trial-and-error jobs come.

Everything is real but the work of the jobs: slurmctld and eight slurmd on this host, `tesched daemon` as a process of
its own, jobs that heed a notice, write a checkpoint and go on from it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from tesched_core.metrics import lost_node_s
from tesched_db import read
from tesched_db.engine import open_store
from tesched_db.views import OrderView

from tesched_testcluster.load import LoadJob, OnNotice, submit
from tesched_testcluster.local import LocalCluster

#: Each best-effort job takes a whole node for 12 s of work; what it does on notice, and the seconds that saving takes.
#: All have the same size and grace period, so FitGpp asks them in order of their ids.
BEST_EFFORT: tuple[tuple[OnNotice, float], ...] = (
    ("exit", 1.0),
    ("requeue", 2.0),
    ("ignore", 0.0),
    *((("exit", 1.0),) * 5),
)
BEST_EFFORT_TICKS = 120
#: trial-and-error jobs that come at once, and the GPUs that each wants
TRIALS = (8, 4, 8)

CONFIG = """\
mode = "enforce"

[store]
url = "sqlite:///{folder}/tesched.sqlite"

[slurm]
client = "commands"
conf = "{slurm_conf}"

[loop]
poll_interval_s = 0.5

[guard]
min_run_time_s = 0       # a demo is short; leave a minute or more to real jobs

[classes]
default_class = "be"
default_grace_period_s = 6

[[classes.rules]]
name = "debug-jobs"
job_class = "te"
match = {{ names = ["te-*"] }}
"""


def run_demo() -> None:
    """Show the main job. Raises ClusterError if Slurm does not do its part."""
    console = Console(highlight=False)
    began = time.monotonic()
    console.rule("[bold]tesched on a real Slurm")
    with LocalCluster() as cluster, tempfile.TemporaryDirectory(prefix="tesched-demo-") as name:
        folder = Path(name)
        release = ".".join(str(part) for part in cluster.release)
        console.print(
            f"A local cluster: slurmctld and 8 slurmd of Slurm {release}, 8 (fake) GPUs a node. No container."
        )
        victims = _fill(cluster)
        console.print(f"{len(victims)} best-effort jobs hold all 64 GPUs; one more waits for its turn.")
        with _daemon(cluster, folder, console) as config:
            trials = _trials(cluster, console)
            everybody = [*victims, *trials]
            console.print("Now the victims come back and everybody finishes ...")
            cluster.wait_for(
                lambda: all(cluster.state(job_id) == "COMPLETED" for job_id in everybody),
                "all jobs to complete",
                timeout_s=90,
            )
            engine = open_store(f"sqlite:///{folder}/tesched.sqlite", read_only=True)
            cluster.wait_for(
                lambda: not read.status(engine).open_orders, "the orders to end, all put back", timeout_s=20
            )
            console.print()
            _report(read.orders(engine), cluster, console)
            engine.dispose()
            console.rule("tesched explain " + str(trials[0]))
            _tesched(config, "explain", str(trials[0]))
            console.rule("tesched status")
            _tesched(config, "status")
    console.rule(f"{time.monotonic() - began:.0f} s; nothing is left behind")


def _fill(cluster: LocalCluster) -> list[int]:
    jobs = [
        LoadJob(
            name=f"be-{number}",
            kind="be",
            cpus=8,
            gpus=8,
            ticks=BEST_EFFORT_TICKS,
            on_notice=on_notice,
            checkpoint_s=checkpoint_s,
            checkpoint_every=10,
        )
        for number, (on_notice, checkpoint_s) in enumerate(BEST_EFFORT, 1)
    ]
    ids = [submit(cluster, job, cluster.shared) for job in jobs]
    for job_id in ids:
        cluster.wait_state(job_id, "RUNNING")
    ids.append(submit(cluster, LoadJob(name="be-next", kind="be", cpus=2, gpus=2, ticks=20), cluster.shared))
    return ids


def _trials(cluster: LocalCluster, console: Console) -> list[int]:
    """Submit trial-and-error jobs, and say of each when it runs."""
    begin = time.monotonic()
    waiting = {}
    for number, gpus in enumerate(TRIALS, 1):
        job = LoadJob(name=f"te-{number}", kind="te", cpus=gpus, gpus=gpus, ticks=20)
        waiting[submit(cluster, job, cluster.shared)] = job
    ids = list(waiting)

    def look() -> bool:
        for job_id in list(waiting):
            if cluster.state(job_id) in {"RUNNING", "COMPLETED"}:
                job = waiting.pop(job_id)
                took_s = time.monotonic() - begin
                console.print(f"  {job.name} (job {job_id}, {job.gpus} GPUs) [bold green]runs after {took_s:.1f} s[/]")
        return not waiting

    cluster.wait_for(look, "the trial-and-error jobs to run", timeout_s=60)
    return ids


@contextmanager
def _daemon(cluster: LocalCluster, folder: Path, console: Console) -> Iterator[Path]:
    """Run `tesched daemon` beside the cluster until the block ends."""
    config, log = folder / "tesched.toml", folder / "daemon.log"
    config.write_text(CONFIG.format(folder=folder, slurm_conf=cluster.slurm_conf))
    with log.open("wb") as out:
        process = subprocess.Popen([_program(), "daemon", "--config", str(config)], stdout=out, stderr=out)
    try:
        cluster.wait_for(lambda: "did nothing" in log.read_text(), "the daemon's first look", timeout_s=30)
        console.print("tesched daemon runs, mode enforce. Trial-and-error jobs come:")
        yield config
    except BaseException:
        console.print(log.read_text(), markup=False)
        raise
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _program() -> str:
    return str(Path(sys.executable).with_name("tesched"))


def _tesched(config: Path, *argv: str) -> None:
    sys.stdout.flush()
    subprocess.run([_program(), *argv], env={**os.environ, "TESCHED_CONFIG": str(config)}, check=True, timeout=60)


def _report(orders: tuple[OrderView, ...], cluster: LocalCluster, console: Console) -> None:
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
