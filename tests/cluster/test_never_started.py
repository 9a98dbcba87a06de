"""Slurm says Resources for ever of what it starts on no node: submitted with a hold, in several partitions.

Without a hold it refuses such a job at its submission; in one partition it says BadConstraints.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.beside import await_resources, submitted
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

MEM = "--mem=100"
TWO_PARTITIONS = ClusterDefinition(
    groups=(NodeGroup(count=1, cpus=8, sockets=1, gres={"gpu": 2}, counted={"tmp": "400G"}),),
    partitions=(PartitionDefinition(name="main", default=True), PartitionDefinition(name="other")),
    def_mem_per_cpu_mib=None,
)
THREE_LIMITED = ClusterDefinition(
    groups=(NodeGroup(count=3, cpus=8, sockets=1, gres={}),),
    partitions=(
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="few", settings={"MaxCPUsPerNode": "4"}),
    ),
    def_mem_per_cpu_mib=None,
)


def still_waits(cluster: LocalCluster, job: int, node: str) -> None:
    """Check that Slurm starts a job behind this one on the node that is free now, and not this one."""
    behind = submitted(cluster, "behind", MEM, "-n1", f"-w{node}", "--nice=1000")
    cluster.wait_state(behind, "RUNNING")
    assert cluster.job(job)["JobState"] == "PENDING"


@pytest.mark.gate
@pytest.mark.release
def test_no_victim_leaves_for_what_starts_on_no_node(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """22.05: one task whose GPU brings two CPUs, beside another GRES; 26.05: more CPUs than a node's tasks have."""
    old = installed_release() < (26, 5)
    options = (
        ("-n1", "--gpus=1", "--cpus-per-gpu=2", "--gres=tmp:1G")
        if old
        else ("-N1", "--ntasks-per-node=2", "--mincpus=3")
    )
    named = "--gres=tmp with CPUs for each GPU" if old else "--mincpus=3 with --ntasks-per-node=2"
    cluster = make_cluster(TWO_PARTITIONS)
    full = submitted(cluster, "be", MEM, "-n8")
    cluster.wait_state(full, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "te", "-H", MEM, "-pmain,other", *options)
        cluster.run("scontrol", "release", str(te))
        await_resources(cluster, te, " ".join(options))
        cluster.wait_for(lambda: named in daemon.ask("explain", str(te)).stdout, "why it waits")
        daemon.await_polls(cluster)
        assert cluster.put_back([full]) == []
        cluster.run("scancel", str(full))
        still_waits(cluster, te, "n1")


@pytest.mark.gate
@pytest.mark.release
def test_no_victim_leaves_where_a_limit_leaves_parts_of_tasks(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """MaxCPUsPerNode leaves 2, 3 and 4 CPUs: 26.05 takes 2, 3 and 3 for four tasks of two, and starts it nowhere."""
    cluster = make_cluster(THREE_LIMITED)
    for node, cpus in (("n1", 6), ("n2", 1), ("n3", 8)):
        partition = "few" if node == "n2" else "main"
        job = submitted(cluster, "be", MEM, f"-w{node}", f"-n{cpus}", f"-p{partition}")
        cluster.wait_state(job, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "te", MEM, "-pfew", "-N3", "-n4", "-c2")
        if installed_release() < (26, 5):
            cluster.wait_state(te, "RUNNING")
            assert cluster.put_back([job]) == [job]
            return
        named = "MaxCPUsPerNode=4 of partition few with several tasks of 2 CPUs on a node"
        cluster.wait_for(lambda: named in daemon.ask("explain", str(te)).stdout, "why it waits")
        daemon.await_polls(cluster)
        assert cluster.put_back([job]) == []
        cluster.run("scancel", str(job))
        still_waits(cluster, te, "n3")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ("--gpus=2 --cpus-per-gpu=2 --gres=tmp:1G --exclusive", False),
        ("--gpus=2 --cpus-per-gpu=2 --gres=tmp:1G", False),
        ("--gres=gpu:2,tmp:1G --cpus-per-gpu=2 --exclusive", True),
        ("-pby --gres=tmp:1G,gpu:2 --exclusive", False),
        ("-pby --gres=tmp:1G,gpu:2", False),
        ("-pby --gres=gpu:2,tmp:1G", True),
        # a task on each of two nodes; with three tasks either of them may have one or two
        ("-N2 --gpus=4 --cpus-per-gpu=3 --gres=tmp:1G", False),
        ("-N2 -n3 --gpus=4 --cpus-per-gpu=3 --gres=tmp:1G", True),
        ("-N2 -n4 --ntasks-per-node=2 --gpus=4 --cpus-per-gpu=3 --gres=tmp:1G", False),
        ("-N2 -pby --gres=tmp:1G,gpu:2", False),
    ],
)
def test_slurm_itself_takes_the_cores_of_gpus_away_again_beside_another_gres(
    make_cluster: MakeCluster, options: str, *, starts: bool
) -> None:
    """22.05, on an empty node whose GPUs have no type, once the number of nodes is set, as a binding sets it."""
    by_gpu = PartitionDefinition(name="by", settings={"DefCpuPerGPU": "2"})
    (group,), count = TWO_PARTITIONS.groups, 2 if "-N2" in options else 1
    partitions = (*TWO_PARTITIONS.partitions, by_gpu)
    cluster = make_cluster(replace(TWO_PARTITIONS, groups=(replace(group, count=count),), partitions=partitions))
    te = submitted(cluster, "te", "-H", MEM, "-n2", *options.replace("-N2", "").split())
    bound = f"numnodes={count}-{count}", f"reqnodelist={'n1,n2' if count > 1 else 'n1'}"
    cluster.run("scontrol", "update", f"jobid={te}", *bound)
    cluster.run("scontrol", "release", str(te))
    if starts:
        cluster.wait_state(te, "RUNNING")
    else:
        cluster.wait_for(lambda: cluster.job(te)["Reason"] == "BadConstraints", "Slurm's word that it never starts")
