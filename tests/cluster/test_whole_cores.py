"""GRES on nodes with two threads a core, where a part of a core is left: Slurm counts fewer CPUs than there are.

Of memory for 5 CPUs, given out one by one (CR_CPU), or of MaxCPUsPerNode=3, Slurm sets aside the cores that two tasks
do not need, and has one CPU left (`core/tesched_core/placement/whole_cores.py`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import installed_release

from tests.cluster.beside import await_resources, end_all, left_for, submitted
from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

TWO_TASKS = ("-n2", "--gres=gpu:1", "--mem-per-cpu=1000")
CASES: tuple[tuple[tuple[tuple[str, ...], ...], int | None, tuple[str, ...]], ...] = (
    # memory for 5 CPUs once the second has left, and for 9: more than the node has
    ((("-n1", "--mem=11000", "--no-requeue"), ("-n1", "--mem=4000")), None, TWO_TASKS),
    ((("-n1", "--mem=7000", "--no-requeue"), ("-n1", "--mem=8000")), 1, TWO_TASKS),
    # one CPU of the last core is enough; and CPUs of a GPU are not
    ((("-n1", "--mem=11000", "--no-requeue"), ("-n1", "--mem=4900")), 1, ("-n1", *TWO_TASKS[1:])),
    (
        (("-n1", "--mem=11000", "--no-requeue"), ("-n1", "--mem=4900")),
        None,
        ("-n1", "--cpus-per-gpu=2", *TWO_TASKS[1:]),
    ),
    # and all of the partition's 3 CPUs
    ((("-n8", "--mem=100"),), None, ("-pthree", "-n2", "--gres=gpu:1", "--mem=100")),
    ((("-n8", "--mem=100"),), 0, ("-pthree", "-n1", "--gres=gpu:1", "--mem=100")),
    ((("-n8", "--mem=100"),), 0, ("-pthree", "-n2", "--mem=100")),
)


#: tasks of three CPUs: memory for 10 CPUs once the second has left, which are 9 for whole tasks; and for 12
THREE_CPUS = ("-N2", "--ntasks-per-node=2", "-c3", "--gres=gpu:1", "--mem-per-cpu=1000")
BESIDE_THREE: tuple[tuple[int, int, bool], ...] = ((4000, 5000, False), (2000, 8000, True))


def two_nodes() -> ClusterDefinition:
    """Return nodes of eight cores with two threads each, whose memory is for 14 CPUs: 12 for tasks of three."""
    return ClusterDefinition(
        groups=(NodeGroup(count=2, cpus=16, sockets=2, threads_per_core=2, mem_mib=14_500, gres={"gpu": 2}),),
        partitions=(PartitionDefinition(name="main", default=True),),
    )


def one_node() -> ClusterDefinition:
    """Return a node of four cores with two threads each, and CPUs and memory for each given out one by one."""
    return ClusterDefinition(
        groups=(NodeGroup(count=1, cpus=8, sockets=2, threads_per_core=2, mem_mib=16_000, gres={"gpu": 2}),),
        partitions=(
            PartitionDefinition(name="main", default=True),
            PartitionDefinition(name="three", settings={"MaxCPUsPerNode": "3"}),
        ),
        settings={"SelectTypeParameters": "CR_CPU_Memory"},
    )


@pytest.mark.gate
def test_slurm_counts_too_few_cpus_where_memory_is_for_a_part_of_a_core(make_cluster: MakeCluster) -> None:
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone")
    cluster = make_cluster(one_node())
    # 16,000 MiB less these: memory for 1, 2, 3, 4 and 5 CPUs
    for gone, starts in ((15_000, False), (14_000, True), (13_000, False), (12_000, True), (11_000, False)):
        full = submitted(cluster, "be", "-n1", f"--mem={gone}")
        cluster.wait_state(full, "RUNNING")
        te = submitted(cluster, "te", "-N1", *TWO_TASKS)
        if starts:
            cluster.wait_state(te, "RUNNING")
        else:
            await_resources(cluster, te, f"beside {gone} MiB")
        end_all(cluster, te, full)


@pytest.mark.gate
def test_victims_leave_only_where_no_part_of_a_core_is_left(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone")
    cluster = make_cluster(one_node())
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for busy, leaves, options in CASES:
            gone, _ = left_for(cluster, daemon, busy, options, starts=leaves is not None)
            assert gone == ([] if leaves is None else [leaves]), options
        assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
def test_memory_for_tasks_that_fill_no_cores_is_for_a_part_of_one(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    """With CR_Core: Slurm starts it with 12,000 MiB free, and not with 10,500."""
    if installed_release() != (22, 5):
        pytest.skip("tried on Slurm 22.05 alone")
    cluster = make_cluster(two_nodes())
    for taken, starts in ((4000, False), (2000, True)):
        full = submitted(cluster, "be", "-wn1", "-n1", f"--mem={taken}")
        cluster.wait_state(full, "RUNNING")
        te = submitted(cluster, "te", *THREE_CPUS)
        if starts:
            cluster.wait_state(te, "RUNNING")
        else:
            await_resources(cluster, te, f"beside {taken} MiB")
        end_all(cluster, te, full)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for stays_mib, leaves_mib, starts in BESIDE_THREE:
            stays = ("-wn1", "-n1", f"--mem={stays_mib}", "--no-requeue")
            leaves = ("-wn1", "-n1", f"--mem={leaves_mib}")
            gone, _ = left_for(cluster, daemon, (stays, leaves), THREE_CPUS, starts=starts)
            assert gone == ([1] if starts else []), (stays_mib, leaves_mib)
        assert daemon.json("status")["tally"]["futile"] == 0
