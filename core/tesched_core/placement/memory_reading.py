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
first: the default of the GPUs. All of the node's memory is requested only after Slurm has declined that
(`Snapshot.declined`). From 26.05 on the count says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request, SlurmSettings
from tesched_core.model.request import gpus_in_all, with_default_memory
from tesched_core.model.snapshot import Snapshot

#: the first release seen to count the GPUs' memory for a job that named none
_COUNTS_GPUS = 26
#: more than any node has, MiB
_MOST_MIB = 2**62
#: MiB for each CPU, and on each node; slurm.conf can have one of them, for the site and for each partition
_Default: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDefaults:
    """Memory that the site gives a job that names none, MiB."""

    #: with each GPU, in the partition in question; 0: none
    per_gpu_mib: int = 0
    #: for each CPU, or on each node, in one of the job's partitions or another
    per_cpu_mib: frozenset[int] = frozenset()
    per_node_mib: frozenset[int] = frozenset()
    #: the one that counts in the partition in question
    own_mib: _Default = (0, 0)
    #: its partitions have several
    differ: bool = False
    #: each of its partitions has such a default
    everywhere: bool = False
    #: one of the others, and not this one, gives memory with each GPU, MiB
    elsewhere_per_gpu_mib: frozenset[int] = frozenset()
    #: the memory of the smallest node of its partitions
    least_mib: int = 0
    #: Slurm counts the GPUs' memory for a job that named none
    counts_gpus: bool = False


def defaults_of(job: Job, partition: Partition | None, snapshot: Snapshot, least_mib: int) -> MemoryDefaults:
    """Return the defaults for a job in one of its partitions."""
    settings = snapshot.settings
    parts = [snapshot.partitions.get(name) for name in job.partitions]
    others = [_other_default(one, settings) for one in parts]
    per_gpu = (partition.def_mem_per_gpu_mib if partition else 0) or settings.def_mem_per_gpu_mib
    by_gpu = {one.def_mem_per_gpu_mib for one in parts if one is not None}
    release = settings.release.partition(".")[0]
    return MemoryDefaults(
        per_gpu_mib=per_gpu,
        own_mib=_other_default(partition, settings),
        differ=len(set(others)) > 1,
        elsewhere_per_gpu_mib=frozenset() if per_gpu else frozenset(by_gpu - {0}),
        per_cpu_mib=frozenset(cpu for cpu, _ in others if cpu),
        per_node_mib=frozenset(node for _, node in others if node),
        everywhere=all(any(one) for one in others),
        least_mib=least_mib,
        counts_gpus=release.isdecimal() and int(release) >= _COUNTS_GPUS,
    )


def _other_default(partition: Partition | None, settings: SlurmSettings) -> _Default:
    """The default of a partition that is none for each GPU: its own, else the site's."""
    own = (partition.def_mem_per_cpu_mib, partition.def_mem_per_node_mib) if partition else (0, 0)
    return own if any(own) else (settings.def_mem_per_cpu_mib, settings.def_mem_per_node_mib)


def least_memory(job: Job, capacity: Capacity) -> int:
    """The memory of the smallest node of the job's partitions."""
    where = [capacity.partitions[name] for name in job.partitions if name in capacity.partitions]
    nodes = np.any(where, axis=0) if where else np.zeros(len(capacity.names), dtype=np.bool_)
    return int(capacity.total[nodes, 1].min(initial=_MOST_MIB)) if nodes.any() else 0


def names_memory(request: Request, defaults: MemoryDefaults) -> bool:
    """Check whether the memory in a job's record is certainly its own, and no default of the site's."""
    by_cpu, by_node = request.mem_per_cpu_mib or 0, request.mem_per_node_mib or 0
    own_by_cpu = by_cpu > 0 and by_cpu not in defaults.per_cpu_mib
    return bool(request.mem_per_gres) or own_by_cpu or (by_node > 0 and by_node not in defaults.per_node_mib)


def lesser_reading(request: Request, defaults: MemoryDefaults) -> Request:
    """Return the request with the memory that its record says, or may say, where that is less than all of a node's."""
    per_gpu = defaults.per_gpu_mib
    gpus = gpus_in_all(request)
    if request.mem_per_gres:
        return request
    if not per_gpu or not gpus:
        return _by_own_default(request, gpus, defaults)
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


def enough_when_empty(
    record: Request, reading: Request, cpus: NDArray[np.int64], capacity: Capacity
) -> NDArray[np.bool_]:
    """Check whether a node has memory for so many CPUs by the default in whose place the GPUs' memory is read, [nodes].

    `record` is the request as Slurm shows it, `reading` as it is read, `cpus` are [nodes].

    Slurm goes by the GPUs' memory once it has tested the job, and by the other default before. Of a job that is bound
    while its victims leave that first test may be whether it could ever run on these nodes: what is too much then is
    BadConstraints for good (_verify_node_state and _set_gpu_defaults of select/cons_tres; seen on 22.05).
    """
    if record.mem_per_gres or not reading.mem_per_gres:
        return np.ones(len(capacity.names), dtype=np.bool_)
    by_cpu, by_node = record.mem_per_cpu_mib or 0, record.mem_per_node_mib or 0
    found: NDArray[np.bool_] = capacity.total[:, 1] >= np.maximum(cpus * by_cpu, by_node)
    return found


def counted_first(record: Request) -> str:
    """The memory that `enough_when_empty` is about, in words."""
    by_cpu, by_node = record.mem_per_cpu_mib, record.mem_per_node_mib or 0
    default = f"DefMemPerCPU={by_cpu}" if by_cpu else f"DefMemPerNode={by_node}"
    return f"memory by {default}, which Slurm counts first for a job with GPUs that names none"


def readings(request: Request, defaults: MemoryDefaults) -> tuple[Request, ...]:
    """Return the request in each way in which its record may be read, in the partition in question.

    With the memory that stands there. Where that may be another partition's default, also as one that named none: with
    this partition's memory for each GPU, or its other default, or all of a node's where it has neither. Where it may
    stand for what the job named (26.05 hides that), with the memory that Slurm counts, by CPU and by node.
    """
    gpus = gpus_in_all(request)
    by_gpu = gpus and (defaults.per_gpu_mib or defaults.elsewhere_per_gpu_mib)
    if names_memory(request, defaults) or not (defaults.differ or by_gpu):
        return (request,)
    none = replace(request, mem_per_cpu_mib=None, mem_per_node_mib=None)
    by_cpu, by_node = defaults.own_mib
    found = [request, replace(none, mem_per_cpu_mib=by_cpu or None, mem_per_node_mib=by_node or None)]
    if gpus and defaults.per_gpu_mib:
        found[1] = replace(none, mem_per_gres=(("gpu", defaults.per_gpu_mib),))
    if by_gpu and defaults.counts_gpus and (counted := request.mem_counted_mib):
        found.append(replace(none, mem_per_cpu_mib=counted // max(request.cpus, 1)))
        found.append(replace(none, mem_per_node_mib=counted // max(request.min_nodes, 1)))
    return tuple(found)


def _by_own_default(request: Request, gpus: int, defaults: MemoryDefaults) -> Request:
    """The request in a partition that gives it no memory with each GPU: with the default that it has there.

    Of a job in several partitions the record shows what the one that Slurm has tried last has made of it: the default
    there, or 0 where its GPUs brought the memory. To a job that named none 22.05 gives each partition's own, in
    whichever order it tries them. One that named another partition's default has the same record, so the larger counts.
    """
    own, shown = defaults.own_mib, (request.mem_per_cpu_mib or 0, request.mem_per_node_mib or 0)
    of_others = defaults.elsewhere_per_gpu_mib if gpus else frozenset()
    if defaults.counts_gpus or not (of_others or defaults.differ) or names_memory(request, defaults):
        return request
    if not any(own):
        return replace(request, mem_per_cpu_mib=None, mem_per_node_mib=0)
    if not any(shown):
        counted, nodes = request.mem_counted_mib or 0, max(request.min_nodes, 1)
        counts = {each * gpus for each in of_others} | _counts_of_none(request, gpus, nodes, defaults)
        named = defaults.everywhere and counted >= defaults.least_mib * nodes and counted not in counts
        if named or not of_others:
            return request  # --mem=0
    by_cpu, by_node = (max(mine, said) if mine else None for mine, said in zip(own, shown, strict=True))
    return replace(request, mem_per_cpu_mib=by_cpu, mem_per_node_mib=by_node)


def without_shares(request: Request) -> Request:
    """The request with the memory that a node must have, free or not, where Slurm shares out none (CR_Core).

    22.05 holds memory for each CPU against a node's only times the CPUs that it wants there at least (MinCPUsNode), and
    that of GPUs not at all (`_build_node_list` of node_scheduler.c).
    """
    by_cpu = request.mem_per_cpu_mib
    least = request.mem_per_node_mib or 0 if by_cpu is None else by_cpu * max(request.min_cpus_per_node, 1)
    return replace(request, mem_per_node_mib=least, mem_per_cpu_mib=None, mem_per_gres=())


def _hidden(request: Request, counted: int, per_gpu_mib: int, defaults: MemoryDefaults) -> Request:
    """Return the request with what it asks for by node or CPU: 26.05 has the default of the GPUs in that place.

    On several nodes the count does not say which of the two it is: by CPU is less.
    """
    found = with_default_memory(request, per_gpu_mib, defaults.least_mib)
    if found is not request:
        return found
    return replace(request, mem_per_node_mib=None, mem_per_cpu_mib=ceil(counted / max(request.cpus, 1)))


def _counts_of_none(request: Request, gpus: int, nodes: int, defaults: MemoryDefaults) -> frozenset[int]:
    """Counts that Slurm may show for such a job if it named no memory, MiB."""
    by_cpu = {each * request.cpus for each in defaults.per_cpu_mib}
    by_node = {each * nodes for each in defaults.per_node_mib}
    return frozenset({defaults.per_gpu_mib * gpus, *by_cpu, *by_node})
