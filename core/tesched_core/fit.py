"""Where a job fits: what it wants on each node, which nodes it may use, and what is free there.

The questions are asked for many jobs against many nodes, so the answers are NumPy columns: one row a node, one column a
resource (`cpu`, `mem_mib`, then each GRES by name). A `Room` is never changed: taking or freeing gives a new one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.cluster import Job, JobState, Request
from tesched_core.resources import Tres, with_bare_names
from tesched_core.snapshot import Snapshot

#: the GRES that stands for parts of GPUs
SHARD = "shard"


def demand_per_node(request: Request) -> Tres:
    """Return what the job wants on each of its nodes, if it gets the fewest nodes that it asked for.

    Amounts asked for by job or by task are spread evenly and rounded up. Memory "all of the node" (`--mem=0`, or
    nothing asked and no default at the site) is 0 here; see `wants_all_memory`.
    """
    nodes = max(request.min_nodes, 1)
    cpus = max(request.min_cpus_per_node, ceil(request.cpus / nodes))
    by_cpu = request.mem_per_cpu_mib
    mem_mib = by_cpu * cpus if by_cpu is not None else request.mem_per_node_mib or 0
    tasks_here = ceil(request.cpus / max(request.cpus_per_task, 1) / nodes)
    gres = [
        *request.gres_per_node,
        *((name, ceil(count / nodes)) for name, count in request.gres_per_job),
        *((name, count * tasks_here) for name, count in request.gres_per_task),
        *request.gres_per_socket,
    ]
    return Tres(cpus=cpus, mem_mib=mem_mib, gres=with_bare_names(gres))


def wants_all_memory(request: Request) -> bool:
    """Return whether the job takes all memory of each of its nodes."""
    return not request.mem_per_node_mib and not request.mem_per_cpu_mib


def requested_gpus(job: Job) -> int:
    """Return the GPUs that the job wants over all its nodes."""
    request = job.request
    by_job = sum(count for name, count in request.gres_per_job if name.partition(":")[0] == "gpu")
    return by_job + demand_per_node(replace(request, gres_per_job=())).gpus * max(request.min_nodes, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Room:
    """What each node has, and what of it is free: [nodes, resources], in the units of `Tres`."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    resources: tuple[str, ...]
    total: NDArray[np.int64]
    free: NDArray[np.int64]
    #: [nodes] Slurm would start a job there if there were room
    available: NDArray[np.bool_]
    #: [nodes] of each partition that starts jobs
    partitions: Mapping[str, NDArray[np.bool_]]

    @staticmethod
    def of(snapshot: Snapshot) -> Room:
        """Return the room as the snapshot shows it. A suspended job's CPUs are free; its memory and GRES are not.

        A GPU of which somebody has a shard is free for nobody who wants it whole, and none of its shards is while
        somebody has it whole.
        """
        names = tuple(snapshot.nodes)
        index = {name: row for row, name in enumerate(names)}
        gres = sorted({name for node in snapshot.nodes.values() for name, _ in node.total.gres})
        resources = ("cpu", "mem_mib", *gres)
        total = np.zeros((len(names), len(resources)), dtype=np.int64)
        for row, node in enumerate(snapshot.nodes.values()):
            total[row] = vector(node.total, resources)
        free = total.copy()
        for job in snapshot.jobs.values():
            for share in job.allocation:
                row_of = index.get(share.node)
                if row_of is None:
                    continue
                taken = vector(share.tres, resources)
                if job.state is JobState.SUSPENDED:
                    taken[0] = 0
                free[row_of] -= taken
        _less_shared(resources, total, free)
        available = np.array([node.available for node in snapshot.nodes.values()], dtype=np.bool_)
        for array in (total, free, available):
            array.setflags(write=False)
        partitions = {
            name: _mask(partition.nodes, index)
            for name, partition in snapshot.partitions.items()
            if partition.state == "UP"
        }
        return Room(
            names=names,
            index=index,
            resources=resources,
            total=total,
            free=free,
            available=available,
            partitions=partitions,
        )

    def changed(self, rows: Sequence[int] | NDArray[np.intp], by: NDArray[np.int64]) -> Room:
        """Return the room after `by` [rows, resources] was added to the free part of these rows (minus takes)."""
        free = self.free.copy()
        np.add.at(free, np.asarray(rows, dtype=np.intp), by)
        free.setflags(write=False)
        return replace(self, free=free)


def _less_shared(resources: Sequence[str], total: NDArray[np.int64], free: NDArray[np.int64]) -> None:
    """Take from what is free the GPUs that are held in part, and the shards that are held as GPUs.

    Slurm fills a GPU's shards before it begins with another's (seen on 22.05 and 26.05), so as many GPUs are held in
    part as the shards need. Source: gres.conf(5), sharing GPUs.
    """
    if "gpu" not in resources or SHARD not in resources:
        return
    gpu, shard = resources.index("gpu"), resources.index(SHARD)
    rows = np.flatnonzero((total[:, gpu] > 0) & (total[:, shard] >= total[:, gpu]))
    each = total[rows, shard] // total[rows, gpu]
    whole, parts = total[rows, gpu] - free[rows, gpu], total[rows, shard] - free[rows, shard]
    for name, less in (("gpu", -(-parts // each)), (SHARD, whole * each)):
        for column, resource in enumerate(resources):
            # Of a node with GPUs of two types nobody says which of them are held in part.
            if resource.partition(":")[0] == name:
                of_all = total[rows, column] == total[rows, resources.index(name)]
                free[rows, column] = np.where(of_all, np.maximum(free[rows, column] - less, 0), free[rows, column])


def vector(tres: Tres, resources: Sequence[str]) -> NDArray[np.int64]:
    """Return the amounts in the order of `resources`; a resource that is not among them is left out."""
    amounts = tres.as_mapping()
    return np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """What one pending job wants of the room."""

    job: Job
    nodes: int
    #: [resources] on each node
    per_node: NDArray[np.int64]
    #: [nodes] where it may run, whatever is free there
    allowed: NDArray[np.bool_]
    #: all of the node's memory
    all_memory: bool
    #: rows that must be among those it gets
    required: tuple[int, ...]
    #: a GRES that no node has
    unknown_gres: str = ""

    @property
    def shape(self) -> tuple[object, ...]:
        """Return what is the same for jobs that fit into the same places."""
        by_node = self.per_node.tobytes(), self.all_memory, self.job.request.exclusive, self.unknown_gres
        return self.nodes, self.allowed.tobytes(), self.required, *by_node

    def fits(self, room: Room, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """Return for each node (or each of `rows`) whether the job's share fits into what is free there."""
        free = room.free if rows is None else room.free[rows]
        total = room.total if rows is None else room.total[rows]
        allowed = self.allowed if rows is None else self.allowed[rows]
        return self.fits_into(free, total) & allowed

    def fits_into(self, free: NDArray[np.int64], total: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each row whether the share fits into `free` [rows, resources] of nodes that have `total`."""
        if self.unknown_gres:
            return np.zeros(len(free), dtype=np.bool_)
        fits: NDArray[np.bool_] = np.all(free >= self.per_node, axis=1)
        if self.all_memory:
            fits &= free[:, 1] == total[:, 1]
        if self.job.request.exclusive:
            fits &= np.all(free == total, axis=1)
        return fits


class UnsupportedConstraintError(ValueError):
    """A feature expression that tesched cannot weigh; the job is left to Slurm."""


_FEATURE_PART = re.compile(r"\s*(?:([\w.:/=-]+)|(.))")


def has_features(expression: str, features: frozenset[str]) -> bool:
    """Return whether a node with these features satisfies a `--constraint` expression of `&`, `|` and parentheses.

    Raises UnsupportedConstraintError for what is not about one node alone: counts (`a*2`) and matching (`[a|b]`).
    Source: sbatch(1), --constraint.
    """
    parts = [word or other for word, other in _FEATURE_PART.findall(expression) if word or other.strip()]
    position = 0

    def peek() -> str:
        return parts[position] if position < len(parts) else ""

    def take() -> str:
        nonlocal position
        position += 1
        return parts[position - 1] if position <= len(parts) else ""

    def factor() -> bool:
        part = take()
        if part == "(":
            value = alternatives()
            if take() != ")":
                raise UnsupportedConstraintError(expression)
            return value
        if not re.fullmatch(r"[\w.:/=-]+", part):
            raise UnsupportedConstraintError(expression)
        return part in features

    def alternatives() -> bool:
        # Slurm reads & and | from left to right, with the same rank.
        value = factor()
        while peek() in {"&", "|", ","}:
            both = take() != "|"
            right = factor()
            value = (value and right) if both else (value or right)
        return value

    result = alternatives()
    if position != len(parts):
        raise UnsupportedConstraintError(expression)
    return result


def demand_of(job: Job, snapshot: Snapshot, room: Room) -> Demand:
    """Return what the pending job wants and where it may run.

    Raises UnsupportedConstraintError if its constraint cannot be weighed.
    """
    request = job.request
    wanted = demand_per_node(request)
    missing = [name for name, count in wanted.gres if count and name not in room.resources]
    return Demand(
        job=job,
        nodes=max(request.min_nodes, 1),
        per_node=vector(wanted, room.resources),
        allowed=_allowed(job, snapshot, room),
        all_memory=snapshot.settings.memory_is_shared_out and wants_all_memory(request),
        required=tuple(room.index[name] for name in request.required_nodes if name in room.index),
        unknown_gres=missing[0] if missing else "",
    )


def share_of(demand: Demand, room: Room, rows: Sequence[int]) -> NDArray[np.int64]:
    """Return what the job takes of each of `rows`, [rows, resources]; an exclusive job takes the whole node."""
    where = np.asarray(rows, dtype=np.intp)
    if demand.job.request.exclusive:
        return room.total[where].copy()
    share = np.tile(demand.per_node, (len(rows), 1))
    if demand.all_memory:
        share[:, 1] = room.total[where, 1]
    return share


def _mask(names: Iterable[str], index: Mapping[str, int]) -> NDArray[np.bool_]:
    mask = np.zeros(len(index), dtype=np.bool_)
    mask[[index[name] for name in names if name in index]] = True
    return mask


def _rows(names: Iterable[str], room: Room) -> NDArray[np.bool_]:
    return _mask(names, room.index)


def _allowed(job: Job, snapshot: Snapshot, room: Room) -> NDArray[np.bool_]:
    allowed = np.zeros(len(room.names), dtype=np.bool_)
    for name in job.partitions:
        if name in room.partitions:
            allowed |= room.partitions[name]
    allowed &= room.available
    request = job.request
    if request.excluded_nodes:
        allowed &= ~_rows(request.excluded_nodes, room)
    if any(name not in room.index for name in request.required_nodes):
        allowed[:] = False  # it cannot have them all
    if request.required_nodes and len(request.required_nodes) >= max(request.min_nodes, 1):
        allowed &= _rows(request.required_nodes, room)
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
            allowed &= _rows(reservation.nodes, room)
        elif reservation.start_time < ends_at and reservation.end_time > snapshot.taken_at:
            allowed &= ~_rows(reservation.nodes, room)
    return allowed
