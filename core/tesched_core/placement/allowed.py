"""Nodes that a pending job may use, whatever is free there: by its request, reservations, and who else is there."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Job, Partition, Request
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
