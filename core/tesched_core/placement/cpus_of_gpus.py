"""CPUs that the GPUs of a job bring beyond those of its tasks, and what becomes of them beside another GRES.

Definitions
    brings more   --cpus-per-gpu, or DefCpuPerGPU, gives it more CPUs on a node than the tasks there want
    fixed         so many tasks run on each node, and no other number: one node, a task for each node, tasks by node
                  (--ntasks-per-node), or whole nodes

Principle
    Before 26.05 Slurm says BadConstraints of such a job once its number of nodes is set, as a binding sets it, where
    its tasks are fixed and it asks for another GRES by node: it takes the cores of the GPUs away again for the tasks of
    the other GRES, or those that they need before. Then no victim is to leave for it. Which of those on one node do
    start was tried on 22.05 alone, and counts there alone.

Worked example
    -n2 --gpus=4 --cpus-per-gpu=3 --gres=tmp:1G on two nodes has a task of one CPU on each, and two GPUs that bring six:
    22.05 never starts it, with n3 it does, as a node may have one task or two.

Source
    Slurm's gres_select_filter_sock_core (gres_select_filter.c); tried on 22.05 on pairs of empty nodes of three kinds,
    with 28 requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.request import by_device, gres_on_each, takes_whole_nodes
from tesched_core.model.resources import with_bare_names

#: what Slurm says of a job that it may not have examined yet
NOT_EXAMINED = frozenset({"", "None", "Priority"})
#: the releases on which it was tried which of these jobs start
_TRIED = "22.05"


def brings_more(request: Request, cpus_per_gpu: int) -> bool:
    """Check whether its GPUs bring more CPUs than the tasks on a node want, on the most nodes that it may have.

    `cpus_per_gpu` are those by default, where it does not say.
    """
    nodes = max(request.min_nodes, 1)
    counted = dict(with_bare_names(gres_on_each(request, nodes).items()))
    by_gpus = by_device(request.cpus_per_gres or (("gpu", cpus_per_gpu),), counted)
    tasks = max(request.tasks // max(request.max_nodes, nodes), 1)
    return by_gpus > tasks * max(request.cpus_per_task, 1)


def gres_beside_more_cpus(job: Job, cpus_per_gpu: int, partition: Partition, release: str) -> Iterator[str]:
    """Yield the other GRES of a job that Slurm before 26.05 would not start bound to this number of nodes."""
    request = job.request
    others = [name for name, _ in request.gres_per_node if name.partition(":")[0] != "gpu"]
    if not others or not brings_more(request, cpus_per_gpu):
        return
    if request.min_nodes <= 1 and not _starts_on_one(job, partition, release):
        yield f"--gres={others[0]} with CPUs for each GPU"
    elif request.min_nodes > 1 and not _starts_on_several(request, partition):
        yield f"--gres={others[0]} with CPUs for each GPU on {request.min_nodes} nodes"


def _starts_on_one(job: Job, partition: Partition, release: str) -> bool:
    """Check whether Slurm starts it on one node.

    22.05 starts whole nodes, and GPUs by node with DefCpuPerGPU, with these if the GPUs stand first: not
    `--gres=tmp:1G,gpu:3` where they have no type. Of one task whose user has set that it says so at once, but Resources
    for ever in several partitions.
    """
    request = job.request
    if request.tasks < 2:
        return job.reason not in NOT_EXAMINED and len(job.partitions) < 2
    by_default = not (request.cpus_per_gres or request.gres_per_task) or takes_whole_nodes(request, partition)
    if _stands_behind(request):
        return False
    return by_default and not request.gres_per_job and release.startswith(_TRIED)


def _starts_on_several(request: Request, partition: Partition) -> bool:
    """Check whether Slurm starts it on several nodes.

    Not where --gpus stands with --cpus-per-gpu, or GPUs by node with DefCpuPerGPU behind the other GRES.
    """
    is_fixed = request.tasks <= request.min_nodes or request.tasks_per_node > 0
    if not (is_fixed or takes_whole_nodes(request, partition)):
        return True
    in_all = bool(request.gres_per_job and request.cpus_per_gres)
    return not in_all and not _stands_behind(request)


def _stands_behind(request: Request) -> bool:
    """Check whether GPUs by node, whose CPUs are those by default, stand behind another GRES."""
    kinds = [name.partition(":")[0] for name, _ in request.gres_per_node]
    return not request.cpus_per_gres and "gpu" in kinds and kinds[0] != "gpu"
