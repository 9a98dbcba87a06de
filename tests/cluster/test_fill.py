"""fill on a real Slurm: a job that fits by its expected run time, not its limit, is brought forward, and put back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm


@pytest.mark.gate
def test_a_short_job_fills_the_hole_before_the_first_which_does_not_wait_longer(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:

        def job(name: str, gpus: int, *options: str, ticks: int = 5) -> int:
            load = LoadJob(name=name, kind="be", cpus=gpus, gpus=gpus, ticks=ticks, options=options)
            return submit(cluster, load, cluster.shared)

        holder = job("be-holder", 4, "--time=5", ticks=600)
        cluster.wait_state(holder, "RUNNING")
        first = job("be-first", 8, "--time=5")
        late = job("be-late", 4, "--time=10")
        # It really runs until it is cancelled, so that it is seen running however slow this machine is.
        short = job("be-short", 4, "--time=10", "--comment=run=5", ticks=600)
        before = {job_id: cluster.job(job_id)["Priority"] for job_id in (first, late, short)}
        for job_id in (first, late, short):
            cluster.wait_for(
                lambda job_id=job_id: cluster.job(job_id)["Reason"] in {"Resources", "Priority"},  # type: ignore[misc]
                f"job {job_id} to wait for resources",
            )
        with running_daemon(cluster, tmp_path, one_client, policy="none+fill") as daemon:
            cluster.wait_state(short, "RUNNING")
            assert cluster.state(first) == "PENDING"
            assert cluster.state(late) == "PENDING", "it would end after the holder"
            cluster.wait_for(lambda: cluster.job(short)["Nice"] == "0", "its nice value to be put back")
            assert {job_id: cluster.job(job_id)["Priority"] for job_id in before} == before
            cluster.run("scancel", str(short))
            cluster.wait_for(
                lambda: f"would delay job {first}" in daemon.ask("explain", str(late)).stdout,
                "explain to say whom the late one would delay, now that it fits",
            )
            cluster.run("scancel", str(holder))
            for job_id in (first, late):
                cluster.wait_state(job_id, "COMPLETED")
