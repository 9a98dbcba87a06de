"""GPUs in all without a number of tasks or nodes, which no node has: on as many nodes as Slurm reckons with.

`sbatch --gpus=4` has the record of one task on one node. Where Slurm spreads it over two nodes it starts two tasks
(22.05 and 26.05), and once it has considered the job NumNodes says so. That is the number for the nodes that Slurm
prefers: where any node has four, that one is planned, as with one task. Of -n1 and -N1 the number stays 1, and Slurm
says BadConstraints, or that it waits.

The job is bound to the nodes alone: a number of nodes that is set becomes its number of tasks, and with both put back
22.05 leaves it waiting for ever (BadConstraints).

Worked example
    n1 and n2 have two GPUs each, and NumNodes=2: two tasks on two nodes, four GPUs over both.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.arrays import np
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import allowed_anywhere


def as_reckoned(job: Job, snapshot: Snapshot, capacity: Capacity) -> Job:
    """Return the job with a task on each of the nodes over which Slurm spreads it, if no node has all its devices."""
    request, nodes = job.request, job.request.reckoned_nodes
    if nodes < 2 or _is_enough_for(job, snapshot, capacity):
        return job
    counted = request.mem_counted_mib
    if counted is not None and not _by_gpu(job, snapshot):
        counted *= nodes
    return replace(
        job,
        request=replace(
            request,
            min_nodes=nodes,
            max_nodes=nodes,
            tasks=nodes,
            cpus=max(request.cpus, nodes * max(request.cpus_per_task, 1)),
            mem_counted_mib=counted,
        ),
    )


def _is_enough_for(job: Job, snapshot: Snapshot, capacity: Capacity) -> bool:
    """Check whether one node that it may use has so many of each device, in use or not."""
    where = np.zeros(len(capacity.names), dtype=np.bool_)
    for name in job.partitions:
        if name in capacity.partitions:
            where |= capacity.partitions[name]
    where &= allowed_anywhere(job, snapshot, capacity)
    for name, count in job.request.gres_per_job:
        if name in capacity.resources:
            where &= capacity.total[:, capacity.resources.index(name)] >= count
    return bool(where.any())


def _by_gpu(job: Job, snapshot: Snapshot) -> bool:
    """Check whether its memory may be that of its GPUs, however many nodes these are on."""
    parts = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    return bool(snapshot.settings.def_mem_per_gpu_mib or any(part.def_mem_per_gpu_mib for part in parts))
