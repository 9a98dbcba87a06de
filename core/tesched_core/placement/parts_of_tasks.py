"""CPUs that MaxCPUsPerNode leaves on a node, and that are for a part of a task of several CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tesched_core.model.cluster import Node, Partition, Request
from tesched_core.model.request import takes_whole_nodes

#: a release that starts such a job with fewer CPUs than its tasks want
_STARTS_WITH_FEWER = "22.05"


def least_with_parts(request: Request, nodes: int, partition: Partition | None, release: str) -> int | None:
    """Return the CPUs from which on a node of the job may have some left for a part of a task; None: no node may.

    26.05 counts them as enough: of 2, 3 and 4 CPUs left on three nodes it takes 2, 3 and 3 for four tasks of two, of 5
    and 5 on two nodes 5 and 3, and starts the job on none. It does with one task on each node, and with
    --ntasks-per-node. Whole nodes have no more CPUs than the limit.
    """
    most = partition.max_cpus_per_node if partition is not None else None
    by_itself = request.cpus_per_task < 2 or request.tasks_per_node or not 1 < nodes < request.tasks
    if most is None or by_itself or takes_whole_nodes(request, partition) or release.startswith(_STARTS_WITH_FEWER):
        return None
    return most + 1


def with_parts_of_tasks(request: Request, partition: Partition, nodes: Sequence[Node], release: str) -> Iterator[str]:
    """Yield what is not modelled of a job of several tasks on each of its nodes, as all nodes may have parts left."""
    least = least_with_parts(request, request.max_nodes, partition, release)
    if least is not None and nodes and all(node.total.cpus >= least for node in nodes):
        limit = f"MaxCPUsPerNode={least - 1} of partition {partition.name}"
        yield f"{limit} with several tasks of {request.cpus_per_task} CPUs on a node"
