"""Number of nodes of a TE job that leaves it open: it is set to what was planned when the job is bound to its nodes.

Definitions
    open        -n without -N, or -N MIN-MAX: Slurm takes the fewest nodes on which the job fits when it tries the job
    fixed       min_nodes and max_nodes are the same; so they are while an open job is bound (`fields/node_binding.py`)

Principle
    A victim leaves certain nodes. While the number of nodes is open Slurm may do with fewer than those that the job is
    bound to, or add others to them, as soon as any of that fits; then a victim has left for nothing. With a fixed
    number the job gets exactly the nodes that it is bound to. So each number that the job allows may be planned for,
    and the plan with the fewest victims wins.

    While it is bound: after `guard.bind_for_s` its number is open again. So victims that may save their work for longer
    are tried only where an open number would do, too.

    Not so for a job that can't be bound: a job array, a part of a heterogeneous job; nor where `guard.bind_for_s` is 0
    or Slurm refuses changes of node lists.

Worked example
    4 tasks of 2 CPUs each. a has 6 CPUs free and needs one victim for 8; b has 2 free. Open: one node, one victim. But
    with 2 nodes, 3 tasks run on a and one on b at once: Slurm starts it there itself.
    8 tasks of 3 CPUs where one node of 24 CPUs needs three victims, and two nodes of 16 need one each: fixed to 2.

Source
    scontrol(1), NumNodes and ReqNodeList of a pending job; tried on 22.05 and 26.05 (`python -m benchmarks.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.request import gpus_in_all
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import is_bindable
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import MOST_TRIED, Demand, demand_of, demands_of
from tesched_core.placement.modelled import by_gpu_elsewhere, more_by_node_starts
from tesched_core.placement.spread import can_ever_be_met

#: numbers of nodes that are planned for, from the fewest on with which the job could ever start; and where there are
#: more nodes than that, so that a search costs more, and among them are more of any kind
MOST_NUMBERS, NUMBERS_OF_MANY, MANY_NODES = 4, 2, 500


def is_open(job: Job, release: str, nodes: int = 1) -> bool:
    """Check whether the job leaves its number of nodes to Slurm, and can be given `nodes` by that number alone.

    With --ntasks-per-node a number of nodes is a number of tasks, which Slurm changes with it and not back; and with
    --mincpus, times the nodes, above all that its tasks want, one of CPUs (22.05; it then says BadConstraints of one
    with GRES). 26.05 says BadConstraints of any job with --mincpus above a task's CPUs whose number is set.
    """
    request = job.request
    if request.min_nodes == request.max_nodes or request.tasks_per_node:
        return False
    if request.min_cpus_per_node <= max(request.cpus_per_task, 1):
        return True
    return more_by_node_starts(release) and request.min_cpus_per_node * nodes <= request.cpus


def demands_if_fixed(job: Job, snapshot: Snapshot, capacity: Capacity, first: int = 1) -> Iterator[Demand]:
    """Yield what an open job wants for a few fixed numbers of nodes from `first` on, in each of its partitions.

    Numbers that are not modelled, or with which it could never start, are left out.
    """
    found, most = 0, NUMBERS_OF_MANY if len(capacity.names) > MANY_NODES else MOST_NUMBERS
    for nodes in _numbers(job, snapshot, first):
        if not is_open(job, snapshot.settings.release, nodes):
            return
        try:
            demands = demands_of(_fixed(job, nodes), snapshot, capacity)
        except UnsupportedRequestError:
            continue
        # A partition may give more: its MinNodes.
        demands = tuple(one for one in demands if one.nodes == nodes and can_ever_be_met(one, capacity))
        yield from (replace(one, job=job) for one in demands)
        found += bool(demands)
        if found == most:
            return


def demand_on(job: Job, nodes: int, snapshot: Snapshot, capacity: Capacity) -> Demand:
    """Demand of the job once it is bound to so many nodes, whether its record says so yet or not.

    Raises UnsupportedRequestError if that is not modelled.
    """
    is_set = is_open(job, snapshot.settings.release, nodes) and job.pending and is_bindable(job)
    if is_set and job.request.min_nodes <= nodes <= job.request.max_nodes:
        return demand_of(_fixed(job, nodes), snapshot, capacity)
    return demand_of(job, snapshot, capacity)


def by_itself(job: Job, snapshot: Snapshot, capacity: Capacity) -> tuple[Demand, ...]:
    """Demands of the job on one node, where Slurm may start it if it is bound to none; empty if not modelled.

    On several nodes Slurm does not start all that may be read so: of `-N2 -n3 --gpus-per-task=2` with 4 and 2 GPUs free
    22.05 starts none. Nor by the default of memory of one partition where another gives it with each GPU.
    """
    parts = [snapshot.partitions[name] for name in job.partitions if name in capacity.partitions]
    if any(by_gpu_elsewhere(job, one, snapshot) for one in parts):
        return ()
    try:
        demands = demands_of(job, snapshot, capacity, binds=False)
    except UnsupportedRequestError:
        return ()
    return tuple(replace(one, uneven=None) for one in demands if one.nodes == 1)


def _numbers(job: Job, snapshot: Snapshot, first: int) -> range:
    request = job.request
    least = max(request.min_nodes, first)
    parts = (snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions)
    by_gpu = snapshot.settings.def_mem_per_gpu_mib or any(part.def_mem_per_gpu_mib for part in parts)
    named = request.mem_per_node_mib or request.mem_per_cpu_mib or request.mem_per_gres
    if by_gpu and gpus_in_all(request) and not named:
        # What its record says of memory holds for the fewest nodes (`memory_reading.py`).
        return range(max(request.min_nodes, 1), max(request.min_nodes, 1) + 1)
    # Slurm makes a task for each node where there are fewer.
    return range(least, min(request.max_nodes, max(request.tasks, least), least + MOST_TRIED) + 1)


def _fixed(job: Job, nodes: int) -> Job:
    return replace(job, request=replace(job.request, min_nodes=nodes, max_nodes=nodes))
