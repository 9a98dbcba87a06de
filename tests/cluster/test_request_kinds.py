"""Kinds of request for which a real Slurm starts a TE job once just its victims have left, and that were refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import installed_release

from tests.cluster.beside import left_for, submitted
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

KINDS = ClusterDefinition(
    groups=(
        NodeGroup(prefix="a", count=2, cpus=8, sockets=1, gres={"gpu": 4}, counted={"tmp": "400G"}),
        NodeGroup(prefix="s", count=1, cpus=16, sockets=1, gres={"gpu": 2, "shard": 8}),
        NodeGroup(prefix="s", first=2, count=1, cpus=8, sockets=1, gres={"gpu": 2, "shard": 8}),
        NodeGroup(prefix="t", count=1, cpus=16, sockets=1, threads_per_core=2, gres={"gpu": 4}),
    ),
    partitions=(
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="plain", nodes="a[1-2]"),
        PartitionDefinition(name="parts", nodes="s[1-2]"),
        PartitionDefinition(name="threads", nodes="t1"),
        PartitionDefinition(name="bygpu", nodes="s2", settings={"DefMemPerGPU": "600"}),
        PartitionDefinition(name="bycpu", nodes="a[1-2]", settings={"DefMemPerCPU": "500"}),
        PartitionDefinition(name="alike", nodes="a[1-2],s2"),
        PartitionDefinition(name="mixed", nodes="a1,t1"),
        PartitionDefinition(name="cpus", nodes="a1,t1", settings={"DefCpuPerGPU": "2"}),
    ),
    def_mem_per_cpu_mib=None,
)
MEM = "--mem=100"
#: what runs, which of these is to leave (None: no job), what is submitted, and where it starts
CASES: tuple[tuple[tuple[tuple[str, ...], ...], int | None, tuple[str, ...], str], ...] = (
    # an open number of nodes, one of them its own: 2 tasks there, 8 on the other
    ((("-wa1", "-n6"), ("-wa2", "-n8")), 1, ("-pplain", MEM, "-n10", "-wa1"), "a[1-2]"),
    # shards on each node: 4 tasks and 2
    ((("-ws2", "-n8"),), 0, ("-pparts", MEM, "-N2", "-n6", "-c4", "--gres=shard:2"), "s[1-2]"),
    # a whole node whose GPU brings fewer CPUs than its tasks want
    (
        (("-wa1", "-n1"), ("-wa2", "-n8", "--no-requeue")),
        0,
        ("-pplain", MEM, "--exclusive", "-n4", "--gres=gpu:1", "--cpus-per-gpu=1"),
        "a1",
    ),
    # a GPU that brings more CPUs than its task wants, beside another GRES
    (
        (("-wa1", "-n8"), ("-wa2", "-n8", "--no-requeue")),
        0,
        ("-pplain", MEM, "--gpus=1", "--cpus-per-gpu=3", "--gres=tmp:1G"),
        "a1",
    ),
    # two tasks on each node, and 2 GPUs and 1: as many as are free
    (
        (("-wa1", "-n1", "--gres=gpu:2"), ("-wa2", "-n1", "--gres=gpu:3")),
        None,
        ("-pplain", MEM, "-N2", "--ntasks-per-node=2", "--gpus=3"),
        "a[1-2]",
    ),
    # and with one GPU less on the first
    (
        (("-wa1", "-n1", "--gres=gpu:3"), ("-wa2", "-n1", "--gres=gpu:3")),
        0,
        ("-pplain", MEM, "-N2", "--ntasks-per-node=2", "--gpus=5"),
        "a[1-2]",
    ),
    # memory by GPU in one of its partitions alone, and no other default: all of a node's in the other one
    (
        (("-wa1", "-n1"), ("-wa2", "-n8", "--no-requeue"), ("-ws2", "-n8", "--no-requeue")),
        0,
        ("-pbygpu,plain", "--gres=gpu:1"),
        "a1",
    ),
    # and the other one's default, of which 100 MiB are free
    (
        (
            *(("-wa1", "-n1", "--mem=254900", "--no-requeue"), ("-wa1", "-n1", "--mem=1000")),
            *(("-wa2", "-n8", "--no-requeue"), ("-ws2", "-n8", "--no-requeue")),
        ),
        1,
        ("-pbygpu,bycpu", "--gres=gpu:1", "-n2"),
        "a1",
    ),
    # an open number of nodes, with more CPUs on each than a task wants: two tasks on each of two
    ((("-wa1", "-n2"), ("-wa2", "-n3")), 1, ("-pplain", MEM, "-n4", "-c3", "--mincpus=5"), "a[1-2]"),
    # of a2 more can be freed, but 5 tasks on a1 and 3 on s2 cost one victim, where 3 on a2 cost two
    (
        (
            *(("-wa1", "-n2", "--no-requeue"), ("-wa1", "-n1")),
            *(("-wa2", "-n2", "--no-requeue"), ("-wa2", "-n2"), ("-wa2", "-n2"), ("-wa2", "-n2")),
            *(("-ws2", "-n5", "--no-requeue"), ("-ws2", "-n3")),
        ),
        7,
        ("-palike", MEM, "-N2", "-n8"),
        "a1,s2",
    ),
    # one thread of each core: 2 tasks on 6 cores of a1, and 1 on 3 of t1, whose cores have two threads
    (
        (("-wa1", "-n3"), ("-wt1", "-n10", "--no-requeue")),
        0,
        ("-pmixed", MEM, "-N2", "-n3", "-c3", "--threads-per-core=1"),
        "a1,t1",
    ),
    # tasks of two CPUs, as each one's GPU brings these: 3 or 4 on a1, and 1 on t1
    (
        (("-wa1", "-n1", "--gres=gpu:3"), ("-wt1", "-n2", "--gres=gpu:3", "--no-requeue")),
        0,
        ("-pmixed", MEM, "-n4", "-N2", "--gpus-per-task=1", "--cpus-per-gpu=2"),
        "a1,t1",
    ),
    # and by the partition's default
    (
        (("-wa1", "-n1", "--gres=gpu:3"), ("-wt1", "-n2", "--gres=gpu:3", "--no-requeue")),
        0,
        ("-pcpus", MEM, "-n4", "-N2", "--gpus-per-task=1"),
        "a1,t1",
    ),
    # GPUs that bring more CPUs than the tasks want by the partition's default, beside another GRES; and a whole node
    ((("-wa1", "-n6"),), 0, ("-pcpus", MEM, "-n2", "--gres=gpu:2,tmp:1G"), "a1"),
    ((("-wa1", "-n1"),), 0, ("-pcpus", MEM, "-n3", "--exclusive", "--gres=gpu:4,tmp:1G"), "a1"),
    # tasks that fill cores together, but not each, where memory is not for each CPU
    ((("-wt1", "-n16"),), 0, ("-pthreads", MEM, "-n4", "-c3", "--gres=gpu:1"), "t1"),
    # -c without -n: its record has fewer CPUs in all, and it gets none by the default
    (
        (("-wa1", "-n4", "--no-requeue"), ("-wa1", "-n2")),
        1,
        ("-pcpus", MEM, "-N2-3", "-c3", "--gres=gpu:3"),
        "a1,t1",
    ),
)


@pytest.mark.gate
def test_each_kind_starts_where_just_its_victims_have_left(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone")
    cluster = make_cluster(KINDS)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for busy, leaves, options, nodes in CASES:
            gone, where = left_for(cluster, daemon, [(MEM, *one) for one in busy], options, starts=True)
            assert (gone, where) == ([] if leaves is None else [leaves], nodes), options
        assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
@pytest.mark.release
@pytest.mark.parametrize("own", [(), ("--cpus-per-gpu=1",)], ids=["by default", "by itself"])
def test_no_victim_leaves_for_gpus_of_two_types_with_cpus_by_default_but_on_22_05(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, own: tuple[str, ...]
) -> None:
    """26.05 starts it on no node, be that empty; by default with -n1, of which the record says nothing, it does."""
    default = {} if own else {"DefCpuPerGPU": "2"}
    two = ClusterDefinition(
        groups=(NodeGroup(count=2, cpus=8, sockets=1, gres={"gpu:a": 2, "gpu:b": 2}),),
        partitions=(PartitionDefinition(name="main", default=True, settings=default),),
    )
    cluster, options = make_cluster(two), (MEM, "--gres=gpu:a:1,gpu:b:1", *own)
    full = submitted(cluster, "be", MEM, "-N2", "-n16")
    cluster.wait_state(full, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "te", "-H", *options)  # else 26.05 may refuse it at its submission
        cluster.run("scontrol", "release", str(te))
        if installed_release() < (26, 5):
            cluster.wait_state(te, "RUNNING")
            assert cluster.put_back([full]) == [full]
            return
        cluster.wait_for(lambda: "GPUs of 2 types" in daemon.ask("explain", str(te)).stdout, "why it waits")
        daemon.await_polls(cluster)
        assert cluster.put_back([full]) == []
        cluster.run("scancel", str(full), str(te))
        more = ("-n2", "-N1") if own else ("-n1",)
        cluster.wait_state(submitted(cluster, "te", *more, *options), "RUNNING")


@pytest.mark.gate
def test_what_slurm_starts_by_itself_is_not_called_impossible(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone")
    cluster = make_cluster(KINDS)
    full = submitted(cluster, "be", MEM, "-wt1", "-n16")
    cluster.wait_state(full, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = submitted(cluster, "te", "--mem-per-cpu=10", "-pthreads", "-n4", "-c3", "--gres=gpu:1")
        cluster.wait_for(lambda: "bound to none" in daemon.ask("explain", str(te)).stdout, "why it waits")
        assert "even empty" not in daemon.ask("explain", str(te)).stdout
        assert cluster.put_back([full]) == []
        cluster.run("scancel", str(full))
        cluster.wait_state(te, "RUNNING")
