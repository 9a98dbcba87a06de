"""Slurm's eligible time of a job that runs: it is the end of what its own user has let it wait."""

from __future__ import annotations

import time

import pytest
from tesched_core.intake.own_waits import eligible_since
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"


def seen(client: Client, job_id: int) -> Job:
    snapshot = client.observer.observe()
    assert isinstance(snapshot, Snapshot), snapshot
    return snapshot.jobs[JobId(job_id)]


def shown(cluster: LocalCluster, job: str, column: str = "%T") -> str:
    return cluster.run("squeue", "-h", "-j", job, "-o", column).stdout.strip()


@pytest.mark.gate
def test_a_wait_of_its_own_users_is_before_its_eligible_time(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    first = cluster.sbatch(wrap=SLEEP)
    cluster.wait_for(lambda: shown(cluster, str(first)) == "RUNNING", "the first of the chain to run")
    chained = cluster.sbatch(f"--dependency=afterany:{first}", wrap=SLEEP)
    held = cluster.sbatch("--hold", wrap=SLEEP)
    tasks = cluster.sbatch("--array=0-1%1", wrap=SLEEP)
    cluster.wait_for(lambda: shown(cluster, f"{tasks}_0") == "RUNNING", "the first task to run")
    cluster.wait_for(lambda: shown(cluster, f"{tasks}_1", "%r") == "JobArrayTaskLimit", "the array to be at its limit")
    # Slurm's times are whole seconds.
    began = int(time.time())
    cluster.wait_for(lambda: time.time() >= began + 2, "the next seconds")
    cluster.run("scancel", str(first), f"{tasks}_0")
    cluster.run("scontrol", "release", str(held))
    for name in (str(chained), str(held), f"{tasks}_1"):
        cluster.wait_for(lambda: shown(cluster, name) == "RUNNING", f"{name} to run")  # noqa: B023
    last = int(shown(cluster, f"{tasks}_1", "%A"))
    for job_id in (chained, held, last):
        job = seen(client, job_id)
        assert job.start_time is not None
        assert job.submit_time <= began < began + 2 <= eligible_since(job) <= job.start_time
