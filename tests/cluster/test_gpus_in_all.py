"""GPUs by node and in all, for a job that is bound to nodes with more GPUs: Slurm leaves it waiting on what it needs.

Slurm takes all that is free of the first node for what the job gets there. With 4 GPUs in all, 2 a node and 3 free on
the first it wants one of the second, which is less than 2. A job that is not bound to nodes is not counted so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

SLEEP = "exec sleep 1000"
BY_NODE_AND_IN_ALL = ("--mem=100", "-N2", "-n2", "--gpus=4", "--gpus-per-node=2")


def two_nodes(gpus: int) -> ClusterDefinition:
    """Return two nodes with so many GPUs each, in two partitions that share them in other ways."""
    return ClusterDefinition(
        groups=(NodeGroup(count=2, cpus=8, gres={"gpu": gpus}),),
        partitions=(
            PartitionDefinition(name="main", default=True),
            PartitionDefinition(name="own", settings={"ExclusiveUser": "YES"}),
        ),
    )


def running(cluster: LocalCluster, *options: str) -> int:
    job = cluster.sbatch("--job-name=be", "--output=/dev/null", "--mem=100", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def submitted(cluster: LocalCluster, *options: str) -> int:
    return cluster.sbatch("--job-name=te", "--output=/dev/null", *BY_NODE_AND_IN_ALL, *options, wrap=SLEEP)


def starts_bound_on_22_05_alone(
    cluster: LocalCluster, daemon: Daemon, te: int, full: int, *, awaited: Callable[[], bool]
) -> None:
    """Check that the BE job that holds all nodes leaves for the TE job on 22.05; else not, once that is `awaited`."""
    if installed_release() == (22, 5):
        cluster.wait_state(te, "RUNNING")
        assert cluster.put_back([full]) == [full]
        return
    cluster.wait_for(awaited, "the word on why it waits")
    daemon.await_polls(cluster)
    assert cluster.put_back([full]) == []
    # Bound to no nodes it starts, once there is enough.
    cluster.run("scancel", str(full))
    cluster.wait_state(te, "RUNNING")


@pytest.mark.gate
def test_slurm_starts_it_once_it_is_bound_to_no_nodes(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(two_nodes(4))
    running(cluster, "-w", "n1", "--gres=gpu:1")
    te = submitted(cluster, "-w", "n[1-2]")
    cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Resources", "Slurm's word that it lacks resources")
    cluster.run("scontrol", "update", f"jobid={te}", "reqnodelist=")
    cluster.wait_state(te, "RUNNING")
    assert cluster.job(te)["NodeList"] == "n[1-2]"


@pytest.mark.gate
@pytest.mark.parametrize("partitions", ["main", "main,own"])
def test_no_victim_leaves_where_slurm_would_not_start_it(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, partitions: str
) -> None:
    cluster = make_cluster(two_nodes(4))
    jobs = [running(cluster, "-w", "n1", "--gres=gpu:1"), running(cluster, "-w", "n2", "--gres=gpu:3")]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "-p", partitions)
        cluster.wait_for(
            lambda: "gpu:2 by node beside a number in all" in daemon.ask("explain", str(te)).stdout, "why it waits"
        )
        daemon.await_polls(cluster)
        assert cluster.put_back(jobs) == []
        # Slurm starts it by itself, once there is enough.
        cluster.run("scancel", str(jobs[1]))
        cluster.wait_state(te, "RUNNING")


@pytest.mark.gate
@pytest.mark.parametrize("partitions", ["main", "main,own"])
def test_victims_leave_where_the_nodes_have_no_more_gpus(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, partitions: str
) -> None:
    cluster = make_cluster(two_nodes(2))
    jobs = [running(cluster, "-w", name, "--gres=gpu:1") for name in ("n1", "n2")]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "-p", partitions)
        cluster.wait_state(te, "RUNNING")
        assert sorted(cluster.put_back(jobs)) == jobs
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
@pytest.mark.release
def test_tasks_by_node_that_share_gpus_in_all(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """26.05 gives the first node three of the four, and the second has two tasks; 22.05 starts it."""
    cluster = make_cluster(two_nodes(4))
    full = running(cluster, "-N2", "-n16", "--gres=gpu:4")
    options = ("--mem=100", "-N2", "--ntasks-per-node=2", "--gpus=4")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = cluster.sbatch("--job-name=te", "--output=/dev/null", *options, wrap=SLEEP)
        starts_bound_on_22_05_alone(
            cluster,
            daemon,
            te,
            full,
            awaited=lambda: "--ntasks-per-node=2 with" in daemon.ask("explain", str(te)).stdout,
        )


@pytest.mark.gate
@pytest.mark.release
def test_tasks_that_share_a_gpu_in_all_are_on_one_node(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """With three CPUs of each node 22.05 starts six tasks with three GPUs; 26.05 has two a GPU, four on a node."""
    cluster = make_cluster(two_nodes(4))
    jobs = []
    for name in ("n1", "n2"):
        running(cluster, "-w", name, "-n4", "--no-requeue")
        jobs += [running(cluster, "-w", name) for _ in range(2)]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        options = ("--mem=100", "-N2", "-n6", "--gpus=3")
        te = cluster.sbatch("--job-name=te", "--output=/dev/null", *options, wrap=SLEEP)
        cluster.wait_state(te, "RUNNING")
        assert len(cluster.put_back(jobs)) == (2 if installed_release() == (22, 5) else 4)
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
@pytest.mark.release
def test_more_cpus_by_node_than_its_tasks_want_beside_gpus_in_all(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """22.05 starts `-n2 --mincpus=3 --gpus=1` on three CPUs; 26.05 says BadConstraints of it, whatever is free."""
    cluster = make_cluster(two_nodes(1))
    jobs = [running(cluster, "-w", name, "-n6", "--gres=gpu:1") for name in ("n1", "n2")]
    options = ("--mem=100", "-n2", "--mincpus=3", "--gpus=1")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = cluster.sbatch("-H", "--job-name=te", "--output=/dev/null", *options, wrap=SLEEP)
        cluster.run("scontrol", "release", str(te))
        if installed_release() == (22, 5):
            cluster.wait_state(te, "RUNNING")
            assert len(cluster.put_back(jobs)) == 1
            return
        cluster.wait_for(lambda: cluster.job(te)["Reason"] == "BadConstraints", "Slurm's word that it never starts")
        daemon.await_polls(cluster)
        assert cluster.put_back(jobs) == []


@pytest.mark.gate
@pytest.mark.release
def test_tasks_with_a_gpu_each_that_share_a_core_on_two_nodes(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """22.05 starts `-N2 -n3 --gpus=3` beside a task on one of a core's threads; bound to them 26.05 does not."""
    group = NodeGroup(count=2, cpus=8, threads_per_core=2, gres={"gpu": 2})
    cluster = make_cluster(ClusterDefinition(groups=(group,)))
    full = running(cluster, "-N2", "-n2", "--gpus-per-node=2")
    options = ("--mem=100", "-N2", "-n3", "--gpus=3")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = cluster.sbatch("--job-name=te", "--output=/dev/null", *options, wrap=SLEEP)
        starts_bound_on_22_05_alone(cluster, daemon, te, full, awaited=lambda: "Resources" in cluster.job(te)["Reason"])


@pytest.mark.gate
@pytest.mark.release
def test_slurm_itself_declines_tasks_that_share_a_core_when_they_are_bound(make_cluster: MakeCluster) -> None:
    group = NodeGroup(count=2, cpus=8, threads_per_core=2, gres={"gpu": 2})
    cluster = make_cluster(ClusterDefinition(groups=(group,)))
    te = cluster.sbatch("-H", "--output=/dev/null", "--mem=100", "-N2", "-n3", "--gpus=3", wrap=SLEEP)
    cluster.run("scontrol", "update", f"jobid={te}", "reqnodelist=n[1-2]")
    cluster.run("scontrol", "release", str(te))
    if installed_release() == (22, 5):
        cluster.wait_state(te, "RUNNING")
    else:
        cluster.wait_for(lambda: cluster.job(te)["Reason"] == "BadConstraints", "Slurm's word that it never starts")


@pytest.mark.gate
@pytest.mark.release
def test_gpus_alone_that_no_node_has_are_freed_on_several(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """Slurm makes a task for each node of `--gpus=4`; the same with -n1 never starts."""
    cluster = make_cluster(two_nodes(2))
    jobs = [running(cluster, "-w", name, "--gres=gpu:2") for name in ("n1", "n2")]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        never = cluster.sbatch("-H", "--job-name=te", "--output=/dev/null", "--mem=100", "-n1", "--gpus=4", wrap=SLEEP)
        cluster.run("scontrol", "release", str(never))
        said = {"BadConstraints"} if installed_release() == (22, 5) else {"Resources"}
        cluster.wait_for(lambda: cluster.job(never)["Reason"] in said, "Slurm's word on it")
        daemon.await_polls(cluster)
        assert cluster.put_back(jobs) == []
        # With the GPUs of one node free 26.05 would start it there, with these.
        cluster.run("scancel", str(never))
        te = cluster.sbatch("--job-name=te", "--output=/dev/null", "--mem=100", "--gpus=4", wrap=SLEEP)
        cluster.wait_state(te, "RUNNING")
        assert sorted(cluster.put_back(jobs)) == jobs
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
        assert cluster.job(te)["NumTasks"] == "2"
