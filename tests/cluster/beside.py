"""One TE job beside BE jobs that fill a cluster: which of them leave for it, and where it starts."""

from __future__ import annotations

from collections.abc import Sequence

from tesched_testcluster.harness.daemon_process import Daemon
from tesched_testcluster.local import LocalCluster

SLEEP = "exec sleep 1000"


def submitted(cluster: LocalCluster, name: str, *options: str) -> int:
    """Submit a job that sleeps; return its id."""
    return cluster.sbatch(f"--job-name={name}", "--output=/dev/null", *options, wrap=SLEEP)


def await_resources(cluster: LocalCluster, job: int, why: str) -> None:
    """Wait until Slurm says that the job waits for resources."""
    cluster.wait_for(lambda: cluster.job(job)["Reason"] == "Resources", f"Slurm's word that it lacks resources: {why}")


def end_all(cluster: LocalCluster, *jobs: int) -> None:
    """Cancel these jobs, and wait until the queue is empty."""
    cluster.run("scancel", *map(str, jobs))
    cluster.wait_for(lambda: not cluster.run("squeue", "-h").stdout, "the queue to be empty")


def left_for(
    cluster: LocalCluster, daemon: Daemon, busy: Sequence[Sequence[str]], te: Sequence[str], *, starts: bool
) -> tuple[list[int], str]:
    """Submit the BE jobs and then the TE job; return the places of those that left for it, and its nodes.

    It waits until the TE job runs, or, where it is not to start, until Slurm and the daemon have considered it. Then
    all end.
    """
    jobs = [submitted(cluster, "be", *options) for options in busy]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    trial = submitted(cluster, "te", *te)
    if starts:
        nodes = cluster.wait_state(trial, "RUNNING")["NodeList"]
    else:
        await_resources(cluster, trial, " ".join(te))
        daemon.await_polls(cluster)
        nodes = ""
    gone = [jobs.index(job) for job in cluster.put_back(jobs)]
    daemon.await_polls(cluster)
    end_all(cluster, trial, *jobs)
    return gone, nodes
