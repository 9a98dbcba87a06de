"""What Slurm starts on no node, and of which it may say Resources all the same: no victim leaves for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, Partition, Request, SlurmSettings
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.modelled import unsupported

from tests.builders import cluster, node, waiting

EVERYWHERE = frozenset({"n1"})


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("partitions", "reason", "is_modelled"),
    [(("p",), "Resources", True), (("p", "q"), "Resources", False), (("p",), "Priority", False)],
)
def test_slurms_word_of_one_task_with_more_cpus_by_its_gpus_says_more_in_one_partition(
    partitions: tuple[str, ...], reason: str, *, whole: bool, is_modelled: bool
) -> None:
    """With -n1 22.05 starts it on no node (`-n1 --gres=gpu:2,tmp:3G` with DefCpuPerGPU=2, `--exclusive`, too).

    Without -n, of which the record says nothing, it does.
    """
    request = Request(gres_per_node=(("gpu", 2), ("tmp", 1)), mem_per_node_mib=1, exclusive=whole)
    te = replace(waiting(9, request, partitions=partitions), reason=reason)
    known = [Partition(name=name, nodes=EVERYWHERE) for name in ("p", "q")]
    settings = SlurmSettings(release="22.05.8", def_cpus_per_gpu=2)
    snapshot = cluster([node("n1", gres={"gpu": 4, "tmp": 4})], [te], partitions=known, settings=settings)
    assert unsupported(te, snapshot) == ("" if is_modelled else "--gres=tmp with CPUs for each GPU")


@pytest.mark.parametrize(
    ("each", "on_a_node", "least", "is_modelled"),
    [(1, 2, 3, False), (1, 3, 3, True), (2, 2, 4, True), (2, 3, 7, False)],
)
def test_more_cpus_by_mincpus_than_a_nodes_tasks_have(
    each: int, on_a_node: int, least: int, *, is_modelled: bool
) -> None:
    """26.05 starts it on no node (one to three tasks a node, 2 to 7 CPUs by --mincpus); 22.05 does.

    More CPUs by MaxMemPerCPU are those of the tasks in its record, and it starts.
    """
    tasks = Request(tasks=on_a_node, cpus=on_a_node * each, cpus_per_task=each, tasks_per_node=on_a_node)
    te = waiting(9, replace(tasks, min_cpus_per_node=least, mem_per_node_mib=1))
    for release in ("22.05.8", "26.05.5"):
        snapshot = cluster([node("n1")], [te], settings=SlurmSettings(release=release))
        named = f"--mincpus={least} with --ntasks-per-node={on_a_node}"
        assert unsupported(te, snapshot) == ("" if is_modelled or release == "22.05.8" else named)


@pytest.mark.parametrize(
    ("by_node", "by_job", "is_modelled"),
    [
        ((("gpu", 3), ("tmp", 1)), (), True),
        # 22.05 takes the cores that the GPUs bring away again for the tasks of what stands before them.
        ((("tmp", 1), ("gpu", 3)), (), False),
        ((("tmp", 1),), (("gpu", 3),), False),
    ],
    ids=["node", "node, behind", "job"],
)
def test_gres_beside_gpus_that_bring_cpus_by_default(
    by_node: tuple[tuple[str, int], ...], by_job: tuple[tuple[str, int], ...], *, is_modelled: bool
) -> None:
    """Seen on 22.05 with two and three tasks, 1 to 4 GPUs of two and three CPUs each, and just so many CPUs free."""
    request = Request(tasks=3, cpus=3, gres_per_node=by_node, gres_per_job=by_job, mem_per_node_mib=1)
    te = waiting(9, request)
    settings = SlurmSettings(release="22.05.8", def_cpus_per_gpu=2)
    snapshot = cluster([node("n1", gres={"gpu": 4, "tmp": 4})], [te], settings=settings)
    assert unsupported(te, snapshot) == ("" if is_modelled else "--gres=tmp with CPUs for each GPU")
    between = replace(snapshot, settings=replace(settings, release="23.11.1"))
    assert unsupported(te, between), "tried on 22.05 alone"


ON_TWO = Request(
    min_nodes=2,
    max_nodes=2,
    tasks=2,
    cpus=2,
    gres_per_node=(("tmp", 1),),
    gres_per_job=(("gpu", 4),),
    cpus_per_gres=(("gpu", 3),),
    mem_per_node_mib=1,
)


@pytest.mark.parametrize(
    ("wanted", "default", "is_modelled"),
    [
        (ON_TWO, 0, False),
        (replace(ON_TWO, tasks=4, cpus=4), 0, True),
        (replace(ON_TWO, tasks=4, cpus=4, tasks_per_node=2), 0, False),
        (replace(ON_TWO, tasks=4, cpus=4, exclusive=True), 0, False),
        (replace(ON_TWO, gres_per_job=(("gpu", 2),), cpus_per_gres=(("gpu", 1),)), 0, True),
        (replace(ON_TWO, gres_per_node=()), 0, True),
        (replace(ON_TWO, gres_per_node=(("tmp", 1), ("gpu", 2)), gres_per_job=()), 0, True),
        (replace(ON_TWO, cpus_per_gres=()), 3, True),
        (replace(ON_TWO, gres_per_node=(("gpu", 2), ("tmp", 1)), gres_per_job=(), cpus_per_gres=()), 3, True),
        (replace(ON_TWO, gres_per_node=(("tmp", 1), ("gpu", 2)), gres_per_job=(), cpus_per_gres=()), 3, False),
    ],
    ids=[
        "a task each",
        "two or one",
        "by node",
        "whole",
        "no more CPUs",
        "no other",
        "in node",
        "default",
        "first",
        "behind",
    ],
)
def test_gres_beside_gpus_that_bring_cpus_on_several_nodes(wanted: Request, default: int, *, is_modelled: bool) -> None:
    te = waiting(9, wanted)
    nodes = [node(name, gres={"gpu": 4, "tmp": 4}) for name in ("n1", "n2")]
    snapshot = cluster(nodes, [te], settings=SlurmSettings(release="22.05.8", def_cpus_per_gpu=default))
    assert unsupported(te, snapshot) == ("" if is_modelled else "--gres=tmp with CPUs for each GPU on 2 nodes")
    assert not unsupported(te, snapshot, binds=False)
    between = replace(snapshot, settings=replace(snapshot.settings, release="24.11.5"))
    assert ("with CPUs for each GPU" in unsupported(te, between)) is not is_modelled
    newer = replace(snapshot, settings=replace(snapshot.settings, release="26.05.5"))
    assert "with CPUs for each GPU" not in unsupported(te, newer)


#: a CPU has 300 MiB by default, and a GPU 600, as a job that names none has
BOTH_DEFAULTS = SlurmSettings(release="22.05.8", def_mem_per_cpu_mib=300, def_mem_per_gpu_mib=600)


def by_default(tasks: int, cpus_each: int, nodes: int = 1) -> Job:
    request = Request(
        min_nodes=nodes,
        max_nodes=nodes,
        tasks=tasks,
        cpus=tasks * cpus_each,
        cpus_per_task=cpus_each,
        gres_per_node=(("gpu", 1),),
        mem_per_cpu_mib=300,
    )
    return waiting(9, request)


@pytest.mark.parametrize(("tasks", "mem_mib", "may_start"), [(4, 4000, False), (3, 4000, True), (4, 4800, True)])
def test_a_node_has_memory_by_both_defaults_for_a_job_that_is_bound(tasks: int, mem_mib: int, may_start: bool) -> None:
    te = by_default(tasks, 4)
    snapshot = cluster([node("n1", cpus=16, mem_mib=mem_mib, gres={"gpu": 4})], [te], settings=BOTH_DEFAULTS)
    capacity = capacity_of(snapshot)
    assert demands_of(te, snapshot, capacity)[0].allowed.tolist() == [may_start]
    assert demands_of(te, snapshot, capacity, binds=False)[0].allowed.tolist() == [True], "Slurm tests it twice"
    newer = replace(snapshot, settings=replace(BOTH_DEFAULTS, release="26.05.5"))
    assert demands_of(te, newer, capacity)[0].allowed.tolist() == [True]
    named = replace(te, request=replace(te.request, mem_per_cpu_mib=None, mem_per_node_mib=100))
    assert demands_of(named, snapshot, capacity)[0].allowed.tolist() == [True]


@pytest.mark.parametrize(("tasks", "nodes", "there"), [(8, 3, [True, False, False]), (3, 2, [True, True, True])])
def test_so_has_each_node_for_tasks_that_are_spread_unevenly(tasks: int, nodes: int, there: list[bool]) -> None:
    te = by_default(tasks, 4, nodes)
    large = [node(name, cpus=16, mem_mib=4000, gres={"gpu": 4}) for name in ("n1", "n2")]
    snapshot = cluster([node("n0", cpus=4, mem_mib=8000, gres={"gpu": 4}), *large], [te], settings=BOTH_DEFAULTS)
    uneven = demands_of(te, snapshot, capacity_of(snapshot))[0].uneven
    assert uneven is not None
    assert uneven.allowed.tolist() == there


@pytest.mark.parametrize(("mem_mib", "there"), [(4000, False), (4800, True)])
def test_a_whole_node_has_memory_for_all_of_its_cpus_however_few_its_tasks_want(mem_mib: int, there: bool) -> None:
    spread = by_default(3, 4, 2)
    te = replace(spread, request=replace(spread.request, exclusive=True))
    nodes = [node(name, cpus=16, mem_mib=mem_mib, gres={"gpu": 4}) for name in ("n1", "n2")]
    snapshot = cluster(nodes, [te], settings=BOTH_DEFAULTS)
    uneven = demands_of(te, snapshot, capacity_of(snapshot))[0].uneven
    assert uneven is not None
    assert uneven.allowed.tolist() == [there, there]
