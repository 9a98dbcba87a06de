"""Request arithmetic: what a pending job takes of one node, as Slurm's select/cons_tres counts it.

Slurm gives out whole cores: on a node with two hardware threads a core, a job of 3 CPUs holds 4, and its memory for
each CPU is counted for 4. Tasks are not split, so 3 tasks of 4 CPUs on two nodes take 8 CPUs on one of them; the
amounts here are those of the fullest node. Each line was seen on Slurm 22.05 and 26.05 (`python -m
benchmarks.placement` compares them with what jobs really got).
Source: sbatch(1); slurm.conf(5), SelectTypeParameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil

from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.resources import Tres, with_bare_names

_ARRAY_TASKS = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?::(\d{1,18}))?)?")


def demand_per_node(request: Request) -> Tres:
    """Demand of the job on each of its nodes, if it gets the fewest nodes that it requested.

    Of a node with one thread a core, and without the site's defaults for GPUs; `demand_of` has both.
    """
    return wanted_on_each(request, max(request.min_nodes, 1))


def takes_whole_nodes(request: Request, partition: Partition | None) -> bool:
    """Check whether the job gets all of each of its nodes (--exclusive, OverSubscribe=EXCLUSIVE)."""
    return request.exclusive or (partition is not None and partition.oversubscribe == "EXCLUSIVE")


def takes_fewest_nodes(request: Request, partition: Partition | None) -> bool:
    """Check whether Slurm gives the job fewer nodes than those that it is bound to, where fewer are enough."""
    return bool(request.cpus_per_gres) or takes_whole_nodes(request, partition)


def tasks_in(job: Job) -> int:
    """Count the tasks of the array that a waiting record stands for: 7 of `3-9%2`, 1 of a single task."""
    return max(sum(_counts(job.array_tasks.partition("%")[0])), 1)


def _counts(text: str) -> Iterator[int]:
    for first, last, step in _ARRAY_TASKS.findall(text):
        yield (int(last) - int(first)) // int(step or 1) + 1 if last else 1


def requested_gpus(request: Request) -> int:
    """Return the GPUs that a job wants over all its nodes."""
    by_job = sum(count for name, count in request.gres_per_job if name.partition(":")[0] == "gpu")
    return by_job + demand_per_node(replace(request, gres_per_job=())).gpus * max(request.min_nodes, 1)


#: TRES that some releases write beside GRES in what a job asks for by task (`cpu=3`); they stand elsewhere, too
NO_GRES = frozenset({"cpu", "mem", "node", "billing", "energy", "fs", "vmem", "pages", "license", "bb"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """Default resources that come with each GPU if the job names none (DefCpuPerGPU, DefMemPerGPU); 0: nothing."""

    cpus: int = 0
    mem_mib: int = 0


def gres_on_each(request: Request, nodes: int, *, further_tasks: bool = True) -> dict[str, int]:
    """Return the devices on each of `nodes` nodes, by name as requested.

    Of a name that is requested in several ways (--gpus and --gpus-per-node) the largest counts: Slurm wants all of them
    to hold, and does not add them up. --mincpus may leave place for `further_tasks`: with their devices.
    """
    further = request.min_cpus_per_node // max(request.cpus_per_task, 1) if further_tasks else 0
    tasks = max(ceil(request.tasks / nodes), further)
    ways = (
        request.gres_per_node,
        tuple((name, ceil(count / nodes)) for name, count in request.gres_per_job),
        tuple((name, count * tasks) for name, count in request.gres_per_task),
        tuple((name, count * max(request.sockets_per_node, 1)) for name, count in request.gres_per_socket),
    )
    found: dict[str, int] = {}
    for way in ways:
        for name, count in way:
            if name.partition("/")[0] not in NO_GRES:
                found[name] = max(found.get(name, 0), count)
    return found


def wants_all_memory(request: Request, per_gpu: PerGpu | None = None) -> bool:
    """Check whether the job takes all memory of each of its nodes."""
    if request.mem_per_gres or request.mem_per_cpu_mib:
        return False
    if request.mem_per_node_mib is None and per_gpu is not None and per_gpu.mem_mib and _gpus(request):
        return False
    return not request.mem_per_node_mib


def gpus_in_all(request: Request) -> int:
    """Return the GPUs that the job asks for over the fewest nodes that it may have."""
    ways = (
        (request.gres_per_node, max(request.min_nodes, 1)),
        (request.gres_per_job, 1),
        (request.gres_per_task, request.tasks),
    )
    return max(dict(with_bare_names(way)).get("gpu", 0) * times for way, times in ways)


def with_default_memory(request: Request, per_gpu_mib: int, least_mem_mib: int) -> Request:
    """Return the request with DefMemPerGPU in it where it is certain that Slurm will apply it.

    A job that says nothing of its memory, and one with --mem=0, have the same record where the site has no default by
    CPU or node. Slurm 26.05 counts GPUs' memory for the former, and that of the partition's first node, times nodes,
    for the latter; 22.05 the second for both. So the count shows it where no node is so small (`least_mem_mib`).
    26.05 also hides what a job of DefMemPerGPU asks for by node or CPU; on one node the count is enough for both.
    """
    counted = request.mem_counted_mib
    if request.mem_per_node_mib != 0 or request.mem_per_gres or not counted or not per_gpu_mib:
        return request
    gpus = gpus_in_all(request)
    if not gpus or counted >= least_mem_mib * max(request.min_nodes, 1):
        return request
    if counted == per_gpu_mib * gpus:
        return replace(request, mem_per_node_mib=None, mem_per_gres=(("gpu", per_gpu_mib),))
    if request.max_nodes == 1:
        return replace(request, mem_per_node_mib=None, mem_per_cpu_mib=ceil(counted / max(request.cpus, 1)))
    return request


def wanted_on_each(
    request: Request, nodes: int, threads: int = 1, per_gpu: PerGpu | None = None, *, further_tasks: bool = True
) -> Tres:
    """Resources that the job takes of each of so many nodes, which have so many threads a core.

    Memory "all of the node" is 0 here. For `further_tasks` see `gres_on_each`.
    """
    per_gpu = per_gpu or PerGpu()
    counted = dict(with_bare_names(gres_on_each(request, nodes, further_tasks=further_tasks).items()))
    cores = _cores(request, nodes, _cpus(request, nodes, counted, per_gpu), threads)
    cpus = cores * threads
    if request.mem_per_gres:
        mem_mib = by_device(request.mem_per_gres, counted)
    else:
        by_cpu = request.mem_per_cpu_mib
        # With --threads-per-core (--hint=nomultithread) the threads that it leaves unused have no memory.
        used = cores * min(threads, request.threads_per_core or threads)
        own = by_cpu * used if by_cpu is not None else request.mem_per_node_mib or 0
        # Slurm shows the default for each CPU of a job for which the one for each GPU will count.
        default = per_gpu.mem_mib * counted.get("gpu", 0)
        mem_mib = own if wants_all_memory(request, per_gpu) else max(own, default)
    return Tres(cpus=cpus, mem_mib=mem_mib, gres=tuple(sorted(counted.items())))


def _cores(request: Request, nodes: int, cpus: int, threads: int) -> int:
    used = min(threads, request.threads_per_core or threads)
    if not request.tasks_per_core:
        return ceil(cpus / used)
    per_task = max(request.cpus_per_task, 1)
    used = min(used, request.tasks_per_core * per_task)
    groups = ceil(ceil(request.tasks / nodes) / request.tasks_per_core)
    return max(ceil(cpus / used), groups * ceil(per_task / used))


def _cpus(request: Request, nodes: int, counted: dict[str, int], per_gpu: PerGpu) -> int:
    per_task = max(request.cpus_per_task, 1)
    cpus = max(request.min_cpus_per_node, ceil(request.cpus / nodes))
    # A node of --ntasks-per-core must take so many tasks, however few the job has.
    cpus = max(cpus, request.tasks_per_core * per_task)
    if request.tasks * per_task <= request.cpus:  # else tasks share CPUs (--overcommit)
        cpus = max(cpus, ceil(request.tasks / nodes) * per_task)
    each = request.cpus_per_gres or (("gpu", per_gpu.cpus),)
    return max(cpus, by_device(each, counted))


def by_device(amounts: Iterable[tuple[str, int]], counted: Mapping[str, int]) -> int:
    """Return the sum of what each device brings along."""
    return sum(amount * counted.get(name, 0) for name, amount in amounts)


def _gpus(request: Request) -> int:
    return dict(with_bare_names(gres_on_each(request, 1).items())).get("gpu", 0)
