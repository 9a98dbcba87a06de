"""Jobs with GRES for which Slurm counts a part of a core, and so fewer CPUs than it has."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tesched_core.model.cluster import Node, Partition, Request, SlurmSettings
from tesched_core.model.room import Room
from tesched_core.placement.columns_of import room_of
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.placement.whole_cores import limit_allows, memory_for_all_cpus

from tests.builders import cluster, node, waiting

#: two tasks with a GPU, and 1,000 MiB for each CPU, on one node
TWO_TASKS = Request(tasks=2, cpus=2, max_nodes=1, gres_per_node=(("gpu", 1),), mem_per_cpu_mib=1000)
ON_TWO_NODES = replace(TWO_TASKS, tasks=4, cpus=4, min_nodes=2, max_nodes=2)
CORES = 4


def with_threads(threads: int) -> Node:
    """Return a node of four cores, and memory for more CPUs than it has."""
    plain = node("n1", cpus=CORES * threads, mem_mib=20_000, gres={"gpu": 4})
    return replace(plain, sockets=1, cores_per_socket=CORES, threads_per_core=threads)


def room_with(threads: int) -> Room:
    return room_of(cluster([with_threads(threads)]))


def demand(request: Request, *, single_cpus: bool = True, most_cpus: int | None = None) -> tuple[Demand, Room]:
    """Return the job's demand on two nodes of two threads a core."""
    nodes = [replace(with_threads(2), name=name) for name in ("n1", "n2")]
    partition = Partition(name="p", nodes=frozenset({"n1", "n2"}), max_cpus_per_node=most_cpus)
    settings = SlurmSettings(single_cpus=single_cpus, release="22.05.8")
    te = waiting(9, request)
    snapshot = cluster(nodes, [te], partitions=[partition], settings=settings)
    room = room_of(snapshot)
    return demand_of(te, snapshot, room), room


def counted_by_slurm(cpus: int, wanted: int, threads: int) -> int:
    """Return what is left of so many CPUs when Slurm 22.05 has left out the cores that `wanted` CPUs do not need."""
    needed = -(-wanted // threads)
    for left in range(CORES - 1, needed - 1, -1):
        if left * threads < cpus:
            cpus -= threads
    return cpus


@pytest.mark.parametrize(("threads", "each"), list(product((1, 2, 4), (1, 2, 3, 4))))
def test_all_memory_is_wanted_where_slurm_could_count_too_few(threads: int, each: int) -> None:
    room = room_with(threads)
    for tasks in range(1, CORES * threads // each + 1):
        request = replace(TWO_TASKS, tasks=tasks, cpus=tasks * each, cpus_per_task=each)
        enough = [cpus - cpus % each for cpus in range(tasks * each, CORES * threads + 1)]
        too_few = any(counted_by_slurm(cpus, tasks * each, threads) < tasks * each for cpus in enough)
        if too_few:
            assert memory_for_all_cpus(request, 1, room, by_gpu=False).tolist() == [CORES * threads * 1000]
    assert counted_by_slurm(5, 2, 2) == 1


@pytest.mark.parametrize(("mem_mib", "free_mib"), [(8999, 8000), (7999, 8000), (6999, 6000), (5999, 6000)])
def test_of_a_node_with_memory_for_fewer_cpus_all_that_is_for_whole_cores(mem_mib: int, free_mib: int) -> None:
    """Memory for 7 CPUs, or 5, is never for whole cores: more is wanted than there is."""
    small = replace(with_threads(2), total=node("n1", cpus=8, mem_mib=mem_mib, gres={"gpu": 4}).total)
    assert memory_for_all_cpus(TWO_TASKS, 1, room_of(cluster([small])), by_gpu=False).tolist() == [free_mib]


def test_no_more_is_wanted_where_it_could_not() -> None:
    two = room_with(2)
    for request in (
        replace(TWO_TASKS, tasks=1, cpus=1),
        replace(TWO_TASKS, tasks=3, cpus=3),
        replace(TWO_TASKS, cpus=4, cpus_per_task=2),
        replace(TWO_TASKS, gres_per_node=()),
        replace(TWO_TASKS, threads_per_core=1),
        replace(TWO_TASKS, mem_per_cpu_mib=None, mem_per_node_mib=500),
    ):
        assert memory_for_all_cpus(request, 1, two, by_gpu=False).tolist() == [0], request
    assert memory_for_all_cpus(TWO_TASKS, 1, room_with(1), by_gpu=True).tolist() == [0]


def test_on_several_nodes_only_where_the_tasks_on_each_are_known() -> None:
    two = room_with(2)
    assert memory_for_all_cpus(ON_TWO_NODES, 2, two, by_gpu=False).tolist() == [0]
    for known in (
        replace(ON_TWO_NODES, tasks_per_node=2),
        replace(ON_TWO_NODES, gres_per_node=(), gres_per_task=(("gpu", 1),)),
    ):
        assert memory_for_all_cpus(known, 2, two, by_gpu=False).tolist() == [8000], known
    assert memory_for_all_cpus(ON_TWO_NODES, 2, two, by_gpu=True).tolist() == [8000]


def test_cpus_of_gpus_and_more_on_a_node_are_a_part_of_a_core_too() -> None:
    one_task, two = replace(TWO_TASKS, tasks=1, cpus=1), room_with(2)
    assert memory_for_all_cpus(one_task, 1, two, by_gpu=True).tolist() == [8000]
    assert memory_for_all_cpus(replace(one_task, min_cpus_per_node=2), 1, two, by_gpu=False).tolist() == [8000]


@pytest.mark.parametrize(("single_cpus", "free_mib"), [(True, 8000), (False, 2000)])
def test_it_must_be_free_and_is_not_held(single_cpus: bool, free_mib: int) -> None:
    wanted, room = demand(TWO_TASKS, single_cpus=single_cpus)
    assert wanted.takes[0].tolist()[:2] == [2, free_mib]
    held = wanted.takes if wanted.holds is None else wanted.holds
    assert held[0].tolist()[:2] == [2, 2000]
    assert wanted.fits(room).all()


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
    assert np.all(limit_allows(TWO_TASKS, 1, room_with(2), None, by_gpu=True))
