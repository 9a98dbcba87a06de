"""Jobs with GRES for which Slurm counts a part of a core, and so fewer CPUs than it has."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Node, Partition, Request, SlurmSettings
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.placement.whole_cores import limit_allows, memory_for_all_cpus

from tests.builders import cluster, node, waiting

#: two tasks with a GPU, and 1,000 MiB for each CPU, on one node
TWO_TASKS = Request(tasks=2, cpus=2, max_nodes=1, gres_per_node=(("gpu", 1),), mem_per_cpu_mib=1000)
ON_TWO_NODES = replace(TWO_TASKS, tasks=4, cpus=4, min_nodes=2, max_nodes=2)
CORES = 4


def with_threads(threads: int, mem_mib: int = 20_000, cores: int = CORES) -> Node:
    """Return a node, of four cores and with memory for more CPUs than it has."""
    plain = node("n1", cpus=cores * threads, mem_mib=mem_mib, gres={"gpu": 4})
    return replace(plain, sockets=1, cores_per_socket=cores, threads_per_core=threads)


def capacity_with(threads: int, mem_mib: int = 20_000, cores: int = CORES) -> Capacity:
    return capacity_of(cluster([with_threads(threads, mem_mib, cores)]))


def demand(request: Request, *, single_cpus: bool = True, most_cpus: int | None = None) -> tuple[Demand, Capacity]:
    """Return the job's demand on two nodes of two threads a core."""
    nodes = [replace(with_threads(2), name=name) for name in ("n1", "n2")]
    partition = Partition(name="p", nodes=frozenset({"n1", "n2"}), max_cpus_per_node=most_cpus)
    settings = SlurmSettings(single_cpus=single_cpus, release="22.05.8")
    te = waiting(9, request)
    snapshot = cluster(nodes, [te], partitions=[partition], settings=settings)
    capacity = capacity_of(snapshot)
    return demand_of(te, snapshot, capacity), capacity


def wanted_mib(
    request: Request, capacity: Capacity, nodes: int = 1, *, by_gpu: bool = False, single_cpus: bool = True
) -> int:
    """Return the MiB that must be free on the only node."""
    (mib,) = memory_for_all_cpus(request, nodes, capacity, by_gpu=by_gpu, single_cpus=single_cpus).tolist()
    return int(mib)


def counted_by_slurm(mem_mib: int, wanted: int, threads: int, each: int, *, single_cpus: bool) -> int:
    """Return the CPUs that Slurm 22.05 has left for a job that wants so many, with 1,000 MiB for each of them.

    Of those for which there is memory (for whole cores with CR_Core, and for whole tasks) it leaves out the cores that
    the job does not need.
    """
    cpus = min(mem_mib // 1000, CORES * threads)
    cpus -= 0 if single_cpus else cpus % threads
    cpus -= cpus % each
    for left in range(CORES - 1, -(-wanted // threads) - 1, -1):
        if left * threads < cpus:
            cpus -= threads
    return cpus


@pytest.mark.parametrize("single_cpus", [True, False])
@pytest.mark.parametrize(("threads", "each"), list(product((1, 2, 4), (1, 2, 3, 4, 5))))
def test_with_what_must_be_free_slurm_counts_enough(threads: int, each: int, single_cpus: bool) -> None:
    assert counted_by_slurm(5000, 2, 2, 1, single_cpus=True) == 1
    for tasks in range(1, CORES * threads // each + 1):
        wanted = tasks * each
        request = replace(TWO_TASKS, tasks=tasks, cpus=wanted, cpus_per_task=each)
        cores = -(-wanted // threads)
        for in_all in range(wanted, CORES * threads + 3):
            must = wanted_mib(request, capacity_with(threads, in_all * 1000), single_cpus=single_cpus)
            must = max(must, 1000 * (wanted if single_cpus else cores * threads))
            for free in range(must, in_all * 1000 + 1, 1000):
                counted = counted_by_slurm(free, wanted, threads, each, single_cpus=single_cpus)
                assert counted >= wanted, (tasks, in_all, free)


@pytest.mark.parametrize(("mem_mib", "free_mib"), [(20_000, 8000), (8999, 8000), (7999, 8000), (6999, 6000)])
def test_of_a_node_with_memory_for_fewer_cpus_all_that_is_for_whole_cores(mem_mib: int, free_mib: int) -> None:
    """Memory for 7 CPUs is never for whole cores: more is wanted than there is."""
    assert wanted_mib(TWO_TASKS, capacity_with(2, mem_mib)) == free_mib


def test_memory_for_whole_cores_is_for_a_part_of_one_with_tasks_of_three_cpus() -> None:
    """With CR_Core 8 CPUs are 6 for such tasks; of 10, 12 CPUs in all, there would be 9."""
    by_node = replace(ON_TWO_NODES, tasks=4, cpus=12, cpus_per_task=3, tasks_per_node=2)
    assert wanted_mib(by_node, capacity_with(2), 2, single_cpus=False) == 6000
    assert wanted_mib(by_node, capacity_with(2, 10_999, cores=6), 2, single_cpus=False) == 11_000
    # of 9 one core has half of it, and none of three CPUs is left
    assert wanted_mib(by_node, capacity_with(2, 9_999, cores=6), 2, single_cpus=False) == 6000
    assert wanted_mib(replace(by_node, cpus_per_task=1, cpus=4), capacity_with(2), 2, single_cpus=False) == 0


def test_no_more_is_wanted_where_it_could_not() -> None:
    two = capacity_with(2)
    for request in (
        replace(TWO_TASKS, tasks=1, cpus=1),
        replace(TWO_TASKS, tasks=3, cpus=3),
        replace(TWO_TASKS, cpus=4, cpus_per_task=2),
        replace(TWO_TASKS, gres_per_node=()),
        replace(TWO_TASKS, threads_per_core=1),
        replace(TWO_TASKS, mem_per_cpu_mib=None, mem_per_node_mib=500),
    ):
        assert wanted_mib(request, two) == 0, request
    assert wanted_mib(TWO_TASKS, capacity_with(1), by_gpu=True) == 0


def test_on_several_nodes_only_where_the_tasks_on_each_are_known() -> None:
    two = capacity_with(2)
    assert wanted_mib(ON_TWO_NODES, two, 2) == 0
    for known in (
        replace(ON_TWO_NODES, tasks_per_node=2),
        replace(ON_TWO_NODES, gres_per_node=(), gres_per_task=(("gpu", 1),)),
    ):
        assert wanted_mib(known, two, 2) == 8000, known
    assert wanted_mib(ON_TWO_NODES, two, 2, by_gpu=True) == 8000


def test_cpus_of_gpus_and_more_on_a_node_are_a_part_of_a_core_too() -> None:
    one_task, two = replace(TWO_TASKS, tasks=1, cpus=1), capacity_with(2)
    assert wanted_mib(one_task, two, by_gpu=True) == 8000
    assert wanted_mib(replace(one_task, min_cpus_per_node=2), two) == 8000


@pytest.mark.parametrize(("single_cpus", "free_mib"), [(True, 8000), (False, 2000)])
def test_it_must_be_free_and_is_not_held(single_cpus: bool, free_mib: int) -> None:
    wanted, capacity = demand(TWO_TASKS, single_cpus=single_cpus)
    assert wanted.takes[0].tolist()[:2] == [2, free_mib]
    held = wanted.takes if wanted.holds is None else wanted.holds
    assert held[0].tolist()[:2] == [2, 2000]
    assert wanted.fits(capacity).all()


def test_cpus_by_gpu_are_counted_with_the_tasks_own() -> None:
    """A task has the two CPUs of its GPU, but Slurm leaves out cores as if it had one."""
    by_task = replace(TWO_TASKS, gres_per_node=(), gres_per_task=(("gpu", 1),), cpus_per_gres=(("gpu", 2),))
    wanted, _ = demand(by_task)
    assert wanted.takes[0].tolist()[:2] == [4, 8000]


def test_tasks_of_a_node_that_are_spread_with_gpus_in_all() -> None:
    by_node = replace(ON_TWO_NODES, tasks_per_node=2, gres_per_node=(), gres_per_job=(("gpu", 3),))
    wanted, _ = demand(by_node)
    assert wanted.uneven is not None
    takes, holds = wanted.uneven.takes_of(1, 1)
    assert (takes[0].tolist()[:2], holds[0].tolist()[:2]) == ([2, 8000], [2, 2000])


@pytest.mark.parametrize(
    ("request_", "most", "allowed"),
    [
        (TWO_TASKS, 3, False),
        (TWO_TASKS, 4, True),
        (TWO_TASKS, 9, True),
        # one CPU of the last core is always left
        (replace(TWO_TASKS, tasks=1, cpus=1), 3, True),
        (replace(TWO_TASKS, gres_per_node=()), 3, True),
        # 5 CPUs are not counted for whole tasks
        (replace(TWO_TASKS, tasks=1, cpus_per_task=2), 5, False),
    ],
)
def test_a_limit_of_a_part_of_a_core_allows_none(request_: Request, most: int, allowed: bool) -> None:
    wanted, _ = demand(request_, single_cpus=False, most_cpus=most)
    assert wanted.allowed.tolist() == [allowed, allowed]


def test_nor_shares_of_gpus_in_all() -> None:
    by_node = replace(ON_TWO_NODES, tasks_per_node=2, gres_per_node=(), gres_per_job=(("gpu", 3),))
    for most, allowed in ((3, False), (4, True)):
        wanted, _ = demand(by_node, single_cpus=False, most_cpus=most)
        assert wanted.uneven is not None
        assert wanted.uneven.allowed.tolist() == [allowed, allowed]


def test_without_a_limit_all_nodes_are_allowed() -> None:
    assert np.all(limit_allows(TWO_TASKS, 1, capacity_with(2), None, by_gpu=True))


def eight_cores(name: str) -> Node:
    plain = node(name, cpus=16, gres={"gpu": 4, "tmp": 4})
    return replace(plain, sockets=1, cores_per_socket=8, threads_per_core=2)


@pytest.mark.parametrize(
    ("release", "tasks", "of_a_task", "gres", "started"),
    [
        ("22.05.8", 4, 3, "gpu", False),
        ("22.05.8", 2, 3, "tmp", False),
        ("22.05.8", 3, 3, "gpu", True),
        ("22.05.8", 1, 3, "gpu", True),
        ("22.05.8", 4, 2, "gpu", True),
        ("22.05.8", 4, 3, "", True),
        ("26.05.5", 4, 3, "gpu", True),
    ],
)
def test_tasks_with_gres_that_share_cores_on_one_node(  # each seen with sbatch -N1 on nodes of 8 cores
    release: str, tasks: int, of_a_task: int, gres: str, *, started: bool
) -> None:
    """Memory for all 16 CPUs is for 15 of them in tasks of three; memory by node is not counted so."""
    asked = ((gres, 1),) if gres else ()
    request = Request(tasks=tasks, cpus=tasks * of_a_task, cpus_per_task=of_a_task, gres_per_node=asked)
    nodes = [eight_cores("n1"), node("n2", gres={"gpu": 4, "tmp": 4})]
    by_cpu, by_node = replace(request, mem_per_cpu_mib=1), replace(request, mem_per_node_mib=1)
    for memory, fits in ((by_cpu, started), (by_node, True)):
        te = waiting(9, memory)
        snapshot = cluster(nodes, [te], settings=SlurmSettings(release=release))
        capacity = capacity_of(snapshot)
        assert demand_of(te, snapshot, capacity).fits(capacity).tolist() == [fits, True], memory


def test_tasks_with_gres_that_share_cores_have_several_nodes_where_their_number_is_open() -> None:
    """8 tasks of 3 CPUs with --gres on three nodes, as 22.05 starts them: only one node is refused."""
    request = Request(tasks=4, cpus=12, cpus_per_task=3, max_nodes=4, gres_per_node=(("gpu", 1),), mem_per_cpu_mib=1)
    te = waiting(9, request)
    snapshot = cluster(
        [eight_cores("n1"), eight_cores("n2")],
        [te],
        settings=SlurmSettings(release="22.05.8"),
    )
    demand = demand_of(te, snapshot, capacity_of(snapshot))
    assert (demand.nodes, demand.allowed.tolist()) == (2, [True, True])
