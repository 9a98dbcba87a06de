"""Whether a job may start on what is free now, by plain sums of CPUs, memory and devices.

`demand.py` has Slurm's rules for whole cores, sockets, shared GPUs, defaults. Where these say that a job lacks
resources and sums do not, Slurm may still start it: tasks of different nodes share cores unevenly, a release counts
a GPU's shards otherwise. A victim would leave for a job that needs none, so Slurm's word is awaited then
(`orders/first_look.py`). Sums are never more than Slurm asks for; that they are enough says nothing.

So what is not certain is left out: CPUs by DefCpuPerGPU, cores that jobs may share, memory where Slurm shares out none.
A job of which it is not known whether it named its memory may start if it does by one of its readings.

Worked example
    n1 has a free core of two hardware threads and 400 MiB, job 9 wants one task with 300 MiB for each CPU. By whole
    cores it takes 600 MiB. Slurm 22.05 with CR_CPU_Memory starts it where it asks for a GPU, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.column_layout import SHARD
from tesched_core.model.request import NO_GRES, by_device, takes_whole_nodes, wants_all_memory
from tesched_core.model.resources import with_bare_names
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import allowed_anywhere, rows_of, with_other_users
from tesched_core.placement.jobs_there import JobsThere
from tesched_core.placement.memory_reading import defaults_of, least_memory, readings
from tesched_core.placement.modelled import counts_anew, shares_cores
from tesched_core.placement.uneven import threads_of

#: of a node on which a job may have as many tasks, or as much memory, as it wants
_ANY = 2**40


def may_start_by_sums(job: Job, snapshot: Snapshot, capacity: Capacity, there: JobsThere | None = None) -> bool:
    """Check whether sums leave it open that a pending job starts on what `capacity` has free, in any of its partitions.

    A job of one partition that is to have whole nodes needs nodes without a job. Of several, of which one gives whole
    nodes, the record says so whichever Slurm tries: in the others it may need a part of a node.
    """
    parts = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    if len(parts) > 1 and any(one.oversubscribe == "EXCLUSIVE" for one in parts):  # on 26.05, too
        job = replace(job, request=replace(job.request, exclusive=False))
    there = JobsThere(snapshot) if there is None else there
    allowed = allowed_anywhere(job, snapshot, capacity)
    return any(
        _may_start_in(one, job, allowed, snapshot, capacity, there) for one in parts if one.name in capacity.partitions
    )


def _may_start_in(  # noqa: PLR0917 - one job, one partition, and what is there
    partition: Partition,
    job: Job,
    allowed: NDArray[np.bool_],
    snapshot: Snapshot,
    capacity: Capacity,
    there: JobsThere,
) -> bool:
    request, settings = job.request, snapshot.settings
    where = allowed & capacity.partitions[partition.name]
    if partition.exclusive_user or request.sharing == "USER":
        where &= ~with_other_users(job.user, snapshot, capacity)
    if takes_whole_nodes(request, partition):
        where &= _without_jobs(snapshot, capacity, there)
    if not where.any() or not where[rows_of(request.required_nodes, capacity)].all():
        return False
    free = _Free(partition, job, np.flatnonzero(where), snapshot, capacity, there)
    if not settings.memory_is_shared_out:
        return _holds(replace(request, mem_per_node_mib=None, mem_per_cpu_mib=None, mem_per_gres=()), free)
    defaults = defaults_of(job, partition, snapshot, least_memory(job, capacity))
    return any(_holds(reading, free, all_memory=wants_all_memory(reading)) for reading in readings(request, defaults))


def _holds(request: Request, free: _Free, *, all_memory: bool = False) -> bool:
    """Check whether so many of these nodes as the job may have are enough by sums, with all that it must have."""
    cpus, mem_mib = free.cpus, free.mem_mib
    fits = (cpus >= max(request.min_cpus_per_node, 1)) & (mem_mib >= (request.mem_per_node_mib or 0))
    if all_memory:
        fits &= free.memory_unused
    for name, count in (*request.gres_per_node, *request.gres_per_socket):
        fits &= free.devices(name) >= count
    fits &= cpus >= _brought(request.cpus_per_gres, request.gres_per_node)
    fits &= mem_mib >= _brought(request.mem_per_gres, request.gres_per_node)
    tasks = np.where(fits, _tasks_on_each(request, free), 0)
    holds = fits & (tasks > 0)
    if int(holds.sum()) < max(request.min_nodes, 1) or not holds[free.mask_of(request.required_nodes)].all():
        return False
    most = len(holds) if _leaves_its_tasks_open(request) else max(request.max_nodes, request.min_nodes, 1)
    # 26.05 may start it with fewer GPUs, and with fewer CPUs of these.
    with_cpus = len(holds) if free.in_all_anywhere and request.gres_per_job and request.cpus_per_gres else most
    if _most_on(tasks, most) < max(request.tasks, 1) or _most_on(np.where(holds, cpus, 0), with_cpus) < request.cpus:
        return False
    per_job = ((_devices_with_shares((name, 1), request, free), count) for name, count in request.gres_per_job)
    if free.in_all_anywhere:
        least = max(request.min_nodes, 1)
        return all(here.sum() >= count and (holds & (here > 0)).sum() >= least for here, count in per_job)
    return all(_most_on(np.where(holds, here, 0), most) >= count for here, count in per_job)


def _leaves_its_tasks_open(request: Request) -> bool:
    """Check whether the job may have named devices in all, and neither tasks nor nodes: `sbatch --gpus=2`.

    Slurm then has as many of both as it needs for what is free: with one GPU free on each of two nodes it starts two
    tasks (22.05 and 26.05). The record is that of -n1, which waits.
    """
    return bool(request.gres_per_job) and request.tasks == 1 and request.min_nodes == 1 and not request.tasks_per_node


def _tasks_on_each(request: Request, free: _Free) -> NDArray[np.int64]:
    """Return [nodes] how many of its tasks each may have at most; where tasks share CPUs (--overcommit), by devices."""
    each = max(request.cpus_per_task, 1)
    found = np.full(len(free.cpus), request.tasks_per_node or _ANY, dtype=np.int64)
    if request.tasks * each <= request.cpus:
        found = np.minimum(found, free.cpus // each)
        if request.mem_per_cpu_mib:
            found = np.minimum(found, free.mem_mib // (request.mem_per_cpu_mib * each))
    for name, count in request.gres_per_task:
        if count and name.partition("/")[0] not in NO_GRES:
            found = np.minimum(found, _devices_with_shares((name, count), request, free))
    return found


def _devices_with_shares(wanted: tuple[str, int], request: Request, free: _Free) -> NDArray[np.int64]:
    """Return [nodes] how often so many devices are free, with the CPUs and the memory that they bring along."""
    name, count = wanted
    found = free.devices(name) // count
    for amounts, have in ((request.cpus_per_gres, free.cpus), (request.mem_per_gres, free.mem_mib)):
        if each := _brought(amounts, (wanted,)):
            found = np.minimum(found, have // each)
    return found


def _brought(amounts: Iterable[tuple[str, int]], wanted: Iterable[tuple[str, int]]) -> int:
    """Return the amount that these devices bring along; of several types the most, as 26.05 counts each by itself."""
    amounts = tuple(amounts)
    return max((by_device(amounts, dict(with_bare_names([one]))) for one in wanted), default=0)


def _most_on(amounts: NDArray[np.int64], nodes: int) -> int:
    """Return the most that so many nodes have together."""
    if nodes < len(amounts):
        amounts = np.partition(amounts, len(amounts) - nodes)[-nodes:]
    return sum(int(one) for one in amounts)


def _without_jobs(snapshot: Snapshot, capacity: Capacity, there: JobsThere) -> NDArray[np.bool_]:
    """Return [nodes] where no job runs, and no order has freed anything for its job.

    Free CPUs as many as the node has say less: cores that are set aside for the system may be counted as held.
    """
    held = [0 if one.held is None else one.held.cpus for one in snapshot.nodes.values()]
    unused = capacity.free[:, 0] >= capacity.total[:, 0] - np.array(held, dtype=np.int64)
    found: NDArray[np.bool_] = unused & ~rows_of(there.busy, capacity)
    return found


class _Free:
    """What these rows of a capacity have free for a job, [rows]; nothing below zero."""

    def __init__(  # noqa: PLR0917 - as `_may_start_in`
        self,
        partition: Partition,
        job: Job,
        rows: NDArray[np.intp],
        snapshot: Snapshot,
        capacity: Capacity,
        there: JobsThere,
    ) -> None:
        self._snapshot, self._capacity, self._rows, self._there = snapshot, capacity, rows, there
        #: 26.05 starts `-N1 --gpus=4` on a node with three free GPUs, with these, if there is one more on another node
        self.in_all_anywhere = counts_anew(snapshot.settings.release)
        self._shards_keep_gpus = self.in_all_anywhere
        self.cpus = self._cpus_for(job.request, partition)
        free, total = self._of("mem_mib"), self._of("mem_mib", capacity.total)
        self.memory_unused: NDArray[np.bool_] = free >= total
        self.mem_mib = free if snapshot.settings.memory_is_shared_out else np.full_like(free, _ANY)

    def mask_of(self, names: Iterable[str]) -> NDArray[np.bool_]:
        return rows_of(names, self._capacity)[self._rows]

    def devices(self, name: str) -> NDArray[np.int64]:
        """Return [rows] the devices that are free at most: of GPUs with shards, those that shards may not fill.

        Of several types the shards may fill those of another one, as far as there are so many. Before 26.05 no shard
        keeps a GPU for certain: of GPUs without type and cores in gres.conf Slurm 22.05 counts those held whole alone,
        and of others it forgets all shards of a GPU with the first job there that ends (`_job_dealloc`, gres_ctld.c).
        """
        total, free = self._of(name, self._capacity.total), self._of(name)
        if name.partition(":")[0] != "gpu" or SHARD not in self._capacity.resources:
            return free
        gpus, shards = (self._of(one, self._capacity.total) for one in ("gpu", SHARD))
        if self._shards_keep_gpus:
            filled = (shards - self._of(SHARD)) // np.maximum(shards // np.maximum(gpus, 1), 1)
            unfilled = total - np.maximum(filled - (gpus - total), 0)
            if name != "gpu":
                unfilled = np.minimum(unfilled, total - self._held(name))
        else:
            unfilled = total - self._held(name)
        at_most: NDArray[np.int64] = np.where(shards > 0, np.maximum(free, unfilled), free)
        return at_most

    def _cpus_for(self, request: Request, partition: Partition) -> NDArray[np.int64]:
        """Return [rows] the CPUs that the job may have at most: of cores that it may share, those in use, too."""
        shared = shares_cores(partition, request.sharing)
        cpus, limited = (
            self._of(name, self._capacity.total if shared else None) for name in ("cpu", _limited(partition))
        )
        if takes_whole_nodes(request, partition):
            cpus = np.maximum(cpus, self._of_shape())
        return np.minimum(cpus, limited) if _limited(partition) in self._capacity.resources else cpus

    def _of_shape(self) -> NDArray[np.int64]:
        """Return [rows] the CPUs with those set aside for the system: a job of --core-spec=0 gets them, too."""
        nodes = [self._snapshot.nodes[self._capacity.names[row]] for row in self._rows.tolist()]
        cores = np.array([one.sockets * one.cores_per_socket for one in nodes], dtype=np.int64)
        found: NDArray[np.int64] = cores * threads_of(self._capacity)[self._rows]
        return found

    def _held(self, name: str) -> NDArray[np.int64]:
        """Return [rows] how many of these devices jobs hold whole."""
        held = self._there.held(name)
        return np.array([held[self._capacity.names[row]] for row in self._rows.tolist()], dtype=np.int64)

    def _of(self, name: str, amounts: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return [rows] what is free of it, or another amount; of what no node has, nothing."""
        capacity = self._capacity
        if name not in capacity.resources:
            return np.zeros(len(self._rows), dtype=np.int64)
        of_all = capacity.free if amounts is None else amounts
        found: NDArray[np.int64] = np.maximum(of_all[self._rows, capacity.resources.index(name)], 0)
        return found


def _limited(partition: Partition) -> str:
    return f"cpu:{partition.name}"
