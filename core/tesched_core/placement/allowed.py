"""Nodes that a pending job may use, whatever is free there: by its request, reservations, and who else is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Job, Node, Partition, Request
from tesched_core.model.room import Room, mask_of
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import has_features


def memory_allowed(request: Request, partition: Partition) -> bool:
    """Return whether the partition lets a job have so much memory; Slurm never starts one there that wants more."""
    by_node, by_cpu = partition.max_mem_per_node_mib, partition.max_mem_per_cpu_mib
    if by_node is not None and request.mem_per_node_mib is not None:
        return 0 < request.mem_per_node_mib <= by_node
    if by_cpu is not None and request.mem_per_cpu_mib is not None:
        return request.mem_per_cpu_mib <= by_cpu
    return True


def count_allowed(request: Request, partition: Partition) -> bool:
    """Return whether the partition gives a job so many nodes, or so few (PartitionNodeLimit)."""
    most = request.max_nodes if request.max_nodes == request.min_nodes else max(request.max_nodes, partition.min_nodes)
    return request.min_nodes <= (partition.max_nodes or request.min_nodes) and most >= partition.min_nodes


def never_holds(job: Job, partition: Partition, room: Room) -> bool:
    """Return whether Slurm never tries the job on the partition's nodes: too few, too small, or not so much memory."""
    nodes = room.partitions[partition.name]
    if job.request.exclusive:
        nodes = nodes & whole_allowed(partition, room)
    return int(nodes.sum()) < max(job.request.min_nodes, 1) or not memory_allowed(job.request, partition)


def whole_allowed(partition: Partition, room: Room) -> NDArray[np.bool_]:
    """Return [nodes] that the partition may give as a whole: those with no more CPUs than its MaxCPUsPerNode."""
    most = partition.max_cpus_per_node
    return np.ones(len(room.names), dtype=np.bool_) if most is None else room.total[:, 0] <= most


def cpus_for_sockets(
    request: Request, nodes: Mapping[str, Node], threads: NDArray[np.intp] | None
) -> NDArray[np.int64]:
    """Return [nodes] the CPUs with which, if so many are free, there is a free core on each of --sockets-per-node.

    More than any node has where there are fewer sockets. Which cores are free is not known.
    """
    wanted = request.sockets_per_node
    found = [
        ((wanted - 1) * node.cores_per_socket + 1 if wanted > 1 else 0) if wanted <= max(node.sockets, 1) else 2**40
        for node in nodes.values()
    ]
    return np.array(found, dtype=np.int64) * (1 if threads is None else threads)


def with_other_users(user: str, snapshot: Snapshot, room: Room) -> NDArray[np.bool_]:
    """Return [nodes] where another user's job is."""
    names = {name for job in snapshot.jobs.values() if job.user != user for name in job.nodes}
    return mask_of(names, room.index)


def rows_of(names: Iterable[str], room: Room) -> NDArray[np.bool_]:
    return mask_of(names, room.index)


def allowed_anywhere(job: Job, snapshot: Snapshot, room: Room) -> NDArray[np.bool_]:
    """Return [nodes] where it may run, whatever its partition."""
    allowed = room.available.copy()
    request = job.request
    allowed[[row for row, user in room.kept_by if user != job.user]] = False
    if request.tmp_mib:
        allowed &= np.array([node.tmp_mib >= request.tmp_mib for node in snapshot.nodes.values()], dtype=np.bool_)
    if request.excluded_nodes:
        allowed &= ~rows_of(request.excluded_nodes, room)
    if any(name not in room.index for name in request.required_nodes):
        allowed[:] = False  # it cannot have them all
    if request.features:
        # Nodes of a cluster come in few kinds: weigh the expression once a kind.
        kinds: dict[frozenset[str], bool] = {}
        for row in np.flatnonzero(allowed):
            features = snapshot.nodes[room.names[row]].features
            if features not in kinds:
                kinds[features] = has_features(request.features, features)
            if not kinds[features]:
                allowed[row] = False
    ends_at = inf if job.time_limit_s is None else snapshot.taken_at + job.time_limit_s
    if job.reservation and job.reservation not in snapshot.reservations:
        allowed[:] = False
    for reservation in snapshot.reservations.values():
        if reservation.name == job.reservation:
            allowed &= rows_of(reservation.nodes, room)
        elif reservation.start_time < ends_at and reservation.end_time > snapshot.taken_at:
            allowed &= ~rows_of(reservation.nodes, room)
    return allowed
