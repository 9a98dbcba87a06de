"""A list of partitions of which one gives whole nodes alone: 22.05 gives the job whole nodes in the others, too.

26.05 gives it what it requested there.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

SLEEP = "exec sleep 1000"
#: the second node is in both
WHOLE_AND_SHARED = ClusterDefinition(
    groups=(NodeGroup(count=2, cpus=8),),
    partitions=(
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="whole", nodes="n2", settings={"OverSubscribe": "EXCLUSIVE"}),
    ),
)


def running(cluster: LocalCluster, *options: str) -> int:
    job = cluster.sbatch("--job-name=be", "--output=/dev/null", "--mem=100", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def submitted(cluster: LocalCluster) -> int:
    """Submit a trial of one CPU, in both partitions."""
    return cluster.sbatch("--job-name=te", "--output=/dev/null", "--mem=100", "-n1", "-p", "whole,main", wrap=SLEEP)


def assert_starts_on_the_shared_node(cluster: LocalCluster, te: int, *, whole: bool) -> None:
    record = cluster.wait_state(te, "RUNNING")
    assert (record["Partition"], record["NodeList"], record["NumCPUs"]) == ("main", "n1", "8" if whole else "1")


@pytest.mark.gate
def test_slurm_gives_it_a_whole_node_in_the_partition_that_shares_them(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(WHOLE_AND_SHARED)
    first, _ = running(cluster, "-w", "n1", "-c8"), running(cluster, "-w", "n2", "-c8")
    te = submitted(cluster)
    whole = installed_release() < (26, 5)
    if whole:
        cluster.wait_for(lambda: cluster.job(te)["OverSubscribe"] == "NO", "Slurm's try in the other partition")
    cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Resources", "Slurm's try in both partitions")
    cluster.run("scancel", str(first))
    assert_starts_on_the_shared_node(cluster, te, whole=whole)


def test_the_victims_leave_that_it_needs_there(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(WHOLE_AND_SHARED)
    running(cluster, "-w", "n2", "-c8", "--no-requeue")
    jobs = [running(cluster, "-w", "n1", "-c4") for _ in range(2)]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster)
        whole = installed_release() < (26, 5)
        assert_starts_on_the_shared_node(cluster, te, whole=whole)
        assert len(cluster.put_back(jobs)) == (2 if whole else 1)
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
