"""Memory of a job with GPUs, as Slurm 22.05 and 26.05 write it where the site gives memory with each GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_core.placement.memory_reading import MemoryDefaults, defaults_of, lesser_reading

from tests.builders import cluster, node, waiting

#: nodes of 250 GiB, 8,000 MiB with each GPU
ONLY = MemoryDefaults(per_gpu_mib=8000, least_mib=256_000)
BY_CPU = replace(ONLY, per_cpu_mib=frozenset({1000}), everywhere=True)
BY_NODE = replace(ONLY, per_node_mib=frozenset({2000}), everywhere=True)
COUNTS = replace(ONLY, counts_gpus=True)
GPU = (("gpu", 1),)
NODE = 256_000


def pending(**memory: int) -> Request:
    """Return a request of one GPU, by its record."""
    return Request(gres_per_job=GPU, max_nodes=1, **memory)  # type: ignore[arg-type] # amounts of memory


def nothing(counted: int) -> Request:
    """Return what Slurm shows of --mem=0, and of a job that names no memory."""
    return pending(mem_per_node_mib=0, mem_counted_mib=counted)


@pytest.mark.parametrize(
    ("request_", "defaults"),
    [
        # no other default: as --mem=0
        (nothing(NODE), ONLY),
        (pending(), ONLY),
        (pending(mem_per_node_mib=0), ONLY),
        # another default, before Slurm has considered it and after
        (pending(mem_per_cpu_mib=1000), BY_CPU),
        (nothing(1000), BY_CPU),
        (pending(mem_per_node_mib=2000), BY_NODE),
        (nothing(2000), BY_NODE),
        # as 26.05 counts
        (nothing(8000), COUNTS),
    ],
)
def test_a_job_that_names_no_memory_has_that_of_its_gpus(request_: Request, defaults: MemoryDefaults) -> None:
    assert lesser_reading(request_, defaults).mem_per_gres == (("gpu", 8000),)


@pytest.mark.parametrize(
    ("request_", "defaults"),
    [
        # --mem, --mem-per-cpu, less and more than the GPU's
        (pending(mem_per_node_mib=3000), ONLY),
        (pending(mem_per_node_mib=25_000), BY_NODE),
        (pending(mem_per_cpu_mib=300), BY_CPU),
        # a default by CPU is none by node
        (pending(mem_per_node_mib=1000), BY_CPU),
        # --mem-per-gpu
        (replace(pending(mem_per_node_mib=0), mem_per_gres=(("gpu", 5000),)), ONLY),
        # --mem=0 where a job that names none is counted otherwise
        (nothing(NODE), BY_CPU),
        (nothing(NODE), BY_NODE),
        (nothing(NODE), COUNTS),
        # without GPUs, and without such a default
        (Request(mem_per_node_mib=0, mem_counted_mib=NODE), ONLY),
        (nothing(NODE), replace(BY_CPU, per_gpu_mib=0)),
    ],
)
def test_memory_that_a_job_names_is_its_own(request_: Request, defaults: MemoryDefaults) -> None:
    assert lesser_reading(request_, defaults) == request_


def test_what_26_05_hides_behind_the_default_is_what_it_counts() -> None:
    assert lesser_reading(nothing(3000), COUNTS).mem_per_cpu_mib == 3000
    # Of two tasks, on one node or two, it may be memory by CPU or by node: by CPU is less.
    two = replace(nothing(20_000), cpus=2, tasks=2, max_nodes=2)
    found = lesser_reading(two, COUNTS)
    assert (found.mem_per_cpu_mib, found.mem_per_node_mib) == (10_000, None)


@pytest.mark.parametrize(
    "request_",
    [
        Request(
            gres_per_node=(("gpu:a100", 2),), min_nodes=2, max_nodes=2, mem_per_node_mib=0, mem_counted_mib=512_000
        ),
        Request(gres_per_task=GPU, tasks=2, cpus=2, mem_per_node_mib=0, mem_counted_mib=NODE),
        Request(gres_per_node=GPU, gres_per_job=GPU, mem_per_node_mib=0, mem_counted_mib=NODE),
    ],
)
def test_each_way_to_ask_for_gpus_counts(request_: Request) -> None:
    assert lesser_reading(request_, ONLY).mem_per_gres == (("gpu", 8000),)


def test_defaults_are_the_partitions_or_the_sites() -> None:
    partitions = [
        Partition(name="p", def_mem_per_gpu_mib=500, def_mem_per_node_mib=2000),
        Partition(name="q"),
        Partition(name="r", def_mem_per_cpu_mib=7),
    ]
    job = waiting(9, nothing(0), partitions=("p", "q", "r"))
    settings = SlurmSettings(def_mem_per_gpu_mib=900, def_mem_per_cpu_mib=100, release="26.05.5")
    snapshot = cluster([node("n1")], [job], partitions=partitions, settings=settings)
    found = defaults_of(job, snapshot.partitions["p"], snapshot, 1)
    assert (found.per_gpu_mib, sorted(found.per_cpu_mib), sorted(found.per_node_mib)) == (500, [7, 100], [2000])
    assert (found.everywhere, found.counts_gpus) == (True, True)
    assert defaults_of(job, snapshot.partitions["q"], snapshot, 1).per_gpu_mib == 900
    plain = cluster([node("n1")], [job], partitions=partitions, settings=SlurmSettings(release="22.05.8"))
    found = defaults_of(job, snapshot.partitions["q"], plain, 1)
    assert (found.per_gpu_mib, found.everywhere, found.counts_gpus) == (0, False, False)


@pytest.mark.parametrize(("shown", "counts"), [(500, 1000), (1000, 1000), (1500, 1500)])
def test_of_the_defaults_of_two_partitions_the_larger_counts(shown: int, counts: int) -> None:
    """What the record shows may be another partition's default, or the job's own, which is as large."""
    defaults = MemoryDefaults(per_cpu_mib=frozenset({500, 1000, 1500}), own_mib=(1000, 0), differ=True)
    found = lesser_reading(Request(mem_per_cpu_mib=shown), defaults)
    assert (found.mem_per_cpu_mib, found.mem_per_node_mib) == (counts, None)
