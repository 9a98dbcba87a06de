"""GPUs in all without a number of tasks, on as many nodes as Slurm reckons with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, Partition, Request, SlurmSettings
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.reckoned import as_reckoned

from tests.builders import cluster, node, waiting

#: `sbatch -c3 --gpus=4 --mem=100`
FOUR = Request(cpus=3, cpus_per_task=3, gres_per_job=(("gpu", 4),), mem_per_node_mib=100, reckoned_nodes=2)


def site(request: Request, *gpus: int, settings: SlurmSettings | None = None) -> tuple[Job, Snapshot]:
    """Return a job, and nodes n1, n2 and so on with so many GPUs each."""
    nodes = [node(f"n{number}", cpus=8, gres={"gpu": each}) for number, each in enumerate(gpus, start=1)]
    job = waiting(9, request)
    partition = Partition(name="p", nodes=frozenset(one.name for one in nodes))
    return job, cluster(nodes, [job], partitions=(partition,), settings=settings)


def read(request: Request, *gpus: int, settings: SlurmSettings | None = None) -> Request:
    job, snapshot = site(request, *gpus, settings=settings)
    return as_reckoned(job, snapshot, columns_of(snapshot).capacity).request


def test_where_no_node_has_them_all_it_is_a_task_on_each_of_so_many_nodes() -> None:
    spread = read(FOUR, 2, 2)
    assert (spread.min_nodes, spread.max_nodes, spread.tasks, spread.cpus) == (2, 2, 2, 6)
    job, snapshot = site(FOUR, 2, 2)
    assert [one.nodes for one in demands_of(job, snapshot, columns_of(snapshot).capacity)] == [2]


def test_where_one_has_slurm_only_prefers_others() -> None:
    assert read(FOUR, 2, 2, 4) is FOUR
    assert read(replace(FOUR, excluded_nodes=("n3",)), 2, 2, 4).min_nodes == 2, "it may not use that one"


def test_a_number_that_slurm_does_not_say_is_none() -> None:
    request = replace(FOUR, reckoned_nodes=0)
    assert read(request, 2, 2) is request


@pytest.mark.parametrize(("per_gpu", "counted"), [(0, 1000), (300, 500)])
def test_memory_is_counted_on_each_node_but_that_of_the_gpus(per_gpu: int, counted: int) -> None:
    request = replace(FOUR, mem_per_node_mib=0, mem_counted_mib=500)
    assert read(request, 2, 2, settings=SlurmSettings(def_mem_per_gpu_mib=per_gpu)).mem_counted_mib == counted
