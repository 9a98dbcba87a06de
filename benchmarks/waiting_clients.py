"""How often who waits for a victim takes it for failed: `python -m benchmarks.waiting_clients`.

On a real Slurm that it starts, beside a daemon in mode enforce with the shipped poll interval: jobs that declare a
signal and fail of it, each submitted by `sbatch --wait`, and for each a job that depends on it (afterok) with
`--kill-on-invalid-dep=yes`. A TE job comes for each node. In its second run each job ends well. Printed is how many
`sbatch --wait` ended with an error, and how many of the jobs behind were cancelled: each one is a client that was
misled.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

#: seconds between polls, as shipped
POLL_S = 2.0
_SCRIPT = """#!/bin/sh
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
trap 'sleep {saves_s}; exit 1' USR1
sleep 1000 & wait
"""


@click.command()
@click.option("--jobs", type=click.IntRange(1, 8), default=8, show_default=True, help="Number of victims.")
@click.option("--epilog-s", type=click.FloatRange(0, 60), default=0.0, show_default=True, help="Length of an Epilog.")
@click.option("--saves-s", type=click.FloatRange(0, 60), default=0.0, show_default=True, help="Time until one fails.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(*, jobs: int, epilog_s: float, saves_s: float, as_json: bool) -> None:
    """Run it and print what the clients took it for."""
    row = run(jobs, epilog_s, saves_s)
    if as_json:
        print(json.dumps(row))
    else:
        print(
            f"Slurm {row['slurm']}, {jobs} victims that fail {saves_s:g} s after their notice, Epilog {epilog_s:g} s: "
            f"sbatch --wait ended with an error {row['wait_failed']} times, "
            f"{row['cancelled']} of {jobs} jobs behind were cancelled, {row['lost']} jobs lost"
        )


def run(jobs: int, epilog_s: float, saves_s: float) -> dict[str, int | str]:
    """Return the counts."""
    with tempfile.TemporaryDirectory(prefix="waiting-") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        settings = {}
        if epilog_s:
            epilog = folder / "epilog"
            epilog.write_text(f"#!/bin/sh\nsleep {epilog_s}\n")
            epilog.chmod(0o755)
            settings["Epilog"] = str(epilog)
        script = folder / "job.sh"
        script.write_text(_SCRIPT.format(saves_s=saves_s))
        definition = ClusterDefinition(name="waiting", groups=(NodeGroup(count=jobs, cpus=4),), settings=settings)
        with LocalCluster(definition) as cluster:
            return _measured(cluster, folder, script, jobs)


def _measured(cluster: LocalCluster, folder: Path, script: Path, jobs: int) -> dict[str, int | str]:
    whole = ("--exclusive", "--mem=100", "--output=/dev/null")
    first = ["sbatch", "--wait", "--parsable", "-J", "be", *whole, "--comment=signal=B:USR1 grace=120", str(script)]
    with ExitStack() as stack:
        clients = [stack.enter_context(_client(first, cluster)) for _ in range(jobs)]
        return _outcome(cluster, folder, clients, whole)


@contextmanager
def _client(argv: list[str], cluster: LocalCluster) -> Iterator[subprocess.Popen[str]]:
    """Give a client that waits for its job; at the end it is gone."""
    with subprocess.Popen(
        argv, env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as client:
        try:
            yield client
        finally:
            client.terminate()


def _outcome(
    cluster: LocalCluster, folder: Path, clients: Sequence[subprocess.Popen[str]], whole: tuple[str, ...]
) -> dict[str, int | str]:
    victims = [int(client.stdout.readline()) for client in clients if client.stdout is not None]
    nodes = [cluster.wait_state(victim, "RUNNING")["NodeList"] for victim in victims]
    behind = [
        cluster.sbatch(f"--dependency=afterok:{victim}", "--kill-on-invalid-dep=yes", *whole, wrap="true")
        for victim in victims
    ]
    with running_daemon(cluster, folder, ClientChoice.AUTO, poll_interval_s=POLL_S) as daemon:
        for node in nodes:
            cluster.sbatch("-J", "te", *whole, f"--nodelist={node}", wrap="exec sleep 1")
            time.sleep(POLL_S / 7)  # so that notices come at any moment between two polls
        codes = [client.wait(timeout=600) for client in clients]
        cluster.wait_for(lambda: all(_over(cluster, job) for job in behind), "the jobs behind to end")
        lost = int(daemon.json("status")["tally"]["lost"])
    states = [cluster.job(job)["JobState"] for job in behind]
    return {
        "slurm": "{}.{:02}".format(*cluster.release),
        "wait_failed": sum(code != 0 for code in codes),
        "cancelled": states.count("CANCELLED"),
        "lost": lost,
    }


def _over(cluster: LocalCluster, job: int) -> bool:
    return cluster.job(job)["JobState"] in {"COMPLETED", "CANCELLED", "FAILED"}


if __name__ == "__main__":
    main()
