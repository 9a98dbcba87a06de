"""Requests that placement models. Every other TE job is left to Slurm: no victim leaves for what is not understood.

Modelled are nodes (MIN-MAX), tasks, CPUs a task and a node, whole nodes, memory by node, CPU and GPU, GRES by node, job
and task, CPUs a GPU, tasks a node and a core, threads a core, local disk, features joined by & and |, required and
excluded nodes, several partitions, reservations of whole nodes. `unsupported` names everything else that a job asks
for, or that its partition or the site does; docs/reference/slurm-requests.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Job, Node, Partition, Request
from tesched_core.model.column_layout import SHARD
from tesched_core.model.request import NO_GRES, PerGpu, by_device, gres_on_each, takes_whole_nodes
from tesched_core.model.resources import with_bare_names
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.cpus_of_gpus import brings_more, gres_beside_more_cpus
from tesched_core.placement.devices_of_bound import tasks_fill_cores, too_few_with_exactly
from tesched_core.placement.memory_reading import defaults_of, names_memory
from tesched_core.placement.parts_of_tasks import with_parts_of_tasks
from tesched_core.placement.uneven import devices_on_each, fill_cores, start_with_devices, start_with_two_devices

#: Slurm's words for how a job shares its nodes that are modelled; empty: it does not say
_SHARING = frozenset({"", "NO", "OK", "NODE", "USER", "YES"})
#: releases seen to start a job of a fixed number of nodes with GPUs that bring fewer CPUs than its tasks need, and one
#: of --mincpus with tasks of several CPUs on a node with just so many free
_STARTS_WITH_TOO_FEW = "22.05"
#: the first release seen to start a job of --threads-per-core with CPUs for each GPU wherever its cores are free, and
#: jobs of one node with GRES whose tasks, or CPUs of GPUs, 22.05 counts otherwise
_COUNTS_ANEW = 26
#: releases seen to spread tasks with the CPUs of their GPUs
_GIVES_TASKS_CPUS = ("22.05", "26.05")
#: SelectType's plugins with rules that `request.py` has
_SELECT = frozenset({"", "select/cons_tres", "select/cons_res"})


def unsupported(job: Job, snapshot: Snapshot, *, binds: bool = True) -> str:
    """Parts of this job's request that placement does not model, with their values; empty if none.

    `binds`: tesched may bind the job to nodes. Some jobs Slurm starts only if it does not.
    """
    found = [*_of_request(job, snapshot), *_of_site(job, snapshot)]
    known = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    of_each = [list(_of_partition(job, partition, snapshot, binds=binds)) for partition in known]
    if known and all(of_each):
        found += dict.fromkeys(what for of_one in of_each for what in of_one)
    return ", ".join(found)


def unsupported_in(job: Job, partition: Partition, snapshot: Snapshot, *, binds: bool = True) -> str:
    """Parts that placement does not model if the job runs in this one of its partitions; empty if none."""
    return ", ".join(_of_partition(job, partition, snapshot, binds=binds))


def by_gpu_elsewhere(job: Job, partition: Partition, snapshot: Snapshot) -> list[str]:
    """Return the job's partitions that give memory with each GPU, where this one does not and the job names none.

    22.05 gives it this one's other default here, or all of a node's memory where there is none.
    """
    if partition.def_mem_per_gpu_mib or snapshot.settings.def_mem_per_gpu_mib or not _has_gpus(job.request):
        return []
    known = [name for name in job.partitions if name in snapshot.partitions]
    found = [name for name in known if snapshot.partitions[name].def_mem_per_gpu_mib]
    return [] if found and names_memory(job.request, defaults_of(job, None, snapshot, 0)) else found


def left_out(job: Job, snapshot: Snapshot) -> str:
    """Parts that placement does not model in some of the job's partitions, on whose nodes it is not placed."""
    known = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    found = (unsupported_in(job, partition, snapshot) for partition in known)
    return ", ".join(dict.fromkeys(filter(None, found)))


def with_whole_tasks(request: Request, release: str) -> Request:
    """Return the request as the release counts --mincpus: 26.05 wants a multiple of a task's CPUs to be free.

    With -c4 --mincpus=5 it starts no job on 5, 6 or 7 free CPUs; 22.05 does.
    """
    each = request.cpus_per_task
    if release.startswith(_STARTS_WITH_TOO_FEW) or each < 2 or request.min_cpus_per_node % each == 0:
        return request
    return replace(request, min_cpus_per_node=-(-request.min_cpus_per_node // each) * each)


def with_cpus_of_tasks(request: Request, per_gpu: PerGpu, release: str) -> tuple[Request, PerGpu]:
    """Return both with the CPUs that a task's GPUs bring as those of the task, as Slurm counts them.

    `-n4 --gpus-per-task=1` has tasks of two CPUs by --cpus-per-gpu=2 or DefCpuPerGPU=2, and they are spread as such.
    """
    gpus = [count for name, count in request.gres_per_task if name.partition(":")[0] == "gpu"]
    each = dict(request.cpus_per_gres).get("gpu", per_gpu.cpus) * sum(gpus)
    one_kind = len(gpus) == 1 and len(request.cpus_per_gres) < 2
    if not (release.startswith(_GIVES_TASKS_CPUS) and each and one_kind):
        return request, per_gpu
    each = max(each, request.cpus_per_task)
    cpus = max(request.cpus, each * request.tasks)
    least = request.min_cpus_per_node
    if wants_for_further_tasks(request, release):
        least = -(-least // each) * each if least > each else 1
    by_task = replace(request, cpus_per_task=each, cpus=cpus, min_cpus_per_node=least, cpus_per_gres=())
    return by_task, replace(per_gpu, cpus=0)


def wants_for_further_tasks(request: Request, release: str) -> bool:
    """Check whether devices must be free for each task that has place among the CPUs of --mincpus, beside its own.

    Not for a fixed number of nodes on 22.05: `-N1 -n2 --gpus-per-task=1 --mincpus=5` starts with 2 GPUs free, and 5
    CPUs. Bound to a node with an open number it does not. Other releases were not tried.
    """
    return not release.startswith(_STARTS_WITH_TOO_FEW) or request.min_nodes != request.max_nodes


def counts_least_memory(release: str) -> bool:
    """Check whether the release holds the least memory of a job against a node where none is shared out."""
    return release.startswith(_STARTS_WITH_TOO_FEW)


def more_by_node_starts(release: str) -> bool:
    """Check whether the release starts jobs of several nodes with more CPUs by --mincpus than their tasks want."""
    return release.startswith(_STARTS_WITH_TOO_FEW)


def default_cpus_per_gpu(request: Request, partition: Partition | None, snapshot: Snapshot) -> int:
    """Return the CPUs that come with each GPU by DefCpuPerGPU; 0 if none do: to a job with -c Slurm gives none.

    Of -c1 its record says nothing. That of `--gpus-per-task` has the default's CPUs in the place of -c's once Slurm has
    considered it, but fewer CPUs in all than its tasks would then want. So has that of `-N2-3 -c3` without -n.
    """
    is_own = not request.gres_per_task or request.tasks * request.cpus_per_task <= request.cpus
    if request.cpus_per_task > 1 and is_own:
        return 0
    return (partition.def_cpus_per_gpu if partition else 0) or snapshot.settings.def_cpus_per_gpu


def _of_request(job: Job, snapshot: Snapshot) -> Iterator[str]:
    request = job.request
    yield from request.not_modelled
    several = request.min_nodes > 1
    if request.contiguous and several:
        yield "--contiguous"
    # Without a topology Slurm takes no notice of it, and one node has one switch.
    if request.switches > 1 and several and snapshot.settings.switches:
        yield f"--switches={request.switches}"
    if request.core_spec not in {"", "0", "*"}:
        yield f"--core-spec={request.core_spec}"
    if request.sharing not in _SHARING:
        yield f"--exclusive={request.sharing.lower()}"
    for option, value in (
        ("--cores-per-socket", request.cores_per_socket),
        ("--ntasks-per-socket", request.tasks_per_socket),
        ("--ntasks-per-core", request.tasks_per_core if _fills_no_cores(request) else 0),
    ):
        if value:
            yield f"{option}={value}"
    if request.exclusive and wants_shards(request):
        yield "--exclusive with shards"  # which Slurm 22.05 never starts
    yield from _of_tasks(request, snapshot.settings.release)
    for name, count in request.gres_per_socket:
        yield f"--gpus-per-socket={name}:{count}"


def _of_tasks(request: Request, release: str) -> Iterator[str]:
    """Yield numbers that fit together in no way that was seen to start a job."""
    nodes, a_node, a_task = request.min_nodes, request.tasks_per_node, max(request.cpus_per_task, 1)
    if a_node and not nodes * a_node <= request.tasks <= max(request.max_nodes, nodes) * a_node:
        yield f"--ntasks-per-node={a_node} with {request.tasks} tasks on {nodes} nodes"
    by_node = request.min_cpus_per_node > a_task * max(a_node, 1) and not more_by_node_starts(release)
    if by_node and (nodes > 1 or a_node):
        # 26.05 starts it on no node; submitted with a hold, in several partitions, it says Resources of it for ever.
        where = f"on {nodes} nodes" if nodes > 1 else f"with --ntasks-per-node={a_node}"
        yield f"--mincpus={request.min_cpus_per_node} {where}"
    elif (
        request.gres_per_job and request.min_cpus_per_node > a_task * request.tasks and not more_by_node_starts(release)
    ):
        # 26.05 says BadConstraints of it; in several partitions, with a limit of CPUs in one, only that it waits.
        yield f"--mincpus={request.min_cpus_per_node} with {request.gres_per_job[0][0]} in all"
    if request.cpus_per_gres and nodes > 1 and nodes != request.max_nodes:
        # Slurm 22.05 says BadConstraints of most of these.
        yield f"--cpus-per-gpu={request.cpus_per_gres[0][1]} on {nodes} nodes"
    elif request.cpus_per_gres:
        types = len(_gpus_by_type(request, nodes))
        if types > 1 and nodes != request.max_nodes:
            # Slurm 26.05 counts the CPUs for each type by itself, and may want more nodes.
            yield f"--cpus-per-gpu={request.cpus_per_gres[0][1]} with GPUs of {types} types"


def _of_site(job: Job, snapshot: Snapshot) -> Iterator[str]:
    settings = snapshot.settings
    if settings.select_type not in _SELECT:
        yield f"SelectType={settings.select_type}"
    if settings.whole_sockets:
        yield "SelectTypeParameters=CR_Socket"
    parts = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    alone = [part.name for part in parts if part.oversubscribe == "EXCLUSIVE"]
    if job.request.sharing == "USER" and alone and len(parts) > 1:
        # Tried in this one, it wants whole nodes in the others, too.
        yield f"--exclusive=user with OverSubscribe=EXCLUSIVE of partition {alone[0]}"
    reservation = snapshot.reservations.get(job.reservation)
    if reservation is not None and (reservation.cores or reservation.doubt):
        why = "its record could not be read" if reservation.doubt else "of cores, not of whole nodes"
        yield f"--reservation={reservation.name} ({why})"
    if "," in job.reservation:
        yield f"--reservation={job.reservation}"


def _nodes_of(partition: Partition, snapshot: Snapshot) -> tuple[Sequence[Node], NDArray[np.intp]]:
    """Return the partition's nodes, and the CPUs of a core of each."""

    def find() -> tuple[Sequence[Node], NDArray[np.intp]]:
        nodes = [snapshot.nodes[node] for node in partition.nodes if node in snapshot.nodes]
        return nodes, np.array([node.cpus_per_core for node in nodes], dtype=np.intp)

    answers = snapshot.answers
    if (
        answers is None
        or answers.nodes is not snapshot.nodes
        or answers.partitions.get(partition.name) is not partition
    ):
        return find()
    return answers.find((_nodes_of, partition.name), find)


def _of_partition(job: Job, partition: Partition, snapshot: Snapshot, *, binds: bool) -> Iterator[str]:
    name, settings, request = partition.name, snapshot.settings, job.request
    if shares_cores(partition, request.sharing):
        yield f"OverSubscribe={partition.oversubscribe} of partition {name}"
    default = default_cpus_per_gpu(request, partition, snapshot)
    nodes, threads = _nodes_of(partition, snapshot)
    alike = threads <= 1
    if is_held_again(request, default, settings.release, binds=binds) and not alike.any():
        yield f"--threads-per-core={request.threads_per_core} with CPUs for each GPU"
    # Such a job is started on other nodes than it is bound to, or (several whole nodes) on none.
    varies = request.min_nodes != request.max_nodes
    varies = varies or (request.min_nodes > 1 and takes_whole_nodes(request, partition))
    # 26.05 refuses one of a fixed number, and leaves it waiting for ever if it was submitted with a hold.
    varies = varies or not settings.release.startswith(_STARTS_WITH_TOO_FEW)
    # With --gpus also 22.05 wants as many GPUs free as bring CPUs for all its tasks; with --gres it does not.
    if request.cpus_per_gres and (varies or request.gres_per_job) and _brings_too_few(request):
        yield f"--cpus-per-gpu={request.cpus_per_gres[0][1]} with {request.tasks} tasks"
    elif default and not request.cpus_per_gres and varies and _has_too_few(request, default):
        yield f"DefCpuPerGPU={default} with {request.tasks} tasks"
    types = len(_gpus_by_type(request, max(request.min_nodes, 1)))
    if binds and types > 1 and request.tasks < 2 and counts_anew(settings.release):
        # 26.05 leaves it waiting on empty nodes, or holds it; by default with -n1, of the same record, it starts.
        if request.cpus_per_gres:
            yield f"--cpus-per-gpu={request.cpus_per_gres[0][1]} with GPUs of {types} types"
        elif default:
            yield f"DefCpuPerGPU={default} with GPUs of {types} types"
    by_task, _ = with_cpus_of_tasks(request, PerGpu(cpus=default), settings.release)
    several = bool(request.cpus_per_gres and request.gres_per_task) and request.min_nodes > 1
    if several and not fill_cores(by_task, threads).all() and not counts_anew(settings.release):
        # 22.05 says BadConstraints of 8 tasks on four nodes, two of them with two threads a core.
        yield f"--cpus-per-gpu={request.cpus_per_gres[0][1]} with --gpus-per-task on {request.min_nodes} nodes"
    on_each = devices_on_each(request, max(request.min_nodes, 1))
    exact = np.ones(len(nodes), dtype=np.bool_)
    if on_each:
        exact[:] = [on_each.items() <= dict(node.total.gres).items() for node in nodes]
    with_two = start_with_two_devices(by_task, threads, partition, settings)
    if binds and nodes and not start_with_devices(by_task, request.min_nodes, threads, exact, with_two).any():
        yield f"devices for each of {request.tasks} tasks that share cores on {request.min_nodes} nodes"
    more_cpus = bool(request.cpus_per_gres or default) or takes_whole_nodes(request, partition)
    several_alone = tasks_fill_cores(request, request.min_nodes, threads, settings.release, more_cpus=more_cpus)
    if binds and nodes and not several_alone.any():
        yield f"a device in all for each of {request.tasks} tasks that share cores on {request.min_nodes} nodes"
    if binds and not counts_anew(settings.release):
        yield from gres_beside_more_cpus(job, default, partition, settings.release)
    if binds:
        yield from too_few_with_exactly(request, nodes, settings.release)
    others = by_gpu_elsewhere(job, partition, snapshot)
    if others and not settings.release.startswith(_STARTS_WITH_TOO_FEW):
        yield f"DefMemPerGPU of partition {others[0]}, and none of {name}"
    if partition.max_cpus_per_socket is not None:
        yield f"MaxCPUsPerSocket={partition.max_cpus_per_socket} of partition {name}"
    if binds:
        yield from with_parts_of_tasks(by_task, partition, nodes, settings.release)


def shares_cores(partition: Partition, sharing: str) -> bool:
    """Check whether such a job of this partition may get cores that others hold, too."""
    word, _, times = partition.oversubscribe.partition(":")
    if times == "1":
        return False
    return word == "FORCE" or (word == "YES" and sharing == "YES")


def is_held_again(request: Request, cpus_per_gpu: int, release: str, *, binds: bool = True) -> bool:
    """Check whether a job of --threads-per-core has GPUs that bring more CPUs than its tasks want on a node.

    With `binds` on the most nodes that it may have, else on the fewest.

    On nodes with several threads a core Slurm 22.05 starts it with too few and holds it again (JobHeldAdmin), or says
    BadConstraints once its number of nodes is set. 26.05 starts it.
    """
    if not request.threads_per_core or counts_anew(release):
        return False
    return brings_more(request if binds else replace(request, max_nodes=request.min_nodes), cpus_per_gpu)


def counts_anew(release: str) -> bool:
    """Check whether this release starts what 22.05 does not: its tasks, CPUs of GPUs and threads fit together."""
    number = release.partition(".")[0]
    return number.isdecimal() and int(number) >= _COUNTS_ANEW


def _has_gpus(request: Request) -> bool:
    asked = (*request.gres_per_node, *request.gres_per_job, *request.gres_per_task)
    return any(name.partition(":")[0] == "gpu" for name, _ in asked)


def has_gres(request: Request) -> bool:
    """Check whether the job asks for any GRES."""
    by_task = [name for name, _ in request.gres_per_task if name.partition("/")[0] not in NO_GRES]
    return bool(request.gres_per_node or request.gres_per_job or by_task)


def wants_shards(request: Request) -> bool:
    """Check whether the job requests parts of GPUs."""
    asked = (*request.gres_per_node, *request.gres_per_job, *request.gres_per_task)
    return any(name.partition(":")[0] == SHARD for name, _ in asked)


def _fills_no_cores(request: Request) -> bool:
    """Check whether a job of several tasks a core, with devices, may have cores with fewer tasks on a node.

    Slurm 22.05 gives it whole cores' tasks more (-n5 -c2 --ntasks-per-core=2 has 12 CPUs), and 26.05 starts it never.
    """
    nodes = max(request.min_nodes, 1)
    if request.tasks_per_core < 2 or not has_gres(request):
        return False
    return nodes != request.max_nodes or request.tasks % (request.tasks_per_core * nodes) != 0


def _brings_too_few(request: Request) -> bool:
    """Check whether the CPUs of --cpus-per-gpu are fewer than its tasks need."""
    nodes = max(request.min_nodes, 1)
    counted = dict(with_bare_names(gres_on_each(request, nodes).items()))
    each = dict(request.cpus_per_gres).get("gpu", 0)
    return by_device(request.cpus_per_gres, counted) < _cpus_of_tasks(request, nodes) or _is_too_few_in_all(
        request, each
    )


def _has_too_few(request: Request, cpus_per_gpu: int) -> bool:
    """Check whether its GPUs bring fewer CPUs than its tasks need; Slurm 26.05 then spreads it over more nodes.

    Each type of GPU must bring enough by itself: with gpu:a:1,gpu:b:1 at two CPUs each Slurm starts two tasks a node.
    """
    nodes = max(request.min_nodes, 1)
    fewest = min(_gpus_by_type(request, nodes), default=0)
    too_few = 0 < fewest * cpus_per_gpu < _cpus_of_tasks(request, nodes)
    return too_few or _is_too_few_in_all(request, cpus_per_gpu)


def _cpus_of_tasks(request: Request, nodes: int) -> int:
    return -(-request.tasks // nodes) * max(request.cpus_per_task, 1)


def _is_too_few_in_all(request: Request, cpus_per_gpu: int) -> bool:
    """Check whether the GPUs of --gpus bring fewer CPUs than all tasks need: 3 GPUs are not 2 on each of two nodes."""
    gpus = [count for name, count in request.gres_per_job if name.partition(":")[0] == "gpu"]
    return 0 < min(gpus, default=0) * cpus_per_gpu < _cpus_of_tasks(request, 1)


def _gpus_by_type(request: Request, nodes: int) -> list[int]:
    return [count for name, count in gres_on_each(request, nodes).items() if name.partition(":")[0] == "gpu"]
