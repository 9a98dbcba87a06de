"""Memory that a job with GPUs asks for where the site gives some with each GPU (DefMemPerGPU).

Slurm's records do not say whether a job named its memory. With DefMemPerGPU it matters: to a job that named none Slurm
gives the default of the GPUs, and no other. One that named it gets that, on a node where both are free
(`wanted_on_each`). Seen on 22.05, by the record of a pending job:

- memory of a node or CPU that is a default of the site's (DefMemPerCPU, DefMemPerNode): the job named none. Any other
  is its own.
- 0: a job that named none, where the site has no other default, or once Slurm has considered it; or --mem=0. The memory
  that Slurm counts for it (`mem=` of its TRES) is that of a node in both cases without another default, and else the
  other default's of the former.

So one case is left, in which two jobs have the same record. Of two readings the one that needs fewer victims is tried
first: the default of the GPUs. All of the node's memory is asked for only after Slurm has declined that
(`Snapshot.declined`). From 26.05 on the count says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.request import gpus_in_all, with_default_memory
from tesched_core.model.snapshot import Snapshot

#: the first release seen to count the GPUs' memory for a job that named none
_COUNTS_GPUS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults:
    """Memory that the site gives a job that names none, MiB."""

    #: with each GPU, in the partition in question; 0: none
    per_gpu_mib: int = 0
    #: for each CPU, or on each node, in one of the job's partitions or another
    per_cpu_mib: frozenset[int] = frozenset()
    per_node_mib: frozenset[int] = frozenset()
    #: each of its partitions has such a default
    everywhere: bool = False
    #: the memory of the smallest node of its partitions
    least_mib: int = 0
    #: Slurm counts the GPUs' memory for a job that named none
    counts_gpus: bool = False


def defaults_of(job: Job, partition: Partition | None, snapshot: Snapshot, least_mib: int) -> MemoryDefaults:
    """Return the defaults for a job in one of its partitions."""
    settings = snapshot.settings
    by_cpu, by_node = set[int](), set[int]()
    everywhere = True
    for name in job.partitions:
        one = snapshot.partitions.get(name)
        # slurm.conf can have one of the two only, for the site and for each partition.
        own = (one.def_mem_per_cpu_mib, one.def_mem_per_node_mib) if one else (0, 0)
        cpu, node = own if any(own) else (settings.def_mem_per_cpu_mib, settings.def_mem_per_node_mib)
        by_cpu.add(cpu)
        by_node.add(node)
        everywhere = everywhere and bool(cpu or node)
    release = settings.release.partition(".")[0]
    return MemoryDefaults(
        per_gpu_mib=(partition.def_mem_per_gpu_mib if partition else 0) or settings.def_mem_per_gpu_mib,
        per_cpu_mib=frozenset(by_cpu - {0}),
        per_node_mib=frozenset(by_node - {0}),
        everywhere=everywhere,
        least_mib=least_mib,
        counts_gpus=release.isdecimal() and int(release) >= _COUNTS_GPUS,
    )


def names_memory(request: Request, defaults: MemoryDefaults) -> bool:
    """Return whether the memory in a job's record is certainly its own, and no default of the site's."""
    by_cpu, by_node = request.mem_per_cpu_mib or 0, request.mem_per_node_mib or 0
    own_by_cpu = by_cpu > 0 and by_cpu not in defaults.per_cpu_mib
    return bool(request.mem_per_gres) or own_by_cpu or (by_node > 0 and by_node not in defaults.per_node_mib)


def lesser_reading(request: Request, defaults: MemoryDefaults) -> Request:
    """Return the request with the memory that its record says, or may say, where that is less than all of a node's."""
    per_gpu = defaults.per_gpu_mib
    gpus = gpus_in_all(request)
    if request.mem_per_gres or not per_gpu or not gpus:
        return request
    by_gpu = replace(request, mem_per_gres=(("gpu", per_gpu),), mem_per_node_mib=None, mem_per_cpu_mib=None)
    if request.mem_per_cpu_mib:
        return by_gpu if request.mem_per_cpu_mib in defaults.per_cpu_mib else request
    if request.mem_per_node_mib:
        return by_gpu if request.mem_per_node_mib in defaults.per_node_mib else request
    counted, nodes = request.mem_counted_mib, max(request.min_nodes, 1)
    if counted:
        if counted in _counts_of_none(request, gpus, nodes, defaults):
            return by_gpu
        if counted < defaults.least_mib * nodes:
            return _hidden(request, counted, per_gpu, defaults) if defaults.counts_gpus else by_gpu
        if defaults.everywhere or defaults.counts_gpus:
            return replace(request, mem_per_node_mib=0, mem_per_cpu_mib=None)
    # By its record it may be --mem=0, too: a partition's limit of memory is held against it as against that.
    return replace(request, mem_per_gres=(("gpu", per_gpu),))


def _hidden(request: Request, counted: int, per_gpu_mib: int, defaults: MemoryDefaults) -> Request:
    """Return the request with what it asks for by node or CPU: 26.05 has the default of the GPUs in that place.

    On several nodes the count does not say which of the two it is: by CPU is less.
    """
    found = with_default_memory(request, per_gpu_mib, defaults.least_mib)
    if found is not request:
        return found
    return replace(request, mem_per_node_mib=None, mem_per_cpu_mib=ceil(counted / max(request.cpus, 1)))


def _counts_of_none(request: Request, gpus: int, nodes: int, defaults: MemoryDefaults) -> frozenset[int]:
    """Return what Slurm may count for such a job if it named no memory."""
    by_cpu = {each * request.cpus for each in defaults.per_cpu_mib}
    by_node = {each * nodes for each in defaults.per_node_mib}
    return frozenset({defaults.per_gpu_mib * gpus, *by_cpu, *by_node})
