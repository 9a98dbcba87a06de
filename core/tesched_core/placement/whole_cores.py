"""Jobs with GRES for which Slurm counts fewer CPUs of a node than it has, where cores have several hardware threads.

Definitions
    CPUs        those of a node for which there is memory (memory for each CPU), and that the partition allows
                (MaxCPUsPerNode), whether other jobs have the cores or not; at most all of the node

Principle
    Where Slurm knows how many tasks are on a node, it leaves out the cores that these do not need, all CPUs of each,
    until just their cores are left. If the CPUs are no multiple of a core's threads, too few can be left. It first
    counts so over all cores of the node, in use or not ("test 0"), and says Resources, or BadConstraints, of a job that
    fails there. MaxCPUsPerNode can do that; memory for each CPU, where it is for single CPUs (CR_CPU); and with CR_Core
    as well where it is counted for whole tasks of several CPUs that do not fill cores: 10 CPUs are 9 for tasks of 3.

    More memory may not help, but as much as there can be does, where that is for whole cores: of the node, or of all
    its memory. So that is what must be free; else the node will not do, nor of two threads a core with a limit of 3.

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

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Partition, Request
from tesched_core.placement.modelled import has_gres
from tesched_core.placement.uneven import threads_of


def memory_for_all_cpus(
    request: Request, nodes: int, capacity: Capacity, *, by_gpu: bool, single_cpus: bool
) -> NDArray[np.int64]:
    """Return [nodes] MiB that must be free for a job of so many nodes that wants memory for each CPU.

    0 where that does not matter; more than the node has where no part of a core is left only by chance. `by_gpu`: its
    GPUs bring CPUs; `single_cpus`: memory is for single CPUs (CR_CPU), not for whole cores.
    """
    threads, each = threads_of(capacity), max(request.cpus_per_task, 1)
    by_cpu = min(request.mem_per_cpu_mib or 0, 2**40)
    if not by_cpu or not (single_cpus or each > 1):
        return np.zeros(len(threads), dtype=np.int64)
    short = (each % threads != 0) & _may_fall_short(request, nodes, capacity, by_gpu=by_gpu)
    most = np.minimum(capacity.total[:, 0], capacity.total[:, 1] // by_cpu)
    if not single_cpus:
        most -= most % threads
    most -= most % each
    return np.where(short, np.where(most % threads == 0, most * by_cpu, capacity.total[:, 1] + 1), 0)


def limit_allows(
    request: Request, nodes: int, capacity: Capacity, partition: Partition | None, *, by_gpu: bool
) -> NDArray[np.bool_]:
    """Return [nodes] where the partition's MaxCPUsPerNode leaves a job of so many nodes no part of a core."""
    most = partition.max_cpus_per_node if partition is not None else None
    if most is None:
        return np.ones(len(capacity.names), dtype=np.bool_)
    parts = (most % threads_of(capacity) != 0) & (most < capacity.total[:, 0])
    found: NDArray[np.bool_] = ~(parts & _may_fall_short(request, nodes, capacity, by_gpu=by_gpu))
    return found


def _may_fall_short(request: Request, nodes: int, capacity: Capacity, *, by_gpu: bool) -> NDArray[np.bool_]:
    """Return [nodes] where a part of a core among the CPUs leaves the job too few of them."""
    threads, each = threads_of(capacity), max(request.cpus_per_task, 1)
    on_each = ceil(request.tasks / nodes) * each
    is_known = nodes in {1, request.tasks} or request.tasks_per_node or request.gres_per_task or by_gpu
    if not (is_known and has_gres(request)):
        return np.zeros(len(threads), dtype=np.bool_)
    # With one thread of each core (--threads-per-core=1) there are more CPUs left than tasks.
    found: NDArray[np.bool_] = np.minimum(threads, request.threads_per_core or threads) > 1
    if not by_gpu and request.min_cpus_per_node <= on_each:
        found &= on_each % threads != 1
    return found
