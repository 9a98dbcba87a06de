"""Sums that leave it open that a job starts on what is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tesched_core.model.cluster import JobState, NodeShare, Partition, Request, SlurmSettings
from tesched_core.model.resources import Tres
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
    settings: SlurmSettings | None = None,
    state: JobState = JobState.RUNNING,
    names: Sequence[str] = ("n1", "n2"),
    **of_nodes: Any,
) -> bool:
    """Ask for n1 and n2 (`names`) of 8 CPUs and 1,000 MiB each, of which a job of another user holds these shares."""
    nodes = [replace(node(name, cpus=8, mem_mib=1000, gres=gres), **of_nodes) for name in names]
    job = replace(waiting(9, request), partitions=tuple(one.name for one in partitions), user="ann")
    holder = running(1, *held, user="bob", state=state)
    snapshot = cluster(nodes, [holder, job], partitions=partitions, settings=settings)
    return may_start_by_sums(job, snapshot, columns_of(snapshot).capacity)


BOTH = frozenset({"n1", "n2"})
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
    filled, whole = share("n1", 1, 100, {"shard": 2}), share("n1", 1, 100, {"gpu": 1})
    for release, expected in (("22.05.8", True), ("26.05.5", False)):
        settings = SlurmSettings(release=release)
        assert may(request, filled, full, gres=gpus, settings=settings) is expected, release
        assert not may(request, whole, full, gres=gpus, settings=settings), release


def test_whole_nodes_are_free_ones_but_of_several_partitions_one_may_give_parts() -> None:
    whole, part = Partition(name="w", nodes=BOTH, oversubscribe="EXCLUSIVE"), Partition(name="p", nodes=BOTH)
    held = share("n1", 1, 100), share("n2", 1, 100)
    for request, partitions, expected in (
        (replace(ONE, exclusive=True), (part,), False),
        (ONE, (whole,), False),
        (replace(ONE, exclusive=True), (whole, part), True),
        (replace(ONE, exclusive=True), (part, replace(part, name="q")), False),
    ):
        for release in ("22.05.8", "26.05.5"):
            found = may(request, *held, partitions=partitions, settings=SlurmSettings(release=release))
            assert found is expected, release
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


def test_a_job_that_names_no_memory_wants_all_of_a_node_and_no_cpu_of_it_more() -> None:
    for request in (Request(cpus=1), Request(cpus=1, mem_per_node_mib=0), Request(cpus=1, mem_per_cpu_mib=0)):
        assert may(request, share("n1", 7), FULL)
        assert not may(request, share("n1", 1, 1), FULL)


def test_where_slurm_shares_out_no_memory_none_is_counted() -> None:
    none, settings = Request(cpus=1, gres_per_node=(("gpu", 1),)), SlurmSettings(memory_is_shared_out=False)
    for request in (
        *(none, replace(none, mem_per_node_mib=5000), replace(none, mem_per_cpu_mib=5000)),
        replace(none, mem_per_gres=(("gpu", 5000),)),
    ):
        held = share("n1", 7, 1000), FULL
        assert may(request, *held, gres={"gpu": 1}, settings=settings)
        assert not may(request, *held, gres={"gpu": 1})


@pytest.mark.parametrize(
    ("own", "shown", "free_mib", "expected"),
    [
        # That of q stands in the record, by which p gives a job that names none less.
        (100, 500, 100, True),
        (100, 500, 99, False),
        # It may have named what q gives.
        (900, 500, 500, True),
        (900, 500, 499, False),
        # It has named neither's.
        (100, 300, 300, True),
        (100, 300, 299, False),
        # p has none: all of the node, or what the job named.
        (0, 500, 499, False),
        (0, 500, 1000, True),
    ],
)
def test_each_partition_gives_memory_of_its_own_to_a_job_that_names_none(
    own: int, shown: int, free_mib: int, *, expected: bool
) -> None:
    p = Partition(name="p", nodes=frozenset({"n1"}), def_mem_per_node_mib=own)
    q = Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_node_mib=500)
    held = share("n1", 1, 1000 - free_mib), FULL
    assert may(replace(ONE, mem_per_node_mib=shown), *held, partitions=(p, q)) is expected
    by_cpu = [replace(one, def_mem_per_cpu_mib=one.def_mem_per_node_mib, def_mem_per_node_mib=0) for one in (p, q)]
    assert may(Request(cpus=1, mem_per_cpu_mib=shown), *held, partitions=tuple(by_cpu)) is expected


@pytest.mark.parametrize(
    ("release", "counted", "free_mib", "expected"),
    [
        ("22.05.8", 1000, 400, True),
        ("22.05.8", 1000, 399, False),
        # It has named 300, which 26.05 hides.
        ("26.05.5", 300, 300, True),
        ("26.05.5", 300, 299, False),
        ("26.05.5", 1000, 399, False),
    ],
)
def test_the_memory_of_its_gpus_and_what_they_hide(
    release: str, counted: int, free_mib: int, *, expected: bool
) -> None:
    part = Partition(name="p", nodes=BOTH, def_mem_per_gpu_mib=200)
    settings = SlurmSettings(release=release)
    none = Request(cpus=1, mem_per_node_mib=0, mem_counted_mib=counted)
    gpus = (("gpu", 2),)
    for asked in (replace(none, gres_per_node=gpus), replace(none, gres_per_job=gpus)):
        held = share("n1", 1, 1000 - free_mib), FULL
        assert may(asked, *held, partitions=(part,), gres={"gpu": 2}, settings=settings) is expected


def test_nodes_that_it_must_have_are_in_its_partition() -> None:
    p, q = Partition(name="p", nodes=frozenset({"n1"})), Partition(name="q", nodes=BOTH)
    request = replace(ONE, max_nodes=2, required_nodes=("n2",))
    assert not may(request, partitions=(p,))
    assert may(request, partitions=(p, q))
    assert not may(request, share("n2", 8, 100), partitions=(p, q))


@pytest.mark.parametrize(
    ("oversubscribe", "sharing", "expected"),
    [
        *(("FORCE:4", "OK", True), ("FORCE:4", "YES", True), ("YES:4", "YES", True), ("YES:4", "OK", False)),
        *(("FORCE:1", "YES", False), ("NO", "YES", False)),
    ],
)
def test_cores_that_it_may_share_are_not_counted(oversubscribe: str, sharing: str, *, expected: bool) -> None:
    parts = (Partition(name="p", nodes=BOTH, oversubscribe=oversubscribe, max_cpus_per_node=6),)
    request = replace(ONE, cpus=4, tasks=4, sharing=sharing)
    assert may(request, share("n1", 8, 100), FULL, partitions=parts) is expected
    assert not may(request, share("n1", 8, 901), FULL, partitions=parts), "memory is"
    assert not may(replace(request, cpus=7, tasks=7), share("n1", 8, 100), FULL, partitions=parts)


@pytest.mark.parametrize("by_partition", [True, False])
def test_a_job_that_keeps_its_nodes_for_its_users_jobs(by_partition: bool) -> None:
    parts = (Partition(name="p", nodes=BOTH, exclusive_user=by_partition),)
    request = ONE if by_partition else replace(ONE, sharing="USER")
    assert not may(request, share("n1", 1, 100), share("n2", 1, 100), partitions=parts)
    assert may(request, share("n1", 1, 100), partitions=parts)
    mine = waiting(9, request, user="ann")
    nodes = [node("n1", cpus=8, mem_mib=1000)]
    for user, expected in (("ann", True), ("bob", False)):
        seen = cluster(nodes, [running(1, share("n1", 7, 900), user=user), mine], partitions=parts)
        assert may_start_by_sums(mine, seen, columns_of(seen).capacity) is expected


@pytest.mark.parametrize("way", ["gres_per_job", "gres_per_task", "gres_per_node"])
@pytest.mark.parametrize("name", ["gpu", "gpu:a"])
def test_gpus_bring_their_cpus_and_memory_however_they_are_requested(way: str, name: str) -> None:
    asked: dict[str, Any] = {way: ((name, 2),), "cpus_per_gres": (("gpu", 3),)}
    gpus, by_node = {"gpu:a": 2}, Request(cpus=1, mem_per_node_mib=1, **asked)
    by_gpu = replace(by_node, mem_per_node_mib=None, mem_per_gres=(("gpu", 100),))
    for request in (by_node, by_gpu):
        assert may(request, share("n1", 2, 800), FULL, gres=gpus)
        assert not may(request, share("n1", 3, 800), FULL, gres=gpus)
        assert may(request, share("n1", 2, 801), FULL, gres=gpus) is (request is by_node)


def test_gpus_in_all_bring_their_cpus_on_each_of_several_nodes() -> None:
    request = replace(ONE, max_nodes=2, cpus=2, tasks=2, gres_per_job=(("gpu", 4),), cpus_per_gres=(("gpu", 2),))
    gpus = {"gpu": 3}
    assert may(request, share("n1", 2, 100), share("n2", 6, 100), gres=gpus)
    assert not may(request, share("n1", 3, 100), share("n2", 6, 100), gres=gpus), "2 and 1"
    assert not may(request, share("n1", 0, 100), share("n2", 7, 100), gres=gpus), "n1 has but 3"


def test_cpus_of_two_types_of_gpus_are_not_added_up() -> None:
    request = replace(ONE, gres_per_node=(("gpu:a", 1), ("gpu:b", 1)), cpus_per_gres=(("gpu", 3),))
    gpus = {"gpu:a": 1, "gpu:b": 1}
    assert may(request, share("n1", 5, 100), FULL, gres=gpus)
    assert not may(request, share("n1", 6, 100), FULL, gres=gpus)


def test_cpus_that_come_with_a_gpu_by_default_are_not_counted() -> None:
    part = Partition(name="p", nodes=BOTH, def_cpus_per_gpu=4)
    request = replace(ONE, gres_per_node=(("gpu", 1),))
    for settings in (SlurmSettings(), SlurmSettings(def_cpus_per_gpu=4)):
        assert may(request, share("n1", 7, 100), FULL, partitions=(part,), gres={"gpu": 1}, settings=settings)


def test_a_task_that_shares_cpus_has_devices_of_its_own_and_other_words_are_none() -> None:
    request = replace(ONE, tasks=4, gres_per_task=(("gpu", 1), ("mem", 5), ("cpu", 3)))
    assert may(request, share("n1", 7, 100), FULL, gres={"gpu": 4})
    assert not may(request, share("n1", 7, 100, {"gpu": 1}), FULL, gres={"gpu": 4})


def test_a_whole_node_is_one_without_a_job_whatever_is_set_aside_for_the_system() -> None:
    whole = replace(ONE, exclusive=True, mem_per_node_mib=1)
    # Slurm may count cores of its own as held.
    assert may(whole, held=Tres(cpus=2))
    shares = share("n1", 1, 1), share("n2", 1, 1)
    assert not may(whole, *shares, held=Tres(cpus=2))
    assert not may(whole, *shares)
    assert may(whole, *shares, state=JobState.SUSPENDED), "it has no CPUs"
    # 8 of 12: it may have those, too (--core-spec=0).
    shape: dict[str, Any] = {"sockets": 2, "cores_per_socket": 6, "threads_per_core": 1}
    assert may(replace(whole, cpus=12, tasks=12), **shape)
    assert not may(replace(whole, cpus=13, tasks=13), **shape)
    assert not may(replace(whole, cpus=9, tasks=9, exclusive=False), **shape)


def test_a_whole_node_that_another_order_has_freed_is_not_free() -> None:
    whole, nodes = waiting(9, replace(ONE, exclusive=True)), [node("n1", cpus=8, mem_mib=1000)]
    snapshot = cluster(nodes, [whole])
    capacity = columns_of(snapshot).capacity
    assert may_start_by_sums(whole, snapshot, capacity)
    taken = np.zeros((1, len(capacity.resources)), dtype=np.int64)
    taken[0, 0] = -1
    assert not may_start_by_sums(whole, snapshot, capacity.changed([0], taken))


@pytest.mark.parametrize(
    ("held", "name", "free"),
    [
        # Shards of two GPUs: both may be of the other type.
        ({"shard": 4}, "gpu:a", 2),
        ({"shard": 4}, "gpu:b", 2),
        ({"shard": 4}, "gpu", 2),
        # Of three: at least one is of each.
        ({"shard": 6}, "gpu:a", 1),
        ({"shard": 6}, "gpu:b", 1),
        ({"shard": 6}, "gpu", 1),
        # What is held whole is of its type.
        ({"gpu:a": 2}, "gpu:a", 0),
        ({"gpu:a": 2}, "gpu:b", 2),
        ({"gpu:a": 1, "shard": 2}, "gpu:a", 1),
        ({"gpu:a": 1, "shard": 2}, "gpu:b", 2),
        ({"gpu:a": 1, "shard": 2}, "gpu", 2),
    ],
)
def test_shards_may_fill_gpus_of_another_type(held: dict[str, int], name: str, free: int) -> None:
    gpus, settings = {"gpu:a": 2, "gpu:b": 2, "shard": 8}, SlurmSettings(release="26.05.5")
    full = share("n2", 8, 1000, {"gpu:a": 2, "gpu:b": 2})
    for count in range(1, 4):
        request = replace(ONE, gres_per_node=((name, count),))
        assert may(request, share("n1", 1, 100, held), full, gres=gpus, settings=settings) is (count <= free), count


@pytest.mark.parametrize(
    ("change", "on_22_05", "on_26_05"),
    [
        ({}, True, True),
        ({"gres_per_job": (("gpu", 3),)}, False, False),
        ({"tasks_per_node": 1}, False, True),
        ({"tasks": 2, "cpus": 2}, False, True),
        ({"gres_per_job": (), "gres_per_node": (("gpu", 2),)}, False, False),
    ],
)
def test_gpus_in_all_of_a_job_that_may_have_named_no_tasks(
    change: dict[str, Any], *, on_22_05: bool, on_26_05: bool
) -> None:
    """One GPU is free on each of two nodes, as in `cluster/test_sums.py`."""
    request = replace(replace(ONE, gres_per_job=(("gpu", 2),)), **change)
    held = [share(name, 1, 100, {"gpu": 1}) for name in ("n1", "n2")]
    for release, may_start in (("22.05.8", on_22_05), ("26.05.5", on_26_05)):
        assert may(request, *held, gres={"gpu": 2}, settings=SlurmSettings(release=release)) is may_start, release


@pytest.mark.parametrize("release", ["22.05.8", "26.05.5"])
def test_gpus_on_nodes_where_nothing_else_is_free_are_no_jobs(release: str) -> None:
    request = replace(ONE, gres_per_job=(("gpu", 1),))
    held = (share("n1", 1, 100, {"gpu": 2}), share("n2", 8, 100))
    assert not may(request, *held, gres={"gpu": 2}, settings=SlurmSettings(release=release))
    assert may(request, held[0], share("n2", 7, 100), gres={"gpu": 2}, settings=SlurmSettings(release=release))


def test_the_cpus_of_gpus_in_all_may_be_those_of_several_nodes() -> None:
    request = replace(ONE, cpus=8, gres_per_job=(("gpu", 2),), cpus_per_gres=(("gpu", 4),))
    held = [share(name, 4, 100, {"gpu": 1}) for name in ("n1", "n2")]
    assert may(request, *held, gres={"gpu": 2})
    assert not may(request, held[0], share("n2", 5, 100, {"gpu": 1}), gres={"gpu": 2})


@pytest.mark.parametrize(("release", "expected"), [("22.05.8", False), ("26.05.5", True)])
def test_26_05_may_start_gpus_in_all_with_the_cpus_of_some(release: str, *, expected: bool) -> None:
    """There are CPUs for four GPUs, two each, on three nodes, but for three on the two that the job may have."""
    request = replace(ONE, tasks=3, min_nodes=2, max_nodes=2, cpus=8, gres_per_job=(("gpu", 4),))
    request = replace(request, cpus_per_gres=(("gpu", 2),))
    names = ("n1", "n2", "n3")
    parts = (Partition(name="p", nodes=frozenset(names)),)
    for held, may_start in ((6, expected), (7, False)):
        shares = (share("n1", 4, 100), share("n2", 6, 100), share("n3", held, 100))
        settings = SlurmSettings(release=release)
        assert may(request, *shares, gres={"gpu": 2}, settings=settings, partitions=parts, names=names) is may_start


def test_memory_by_node_that_the_record_hides_is_not_that_of_each_cpu() -> None:
    """26.05, with DefMemPerGPU: 400 MiB on each of two nodes, one of which has three of the four tasks."""
    request = Request(cpus=4, tasks=4, min_nodes=2, max_nodes=2, mem_per_node_mib=0, mem_counted_mib=800)
    request = replace(request, gres_per_node=(("gpu", 1),))
    settings = SlurmSettings(release="26.05.5", def_mem_per_gpu_mib=900)
    held = (share("n1", 5, 600), share("n2", 7, 600))
    assert may(request, *held, gres={"gpu": 2}, settings=settings)
    assert not may(request, held[0], share("n2", 7, 601), gres={"gpu": 2}, settings=settings)
