"""Size of a job: what it asks for in all, or holds, so that it shows when it has grown.

A job has a place in the queue by tesched's doing as a victim that waits to run again, or as the preemptor of an order.
It has that place for what it was then, and its user may change a waiting job (scontrol(1), update). So it keeps the
place only as long as it asks for no more, and nowhere else.

Of a job on nodes the larger counts of what it requested and what it holds: Slurm gives out whole cores, and where it
does not share out memory a job holds none of what it requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from tesched_core.model.cluster import Job, Request
from tesched_core.model.request import by_device, wants_all_memory
from tesched_core.model.resources import Tres, with_bare_names

#: Slurm writes this time limit into a job without one when it starts it, and none again when it is put back.
UNLIMITED_S = 365 * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a job asks for, or holds, on all its nodes together."""

    nodes: int
    tres: Tres
    #: whole nodes, and all memory of each; of the latter `tres` has what Slurm counts for it, if it says so
    exclusive: bool = False
    all_memory: bool = False
    #: None: no limit of its own
    time_limit_s: int | None = None
    licenses: str = ""
    partitions: tuple[str, ...] = ()
    #: the partitions are those in which it waited: of several a running job shows the one in which it runs
    seen_waiting: bool = False

    def waiting(self, job: Job) -> Size:
        """Return the size with the partitions in which the job was first seen to wait, if its run's is among them."""
        if self.seen_waiting or not job.pending or job.partly_read:
            return self
        more = set(self.partitions) <= set(job.partitions)
        return replace(self, partitions=job.partitions if more else self.partitions, seen_waiting=True)


def size_of(job: Job, request: Request | None = None) -> Size:
    """Return the job's size; `request` stands for its own where tesched has changed that (`Memory.own_request`)."""
    request = request or job.request
    nodes = max(request.min_nodes, 1)
    gres = devices_in_all(request, nodes)
    cpus = max(request.cpus, request.min_cpus_per_node * nodes, by_device(request.cpus_per_gres, gres))
    held = sum((share.tres for share in job.allocation), Tres())
    for name, count in held.gres:
        gres[name] = max(gres.get(name, 0), count)
    return Size(
        nodes=max(nodes, len(job.allocation)),
        tres=Tres(
            cpus=max(cpus, held.cpus),
            mem_mib=max(_memory_mib(request, nodes, cpus, gres), held.mem_mib),
            gres=tuple(sorted(gres.items())),
        ),
        exclusive=request.exclusive,
        all_memory=wants_all_memory(request),
        time_limit_s=job.time_limit_s,
        licenses=job.licenses,
        partitions=job.partitions,
        seen_waiting=job.pending,
    )


def growth(before: Size, now: Size) -> str:
    """Growth of a job's request since `before`, in words; empty if it has none."""
    return ", ".join(_growth(before, now))


def is_less(before: Size, now: Size) -> bool:
    """Check whether a job asks for less than before of anything that victims free."""
    has, all_of_them = now.tres.as_mapping(), before.all_memory and now.all_memory
    less = any(
        has.get(name, 0) < count
        for name, count in before.tres.as_mapping().items()
        if not (name == "mem_mib" and all_of_them)
    )
    parted = (before.exclusive and not now.exclusive) or (before.all_memory and not now.all_memory)
    return less or parted or now.nodes < before.nodes


def devices_in_all(request: Request, nodes: int) -> dict[str, int]:
    """Devices on all nodes together, by name; of several ways to request one the largest counts."""
    ways = (
        (request.gres_per_node, nodes),
        (request.gres_per_job, 1),
        (request.gres_per_task, max(request.tasks, 1)),
        (request.gres_per_socket, max(request.sockets_per_node, 1) * nodes),
    )
    found: dict[str, int] = {}
    for way, times in ways:
        for name, count in with_bare_names(way) if way else ():
            found[name] = max(found.get(name, 0), count * times)
    return found


def _memory_mib(request: Request, nodes: int, cpus: int, gres: dict[str, int]) -> int:
    if request.mem_per_gres:
        return by_device(request.mem_per_gres, gres)
    if wants_all_memory(request):
        return request.mem_counted_mib or 0
    return max((request.mem_per_cpu_mib or 0) * cpus, (request.mem_per_node_mib or 0) * nodes)


def _growth(before: Size, now: Size) -> Iterator[str]:
    if now.nodes > before.nodes:
        yield f"{now.nodes} nodes, not {before.nodes}"
    had = before.tres.as_mapping()
    for name, count in now.tres.as_mapping().items():
        all_of_them = name == "mem_mib" and before.all_memory and now.all_memory  # as much as the nodes have
        if count > had.get(name, 0) and not all_of_them:
            yield f"{count} {_UNITS.get(name, name)}, not {had.get(name, 0)}"
    if now.exclusive and not before.exclusive:
        yield "whole nodes"
    if now.all_memory and not before.all_memory and not now.tres.mem_mib:
        yield "all memory of its nodes"
    if _limit(now) > _limit(before):
        limit = "no time limit" if now.time_limit_s is None else f"a time limit of {now.time_limit_s} s"
        yield f"{limit}, not {before.time_limit_s} s"
    if now.licenses and now.licenses != before.licenses:  # in words of Slurm's that differ by release
        yield f"licences {now.licenses}, not {before.licenses or 'none'}"
    if elsewhere := sorted(set(now.partitions) - set(before.partitions)):
        yield f"partition {','.join(elsewhere)}, not {','.join(before.partitions)}"


_UNITS = {"cpu": "CPUs", "mem_mib": "MiB of memory"}


def _limit(size: Size) -> float:
    limit_s = size.time_limit_s
    return inf if limit_s is None or limit_s >= UNLIMITED_S else limit_s
