"""Jobs of several nodes whose tasks, or GPUs in all, Slurm shares out unevenly over their nodes.

Slurm 22.05 takes of the first of a job's nodes as many CPUs as are left of those that it wants in all, but for those of
one core on each of the other nodes, and counts the tasks only when it has taken CPUs of all nodes. So it starts a job
where whole tasks use up the CPUs that it counts, and leaves it waiting where they do not:

- Tasks with a GPU each on a node with fewer GPUs than CPUs: it counts whole cores for them, and of 3 tasks with 1 GPU
  free on the first node and two threads a core, 2 CPUs and 1 task are there, and 1 CPU and 1 task on the other. So each
  task must fill cores, or the tasks on a node one core. Or two GPUs must be free on each node, for tasks of one CPU on
  two threads a core: what is left over for the last one is rounded up to a core, which then has two tasks.
- Nodes with different numbers of threads a core: of 5 tasks on a node of two with 6 CPUs free, and on one of one with
  1, it takes 3 CPUs of the first. With as many CPUs a task as a core has threads, tasks want what is left for them.

Source: `_cpus_to_use` of select/cons_tres, job_test.c, and gres_select_filter.c of 22.05.8; about 500 mixtures of free
CPUs and GPUs on two and three nodes were tried, and 200 of the last kind on two to five
(docs/reference/slurm-requests.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_core.model.column_layout import SHARD
from tesched_core.model.request import NO_GRES, PerGpu, takes_whole_nodes
from tesched_core.model.resources import with_bare_names

#: tasks of a job that is spread unevenly over its nodes; more are spread evenly or not at all
MOST_TASKS = 256
#: releases on which a task a core, tasks of more CPUs than a core has threads, and tasks of one thread of each core
#: were seen to be spread, and the one on which GPUs in all were: of `-N2 -n4 --gpus=4` with two threads a core, and 3
#: GPUs and 1 free, 26.05 says BadConstraints
_SEEN_ON, _GPUS_SEEN_ON = ("22.05", "26.05"), "22.05"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uneven:
    """Ways to spread the tasks of a job of several nodes over them, at least one on each (`spread.py`)."""

    #: tasks, or groups of tasks that are on one node in any case (`tasks_together`)
    tasks: int
    #: fewest and most nodes
    least: int
    most: int
    #: [nodes] where it may run, however many it gets
    allowed: NDArray[np.bool_]
    #: [nodes] nodes with the same number of threads a core have the same number here, as have all that may be mixed
    kinds: NDArray[np.intp]
    #: what so many tasks and GPUs take of each node, and what they hold there: [nodes, resources]
    takes_of: Callable[[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]
    #: GPUs in all (--gpus), at least one on each node; 0: it wants none so
    devices: int = 0
    #: columns of the resources that each of these takes one of
    columns: tuple[int, ...] = ()
    #: nodes on which not all of its tasks fit are too few for Slurm, too
    sure: bool = True


def in_all(request: Request) -> tuple[str, int] | None:
    """Return the name and number of the GPUs that the job wants in all (--gpus), and of no other device any."""
    others = request.gres_per_node or _by_task(request) or request.gres_per_socket
    if others or len(request.gres_per_job) != 1 or request.gres_per_job[0][0].partition(":")[0] != "gpu":
        return None
    return request.gres_per_job[0]


def tasks_together(request: Request) -> int:
    """Number of tasks that each node has, however many GPUs in all (--ntasks-per-node, --gpus); 0: that may differ."""
    by_node, nodes = request.tasks_per_node, max(request.min_nodes, 1)
    fixed = nodes == request.max_nodes and request.tasks == nodes * by_node
    return by_node if fixed and in_all(request) is not None else 0


def may_be_uneven(request: Request, per_gpu: PerGpu, release: str, *, binds: bool) -> bool:
    """Check whether Slurm spreads the tasks of such a job unevenly.

    `binds`: it certainly starts the job so if that is bound to the nodes; else it may, also where it does not always.
    """
    by_node = request.tasks_per_node and not tasks_together(request)
    if not binds:
        return not (by_node or (request.gres_per_job and in_all(request) is None))
    each = max(request.cpus_per_task, 1)
    devices = dict(with_bare_names((*request.gres_per_node, *request.gres_per_job, *request.gres_per_task)))
    seen = release.startswith(_SEEN_ON)
    gpus_seen = release.startswith(_GPUS_SEEN_ON)
    by_job = bool(request.gres_per_job) and not (gpus_seen and in_all(request) is not None)
    by_core = bool(request.tasks_per_core) and not (seen and request.tasks_per_core == 1 and not devices)
    by_gpu = per_gpu.cpus or (request.gres_per_job and (per_gpu.mem_mib or request.mem_per_gres))
    return not any(
        (
            *(by_node, by_core, request.cpus_per_gres, by_job),
            *(request.min_cpus_per_node > each * (tasks_together(request) or 1), request.cpus != request.tasks * each),
            *(request.sockets_per_node, SHARD in devices and not gpus_seen, bool(by_gpu and devices.get("gpu"))),
            # Neither 22.05 nor 26.05 spreads 3 tasks of 2 GPUs over two nodes (-N2) unless two fit on both.
            any(count > 1 for name, count in request.gres_per_task if name not in NO_GRES),
        )
    )


def kinds_of(request: Request, capacity: Capacity, release: str, *, binds: bool) -> NDArray[np.intp]:
    """Return [nodes] a number for each set of nodes over which the tasks may be spread together (`Uneven.kinds`)."""
    if capacity.threads is None or not binds:
        return np.zeros(len(capacity.names), dtype=np.intp)
    each = max(request.cpus_per_task, 1)
    together = (each % capacity.threads == 0) & (each > 1)
    if release.startswith(_SEEN_ON):
        together |= (each >= capacity.threads) & (each > 1)
        together |= request.tasks_per_core == 1
    if request.threads_per_core:
        # A thread of each core is used on all of them; seen with 31 mixtures of free cores.
        together = np.full_like(together, release.startswith(_SEEN_ON) and request.threads_per_core == 1)
    return np.where(together, 0, capacity.threads)


def start_with_devices(
    request: Request, nodes: int, threads: NDArray[np.intp], exact: NDArray[np.bool_], with_two: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return [nodes] on which Slurm certainly starts a job of so many nodes that wants devices for each task.

    Of one node, all. Of several those on which each task fills cores (`fill_cores`); or where, of a fixed number, each
    has one task, tasks that fill one core, or tasks of one CPU that fill cores and are all that it can have: by
    --ntasks-per-node, or where the node has no more devices; or those `with_two` free devices each
    (`start_with_two_devices`). `threads` are the hardware threads of a core, [nodes], and `exact` says which have just
    the devices of `devices_on_each`.
    """
    found = fill_cores(request, threads)
    if nodes < 2:
        return np.ones_like(found)
    each, used = max(request.cpus_per_task, 1), _used(request, threads)
    on_each = request.tasks // nodes
    by_node = request.tasks_per_node == on_each
    if request.min_nodes == request.max_nodes == nodes and request.tasks == on_each * nodes:
        no_more = (each == 1) & (on_each % used == 0) & (exact | by_node)
        found = found | (on_each * each == used) | (on_each == 1) | no_more
    return found | with_two


def start_with_two_devices(
    request: Request, threads: NDArray[np.intp], partition: Partition | None, settings: SlurmSettings
) -> NDArray[np.bool_]:
    """Return [nodes] on which tasks of one CPU and one GPU start, however shared out, if two GPUs are free on each.

    Tried on nodes of two threads a core, given out as whole cores (22.05), with memory by node.
    """
    by_task = [(name, count) for name, count in request.gres_per_task if name not in NO_GRES]
    one_gpu = len(by_task) == 1 and by_task[0][1] == 1 and by_task[0][0].partition(":")[0] == "gpu"
    of_one = request.cpus == request.tasks and max(request.cpus_per_task, request.min_cpus_per_node) <= 1
    other_gres = request.gres_per_node or request.gres_per_job or request.gres_per_socket or request.cpus_per_gres
    others = other_gres or request.tasks_per_node or request.tasks_per_core or request.sockets_per_node
    by_cpu = request.mem_per_cpu_mib is not None or bool(request.mem_per_gres)
    parts_of_cores = settings.single_cpus or (partition is not None and partition.max_cpus_per_node is not None)
    several = 1 < request.min_nodes == request.max_nodes < request.tasks
    seen = one_gpu and of_one and several and settings.release.startswith(_GPUS_SEEN_ON)
    if not seen or others or by_cpu or parts_of_cores or takes_whole_nodes(request, partition):
        return np.zeros(len(threads), dtype=np.bool_)
    found: NDArray[np.bool_] = _used(request, threads) == 2
    return found


def devices_on_each(request: Request, nodes: int) -> dict[str, int]:
    """Return the devices that the tasks want on each of so many nodes, by name."""
    by_task = {name: count for name, count in request.gres_per_task if name.partition("/")[0] not in NO_GRES}
    return {name: count * (request.tasks // nodes) for name, count in by_task.items()}


def fill_cores(request: Request, threads: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return [nodes] on which each task fills cores; all where no task wants devices."""
    if not _by_task(request):
        return np.ones(len(threads), dtype=np.bool_)
    found: NDArray[np.bool_] = max(request.cpus_per_task, 1) % _used(request, threads) == 0
    return found


def threads_of(capacity: Capacity) -> NDArray[np.intp]:
    """Return [nodes] the hardware threads of a core."""
    return np.ones(len(capacity.names), dtype=np.intp) if capacity.threads is None else capacity.threads


def _used(request: Request, threads: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return [nodes] the hardware threads of each core that the job uses."""
    return np.minimum(threads, request.threads_per_core or threads)


def _by_task(request: Request) -> bool:
    return any(name.partition("/")[0] not in NO_GRES for name, _ in request.gres_per_task)
