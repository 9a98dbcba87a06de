"""GPUs in all without a number of tasks or nodes, which no node has: on as many nodes as Slurm reckons with.

`sbatch --gpus=4` has the record of one task on one node. Where Slurm spreads it over two nodes it starts two tasks
(22.05 and 26.05), and once it has considered the job NumNodes says so. That is the number for the nodes that Slurm
prefers: where any node has four, that one is planned, as with one task. Of -n1 and -N1 the number stays 1, and Slurm
says BadConstraints, or that it waits. So it is of TE jobs alone: of a BE job a round sets the number of nodes. From
26.05 on it is of two nodes alone, without DefMemPerGPU: there it may start bound to three nodes on two, and where the
record hides its memory wait on two.

The job is bound to the nodes alone: a number of nodes that is set becomes its number of tasks, and with both put back
22.05 leaves it waiting for ever (BadConstraints).

Worked example
    n1 and n2 have two GPUs each, and NumNodes=2: two tasks on two nodes, four GPUs over both.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.arrays import np
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Request
from tesched_core.model.request import by_device
from tesched_core.model.resources import with_bare_names
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.allowed import allowed_anywhere
from tesched_core.placement.modelled import counts_anew


def is_reckoned(job: Job, snapshot: Snapshot) -> bool:
    """Check whether it may be spread so: TE jobs alone, as a round sets the number of nodes of a BE job."""
    nodes = job.request.reckoned_nodes
    if nodes < 2 or snapshot.job_class(job.job_id) is not JobClass.TE:
        return False
    return not counts_anew(snapshot.settings.release) or (nodes == 2 and not _by_gpu(job, snapshot))


def as_reckoned(job: Job, snapshot: Snapshot, capacity: Capacity) -> Request:
    """Return the request with a task on each of the nodes over which Slurm spreads it, if no node is large enough."""
    request, nodes = job.request, job.request.reckoned_nodes
    if _is_enough_for(job, snapshot, capacity):
        return request
    counted = request.mem_counted_mib
    if counted is not None and not _by_gpu(job, snapshot):
        counted *= nodes
    return replace(
        request,
        min_nodes=nodes,
        max_nodes=nodes,
        tasks=nodes,
        cpus=max(request.cpus, nodes * max(request.cpus_per_task, 1)),
        mem_counted_mib=counted,
    )


def _is_enough_for(job: Job, snapshot: Snapshot, capacity: Capacity) -> bool:
    """Check whether one node that it may use has so much of all by mere sums, in use or not."""
    request = job.request
    where = np.zeros(len(capacity.names), dtype=np.bool_)
    for name in job.partitions:
        if name in capacity.partitions:
            where |= capacity.partitions[name]
    where &= allowed_anywhere(job, snapshot, capacity)
    for name, count in request.gres_per_job:
        if name in capacity.resources:
            where &= capacity.total[:, capacity.resources.index(name)] >= count
    devices = dict(with_bare_names(request.gres_per_job))
    cpus = max(request.cpus, by_device(request.cpus_per_gres, devices))
    where &= capacity.total[:, 0] >= cpus
    if snapshot.settings.memory_is_shared_out:
        by_cpu = (request.mem_per_cpu_mib or 0) * cpus
        memory = max(by_cpu, request.mem_per_node_mib or 0, by_device(request.mem_per_gres, devices))
        where &= capacity.total[:, 1] >= memory
    return bool(where.any())


def _by_gpu(job: Job, snapshot: Snapshot) -> bool:
    """Check whether its memory may be that of its GPUs, however many nodes these are on."""
    parts = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    return bool(snapshot.settings.def_mem_per_gpu_mib or any(part.def_mem_per_gpu_mib for part in parts))
