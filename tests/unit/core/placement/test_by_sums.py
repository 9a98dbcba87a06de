"""Sums that leave it open that a job starts on what is free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tesched_core.model.cluster import NodeShare, Partition, Request
from tesched_core.placement.by_sums import may_start_by_sums
from tesched_core.placement.columns_of import columns_of

from tests.builders import cluster, node, running, share, waiting

#: one task on one node, as Slurm shows it
ONE = Request(cpus=1, mem_per_node_mib=100)


def may(
    request: Request,
    *held: NodeShare,
    partitions: tuple[Partition, ...] = (Partition(name="p", nodes=frozenset({"n1", "n2"})),),
    gres: Mapping[str, int] | None = None,
) -> bool:
    """Ask for n1 and n2 of 8 CPUs and 1,000 MiB each, of which a job holds these shares."""
    nodes = [node(name, cpus=8, mem_mib=1000, gres=gres) for name in ("n1", "n2")]
    job = replace(waiting(9, request), partitions=tuple(one.name for one in partitions))
    snapshot = cluster(nodes, [running(1, *held), job], partitions=partitions)
    return may_start_by_sums(job, snapshot, columns_of(snapshot).capacity)


FULL = share("n2", 8, 1000)


@pytest.mark.parametrize(
    ("request_", "enough", "too_much"),
    [
        (replace(ONE, cpus=4, cpus_per_task=4, min_cpus_per_node=4), 4, 5),
        (replace(ONE, cpus=4, tasks=4), 4, 5),
        (replace(ONE, min_cpus_per_node=4), 4, 5),
    ],
)
def test_a_job_needs_its_cpus(request_: Request, enough: int, too_much: int) -> None:
    assert may(request_, share("n1", enough, 100), FULL)
    assert not may(request_, share("n1", too_much, 100), FULL)


def test_its_memory_is_that_of_a_node_or_of_each_cpu_of_its_tasks() -> None:
    by_node, by_cpu = replace(ONE, mem_per_node_mib=300), Request(cpus=2, tasks=2, mem_per_cpu_mib=150)
    for request in (by_node, by_cpu):
        assert may(request, share("n1", 1, 700), FULL)
        assert not may(request, share("n1", 1, 701), FULL)


def test_tasks_go_to_the_nodes_that_have_most_and_no_more_nodes_than_it_may_have() -> None:
    request = replace(ONE, cpus=10, tasks=10, max_nodes=2)
    assert may(request, share("n1", 5, 100), share("n2", 1, 100))
    assert not may(request, share("n1", 5, 100), share("n2", 2, 100))
    assert not may(replace(request, max_nodes=1), share("n1", 5, 100), share("n2", 0, 100))
    assert may(replace(request, min_nodes=2), share("n1", 5, 100), share("n2", 1, 100))
    assert not may(replace(ONE, min_nodes=2, max_nodes=2), share("n1", 5, 100), FULL)
    assert not may(replace(request, tasks_per_node=4), share("n1", 1, 100))


def test_nodes_that_it_must_have_are_all_to_have_enough() -> None:
    request = replace(ONE, max_nodes=2, required_nodes=("n2",))
    assert not may(request, FULL)
    assert may(request, share("n2", 7, 900))
    assert not may(replace(ONE, excluded_nodes=("n1",)), FULL)


@pytest.mark.parametrize("way", ["node", "job", "task", "socket"])
def test_devices_are_counted_by_node_job_task_and_socket(way: str) -> None:
    def asked(count: int) -> Request:
        by = {name: (("gpu", count),) if name == way else () for name in ("node", "job", "task", "socket")}
        return replace(
            ONE,
            gres_per_node=by["node"],
            gres_per_job=by["job"],
            gres_per_task=by["task"],
            gres_per_socket=by["socket"],
        )

    held = share("n1", 1, 100, {"gpu": 1}), share("n2", 8, 1000, {"gpu": 3})
    assert may(asked(2), *held, gres={"gpu": 3})
    assert not may(asked(3), *held, gres={"gpu": 3})
    assert not may(asked(1), *held), "no node has any"


def test_what_each_device_brings_along_is_needed() -> None:
    gpus = {"gpu": 3}
    request = Request(cpus=1, gres_per_node=(("gpu", 2),), cpus_per_gres=(("gpu", 3),), mem_per_gres=(("gpu", 100),))
    assert may(request, share("n1", 2, 800), FULL, gres=gpus)
    assert not may(request, share("n1", 3, 800), FULL, gres=gpus)
    assert not may(request, share("n1", 2, 801), FULL, gres=gpus)


def test_a_gpu_of_which_a_shard_is_held_may_be_free() -> None:
    gpus = {"gpu": 3, "shard": 6}
    request = replace(ONE, gres_per_node=(("gpu", 3),))
    full = share("n2", 8, 1000, {"gpu": 3})
    assert may(request, share("n1", 1, 100, {"shard": 1}), full, gres=gpus)
    assert not may(request, share("n1", 1, 100, {"shard": 2}), full, gres=gpus)
    assert not may(request, share("n1", 1, 100, {"gpu": 1}), full, gres=gpus)


def test_whole_nodes_are_free_ones_but_of_several_partitions_one_may_give_parts() -> None:
    both = frozenset({"n1", "n2"})
    whole, part = Partition(name="w", nodes=both, oversubscribe="EXCLUSIVE"), Partition(name="p", nodes=both)
    held = share("n1", 1, 100), share("n2", 1, 100)
    for request, partitions, expected in (
        (replace(ONE, exclusive=True), (part,), False),
        (ONE, (whole,), False),
        (replace(ONE, exclusive=True), (whole, part), True),
        (replace(ONE, exclusive=True), (part, replace(part, name="q")), False),
    ):
        assert may(request, *held, partitions=partitions) is expected
    assert may(replace(ONE, exclusive=True), held[0])


def test_a_partition_counts_its_own_nodes_and_cpus() -> None:
    first = Partition(name="p", nodes=frozenset({"n1"}))
    assert not may(ONE, share("n1", 8, 100), partitions=(first,))
    some = Partition(name="p", nodes=frozenset({"n1", "n2"}), max_cpus_per_node=4)
    assert not may(
        replace(ONE, cpus=3, tasks=3, max_nodes=1), share("n1", 2, 100), share("n2", 2, 100), partitions=(some,)
    )
    assert not may(ONE, partitions=(replace(first, nodes=frozenset()),))
    assert not may(ONE, partitions=(replace(first, state="DOWN"),))


def test_tasks_that_share_cpus_are_any_number() -> None:
    assert may(replace(ONE, tasks=40), share("n1", 7, 100), FULL)
