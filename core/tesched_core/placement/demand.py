"""Demand of a job: what it wants on each node, which nodes it may use, and what is free there.

Many jobs are weighed against many nodes, so the answers are NumPy columns: one row a node, one column a
resource (`cpu`, `mem_mib`, then each GRES by name). They are never changed: taking or freeing gives new ones.

Over 400 lines: all that one request takes of a node, in one partition after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.column_layout import ALONE, vector
from tesched_core.model.request import (
    PerGpu,
    gpus_in_all,
    takes_fewest_nodes,
    takes_whole_nodes,
    wanted_on_each,
    wants_all_memory,
    with_default_memory,
)
from tesched_core.model.resources import Tres, with_bare_names
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.allowed import (
    allowed_anywhere,
    barred_by,
    count_allowed,
    cpus_for_sockets,
    cpus_of_whole,
    fewest_with_memory,
    is_bindable,
    leaves_of,
    memory_allowed,
    memory_of_whole,
    never_holds,
    rows_of,
    whole_allowed,
    with_exactly,
    with_one_gpus_shards,
    with_other_users,
)
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.cpus_of_gpus import NOT_EXAMINED
from tesched_core.placement.devices_of_bound import exactly_on_each, tasks_fill_cores, with_groups_of_tasks
from tesched_core.placement.memory_reading import (
    counted_first,
    defaults_of,
    enough_when_empty,
    least_memory,
    lesser_reading,
    without_shares,
)
from tesched_core.placement.modelled import (
    by_gpu_elsewhere,
    counts_anew,
    counts_least_memory,
    default_cpus_per_gpu,
    is_held_again,
    unsupported,
    unsupported_in,
    wants_for_further_tasks,
    wants_shards,
    with_cpus_of_tasks,
    with_whole_tasks,
)
from tesched_core.placement.parts_of_tasks import least_with_parts
from tesched_core.placement.reckoned import as_reckoned, is_reckoned
from tesched_core.placement.uneven import (
    MOST_TASKS,
    Uneven,
    devices_on_each,
    fill_cores,
    in_all,
    kinds_of,
    may_be_uneven,
    start_with_devices,
    start_with_two_devices,
    tasks_together,
    threads_of,
)
from tesched_core.placement.whole_cores import limit_allows, memory_for_all_cpus
from tesched_core.placement.whole_nodes import may_want_whole_nodes, with_whole_nodes

#: numbers of nodes that are tried for a job that leaves that to Slurm (--nodes=MIN-MAX, or -n alone), from the least on
MOST_TRIED = 64
#: rows below which comparing them at once is quicker than column by column
_FEW = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """Demand of one pending job on the nodes."""

    job: Job
    nodes: int
    #: [resources] on each node; of nodes that give out CPUs in other ways, the most
    per_node: NDArray[np.int64]
    #: [nodes, resources] what must be free on each: all of a whole node, whole cores
    takes: NDArray[np.int64]
    #: [nodes] where it may run, whatever is free there
    allowed: NDArray[np.bool_]
    #: all of the node's memory
    all_memory: bool
    #: rows that must be among those it gets
    required: tuple[int, ...]
    #: a GRES that no node has
    unknown_gres: str = ""
    #: [nodes, resources] what is free no more once it runs there, where that is more
    holds: NDArray[np.int64] | None = None
    #: how else its tasks may be spread; None if each node gets the same
    uneven: Uneven | None = None
    #: fewest nodes that Slurm may start it on, by what it asks for
    fewest: int = 1
    #: memory of which some node has too little, by a default that it has no other reason to have (`memory_reading.py`)
    counted_first: str = ""

    @property
    def shape(self) -> tuple[object, ...]:
        """Key that jobs share which fit into the same places."""
        by_node = self.per_node.tobytes(), self.all_memory, self.job.request.exclusive, self.unknown_gres
        request = self.job.request
        used = request.threads_per_core, request.tasks_per_core, request.sockets_per_node
        # The same share may be a whole node in another partition. Where all nodes are alike `per_node` is it.
        of_nodes = self.takes.tobytes() if self.takes.strides[0] else b""
        return self.nodes, self.allowed.tobytes(), of_nodes, self.required, *by_node, *used

    def fits(self, capacity: Capacity, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """Return for each node (or each of `rows`) whether the job's share fits into what is free there."""
        free = capacity.free if rows is None else capacity.free[rows]
        allowed = self.allowed if rows is None else self.allowed[rows]
        return self.fits_into(free, rows) & allowed

    def fits_into(self, free: NDArray[np.int64], rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """Return for each of `rows` (or each node) whether the share fits into `free` [rows, resources]."""
        if self.unknown_gres:
            return np.zeros(len(free), dtype=np.bool_)
        takes = self.takes if rows is None or self.takes.strides[0] == 0 else self.takes[rows]
        if takes.strides[0] == 0:
            takes = self.per_node
        if len(free) < _FEW:
            few: NDArray[np.bool_] = np.logical_and.reduce(free >= takes, axis=1)
            return few
        # Column by column: of many rows, to fold an axis that is so short takes NumPy fifteen times as long.
        fits = np.ones(len(free), dtype=np.bool_)
        for have, want in zip(free.T, takes.T, strict=True):
            fits &= have >= want
        return fits


def demand_of(job: Job, snapshot: Snapshot, capacity: Capacity) -> Demand:
    """Demand of the pending job and where it may run, for callers that weigh one demand a job.

    A job of one node may run in any of its partitions; of one that wants several, the partition with most such nodes
    counts, as all of them must be of one partition. Raises UnsupportedRequestError for a request that is not
    modelled.
    """
    demands = demands_of(job, snapshot, capacity)
    if len(demands) == 1:
        return demands[0]
    if (
        len({(demand.nodes, demand.per_node.tobytes(), demand.all_memory) for demand in demands})
        == demands[0].nodes
        == 1
    ):
        return replace(demands[0], allowed=np.any([demand.allowed for demand in demands], axis=0))
    return max(demands, key=lambda demand: int(demand.allowed.sum()))


def demands_of(job: Job, snapshot: Snapshot, capacity: Capacity, *, binds: bool = True) -> tuple[Demand, ...]:
    """Demands of the pending job, one for each of its partitions, in the order in which Slurm tries them.

    With `binds` what certainly starts it if it is bound to nodes; else all with which Slurm may start it by itself.
    Raises UnsupportedRequestError for a request that is not modelled.
    """
    if is_reckoned(job, snapshot):
        job = _with_reckoned_nodes(job, snapshot, capacity)
    if binds and may_want_whole_nodes(job, snapshot):
        job = with_whole_nodes(job)
    answers = snapshot.answers
    if answers is None or not answers.is_of(capacity) or not rests_on_site_alone(job, snapshot, capacity):
        found = _demands_or_why_not(job, snapshot, capacity, binds=binds)
    else:
        key = Demand, binds, *counts_for_demands(job, snapshot)
        found = answers.find(key, partial(_demands_or_why_not, job, snapshot, capacity, binds=binds))
    if isinstance(found, str):
        raise UnsupportedRequestError(found)
    return tuple([one if one.job is job else replace(one, job=job) for one in found])


def _with_reckoned_nodes(job: Job, snapshot: Snapshot, capacity: Capacity) -> Job:
    answers = snapshot.answers
    if answers is None or not answers.is_of(capacity) or not rests_on_site_alone(job, snapshot, capacity):
        request = as_reckoned(job, snapshot, capacity)
    else:
        key = as_reckoned, *counts_for_demands(job, snapshot)
        request = answers.find(key, partial(as_reckoned, job, snapshot, capacity))
    return replace(job, request=request)


def counts_for_demands(job: Job, snapshot: Snapshot) -> tuple[Hashable, ...]:
    """Key that jobs share which have the same demands, where these rest on the site and the job alone."""
    family = job.job_id if job.array_job_id is None else job.array_job_id
    of_job = job.reason in NOT_EXAMINED, family in snapshot.declined, is_bindable(job)
    return job.request, job.partitions, job.reservation, barred_by(job, snapshot), *of_job


def rests_on_site_alone(job: Job, snapshot: Snapshot, capacity: Capacity) -> bool:
    """Check whether what is free, and whose jobs are where, has no part in a job's demands."""
    if capacity.kept_by or capacity.with_others is not None or job.request.sharing == "USER":
        return False
    parts = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    return not any(one.exclusive_user or one.def_mem_per_gpu_mib for one in parts)


def _demands_or_why_not(job: Job, snapshot: Snapshot, capacity: Capacity, *, binds: bool) -> tuple[Demand, ...] | str:
    """Demands of the job, or what of its request is not modelled."""
    what = unsupported(job, snapshot, binds=binds)
    if what:
        return what
    up = [name for name in job.partitions if name in capacity.partitions]
    if len(up) > 1:
        up.sort(key=lambda name: -snapshot.partitions[name].priority_tier)
    where = allowed_anywhere(job, snapshot, capacity)
    others = {name: unsupported_in(job, snapshot.partitions[name], snapshot, binds=binds) for name in up}
    if any(others.values()):
        # In which of its partitions Slurm starts it there can't be known for nodes that are in one of these, too.
        for name in [name for name in up if others[name]]:
            where = where & ~capacity.partitions[name]
        up = [name for name in up if not others[name]]
        if not any((where & capacity.partitions[name]).any() for name in up):
            return ", ".join(dict.fromkeys(filter(None, others.values())))
    leaves = leaves_of(job, snapshot, capacity)
    found: list[Demand] = []
    shapes: set[tuple[object, ...]] = set()
    for name in up or [""]:
        for leaf in leaves:
            demand = _demand_in(snapshot.partitions.get(name), job, snapshot, capacity, where & leaf, binds=binds)
            if demand.shape not in shapes:
                shapes.add(demand.shape)
                found.append(demand)
        # Slurm keeps a partition's nodes from what comes after a job that did not start there, itself included.
        # One that can never hold it keeps none.
        # It starts in one that gives memory with each GPU (22.05), with that, though another one was tried before.
        if name and not never_holds(job, snapshot.partitions[name], capacity):
            by_gpu = (other for other in by_gpu_elsewhere(job, snapshot.partitions[name], snapshot) if other in up)
            where = where & ~capacity.partitions[name] | where & np.any(
                [capacity.partitions[one] for one in by_gpu], axis=0
            )
    return tuple(found)


def _demand_in(
    partition: Partition | None,
    job: Job,
    snapshot: Snapshot,
    capacity: Capacity,
    where: NDArray[np.bool_],
    *,
    binds: bool,
) -> Demand:
    settings = snapshot.settings
    defaults = defaults_of(job, partition, snapshot, least_memory(job, capacity))
    by_gpu = gpus_in_all(job.request) and (defaults.per_gpu_mib or defaults.elsewhere_per_gpu_mib)
    declined = by_gpu and (job.job_id if job.array_job_id is None else job.array_job_id) in snapshot.declined
    per_gpu = PerGpu(cpus=default_cpus_per_gpu(job.request, partition, snapshot), mem_mib=defaults.per_gpu_mib)
    if declined:
        request = with_default_memory(job.request, defaults.per_gpu_mib, defaults.least_mib)
    else:
        request = lesser_reading(job.request, defaults)
    request = with_whole_tasks(request, settings.release)
    # A partition's limits hold for all memory, shared out or not.
    of_job = request
    if not settings.memory_is_shared_out and counts_least_memory(settings.release):
        request, per_gpu = without_shares(request), replace(per_gpu, mem_mib=0)
    allowed = where & capacity.partitions[partition.name] if partition else np.zeros_like(where)
    if (partition is not None and partition.exclusive_user) or request.sharing == "USER":
        allowed &= ~with_other_users(job.user, snapshot, capacity)
    if capacity.threads is not None and is_held_again(request, per_gpu.cpus, settings.release, binds=binds):
        allowed &= capacity.threads == 1
    all_memory = settings.memory_is_shared_out and wants_all_memory(request, per_gpu)
    whole = takes_whole_nodes(request, partition)
    if whole and partition is not None:
        allowed &= whole_allowed(partition, capacity)
    # -n1 in a partition of MinNodes=3 starts on three (22.05; 26.05 takes none of fewer tasks than nodes).
    least = max(request.min_nodes, 1, len(request.required_nodes), partition.min_nodes if partition else 1)
    if request.tasks_per_node:
        least = max(least, ceil(request.tasks / request.tasks_per_node))
    most = max(least, min(request.max_nodes, request.tasks))
    if binds and takes_fewest_nodes(request, partition):
        most = least
    if partition is not None and partition.max_nodes is not None:
        most = max(least, min(most, partition.max_nodes))
    fewest_set: int | None = least
    # Slurm holds a default of memory for each CPU against the partition's limit, too.
    limited = job.request if job.request.mem_per_cpu_mib is not None else of_job
    if partition is not None:
        given = memory_allowed(limited, partition) and count_allowed(request, least, partition)
        is_open = request.min_nodes != request.max_nodes and not request.tasks_per_node
        if binds and is_open and is_bindable(job):
            fewest_set = fewest_with_memory(limited, least, most, partition)
            given = given and fewest_set is not None
        allowed = allowed if given else np.zeros_like(where)
    fewest_set = fewest_set or least
    tried = min(most, fewest_set + MOST_TRIED)
    on_one = allowed
    if binds:
        allowed = allowed & with_exactly(exactly_on_each(request, settings.release), capacity)
    required = rows_of(request.required_nodes, capacity)
    own, by_gpu_own = request, bool((request.cpus_per_gres or per_gpu.cpus) and gpus_in_all(request))
    if not whole:  # a whole node has CPUs for each of its GPUs
        request, per_gpu = with_cpus_of_tasks(request, per_gpu, settings.release)
    amounts = _Amounts(
        request=request,
        own=own,
        own_cpus_by_gpu=by_gpu_own,
        mem_by_cpu=settings.memory_is_shared_out and (settings.single_cpus or not counts_anew(settings.release)),
        single_cpus=settings.single_cpus,
        partition=partition,
        capacity=capacity,
        per_gpu=per_gpu,
        whole=whole,
        all_memory=all_memory,
        release=settings.release,
        binds=binds,
        with_two=start_with_two_devices(request, threads_of(capacity), partition, settings),
        # In this one 22.05 starts it with less only if it is bound to nodes that the other one does not have.
        all_where_free=bool(binds and by_gpu and defaults.elsewhere_per_gpu_mib and not request.required_nodes),
        least_cpus=cpus_for_sockets(request, snapshot.nodes, capacity.threads, certain=binds)
        if request.sockets_per_node
        else None,
    )
    enough: Callable[[NDArray[np.int64]], NDArray[np.bool_]] | None = None
    if binds and settings.memory_is_shared_out and not (declined or defaults.counts_gpus):
        enough = partial(enough_when_empty, job.request, of_job, capacity=capacity)
    # As many as it may have on one node, where its tasks are spread unevenly.
    most_cpus = capacity.total[:, 0] if whole else np.minimum(capacity.total[:, 0], job.request.cpus)
    allowed_uneven = allowed if enough is None else allowed & enough(most_cpus)
    best: Demand | None = None
    for nodes in range(fewest_set, tried + 1):
        of_these = with_groups_of_tasks(request, nodes, settings.release) if binds else request
        per_node, takes, holds, missing = amounts.on_each(of_these, nodes)
        there = np.ones_like(allowed) if enough is None else enough(takes[:, 0])
        demand = Demand(
            job=job,
            nodes=nodes,
            per_node=per_node,
            takes=takes,
            allowed=(on_one if nodes == 1 else allowed)
            & (required if len(request.required_nodes) == nodes else np.ones_like(allowed))
            & (amounts.start_with_devices(nodes) if binds else np.ones_like(allowed))
            & there,
            all_memory=all_memory,
            required=tuple(capacity.index[name] for name in request.required_nodes if name in capacity.index),
            unknown_gres=missing,
            holds=holds,
            uneven=amounts.uneven(fewest_set, tried if binds else most, allowed_uneven),
            fewest=least,
            counted_first="" if there.all() else counted_first(job.request),
        )
        best = best or demand
        if least == most or int((demand.fits_into(capacity.total) & demand.allowed).sum()) >= nodes:
            return demand
    if best is None:  # there is at least one number of nodes
        raise AssertionError
    return best


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Amounts:
    """Share that a job takes of nodes in one partition, by how many nodes or tasks there are."""

    request: Request
    #: the request whose tasks have no CPUs of their GPUs, as Slurm counts some of it; and whether GPUs bring CPUs
    own: Request
    own_cpus_by_gpu: bool
    #: memory is for each CPU; for those of the job alone, not for all of its cores (CR_CPU)
    mem_by_cpu: bool
    single_cpus: bool
    partition: Partition | None
    capacity: Capacity
    per_gpu: PerGpu
    whole: bool
    all_memory: bool
    release: str
    #: what certainly starts it if it is bound to nodes; else what may be enough for Slurm
    binds: bool
    #: [nodes] on which two of the devices of its tasks must be free, however few tasks are there
    with_two: NDArray[np.bool_]
    #: where no victim has to leave, and it is bound to no nodes, it starts only if all of a node's memory is free
    all_where_free: bool = False
    #: [nodes] CPUs that must be free, however few the job wants
    least_cpus: NDArray[np.int64] | None = None

    def on_each(
        self, request: Request, nodes: int, in_all: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None, str]:
        """Return `Demand.per_node`, `takes` and `holds`, and a GRES that no node has.

        `in_all` are the job's nodes where `request` is that of some of them.
        """
        capacity = self.capacity
        kinds, kind_of = ([1], None) if capacity.threads is None else _kinds(capacity.threads)
        further = wants_for_further_tasks(self.own, self.release)
        wanted = [wanted_on_each(request, nodes, threads, self.per_gpu, further_tasks=further) for threads in kinds]
        rows = np.array([_with_columns(one, self.partition, capacity) for one in wanted], dtype=np.int64)
        takes = np.broadcast_to(rows[0], capacity.total.shape)
        if len(rows) > 1:
            takes = rows[kind_of]
        if self.all_memory or self.whole:
            takes = takes.copy()
            if self.whole:
                np.maximum(takes, capacity.total, out=takes)
                takes[:, 1] = np.maximum(takes[:, 1], memory_of_whole(request, capacity))
                takes[:, 0] = np.maximum(takes[:, 0], cpus_of_whole(request, self.per_gpu.cpus, capacity))
            if self.all_memory:
                takes = self._with_all_memory(takes)
        holds = _held(takes, capacity, whole=self.whole)
        if self.least_cpus is not None or self.mem_by_cpu:
            holds, takes = takes if holds is None else holds, takes.copy()
            takes[:, 0] = np.maximum(takes[:, 0], 0 if self.least_cpus is None else self.least_cpus)
            takes[:, 1] = np.maximum(takes[:, 1], self._memory_for_all_cpus(in_all or nodes))
        if self.binds and self.with_two.any():
            names = dict(with_bare_names(request.gres_per_task))
            by_task = np.array([name in names for name in capacity.resources])
            least_free = np.where(self.with_two[:, np.newaxis] & by_task, 2, 0)
            takes, holds = np.maximum(takes, least_free), takes if holds is None else holds
        if not self.whole:
            takes = with_one_gpus_shards(takes, capacity, certain=self.binds)
        if capacity.shards_each is not None:
            takes, holds = _without_unwanted_gpus(takes, capacity), takes if holds is None else holds
        if self.all_where_free:
            takes = np.where(np.all(capacity.free >= takes, axis=1, keepdims=True), self._with_all_memory(takes), takes)
        missing = [name for name, count in wanted[0].gres if count and name not in capacity.resources]
        return rows.max(axis=0), takes, holds, missing[0] if missing else ""

    def _with_all_memory(self, takes: NDArray[np.int64]) -> NDArray[np.int64]:
        found = takes.copy()
        found[:, 1] = self.capacity.total[:, 1]
        return found

    def _memory_for_all_cpus(self, nodes: int) -> NDArray[np.int64]:
        if not (self.binds and self.mem_by_cpu):
            return np.zeros(len(self.capacity.total), dtype=np.int64)
        by_gpu = self.own_cpus_by_gpu
        return memory_for_all_cpus(self.own, nodes, self.capacity, by_gpu=by_gpu, single_cpus=self.single_cpus)

    def _limit_allows(self, nodes: int) -> NDArray[np.bool_]:
        return limit_allows(self.own, nodes, self.capacity, self.partition, by_gpu=self.own_cpus_by_gpu)

    def _has_no_parts(self, nodes: int) -> NDArray[np.bool_]:
        least = least_with_parts(self.request, nodes, self.partition, self.release)
        found: NDArray[np.bool_] = self.capacity.total[:, 0] < (2**62 if least is None else least)
        return found

    def start_with_devices(self, nodes: int) -> NDArray[np.bool_]:
        """Return [nodes] on which Slurm certainly starts a job of so many nodes, with devices for each task too."""
        exact = with_exactly(devices_on_each(self.request, nodes), self.capacity)
        threads = threads_of(self.capacity)
        found = start_with_devices(self.request, nodes, threads, exact, self.with_two) & self._limit_allows(nodes)
        found &= self._has_no_parts(nodes)
        more_cpus = self.whole or self.own_cpus_by_gpu
        return found & tasks_fill_cores(self.request, nodes, threads, self.release, more_cpus=more_cpus)

    def uneven(self, least: int, most: int, allowed: NDArray[np.bool_]) -> Uneven | None:
        """Numbers of tasks that the job may have on its nodes; None if each node gets the same."""
        request, capacity = self.request, self.capacity
        each, devices, together = max(request.cpus_per_task, 1), in_all(request), tasks_together(request) or 1
        even = self.binds and self.whole and (least != most or devices is not None)
        if even or most < 2 or not may_be_uneven(request, self.per_gpu, self.release, binds=self.binds):
            return None
        if request.tasks < least or (self.binds and request.tasks > MOST_TASKS) or (devices and devices[1] < least):
            return None

        if self.binds:
            allowed = allowed & self._limit_allows(least) & self._has_no_parts(max(least, 2))

        def takes_of(tasks: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            on_one = replace(request, tasks=tasks * together, cpus=tasks * together * each, min_nodes=1)
            if devices is not None:
                on_one = replace(on_one, gres_per_job=((devices[0], count),))
            _, takes, holds, _ = self.on_each(on_one, 1, least)
            return takes, takes if holds is None else holds

        names = dict(with_bare_names([devices])) if devices is not None else {}
        return Uneven(
            tasks=request.tasks // together,
            # On one node there is no other share, and `Demand.allowed` says on which it starts.
            least=max(least, 2),
            most=most,
            allowed=allowed & (fill_cores(request, threads_of(capacity)) | self.with_two) if self.binds else allowed,
            kinds=kinds_of(request, capacity, self.release, binds=self.binds),
            takes_of=takes_of,
            devices=devices[1] if devices is not None else 0,
            columns=tuple(column for column, name in enumerate(capacity.resources) if name in names),
            sure=devices is None and not (request.tasks_per_core or wants_shards(request)),
        )


def _kinds(threads: NDArray[np.intp]) -> tuple[list[int], NDArray[np.intp]]:
    kinds, kind_of = np.unique(threads, return_inverse=True)
    return kinds.tolist(), kind_of.reshape(-1)


def _with_columns(wanted: Tres, partition: Partition | None, capacity: Capacity) -> NDArray[np.int64]:
    """Return the amounts by column: what must be free for such a job of this partition."""
    found = vector(wanted, capacity.resources)
    if capacity.layout is not None and partition is not None:
        if partition.name in capacity.layout.limited:
            found[capacity.layout.limited[partition.name]] = wanted.cpus
        found[[column for name, column in capacity.layout.sharing.items() if name != partition.name]] = ALONE
        if capacity.layout.unshared is not None and partition.name in capacity.layout.forced:
            found[capacity.layout.unshared] = ALONE
    return found


def _held(takes: NDArray[np.int64], capacity: Capacity, *, whole: bool) -> NDArray[np.int64] | None:
    """Resources that such a job holds, where that differs from what must be free for it."""
    layout = capacity.layout
    if layout is None or whole or (capacity.shards_each is None and not layout.alone):
        return None
    holds = takes.copy()
    holds[:, layout.alone] = 0
    if capacity.shards_each is not None:
        for row in np.flatnonzero(capacity.shards_each).tolist():
            layout.with_shards(holds[row], int(capacity.shards_each[row]), capacity.total[row])
    return holds


def _without_unwanted_gpus(takes: NDArray[np.int64], capacity: Capacity) -> NDArray[np.int64]:
    """What must be free for a job, which waits for no GPU where it wants none.

    Each job's shards count as GPUs of their own: more of these may be held than there are, and fewer than none free.
    """
    columns = [column for column, name in enumerate(capacity.resources) if name.partition(":")[0] == "gpu"]
    found = takes.copy()
    found[:, columns] = np.where(takes[:, columns] > 0, takes[:, columns], -ALONE)
    return found


def share_of(demand: Demand, rows: Sequence[int]) -> NDArray[np.int64]:
    """Resources that the job takes of each of `rows`, [rows, resources]; an exclusive job takes the whole node."""
    holds = demand.takes if demand.holds is None else demand.holds
    share: NDArray[np.int64] = holds[np.asarray(rows, dtype=np.intp)]
    return share
