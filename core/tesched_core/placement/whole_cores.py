"""Jobs with GRES for which Slurm counts fewer CPUs of a node than it has, where cores have several hardware threads.

Definitions
    CPUs        those of a node for which there is memory (memory for each CPU), and that the partition allows
                (MaxCPUsPerNode), whether other jobs have the cores or not; at most all of the node

Principle
    Where Slurm knows how many tasks are on a node, it leaves out the cores that these do not need, all CPUs of each,
    until just their cores are left. If the CPUs are no multiple of a core's threads, too few can be left. It first
    counts so over all cores of the node, in use or not ("test 0"), and says Resources, or BadConstraints, of a job that
    fails there. With CR_Core memory is for whole cores, so that only MaxCPUsPerNode can do that; with CR_CPU memory for
    each CPU can.

    More memory may not help, but memory for every CPU of the node does, or as much as the node has, if that is for
    whole cores. So that is what must be free, and with a limit of 3 CPUs no node of two threads a core will do.

Worked example
    Two tasks of one CPU and a GPU, 4 cores of two threads, memory for 5 CPUs. The tasks need one core: 5 - 2 - 2 = 1
    CPU is left, and the job waits. With memory for 3 it waits, too (3 - 2 = 1); for 2, 4, 6 or all 8 it starts. One
    task of one CPU always starts: of the last core at least one CPU is left.

Source
    gres_select_filter_sock_core of 22.05.8 (select/cons_tres, gres_select_filter.c); tried on 22.05
    (`tests/cluster/test_whole_cores.py`). Later releases were not tried, and are taken for alike.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Partition, Request
from tesched_core.model.room import Room
from tesched_core.placement.modelled import has_gres
from tesched_core.placement.uneven import threads_of


def memory_for_all_cpus(request: Request, nodes: int, room: Room, *, by_gpu: bool) -> NDArray[np.int64]:
    """Return [nodes] MiB that must be free for a job of so many nodes where memory is for each CPU alone (CR_CPU).

    0 where that does not matter; more than the node has where it never has memory for whole cores alone. `by_gpu`: its
    GPUs bring CPUs.
    """
    # Memory is counted for whole tasks, so that tasks that fill cores leave no part of one.
    threads, by_cpu = threads_of(room), min(request.mem_per_cpu_mib or 0, 2**40)
    parts = max(request.cpus_per_task, 1) % threads != 0
    short = parts & _may_fall_short(request, nodes, room, by_gpu=by_gpu)
    most = np.minimum(room.total[:, 0], 2**20)
    if by_cpu:
        most = np.minimum(most, room.total[:, 1] // by_cpu)
    return np.where(short, np.where(most % threads == 0, most, most + 1) * by_cpu, 0)


def limit_allows(
    request: Request, nodes: int, room: Room, partition: Partition | None, *, by_gpu: bool
) -> NDArray[np.bool_]:
    """Return [nodes] where the partition's MaxCPUsPerNode leaves a job of so many nodes no part of a core."""
    most = partition.max_cpus_per_node if partition is not None else None
    if most is None:
        return np.ones(len(room.names), dtype=np.bool_)
    parts = (most % threads_of(room) != 0) & (most < room.total[:, 0])
    found: NDArray[np.bool_] = ~(parts & _may_fall_short(request, nodes, room, by_gpu=by_gpu))
    return found


def _may_fall_short(request: Request, nodes: int, room: Room, *, by_gpu: bool) -> NDArray[np.bool_]:
    """Return [nodes] where a part of a core among the CPUs leaves the job too few of them."""
    threads, each = threads_of(room), max(request.cpus_per_task, 1)
    on_each = ceil(request.tasks / nodes) * each
    is_known = nodes in {1, request.tasks} or request.tasks_per_node or request.gres_per_task or by_gpu
    if not (is_known and has_gres(request)):
        return np.zeros(len(threads), dtype=np.bool_)
    # With one thread of each core (--threads-per-core=1) there are more CPUs left than tasks.
    found: NDArray[np.bool_] = np.minimum(threads, request.threads_per_core or threads) > 1
    if not by_gpu and request.min_cpus_per_node <= on_each:
        found &= on_each % threads != 1
    return found
