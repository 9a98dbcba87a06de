"""CPUs of a node beyond those of the tasks (`--mincpus`), beside GPUs for each task, on a real Slurm 22.05."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: TE jobs that want half a node of 8 CPUs and 4 GPUs, or half of each of two
HALVES = {
    "one task": "-n1 --gpus-per-task=2 --mincpus=4",
    "two tasks": "-N1 -n2 --gpus-per-task=1 --mincpus=4",
    "GPUs that bring CPUs": "-N1 -n2 --gpus-per-task=1 --cpus-per-gpu=1 --mincpus=4",
    "several nodes": "-N2 -n4 --gpus-per-task=1 --mincpus=4",
}


def running(cluster: LocalCluster, name: str, *options: str) -> int:
    job = cluster.sbatch(f"--job-name={name}", "--output=/dev/null", *options, wrap="exec sleep 1000")
    cluster.wait_state(job, "RUNNING")
    return job


@pytest.mark.parametrize("form", gated(HALVES, "two tasks"))
def test_no_more_gpus_are_freed_for_them_than_the_tasks_want(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, form: str
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2, cpus=8, sockets=1, gres={"gpu": 4}),)))
    halves = [
        running(cluster, "be", "-w", node, "-n4", "--gpus=2", "--mem=100") for node in ("n1", "n2") for _ in range(2)
    ]
    with running_daemon(cluster, tmp_path, one_client):
        te = running(cluster, "te", "--mem=100", *HALVES[form].split())
        held = cluster.job(te)["NumNodes"]
        assert len(cluster.put_back(halves)) == int(held) == (2 if form == "several nodes" else 1)
