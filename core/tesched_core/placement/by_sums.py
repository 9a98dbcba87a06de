"""Whether a job may start on what is free now, by plain sums of CPUs, memory and devices.

`demand.py` has Slurm's rules for whole cores, sockets, shared GPUs, defaults. Where these say that a job lacks
resources and sums do not, Slurm may still start it: tasks of different nodes share cores unevenly, a release counts
a GPU's shards otherwise. A victim would leave for a job that needs none, so Slurm's word is awaited then
(`orders/first_look.py`). Sums are never more than Slurm asks for; that they are enough says nothing.

Worked example
    n1 has a free core of two hardware threads and 400 MiB, job 9 wants one task with 300 MiB for each CPU. By whole
    cores it takes 600 MiB. Slurm 22.05 with CR_CPU_Memory starts it where it asks for a GPU, too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.column_layout import SHARD
from tesched_core.model.request import by_device
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import allowed_anywhere, rows_of

#: of a node on which a job may have as many tasks as it wants
_ANY = 2**40


def may_start_by_sums(job: Job, snapshot: Snapshot, capacity: Capacity) -> bool:
    """Check whether sums leave it open that a pending job starts on what `capacity` has free, in any of its partitions.

    A job of one partition that is to have whole nodes needs nodes without a job. Of several, of which one gives whole
    nodes, the record says so whichever Slurm tries: in the others it may need a part of a node.
    """
    allowed = allowed_anywhere(job, snapshot, capacity)
    partitions = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    doubted = len(partitions) > 1 and any(one.oversubscribe == "EXCLUSIVE" for one in partitions)
    return any(
        _may_start_in(one, replace(job.request, exclusive=job.request.exclusive and not doubted), allowed, capacity)
        for one in partitions
        if one.name in capacity.partitions
    )


def _may_start_in(partition: Partition, request: Request, allowed: NDArray[np.bool_], capacity: Capacity) -> bool:
    rows = np.flatnonzero(allowed & capacity.partitions[partition.name])
    if not rows.size:
        return False
    free = _Free(capacity, rows)
    cpus = free.cpus if (limited := _limited(partition, capacity)) is None else np.minimum(free.cpus, free.of(limited))
    fits = (cpus >= max(request.min_cpus_per_node, 1)) & (free.mem_mib >= (request.mem_per_node_mib or 0))
    if request.exclusive or partition.oversubscribe == "EXCLUSIVE":
        fits &= free.cpus == capacity.total[rows, 0]
    for name, count in (*request.gres_per_node, *request.gres_per_socket):
        fits &= free.devices(name) >= count
    fits &= cpus >= by_device(request.cpus_per_gres, dict(request.gres_per_node))
    fits &= free.mem_mib >= by_device(request.mem_per_gres, dict(request.gres_per_node))
    tasks = np.where(fits, _tasks_on_each(request, cpus, free), 0)
    holds = fits & (tasks > 0)
    required = rows_of(request.required_nodes, capacity)[rows]
    if int(holds.sum()) < max(request.min_nodes, 1) or not holds[required].all():
        return False
    most = max(request.max_nodes, request.min_nodes, 1)
    if _most_on(tasks, most) < max(request.tasks, 1) or _most_on(np.where(holds, cpus, 0), most) < request.cpus:
        return False
    per_job = ((free.devices(name), count) for name, count in request.gres_per_job)
    return all(_most_on(np.where(holds, here, 0), most) >= count for here, count in per_job)


def _limited(partition: Partition, capacity: Capacity) -> str | None:
    name = f"cpu:{partition.name}"
    return name if name in capacity.resources else None


def _tasks_on_each(request: Request, cpus: NDArray[np.int64], free: _Free) -> NDArray[np.int64]:
    """Return [nodes] how many of its tasks each may have at most; where tasks share CPUs (--overcommit), any number."""
    each = max(request.cpus_per_task, 1)
    if request.tasks * each > request.cpus:
        return np.full(len(cpus), _ANY, dtype=np.int64)
    found = cpus // each
    if request.mem_per_cpu_mib:
        found = np.minimum(found, free.mem_mib // (request.mem_per_cpu_mib * each))
    for name, count in request.gres_per_task:
        if count:
            found = np.minimum(found, free.devices(name) // count)
    return np.minimum(found, request.tasks_per_node or _ANY)


def _most_on(amounts: NDArray[np.int64], nodes: int) -> int:
    """Return the most that so many nodes have together."""
    if nodes < len(amounts):
        amounts = np.partition(amounts, len(amounts) - nodes)[-nodes:]
    return sum(int(one) for one in amounts)


class _Free:
    """What these rows of a capacity have free, [rows]; nothing below zero."""

    def __init__(self, capacity: Capacity, rows: NDArray[np.intp]) -> None:
        self._capacity, self._rows = capacity, rows
        self.cpus, self.mem_mib = self.of("cpu"), self.of("mem_mib")

    def of(self, name: str) -> NDArray[np.int64]:
        capacity = self._capacity
        if name not in capacity.resources:
            return np.zeros(len(self._rows), dtype=np.int64)
        found: NDArray[np.int64] = np.maximum(capacity.free[self._rows, capacity.resources.index(name)], 0)
        return found

    def devices(self, name: str) -> NDArray[np.int64]:
        """Return [rows] the devices that are free at most: of GPUs with shards, those that shards may not fill."""
        capacity, free = self._capacity, self.of(name)
        if name.partition(":")[0] != "gpu" or SHARD not in capacity.resources or name not in capacity.resources:
            return free
        column, shard = capacity.resources.index("gpu"), capacity.resources.index(SHARD)
        gpus, shards = capacity.total[self._rows, column], capacity.total[self._rows, shard]
        each = np.maximum(shards // np.maximum(gpus, 1), 1)
        filled = (shards - self.of(SHARD)) // each
        total = capacity.total[self._rows, capacity.resources.index(name)]
        at_most: NDArray[np.int64] = np.where(shards > 0, np.maximum(free, total - filled), free)
        return at_most
