"""Nodes that a pending job may use, whatever is free there: by its request, reservations, and who else is there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity, mask_of
from tesched_core.model.cluster import Job, Node, Partition, Request
from tesched_core.model.column_layout import ALONE, SHARD
from tesched_core.model.request import gpus_in_all
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import has_features
from tesched_core.placement.latest_start import floats_clear_of, planned_run_s


def memory_allowed(request: Request, partition: Partition) -> bool:
    """Check whether the partition lets a job have so much memory; Slurm never starts one there that wants more."""
    by_node, by_cpu = partition.max_mem_per_node_mib, partition.max_mem_per_cpu_mib
    if by_node is not None and request.mem_per_node_mib is not None:
        return 0 < request.mem_per_node_mib <= by_node
    if by_node is not None and request.mem_per_cpu_mib is not None:
        return request.mem_per_cpu_mib * _cpus_on_each(request) <= by_node
    if by_cpu is not None and request.mem_per_cpu_mib is not None:
        return request.mem_per_cpu_mib <= by_cpu
    return True


def fewest_with_memory(request: Request, least: int, most: int, partition: Partition) -> int | None:
    """Return the fewest nodes, from `least` to `most`, that an open number may be set to; None: there is none.

    Slurm refuses a smaller one, which has more memory on each (MaxMemPerLimit), though with an open number it may start
    the job on fewer nodes.
    """

    def may_be_set(nodes: int) -> bool:
        return memory_allowed(replace(request, min_nodes=nodes, max_nodes=nodes), partition)

    found = least + bisect_left(range(least, most + 1), True, key=may_be_set)
    return found if found <= most else None


def is_bindable(job: Job) -> bool:
    """Check whether the job has a record of its own that can be bound to nodes."""
    # Of an array, the record that waits stands for all its tasks; a heterogeneous job is left to Slurm.
    return not job.array_tasks and job.array_job_id is None and job.het_job_id is None


def _cpus_on_each(request: Request) -> int:
    """Return the CPUs on each node by which Slurm holds memory for a CPU against MaxMemPerNode: on the most nodes."""
    tasks = max(request.tasks_per_node, -(-request.tasks // max(request.max_nodes, 1)))
    return max(tasks * max(request.cpus_per_task, 1), request.min_cpus_per_node)


def count_allowed(request: Request, least: int, partition: Partition) -> bool:
    """Check whether the partition gives a job `least` nodes, and as few as its user has set (PartitionNodeLimit).

    That its user has set one node is not known: -n1 has the same record.
    """
    by_tasks = request.min_nodes == 1 and request.max_nodes == request.tasks and not request.tasks_per_node
    too_few = 1 < request.max_nodes < partition.min_nodes and not by_tasks
    return not too_few and least <= (partition.max_nodes or least)


def never_holds(job: Job, partition: Partition, capacity: Capacity) -> bool:
    """Check whether Slurm never tries the job on the partition's nodes: too few, too small, or not so much memory."""
    nodes = capacity.partitions[partition.name]
    if job.request.exclusive:
        nodes = nodes & whole_allowed(partition, capacity)
    too_many = job.request.min_nodes > (partition.max_nodes or job.request.min_nodes)
    too_few = int(nodes.sum()) < max(job.request.min_nodes, 1)
    return too_many or too_few or not memory_allowed(job.request, partition)


def whole_allowed(partition: Partition, capacity: Capacity) -> NDArray[np.bool_]:
    """Return [nodes] that the partition may give as a whole: those with no more CPUs than its MaxCPUsPerNode."""
    most = partition.max_cpus_per_node
    found: NDArray[np.bool_] = capacity.total[:, 0] <= (2**62 if most is None else most)
    return found


def cpus_of_whole(request: Request, default: int, capacity: Capacity) -> NDArray[np.int64]:
    """Return [nodes] the CPUs for every GPU of a whole node; where there are fewer, Slurm starts it never.

    `default` are those by DefCpuPerGPU.
    """
    each = dict(request.cpus_per_gres).get("gpu", default)
    if "gpu" not in capacity.resources or not gpus_in_all(request):
        each = 0
    gpus = capacity.total[:, capacity.resources.index("gpu")] if each else np.zeros(len(capacity.total), dtype=np.int64)
    return np.minimum(gpus, 2**31) * min(each, 2**31)


def memory_of_whole(request: Request, capacity: Capacity) -> NDArray[np.int64]:
    """Return [nodes] the memory for every CPU or device of a whole node; where there is less, Slurm starts it never."""
    found = _times(capacity.total[:, 0], request.mem_per_cpu_mib or 0)
    if request.mem_per_gres:
        found = np.zeros(len(capacity.total), dtype=np.int64)
        for name, mem_mib in request.mem_per_gres:
            if name in capacity.resources:
                found += _times(capacity.total[:, capacity.resources.index(name)], mem_mib)
    return found


def _times(counts: NDArray[np.int64], amount: int) -> NDArray[np.int64]:
    """Return the products, or 2^62 MiB where they are more: no node has that, and 64 bits have no more to give."""
    return np.minimum(counts, 2**62 // max(amount, 1)) * amount


def with_exactly(devices: Mapping[str, int], capacity: Capacity) -> NDArray[np.bool_]:
    """Return [nodes] that have exactly so many of each of these devices, in use or not."""
    found = np.ones(len(capacity.names), dtype=np.bool_)
    for name, count in devices.items():
        found &= capacity.total[:, capacity.resources.index(name)] == count if name in capacity.resources else False
    return found


def with_one_gpus_shards(takes: NDArray[np.int64], capacity: Capacity, *, certain: bool) -> NDArray[np.int64]:
    """Free resources that one GPU must have so that the job's shards are certainly on it: Slurm takes them of one.

    Of which GPU the free ones are it does not always say; with (wanted - 1) for each GPU and one more, it is certain.
    Where it need not be (`certain`), as many as it wants may be enough.
    """
    if capacity.shards_each is None:
        return takes
    columns = [column for column, name in enumerate(capacity.resources) if name.partition(":")[0] == SHARD]
    if not takes[:, columns].any():
        return takes
    gpus = capacity.total[:, capacity.resources.index("gpu")]
    takes = takes.copy()
    for column in columns:
        wanted = takes[:, column]
        enough = np.where(wanted > capacity.shards_each, ALONE, (wanted - 1) * gpus + 1 if certain else wanted)
        takes[:, column] = np.where((wanted > 0) & (capacity.shards_each > 0), enough, wanted)
    return takes


def cpus_for_sockets(
    request: Request, nodes: Mapping[str, Node], threads: NDArray[np.intp] | None, *, certain: bool
) -> NDArray[np.int64]:
    """Return [nodes] the CPUs with which, if so many are free, there is a free core on each of --sockets-per-node.

    More than any node has where there are fewer sockets. Which cores are free is not known: with fewer than are enough
    for certain (`certain`), there may be one.
    """
    wanted = request.sockets_per_node

    def cores(node: Node) -> int:
        return (wanted - 1) * node.cores_per_socket + 1 if certain else wanted

    found = [(cores(node) if wanted > 1 else 0) if wanted <= max(node.sockets, 1) else 2**40 for node in nodes.values()]
    return np.array(found, dtype=np.int64) * (1 if threads is None else threads)


def with_other_users(user: str, snapshot: Snapshot, capacity: Capacity) -> NDArray[np.bool_]:
    """Return [nodes] where another user's job is."""
    if capacity.with_others is not None:
        return capacity.with_others
    names = {name for job in snapshot.jobs.values() if job.user != user for name in job.nodes}
    return mask_of(names, capacity.index)


def rows_of(names: Iterable[str], capacity: Capacity) -> NDArray[np.bool_]:
    return mask_of(names, capacity.index)


def leaves_of(job: Job, snapshot: Snapshot, capacity: Capacity) -> list[NDArray[np.bool_]]:
    """The sets of nodes of which all of the job's have to be: with --switches=1, those of each leaf switch."""
    switches, request = snapshot.settings.switches, job.request
    if request.switches == 1 and request.max_nodes > 1 and switches:
        return [rows_of(switch.nodes, capacity) for switch in switches]
    return [np.ones(len(capacity.names), dtype=np.bool_)]


def allowed_anywhere(job: Job, snapshot: Snapshot, capacity: Capacity) -> NDArray[np.bool_]:
    """Return [nodes] where it may run, whatever its partition."""
    allowed = capacity.available.copy()
    request = job.request
    allowed[[row for row, user in capacity.kept_by if user != job.user]] = False
    if request.tmp_mib:
        allowed &= np.array([node.tmp_mib >= request.tmp_mib for node in snapshot.nodes.values()], dtype=np.bool_)
    if request.excluded_nodes:
        allowed &= ~rows_of(request.excluded_nodes, capacity)
    if any(name not in capacity.index for name in request.required_nodes):
        allowed[:] = False  # it cannot have them all
    if request.features:
        # Nodes of a cluster come in few kinds: weigh the expression once a kind.
        kinds: dict[frozenset[str], bool] = {}
        for row in np.flatnonzero(allowed):
            features = snapshot.nodes[capacity.names[row]].features
            if features not in kinds:
                kinds[features] = has_features(request.features, features)
            if not kinds[features]:
                allowed[row] = False
    if job.reservation:
        own = snapshot.reservations.get(job.reservation)
        allowed &= rows_of(() if own is None else own.nodes, capacity)
    for name in barred_by(job, snapshot):
        other = snapshot.reservations[name]
        allowed &= ~rows_of(other.nodes, capacity) & ~np.bool_(other.any_node)
    return allowed


def barred_by(job: Job, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names of the reservations of others that would begin while it ran, or have begun."""
    if not snapshot.reservations:
        return ()
    run_s = planned_run_s(job)
    ends_at = snapshot.taken_at + run_s
    return tuple(
        one.name
        for one in snapshot.reservations.values()
        if one.name != job.reservation and one.start_time < ends_at and one.end_time > snapshot.taken_at
        if not floats_clear_of(one, run_s, snapshot.taken_at)
    )
