"""What a job takes of one node, as Slurm counts it: whole cores, CPUs and memory of its GPUs, tasks that stay whole."""

from __future__ import annotations

import pytest
from tesched_core.model.cluster import Request
from tesched_core.model.request import PerGpu, wanted_on_each, wants_all_memory, with_default_memory
from tesched_core.model.resources import Tres

GPU2 = (("gpu", 2),)


@pytest.mark.parametrize(
    ("request_", "nodes", "threads", "wanted"),
    [
        # whole cores, and memory for each CPU that it gets
        (Request(cpus=3, tasks=3, mem_per_cpu_mib=100), 1, 2, Tres(cpus=4, mem_mib=400)),
        (Request(cpus=3, tasks=3, mem_per_cpu_mib=100), 1, 1, Tres(cpus=3, mem_mib=300)),
        # one thread of each core (--hint=nomultithread), one task a core
        (Request(cpus=4, tasks=4, threads_per_core=1, mem_per_node_mib=5), 1, 2, Tres(cpus=8, mem_mib=5)),
        (Request(cpus=4, tasks=4, tasks_per_core=1, mem_per_node_mib=5), 1, 2, Tres(cpus=8, mem_mib=5)),
        (
            Request(cpus=4, tasks=2, cpus_per_task=2, tasks_per_core=1, mem_per_node_mib=5),
            1,
            2,
            Tres(cpus=4, mem_mib=5),
        ),
        # 3 tasks of 4 CPUs on 2 nodes: two of them on one
        (Request(cpus=12, tasks=3, cpus_per_task=4, mem_per_node_mib=5), 2, 1, Tres(cpus=8, mem_mib=5)),
        # one task a core, each of 3 CPUs: two cores each
        (
            Request(cpus=6, tasks=2, cpus_per_task=3, tasks_per_core=1, mem_per_node_mib=5),
            1,
            2,
            Tres(cpus=8, mem_mib=5),
        ),
        # one task a core, and --mincpus=2: two cores
        (Request(min_cpus_per_node=2, tasks_per_core=1, mem_per_node_mib=5), 1, 2, Tres(cpus=4, mem_mib=5)),
        # --mincpus=5 allows a second task of 2 CPUs, and for its GPUs
        (
            Request(cpus=2, cpus_per_task=2, min_cpus_per_node=5, gres_per_task=GPU2, mem_per_node_mib=5),
            1,
            1,
            Tres(cpus=5, mem_mib=5, gres=(("gpu", 4),)),
        ),
        # with --overcommit tasks share CPUs
        (Request(cpus=1, tasks=4, mem_per_node_mib=5), 1, 1, Tres(cpus=1, mem_mib=5)),
        # --mincpus
        (Request(cpus=1, min_cpus_per_node=6, mem_per_cpu_mib=10), 1, 1, Tres(cpus=6, mem_mib=60)),
        # --hint=nomultithread: whole cores of two threads, and memory for those that it uses
        (
            Request(cpus=4, tasks=2, cpus_per_task=2, threads_per_core=1, mem_per_cpu_mib=900),
            1,
            2,
            Tres(cpus=8, mem_mib=3600),
        ),
        (Request(cpus=3, cpus_per_task=3, mem_per_cpu_mib=10), 1, 2, Tres(cpus=4, mem_mib=40)),
        # CPUs and memory for each GPU
        (
            Request(gres_per_node=GPU2, cpus_per_gres=(("gpu", 3),), mem_per_gres=(("gpu", 300),)),
            1,
            1,
            Tres(cpus=6, mem_mib=600, gres=GPU2),
        ),
        (
            Request(gres_per_job=(("gpu:a", 4),), cpus_per_gres=(("gpu", 1),), mem_per_gres=(("gpu", 9),)),
            2,
            1,
            Tres(cpus=2, mem_mib=18, gres=(("gpu", 2), ("gpu:a", 2))),
        ),
        # --gpus and --gpus-per-node hold both, and are not added up
        (
            Request(gres_per_job=(("gpu", 4),), gres_per_node=GPU2, mem_per_node_mib=5),
            2,
            1,
            Tres(cpus=1, mem_mib=5, gres=GPU2),
        ),
        # 26.05 writes the CPUs of a task beside its GPUs
        (
            Request(cpus=3, cpus_per_task=3, gres_per_task=(("cpu", 3), ("gpu", 2)), mem_per_node_mib=5),
            1,
            1,
            Tres(cpus=3, mem_mib=5, gres=GPU2),
        ),
    ],
)
def test_what_it_takes_of_a_node(request_: Request, nodes: int, threads: int, wanted: Tres) -> None:
    assert wanted_on_each(request_, nodes, threads) == wanted


class TestDefaultsForEachGpu:
    """DefCpuPerGPU and DefMemPerGPU, of which Slurm shows nothing on a pending job."""

    def test_they_count_for_a_job_with_gpus(self) -> None:
        request = Request(gres_per_node=GPU2, mem_per_cpu_mib=100)
        wanted = wanted_on_each(request, 1, per_gpu=PerGpu(cpus=2, mem_mib=500))
        assert (wanted.cpus, wanted.mem_mib) == (4, 1000)

    def test_they_do_not_count_for_one_without(self) -> None:
        wanted = wanted_on_each(Request(mem_per_cpu_mib=100), 1, per_gpu=PerGpu(cpus=2, mem_mib=500))
        assert (wanted.cpus, wanted.mem_mib) == (1, 100)

    def test_what_the_job_says_itself_counts_instead(self) -> None:
        own = Request(gres_per_node=GPU2, cpus_per_gres=(("gpu", 1),), mem_per_gres=(("gpu", 10),))
        wanted = wanted_on_each(own, 1, per_gpu=PerGpu(cpus=2, mem_mib=500))
        assert (wanted.cpus, wanted.mem_mib) == (2, 20)

    def test_a_job_with_gpus_then_takes_no_whole_memory(self) -> None:
        assert not wants_all_memory(Request(gres_per_node=GPU2), PerGpu(mem_mib=500))
        assert wants_all_memory(Request(gres_per_node=GPU2, mem_per_node_mib=0), PerGpu(mem_mib=500))
        assert wants_all_memory(Request(), PerGpu(mem_mib=500))
        assert not wants_all_memory(Request(mem_per_gres=(("gpu", 1),)))


@pytest.mark.parametrize(
    ("request_", "by_gpu"),
    [
        # as 26.05 counts: 2 GPUs of 700 MiB, on nodes of 8000 MiB and more
        (Request(gres_per_job=GPU2, mem_per_node_mib=0, mem_counted_mib=1400), True),
        (Request(gres_per_node=GPU2, min_nodes=2, mem_per_node_mib=0, mem_counted_mib=2800), True),
        (Request(gres_per_task=(("gpu:a", 2),), tasks=2, mem_per_node_mib=0, mem_counted_mib=2800), True),
        # --mem=0, and whatever 22.05 counts
        (Request(gres_per_job=GPU2, mem_per_node_mib=0, mem_counted_mib=8000), False),
        (Request(gres_per_job=GPU2, max_nodes=2, mem_per_node_mib=0, mem_counted_mib=1399), False),
        (Request(gres_per_job=GPU2, mem_per_node_mib=0), False),
        (Request(gres_per_job=GPU2, mem_per_node_mib=1400, mem_counted_mib=1400), False),
        (Request(mem_per_node_mib=0, mem_counted_mib=0), False),
        # as much as a whole node has: it may be --mem=0
        (Request(gres_per_job=(("gpu", 12),), mem_per_node_mib=0, mem_counted_mib=8400), False),
    ],
)
def test_memory_of_each_gpu_is_the_default_where_slurms_count_proves_it(request_: Request, *, by_gpu: bool) -> None:
    wanted = with_default_memory(request_, 700, least_mem_mib=8000)
    assert (wanted.mem_per_gres, wanted.mem_per_node_mib) == (
        ((("gpu", 700),), None) if by_gpu else ((), request_.mem_per_node_mib)
    )


def test_memory_that_slurm_hides_behind_the_default_is_what_it_counts() -> None:
    hidden = Request(gres_per_job=GPU2, cpus=3, tasks=3, mem_per_node_mib=0, mem_counted_mib=3000)
    wanted = with_default_memory(hidden, 700, least_mem_mib=8000)
    # of the node, or 1000 MiB for each of three CPUs, of which it gets four
    assert wanted_on_each(wanted, 1, 2, PerGpu(mem_mib=700)).mem_mib == 4000
