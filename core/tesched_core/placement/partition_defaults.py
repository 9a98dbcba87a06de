"""CPUs and memory that come with a GPU by a partition's defaults, and what they are in the job's other partitions.

Of a job of several partitions 26.05 keeps what the one that it tried last has made of its record: CPUs for each GPU
stay (DefCpuPerGPU), and memory for each GPU (DefMemPerGPU) leaves none by CPU or node, which is all of a node's. It
does not try a job that is bound to nodes in a partition that lacks them: there it gives it this one's own defaults.

Worked example
    `-pother,main --gpus=3`, other has DefMemPerGPU and DefCpuPerGPU=2, and main a node of its own with three free.
    There the job holds six CPUs and all memory, by whichever default main has; bound to that node what these give it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.memory_reading import defaults_of, names_memory


def by_gpu_elsewhere(job: Job, partition: Partition, snapshot: Snapshot) -> list[str]:
    """Return the job's partitions that give memory with each GPU, where this one does not and the job names none.

    22.05 gives it this one's other default here, or all of a node's memory where there is none. 26.05 does, too,
    and on nodes that are in one of the others all memory (`shared_with_others`).
    """
    if partition.def_mem_per_gpu_mib or snapshot.settings.def_mem_per_gpu_mib or not _has_gpus(job.request):
        return []
    known = [name for name in job.partitions if name in snapshot.partitions]
    found = [name for name in known if snapshot.partitions[name].def_mem_per_gpu_mib]
    return [] if found and names_memory(job.request, defaults_of(job, None, snapshot, 0)) else found


def default_cpus_per_gpu(request: Request, partition: Partition | None, snapshot: Snapshot) -> int:
    """Return the CPUs that come with each GPU by DefCpuPerGPU; 0 if none do: to a job with -c Slurm gives none.

    Of -c1 its record says nothing. That of `--gpus-per-task` has the default's CPUs in the place of -c's once Slurm has
    considered it, but fewer CPUs in all than its tasks would then want. So has that of `-N2-3 -c3` without -n.
    """
    is_own = not request.gres_per_task or request.tasks * request.cpus_per_task <= request.cpus
    if request.cpus_per_task > 1 and is_own:
        return 0
    return (partition.def_cpus_per_gpu if partition else 0) or snapshot.settings.def_cpus_per_gpu


def cpus_per_gpu_in(job: Job, partition: Partition | None, snapshot: Snapshot, *, kept: bool = False) -> int:
    """Return the CPUs that come with each GPU in this partition; those of another of the job's, if they are `kept`."""
    found = default_cpus_per_gpu(job.request, partition, snapshot)
    if found or partition is None or not kept:
        return found
    others = (snapshot.partitions[name] for name in by_gpu_elsewhere(job, partition, snapshot))
    return max((default_cpus_per_gpu(job.request, one, snapshot) for one in others), default=0)


def shared_with_others(
    job: Job, partition: Partition | None, snapshot: Snapshot, capacity: Capacity
) -> NDArray[np.bool_] | None:
    """Return [nodes] on which 26.05 may keep the defaults of another of the job's partitions; None: on none of any."""
    if partition is None or not defaults_of(job, partition, snapshot, 0).counts_gpus:
        return None
    others = [name for name in by_gpu_elsewhere(job, partition, snapshot) if name in capacity.partitions]
    return np.any([capacity.partitions[name] for name in others], axis=0) if others else None


def _has_gpus(request: Request) -> bool:
    asked = (*request.gres_per_node, *request.gres_per_job, *request.gres_per_task)
    return any(name.partition(":")[0] == "gpu" for name, _ in asked)
