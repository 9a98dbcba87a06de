"""Defaults of a job's other partitions, where these give memory with each GPU and this one does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of

from tests.builders import cluster, node, running, share, waiting

#: `sbatch -pmain,other --gres=gpu:2`, which names no memory; DefMemPerCPU=100
TWO = Request(gres_per_node=(("gpu", 2),), mem_per_cpu_mib=100)
MAIN = Partition(name="main", nodes=frozenset({"n1", "n2"}))
OTHER = Partition(name="other", nodes=frozenset({"n2"}), def_mem_per_gpu_mib=500, def_cpus_per_gpu=2)


def takes(
    release: str,
    request: Request = TWO,
    *,
    main: Partition = MAIN,
    other: Partition = OTHER,
    binds: bool = True,
    free: bool = False,
) -> list[list[int]]:
    """Return CPUs and MiB that the job takes in main of n1 and of n2, which is in the other one, too, and there of n2.

    The nodes have 8 CPUs, 4,000 MiB and two GPUs each, which are held but where they are `free`.
    """
    nodes = [node(name, cpus=8, mem_mib=4000, gres={"gpu": 2}) for name in ("n1", "n2")]
    job = replace(waiting(9, request), partitions=("main", "other"))
    holders = [] if free else [running(1, *(share(name, 1, 100, {"gpu": 2}) for name in ("n1", "n2")))]
    settings = SlurmSettings(release=release, def_mem_per_cpu_mib=100)
    snapshot = cluster(nodes, [*holders, job], partitions=(main, other), settings=settings)
    demands = demands_of(job, snapshot, columns_of(snapshot).capacity, binds=binds)
    return [one.takes[row, :2].tolist() for one in demands for row in np.flatnonzero(one.allowed)]


def test_on_nodes_of_the_other_one_26_05_may_keep_all_memory_and_the_cpus_of_its_gpus() -> None:
    assert takes("26.05.5")[:2] == [[1, 100], [4, 4000]]
    assert takes("22.05.8")[:2] == [[1, 100], [1, 100]]


def test_so_it_does_where_only_memory_comes_with_the_other_ones_gpus() -> None:
    assert takes("26.05.5", other=replace(OTHER, def_cpus_per_gpu=0))[:2] == [[1, 100], [1, 4000]]


def test_cpus_of_its_own_gpus_come_first() -> None:
    assert takes("26.05.5", main=replace(MAIN, def_cpus_per_gpu=1))[:2] == [[2, 200], [2, 4000]]


def test_a_job_that_names_its_memory_gets_that() -> None:
    named = replace(TWO, mem_per_cpu_mib=None, mem_per_node_mib=300)
    assert takes("26.05.5", named)[:2] == [[1, 300], [1, 300]]


def test_a_job_without_gpus_gets_this_ones_default() -> None:
    assert takes("26.05.5", replace(TWO, gres_per_node=()))[:2] == [[1, 100], [1, 100]]


def test_bound_to_no_nodes_it_starts_on_free_ones_with_all_memory() -> None:
    for release in ("22.05.8", "26.05.5"):
        assert takes(release, free=True)[0] == [1, 4000], release


@pytest.mark.parametrize(("release", "binds"), [("24.11.5", True), ("26.05.5", False)])
def test_on_nodes_of_the_other_one_it_is_left_to_a_release_that_was_not_tried_or_if_it_is_not_bound(
    release: str, *, binds: bool
) -> None:
    with pytest.raises(UnsupportedRequestError, match="DefMemPerGPU of partition other, and none of main"):
        takes(release, other=replace(OTHER, nodes=frozenset({"n1", "n2"}), state="DOWN"), binds=binds)
