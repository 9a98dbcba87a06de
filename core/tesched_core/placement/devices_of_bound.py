"""Devices that a node must have, in use or not, for Slurm to start a job of several nodes that is bound to it.

Slurm gives devices in all to the nodes of a bound job one after the other, to each as many as are free there but for
one for each node that is left. What the last ones get may be less than the job must have on each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Node, Request

#: the release that wants no devices for the tasks of a node, but as many as the job names
_BY_DEVICES_ALONE = "22.05"
#: a number of devices that no node has
_OF_NO_NODE = -1


def by_node_and_in_all(request: Request) -> dict[str, int]:
    """Number on a node of the devices that the job wants by node, several of them, and by job or task, too.

    Slurm takes all that is free of the first of the nodes that such a job is bound to for what it gets there: with 4 in
    all, 2 a node and 3 free it wants 1 of the second, and leaves the job waiting (22.05; the source of later
    releases has the same sum). Not bound to nodes, it starts. Where a node has just so many, the sum is right.
    """
    in_all = {name.partition(":")[0] for name, _ in (*request.gres_per_job, *request.gres_per_task)}
    return {name: count for name, count in request.gres_per_node if count > 1 and name.partition(":")[0] in in_all}


def shares_of_tasks(request: Request, release: str) -> dict[str, int]:
    """Number on a node of the devices in all that tasks by node share evenly; no node's where there is no such number.

    Where the tasks are a multiple of the devices, or these of the tasks, 26.05 wants as many on each node as its tasks
    are for, and takes all that is free of the first ones for what a bound job gets there (`by_node_and_in_all`): with
    `-N2 --ntasks-per-node=2 --gpus=4` and 3 free it wants 1 of the second node, for two tasks. With 5 or 6 in all it
    starts, and so does each on 22.05, or not bound to nodes.
    """
    each, nodes = request.tasks_per_node, _fewest_nodes(request)
    if each < 2 or nodes < 2 or release.startswith(_BY_DEVICES_ALONE):
        return {}
    found = {}
    for name, count in request.gres_per_job:
        if count and (count % request.tasks == 0 or request.tasks % count == 0):
            share = -(-each * count // request.tasks)
            if share > 1:
                found[name] = share if share * nodes == count else _OF_NO_NODE
    return found


def tasks_fill_cores(
    request: Request, nodes: int, threads: NDArray[np.intp], release: str, *, more_cpus: bool
) -> NDArray[np.bool_]:
    """Return [nodes] on which tasks with one device each, of those in all, share no core; all where they may.

    Bound to two nodes of two threads a core 26.05 says BadConstraints of `-N2 -n3 --gpus=3`, and of `-N2 -n4 --gpus=4`
    but where the first node has one free core. With more or fewer GPUs than tasks, one task a node, a task a core or
    `-c2` it starts, and so does 22.05; and with `more_cpus` than those of its tasks: whole nodes, CPUs for each GPU.
    `threads` are the hardware threads of a core, [nodes].
    """
    one_each = any(count == request.tasks for _, count in request.gres_per_job)
    if more_cpus or nodes < 2 or request.tasks <= nodes or not one_each or release.startswith(_BY_DEVICES_ALONE):
        return np.ones(len(threads), dtype=np.bool_)
    used = np.minimum(threads, 1 if request.tasks_per_core == 1 else request.threads_per_core or threads)
    found: NDArray[np.bool_] = used <= max(request.cpus_per_task, 1)
    return found


def with_groups_of_tasks(request: Request, nodes: int, release: str) -> Request:
    """Return the request with the CPUs on each of so many nodes for whole groups of tasks that share a device in all.

    Where the tasks are a multiple of the devices in all, 26.05 puts those of one device on one node: of
    `-N2 -n6 --gpus=3` each node has two tasks or four, and bound to two nodes with three free CPUs each it waits. 22.05
    starts it; so may 26.05 where it is bound to none.
    """
    each = max(request.cpus_per_task, 1)
    if nodes < 2 or request.tasks * each > request.cpus or release.startswith(_BY_DEVICES_ALONE):
        return request  # 22.05, or tasks that share CPUs (--overcommit)
    shared = [request.tasks // count for _, count in request.gres_per_job if count and request.tasks % count == 0]
    group, on_each = lcm(*shared), -(-request.tasks // nodes)
    if on_each % group == 0:
        return request
    cpus = -(-on_each // group) * group * each
    return replace(request, min_cpus_per_node=max(request.min_cpus_per_node, cpus))


def _fewest_nodes(request: Request) -> int:
    """Return the fewest nodes that take its tasks; the last one may have fewer of them."""
    return max(request.min_nodes, -(-request.tasks // (request.tasks_per_node or request.tasks or 1)))


def exactly_on_each(request: Request, release: str) -> dict[str, int]:
    """Number of devices that a node must have, in use or not, for such a job to be bound to it."""
    return shares_of_tasks(request, release) | by_node_and_in_all(request)


def too_few_with_exactly(request: Request, nodes: Sequence[Node], release: str) -> Iterator[str]:
    """Yield what is not modelled of such a job as fewer of these nodes than it needs have just so many devices."""
    by_tasks, fewest = shares_of_tasks(request, release), _fewest_nodes(request)
    of_job = dict(request.gres_per_job)
    for device, count in exactly_on_each(request, release).items():
        just = sum(dict(node.total.gres).get(device) == count for node in nodes)
        if fewest < 2 or just >= fewest:
            continue
        if count == _OF_NO_NODE:
            of_tasks = f"{device}:{of_job[device]} in all that its nodes do not share evenly"
            yield f"--ntasks-per-node={request.tasks_per_node} with {of_tasks}"
        elif device in by_tasks:
            yield f"--ntasks-per-node={request.tasks_per_node} with a number of {device} in all"
        else:
            yield f"{device}:{count} by node beside a number in all"
