"""A daemon that was at rest decides on what is so when the TE job comes, also on what no job's record shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def test_a_node_that_was_drained_at_rest_gets_no_victim(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    def best_effort(node: int, cpus: int) -> int:
        options = ("--requeue", f"--nodelist=n{node}", f"-n{cpus}", "--gpus=8", f"--job-name=be-{node}")
        return cluster.sbatch(*options, wrap="exec sleep 1000")

    # The smallest of them would be the victim.
    others = [best_effort(node, 16) for node in range(2, 9)]
    smallest = best_effort(1, 1)
    for job_id in (smallest, *others):
        cluster.wait_state(job_id, "RUNNING")
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        daemon.await_polls(cluster, 4)
        cluster.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
        daemon.await_polls(cluster)
        te = cluster.sbatch("--gpus=1", "-n1", "--job-name=te", wrap="exec sleep 1000")
        cluster.wait_state(te, "RUNNING")
        assert cluster.state(smallest) == "RUNNING"
        assert sum(cluster.state(job_id) != "RUNNING" for job_id in others) == 1
        cluster.run("scancel", str(te))
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
