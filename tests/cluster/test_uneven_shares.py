"""Tasks and GPUs that Slurm shares out unevenly over the nodes that a job is bound to; some it leaves waiting.

Nodes `a` have two hardware threads a core, node `b1` one. With a GPU for each task Slurm 22.05 counts whole cores on a
node with one GPU free, two CPUs, and places one task there: the others wait for ever.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import fits_now
from tesched_core.ports import Observer
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.slurm_clients import connecting
from tesched_testcluster.local import LocalCluster, installed_release

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

SLEEP = "exec sleep 1000"
THREADS = ClusterDefinition(
    groups=(
        NodeGroup(prefix="a", count=2, cpus=8, sockets=1, threads_per_core=2, gres={"gpu": 4}),
        NodeGroup(prefix="b", count=1, cpus=8, sockets=1, gres={"gpu": 4}),
    ),
    partitions=(
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="two", nodes="a[1-2]"),
        PartitionDefinition(name="mixed", nodes="a1,b1"),
    ),
)
#: four tasks with a GPU each, of which one node has three and the other one one
BY_TASK = ("-p", "two", "-N2", "-n4", "--gpus-per-task=1")
#: two jobs that run, and one to submit, for which one of them leaves
UNEVEN = (
    # 3 GPUs and 1, where 2 and 2 would take both
    ((("a1", "-n2", "--gres=gpu:3"), ("a2", "-n2", "--gres=gpu:3")), ("-ptwo", "-n2", "--gpus=4")),
    # a task a core: 4 and 2
    ((("a1", "-n8"), ("a2", "-n4")), ("-ptwo", "-n6", "--ntasks-per-core=1")),
    # 2 tasks of 3 CPUs on 4 cores of two threads, and 1 on 3 of one
    ((("a1", "-n8"), ("b1", "-n5")), ("-pmixed", "-n3", "-c3")),
    # with one thread of each core 1 and 2
    ((("a1", "-n2"), ("b1", "-n3")), ("-pmixed", "-n3", "-c3", "--threads-per-core=1")),
    # tasks of two CPUs, which their GPUs bring: 3 and 1
    (
        (("a1", "-n2", "--gres=gpu:3"), ("b1", "-n2", "--gres=gpu:3")),
        ("-pmixed", "-n4", "--gpus-per-task=1", "--cpus-per-gpu=2"),
    ),
)


def running(cluster: LocalCluster, *options: str) -> int:
    job = cluster.sbatch("--job-name=be", "--output=/dev/null", "--mem=100", *options, wrap=SLEEP)
    cluster.wait_state(job, "RUNNING")
    return job


def submitted(cluster: LocalCluster, *options: str) -> int:
    return cluster.sbatch("--job-name=te", "--output=/dev/null", "--mem=100", *options, wrap=SLEEP)


def started_as_read(cluster: LocalCluster, observer: Observer, *options: str) -> str:
    """Submit a job that a best-effort job's reading says may start at once, and return where Slurm starts it."""
    job = submitted(cluster, "-H", *options)
    snapshot = observer.observe()
    assert isinstance(snapshot, Snapshot)
    capacity = columns_of(snapshot).capacity
    assert fits_now(demands_of(snapshot.jobs[JobId(job)], snapshot, capacity, binds=False), capacity), options
    cluster.run("scontrol", "release", str(job))
    nodes: str = cluster.wait_state(job, "RUNNING")["NodeList"]
    cluster.run("scancel", str(job))
    cluster.wait_state(job, "CANCELLED")
    return nodes


@pytest.mark.gate
def test_slurm_leaves_tasks_with_a_gpu_each_waiting_where_they_share_cores(make_cluster: MakeCluster) -> None:
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone; tesched plans no such job on any release")
    cluster = make_cluster(THREADS)
    running(cluster, "-w", "a1", "-n6", "--gres=gpu:1")
    less = running(cluster, "-w", "a2", "-n6", "--gres=gpu:3")
    te = submitted(cluster, *BY_TASK)
    cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Resources", "Slurm's word that it lacks resources")
    # With two on each node they fill a core there.
    cluster.run("scancel", str(less))
    running(cluster, "-w", "a2", "-n6", "--gres=gpu:2")
    cluster.wait_state(te, "RUNNING")


@pytest.mark.gate
def test_victims_leave_for_tasks_that_share_cores_where_two_gpus_come_free_on_each(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(THREADS)
    jobs = [running(cluster, "-w", name, "-n6", "--gres=gpu:1") for name in ("a1", "a2")]
    # Of the GPUs of a2 two are free, and of its CPUs two will be, or all.
    running(cluster, "-w", "a2", "-n2", "--gres=gpu:1", "--no-requeue")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "-p", "two", "-N2", "-n7", "--gpus-per-task=1")
        if installed_release() == (22, 5):
            assert cluster.wait_state(te, "RUNNING")["NodeList"] == "a[1-2]"
            assert sorted(cluster.put_back(jobs)) == jobs
        else:
            cluster.wait_for(
                lambda: "devices for each of 7 tasks" in daemon.ask("explain", str(te)).stdout, "why it waits"
            )
            assert cluster.put_back(jobs) == []
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0


def test_no_victim_leaves_for_them_where_one_gpu_is_free_on_a_node(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(THREADS)
    jobs = [running(cluster, "-w", name, "-n6") for name in ("a1", "a2")]
    running(cluster, "-w", "a2", "-n2", "--gres=gpu:3", "--no-requeue")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, *BY_TASK)
        cluster.wait_for(lambda: "would free enough" in daemon.ask("explain", str(te)).stdout, "why it waits")
        daemon.await_polls(cluster)
        assert cluster.put_back(jobs) == []
        # One on each node starts.
        cluster.run("scancel", str(te))
        other = submitted(cluster, "-p", "two", "-N2", "-n2", "--gpus-per-task=1")
        cluster.wait_state(other, "RUNNING")


@pytest.mark.parametrize(
    "case", gated(UNEVEN, UNEVEN[0]), ids=["gpus", "a-task-a-core", "threads", "one-thread", "by-gpu"]
)
def test_one_victim_leaves_where_even_shares_would_cost_two(
    make_cluster: MakeCluster,
    tmp_path: Path,
    one_client: ClientChoice,
    case: tuple[tuple[tuple[str, ...], ...], tuple[str, ...]],
) -> None:
    busy, options = case
    cluster = make_cluster(THREADS)
    jobs = [running(cluster, "-w", *one) for one in busy]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "-N2", *options)
        cluster.wait_state(te, "RUNNING")
        even = "--gpus=4" in options and installed_release() != (22, 5)
        assert len(cluster.put_back(jobs)) == (2 if even else 1)
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
def test_slurm_starts_by_itself_what_a_best_effort_job_is_read_as(
    make_cluster: MakeCluster, one_client: ClientChoice
) -> None:
    """Jobs of which the rules for one that is bound to nodes would say that they never fit."""
    cluster = make_cluster(THREADS)
    running(cluster, "-w", "a1", "-n8", "--exclusive")
    observer = connecting(one_client)(cluster).observer
    for options in (
        ("-n2", "-c3", "--gres=gpu:1"),
        ("-n2", "--gpus-per-node=1", "--cpus-per-gpu=2", "--hint=nomultithread"),
    ):
        assert started_as_read(cluster, observer, "-ptwo", *options) == "a2"


@pytest.mark.gate
def test_slurm_starts_by_itself_uneven_shares_that_no_preemptor_is_planned_with(
    make_cluster: MakeCluster, one_client: ClientChoice
) -> None:
    cluster = make_cluster(THREADS)
    observer = connecting(one_client)(cluster).observer
    running(cluster, "-w", "a1", "-n2", "--gres=gpu:1")
    running(cluster, "-w", "a2", "-n6", "--gres=gpu:3")
    assert started_as_read(cluster, observer, "-ptwo", "-N2", "-n6", "--ntasks-per-core=2") == "a[1-2]"
