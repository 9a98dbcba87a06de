"""GPUs in all without a number of tasks, on as many nodes as Slurm reckons with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import sets
from tesched_core.model.cluster import Job, Partition, Request, SlurmSettings
from tesched_core.model.field import Field, Nodes
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.reckoned import as_reckoned

from tests.builders import cluster, node, running, share, traits, waiting
from tests.scenarios.driver import Driver

#: `sbatch -c3 --gpus=4 --mem=100`
FOUR = Request(cpus=3, cpus_per_task=3, gres_per_job=(("gpu", 4),), mem_per_node_mib=100, reckoned_nodes=2)


def site(request: Request, *gpus: int, settings: SlurmSettings | None = None) -> tuple[Job, Snapshot]:
    """Return a TE job, and nodes n1, n2 and so on with so many GPUs each."""
    nodes = [node(f"n{number}", cpus=8, gres={"gpu": each}) for number, each in enumerate(gpus, start=1)]
    job = waiting(9, request)
    partition = Partition(name="p", nodes=frozenset(one.name for one in nodes))
    return job, cluster(nodes, [job], partitions=(partition,), settings=settings)


def nodes_of(request: Request, *gpus: int) -> list[int]:
    job, snapshot = site(request, *gpus)
    return [one.nodes for one in demands_of(job, snapshot, columns_of(snapshot).capacity)]


def read(request: Request, *gpus: int, settings: SlurmSettings | None = None) -> Request:
    job, snapshot = site(request, *gpus, settings=settings)
    return as_reckoned(job, snapshot, columns_of(snapshot).capacity)


def test_where_no_node_has_them_all_it_is_a_task_on_each_of_so_many_nodes() -> None:
    spread = read(FOUR, 2, 2)
    assert (spread.min_nodes, spread.max_nodes, spread.tasks, spread.cpus) == (2, 2, 2, 6)
    assert nodes_of(FOUR, 2, 2) == [2]


def test_where_one_has_slurm_only_prefers_others() -> None:
    assert read(FOUR, 2, 2, 4) is FOUR
    assert nodes_of(FOUR, 2, 2, 4) == [1]
    assert nodes_of(replace(FOUR, excluded_nodes=("n3",)), 2, 2, 4) == [2], "it may not use that one"


@pytest.mark.parametrize(
    "more",
    [
        {"cpus_per_gres": (("gpu", 3),)},
        {"mem_per_node_mib": None, "mem_per_gres": (("gpu", 20_000),)},
        {"mem_per_node_mib": None, "mem_per_cpu_mib": 22_000},
    ],
    ids=["CPUs", "memory of GPUs", "memory of CPUs"],
)
def test_a_node_with_too_little_beside_them_is_not_enough(more: dict[str, Any]) -> None:
    """A node of the builder has 8 CPUs and 64,000 MiB."""
    assert nodes_of(replace(FOUR, **more), 2, 2, 4) == [2]


def test_a_number_that_slurm_does_not_say_is_none() -> None:
    assert nodes_of(replace(FOUR, reckoned_nodes=0), 2, 2) == [1]


@pytest.mark.parametrize(("reckoned", "per_gpu", "on_22_05", "on_26_05"), [(2, 0, 2, 2), (3, 0, 3, 1), (2, 300, 2, 1)])
def test_26_05_is_left_to_spread_it_over_three_nodes_or_with_hidden_memory(
    reckoned: int, per_gpu: int, on_22_05: int, on_26_05: int
) -> None:
    for release, nodes in (("22.05.8", on_22_05), ("26.05.5", on_26_05)):
        settings = SlurmSettings(release=release, def_mem_per_gpu_mib=per_gpu)
        job, snapshot = site(replace(FOUR, reckoned_nodes=reckoned), 2, 2, 2, settings=settings)
        found = [one.nodes for one in demands_of(job, snapshot, columns_of(snapshot).capacity)]
        assert found == [nodes], release


def test_a_be_job_is_left_to_slurm_as_a_round_would_set_its_number_of_nodes() -> None:
    job, snapshot = site(FOUR, 2, 2)
    snapshot = snapshot.with_traits({job.job_id: traits(JobClass.BE)})
    assert [one.nodes for one in demands_of(job, snapshot, columns_of(snapshot).capacity)] == [1]


def test_it_is_bound_without_a_number_of_nodes() -> None:
    drive = Driver(
        [node(name, gres={"gpu": 2}) for name in ("n1", "n2")],
        [running(1, share("n1", 1, gres={"gpu": 2})), running(2, share("n2", 1, gres={"gpu": 2})), waiting(9, FOUR)],
        binds=True,
    )
    (bind,) = [one for one in drive.cycle(0) if sets(one, Field.NODES)]
    assert bind.value == Nodes(names=("n1", "n2"))
    open_ = Driver(
        [node(name, gres={"gpu": 2}) for name in ("n1", "n2")],
        [
            running(1, share("n1", 1, gres={"gpu": 2})),
            running(2, share("n2", 1, gres={"gpu": 2})),
            waiting(9, replace(FOUR, max_nodes=2)),
        ],
        binds=True,
    )
    (bind,) = [one for one in open_.cycle(0) if sets(one, Field.NODES)]
    assert bind.value == Nodes(names=("n1", "n2")), "-N1-2"


@pytest.mark.parametrize(("per_gpu", "counted"), [(0, 1000), (300, 500)])
def test_memory_is_counted_on_each_node_but_that_of_the_gpus(per_gpu: int, counted: int) -> None:
    request = replace(FOUR, mem_per_node_mib=0, mem_counted_mib=500)
    assert read(request, 2, 2, settings=SlurmSettings(def_mem_per_gpu_mib=per_gpu)).mem_counted_mib == counted
