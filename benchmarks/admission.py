"""Wait of a TE job on an empty cluster, by what the submission hook does with it: `python -m benchmarks.admission`.

Private clusters of one node, one after the other:

- slurm: no hook, no tesched
- open: the hook, and a daemon with guard.bound; the window is open, so the job starts by itself
- closed: the same with guard.te, by which each TE job is held at its submission and released by the daemon

Measured are the seconds from before sbatch to the first word of the job, and those until slurmctld has its start in its
log, which is without what slurmd takes.
"""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Literal, get_args

import click
import numpy as np
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import daemon_of, write_config
from tesched_testcluster.local import LocalCluster

Way = Literal["slurm", "open", "closed"]
WAYS: tuple[Way, ...] = get_args(Way)
HOOK = Path(__file__).parents[1] / "systemd" / "job_submit.lua"
BOUND = """
[slurm]
admission = "{admission}"
[guard.bound]
slowdown = 3
te_time_limit_s = 60
{limits}
[[classes.rules]]
name = "trials"
job_class = "te"
match = {{ partitions = ["debug"], max_time_limit_s = 60 }}
"""
#: the hook holds each TE job then; no job comes near the limit
CLOSED = "[guard.te]\nmax_running_per_user = 1000\n"


@contextmanager
def site(way: Way, client: ClientChoice) -> Iterator[LocalCluster]:
    """Give an empty cluster with what the way needs."""
    with tempfile.TemporaryDirectory(prefix="admission-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        hook = HOOK.read_text().replace("/run/tesched/", f"{folder}/")
        definition = ClusterDefinition(
            groups=(NodeGroup(count=1),),
            partitions=(
                PartitionDefinition(name="main", default=True, priority_tier=1),
                PartitionDefinition(name="debug", priority_tier=10, preempt_mode="OFF"),
            ),
            settings={"JobSubmitPlugins": "lua"} if way != "slurm" else {},
            files={"job_submit.lua": hook} if way != "slurm" else {},
        )
        with LocalCluster(definition) as cluster:
            if way == "slurm":
                yield cluster
                return
            config = write_config(cluster, folder, client, poll_interval_s=2.0, socket=str(folder / "poke.sock"))
            drop_in = folder / "conf.d" / "bound.toml"
            drop_in.parent.mkdir()
            limits = CLOSED if way == "closed" else ""
            drop_in.write_text(BOUND.format(admission=folder / "admission", limits=limits))
            with daemon_of(cluster, config):
                yield cluster


def measure(cluster: LocalCluster, count: int, draw: random.Random) -> tuple[list[float], list[float], int]:
    """Return for each job the seconds until its first word and until its start, and how many the hook has held."""
    words, starts, held = [], [], 0
    for number in range(count):
        said = cluster.shared / f"said-{number}"
        # Slurm's own passes come each second: each job meets another moment between two of them.
        time.sleep(0.5 + draw.random())
        began = time.time()
        options = ("--export=ALL", "--partition=debug", "--time=1")
        job_id = cluster.sbatch(*options, wrap=f"date +%s.%N > {said}.new; mv {said}.new {said}")
        cluster.wait_for(said.exists, "the job's first word")
        words.append(float(said.read_text()) - began)
        starts.append(_started(cluster, job_id) - began)
        held += f"release hold on JobId={job_id} " in cluster.slurmctld_log.read_text()
        cluster.wait_state(job_id, "COMPLETED")
    return words, starts, held


def _started(cluster: LocalCluster, job_id: int) -> float:
    """Return when slurmctld has given the job its node."""
    # Its main pass allocates, backfill starts.
    pattern = rf"^\[([^]]+)\] sched\S*: .*(?:Allocate|Started) JobId={job_id} "
    (at,) = cluster.wait_for(lambda: re.findall(pattern, cluster.slurmctld_log.read_text(), re.MULTILINE), "its start")
    return datetime.fromisoformat(at).timestamp()


def _row(name: str, seconds: Sequence[float]) -> str:
    low, middle, high = np.percentile(seconds, (5, 50, 95))
    return f"{name:<34} median {middle:5.2f} s   5 % {low:5.2f}   95 % {high:5.2f}"


@click.command()
@click.option("--count", default=20, show_default=True, help="TE jobs of each way.")
@click.option("--seed", default=1, show_default=True, help="Of the pauses between them.")
@click.option("--client", type=click.Choice([*ClientChoice]), default=ClientChoice.AUTO, show_default=True)
def main(count: int, seed: int, client: str) -> None:
    """Measure how long a TE job waits on an empty cluster."""
    for way in WAYS:
        with site(way, ClientChoice(client)) as cluster:
            words, starts, held = measure(cluster, count, random.Random(seed))  # noqa: S311 - when to submit
        click.echo(_row(f"{way}: until its first word", words))
        click.echo(_row(f"{way}: until its start", starts))
        click.echo(f"{way}: {held} of {count} held")


if __name__ == "__main__":
    main()
