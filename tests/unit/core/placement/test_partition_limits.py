"""Nodes that a partition gives a job, and those that it keeps from the next one in which the job may run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Node, Partition, Request, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import counts_for_demands, demands_of
from tesched_core.placement.modelled import unsupported
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting


def victims(snapshot: Snapshot) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return for each plan its nodes and its victims."""
    plans = FitGpp().propose(view_of(snapshot), None).plans
    return [(plan.nodes, list(plan.victim_ids)) for plan in plans if isinstance(plan, MakeRoom)]


def threaded(name: str, sockets: int, cores_per_socket: int) -> Node:
    """Return a node with two threads a core."""
    return replace(node(name), sockets=sockets, cores_per_socket=cores_per_socket, threads_per_core=2)


def partition(name: str, *nodes: str, tier: int = 1, **limits: int) -> Partition:
    return Partition(name=name, nodes=frozenset(nodes), priority_tier=tier, **limits)  # type: ignore[arg-type] # numbers


@pytest.mark.parametrize(("default", "of_its_own"), [(0, 3), (3, 0)])
def test_whole_nodes_with_cpus_for_each_of_their_gpus(default: int, of_its_own: int) -> None:
    """Slurm says BadConstraints where the job's two GPUs have their CPUs, and the node's four have not."""
    te = Request(
        exclusive=True,
        gres_per_node=(("gpu", 2),),
        cpus_per_gres=(("gpu", of_its_own),) if of_its_own else (),
        mem_per_node_mib=1,
    )
    nodes = [node(f"n{cpus}", cpus=cpus, gres={"gpu": 4}) for cpus in (8, 12)]
    jobs = [running(1, share("n8", 1)), running(2, share("n12", 1)), waiting(9, te)]
    settings = SlurmSettings(def_cpus_per_gpu=default)
    assert victims(cluster(nodes, jobs, settings=settings)) == [(("n12",), [2])]
    assert victims(cluster(nodes[:1], [jobs[0], jobs[2]], settings=settings)) == []


def test_whole_nodes_with_no_more_cpus_than_the_partition_gives() -> None:
    parts = [partition("few", "n1", "n2", max_cpus_per_node=16)]
    te = waiting(9, Request(exclusive=True, mem_per_node_mib=1), partitions=("few",))
    nodes = [node("n1", cpus=32), node("n2", cpus=16)]
    jobs = [running(1, share("n1", 1)), running(2, share("n2", 1))]
    assert victims(cluster(nodes, [*jobs, te], partitions=parts)) == [(("n2",), [2])]
    assert victims(cluster(nodes[:1], [jobs[0], te], partitions=parts)) == []
    alone = [replace(parts[0], oversubscribe="EXCLUSIVE")]
    te = waiting(9, partitions=("few",))
    assert victims(cluster(nodes, [*jobs, te], partitions=alone)) == [(("n2",), [2])]


@pytest.mark.parametrize(
    ("limits", "request_"),
    [
        ({"max_cpus_per_node": 16}, Request(exclusive=True, mem_per_node_mib=1)),
        ({"max_mem_per_node_mib": 1000}, Request(mem_per_node_mib=1001)),
        ({"max_mem_per_node_mib": 1000}, Request(mem_per_node_mib=0)),
        ({"max_mem_per_node_mib": 1000}, Request(tasks=4, cpus=4, mem_per_cpu_mib=251)),
    ],
)
def test_a_partition_that_never_holds_the_job_keeps_no_node_from_the_next(
    limits: dict[str, int], request_: Request
) -> None:
    parts = [partition("p", "n1"), partition("few", "n1", tier=5, **limits)]
    te = waiting(9, request_, partitions=("few", "p"))
    jobs = [running(1, share("n1", 32)), te]
    assert victims(cluster([node("n1")], jobs, partitions=parts)) == [(("n1",), [1])]


def test_a_partition_that_gives_no_job_so_many_nodes_keeps_none_either() -> None:
    parts = [partition("p", "n1", "n2"), partition("few", "n1", "n2", tier=5, max_nodes=1)]
    request = Request(tasks=2, cpus=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    jobs = [running(1, share("n1", 32)), waiting(9, request, partitions=("few", "p"))]
    assert victims(cluster([node("n1"), node("n2")], jobs, partitions=parts)) == [(("n1", "n2"), [1])]


@pytest.mark.parametrize(("mem_per_cpu_mib", "nodes"), [(300, 1), (400, 2), (700, 4)])
def test_a_number_of_nodes_with_which_slurm_lets_the_job_have_its_memory(mem_per_cpu_mib: int, nodes: int) -> None:
    """As soon as its number is set Slurm holds memory for each CPU against MaxMemPerNode: of its tasks on a node.

    With its number left open it starts on one node, whatever that is (`-n4 -c2 --mem-per-cpu=400`, MaxMemPerNode=2500;
    22.05 and 26.05).
    """
    parts = [partition("small", *(f"n{number}" for number in range(1, 5)), max_mem_per_node_mib=2500)]
    request = Request(tasks=4, cpus=8, cpus_per_task=2, max_nodes=4, mem_per_cpu_mib=mem_per_cpu_mib)
    jobs = [running(number, share(f"n{number}", 32)) for number in range(1, 5)]
    te = waiting(9, request, partitions=("small",))
    nodes_there = [node(f"n{one}", mem_mib=16_000) for one in range(1, 5)]
    ((where, gone),) = victims(cluster(nodes_there, [*jobs, te], partitions=parts))
    assert (len(where), len(gone)) == (nodes, nodes)


def test_an_open_number_that_no_job_array_has_set_is_left_alone() -> None:
    """Slurm then starts a task of it on one node, whatever memory that is."""
    parts = [partition("small", "n1", "n2", max_mem_per_node_mib=2500)]
    request = Request(tasks=4, cpus=4, max_nodes=4, mem_per_cpu_mib=700)
    known = [node(name, cpus=8, mem_mib=16_000) for name in ("n1", "n2")]
    for array, fewest in ((None, 2), (JobId(9), 1)):
        te = replace(waiting(9, request, partitions=("small",)), array_job_id=array)
        snapshot = cluster(known, [te], partitions=parts)
        assert [one.nodes for one in demands_of(te, snapshot, capacity_of(snapshot))] == [fewest]


def test_a_plain_job_and_a_task_of_an_array_have_demands_of_their_own() -> None:
    """A poll keeps the demands that it has worked out, for jobs with the same key."""
    parts = [partition("small", "n1", "n2", max_mem_per_node_mib=2500)]
    request = Request(tasks=4, cpus=4, max_nodes=4, mem_per_cpu_mib=700)
    plain = waiting(9, request, partitions=("small",))
    task = replace(plain, job_id=JobId(8), array_job_id=JobId(8), array_task_id=1)
    snapshot = cluster([node(name, cpus=8, mem_mib=16_000) for name in ("n1", "n2")], [plain, task], partitions=parts)
    keys = {counts_for_demands(job, snapshot) for job in (plain, task)}
    assert len(keys) == 2


@pytest.mark.parametrize("max_nodes", [None, 1])
def test_memory_of_a_number_that_is_set_though_only_the_fewest_nodes_are_modelled(max_nodes: int | None) -> None:
    """Whole nodes, or a partition that gives one: Slurm would refuse the number one."""
    limits = {"max_mem_per_node_mib": 2500} | ({} if max_nodes is None else {"max_nodes": max_nodes})
    parts = [partition("small", "n1", "n2", **limits)]
    request = Request(tasks=4, cpus=4, max_nodes=4, mem_per_cpu_mib=700, exclusive=max_nodes is None)
    te = waiting(9, request, partitions=("small",))
    jobs = [running(number, share(f"n{number}", 8)) for number in (1, 2)]
    found = victims(
        cluster([node(name, cpus=8, mem_mib=16_000) for name in ("n1", "n2")], [*jobs, te], partitions=parts)
    )
    assert found == []


def test_an_open_number_far_above_the_fewest_nodes() -> None:
    names = [f"n{number}" for number in range(120)]
    parts = [partition("small", *names, max_mem_per_node_mib=16_000)]
    te = waiting(9, Request(tasks=400, cpus=400, max_nodes=400, mem_per_cpu_mib=4000), partitions=("small",))
    snapshot = cluster([node(name, cpus=8, mem_mib=64_000) for name in names], [te], partitions=parts)
    (demand,) = demands_of(te, snapshot, capacity_of(snapshot))
    assert (demand.nodes, int(demand.allowed.sum())) == (100, 120)


#: one CPU, on a node with a free core on each of two sockets
BOTH_SOCKETS = Request(sockets_per_node=2, mem_per_node_mib=1)


def test_cores_on_other_sockets_must_be_free_and_are_not_taken() -> None:
    """Two such jobs of one CPU fit on a node beside each other."""
    nodes, tes = [threaded("n2", 2, 8), node("n3")], [waiting(9, BOTH_SOCKETS), waiting(8, BOTH_SOCKETS)]
    full = running(2, share("n3", 32))
    half = running(1, share("n2", 4))
    assert victims(cluster(nodes, [half, full, *tes])) == [(("n2",), []), (("n2",), [])]


def test_cores_on_several_sockets_are_sure_to_be_free_once_one_socket_is_too_small_for_all() -> None:
    te = waiting(9, BOTH_SOCKETS)
    nodes = [threaded("n1", 1, 16), threaded("n2", 2, 8)]
    jobs = [running(1, share("n2", 14)), running(2, share("n2", 2))]
    assert victims(cluster(nodes, [jobs[0], te])) == [(("n2",), [])]
    # 16 CPUs free may be those of the 8 cores of one socket.
    ((where, gone),) = victims(cluster(nodes, [*jobs, te]))
    assert (where, len(gone)) == (("n2",), 1)
    assert victims(cluster(nodes[:1], [te])) == []


@pytest.mark.parametrize(
    ("release", "limit", "by_node", "tasks", "leaves"),
    [
        ("26.05.5", 4, 0, 3, True),
        ("26.05.5", 4, 0, 4, False),
        ("22.05.8", 4, 0, 4, True),
        ("26.05.5", 4, 2, 6, True),
        ("26.05.5", 8, 0, 4, True),
    ],
    ids=["one task on each", "parts of tasks", "22.05", "tasks by node", "as many CPUs as the nodes have"],
)
def test_no_victim_for_tasks_of_which_a_limit_may_leave_parts(
    release: str, limit: int, by_node: int, tasks: int, *, leaves: bool
) -> None:
    """26.05 takes 2, 3 and 3 of the 2, 3 and 4 CPUs that are left for four tasks of two, and leaves the job waiting."""
    parts = [partition("few", "n1", "n2", "n3", max_cpus_per_node=limit)]
    request = Request(min_nodes=3, max_nodes=3, tasks=tasks, cpus=2 * tasks, cpus_per_task=2, mem_per_node_mib=1)
    te = waiting(9, replace(request, tasks_per_node=by_node), partitions=("few",))
    nodes = [node(name, cpus=8) for name in ("n1", "n2", "n3")]
    jobs = [running(1, share("n3", 8), partitions=("p",)), te]
    snapshot = cluster(nodes, jobs, partitions=parts, settings=SlurmSettings(release=release))
    assert victims(snapshot) == ([(("n1", "n2", "n3"), [1])] if leaves else [])
    named = f"MaxCPUsPerNode={limit} of partition few with several tasks of 2 CPUs on a node"
    assert unsupported(te, snapshot) == ("" if leaves else named)


def test_on_nodes_that_have_no_more_cpus_than_the_limit_no_parts_are_left() -> None:
    parts = [partition("few", "n1", "n2", "n3", max_cpus_per_node=8)]
    request = Request(min_nodes=2, max_nodes=2, tasks=4, cpus=8, cpus_per_task=2, mem_per_node_mib=1)
    nodes = [node("n1", cpus=16), node("n2", cpus=8), node("n3", cpus=8)]
    jobs = [running(1, share("n3", 8), partitions=("p",)), waiting(9, request, partitions=("few",))]
    snapshot = cluster(nodes, jobs, partitions=parts, settings=SlurmSettings(release="26.05.5"))
    assert victims(snapshot) == [(("n2", "n3"), [1])]
