"""Heads of the queue: the jobs that start as soon as they fit, and the first that do not fit, wherever they may run.

A job that does not fit is a head if no head before it may use some of its nodes: so each node has one, whatever its
partition, and what its jobs ask for. What cannot be weighed (a request that is not modelled, a heterogeneous job, a
record that could not be read) is a head of all its nodes: when it will start there is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from tesched_core.intake.pending_reason import starts_by_itself
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.change import By
from tesched_core.model.cluster import Job
from tesched_core.model.columns import Ends, Waiting
from tesched_core.model.request import tasks_in
from tesched_core.model.resources import JobId
from tesched_core.placement.alike import kind_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demand_of
from tesched_core.placement.reserved import unreserved_capacity
from tesched_core.placement.shadow_time import EndsInTurn, Shadow
from tesched_core.policy import View

#: So many different requests of TE jobs are weighed.
MOST_KINDS = 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WantedNodes:
    """What a waiting job wants of the nodes."""

    job_id: JobId
    #: nodes that it wants
    nodes: int
    #: [resources], or [nodes, resources], on each of them
    each: NDArray[np.int64]
    #: [nodes] where it may run
    allowed: NDArray[np.bool_]
    #: how many such jobs it is: of an array, its tasks
    tasks: int = 1
    #: how long each is expected to run, seconds
    run_s: float = inf
    #: its demand is known; else it is any part of the `allowed` nodes
    is_weighed: bool = True

    def place(self, free: NDArray[np.int64], among: NDArray[np.bool_] | None = None) -> tuple[int, ...] | None:
        """Return nodes on which it, or one task of it, fits into what is free; None if there are none."""
        fits = (free >= self.each).all(axis=1) & self.allowed
        if among is not None:
            fits &= among
        nodes = np.flatnonzero(fits)
        return tuple(nodes[: self.nodes].tolist()) if len(nodes) >= self.nodes else None

    def take(self, nodes: tuple[int, ...], free: NDArray[np.int64]) -> None:
        """Take what it wants there off `free`."""
        free[list(nodes)] -= self.on(nodes)

    def on(self, nodes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the resources that it takes of each of these, [nodes, resources]."""
        rows = list(nodes)
        return np.broadcast_to(self.each, (len(rows), len(self.each))) if self.each.ndim == 1 else self.each[rows]

    def times(self, free: NDArray[np.int64], nodes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return [nodes] how many times it fits into what is free on each of these."""
        left, each = free[list(nodes)], self.on(nodes)
        whole = np.where(each > 0, left // np.maximum(each, 1), np.where(left >= 0, self.tasks, 0))
        found: NDArray[np.int64] = np.maximum(whole.min(axis=1, initial=self.tasks), 0)
        return found

    def shadow(self, leaving: EndsInTurn, total: NDArray[np.int64]) -> Shadow | None:
        """Return its shadow, if every running job ends when expected; None if it is not weighed."""
        return leaving.shadow(self.each, self.nodes, self.allowed, total) if self.is_weighed else None


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A job that starts now, or tasks of one."""

    wanted: WantedNodes
    nodes: tuple[int, ...]
    #: [nodes] tasks that have a part on each of `nodes`
    tasks: NDArray[np.int64]

    @property
    def takes(self) -> NDArray[np.int64]:
        """Resources that they take of each of `nodes`, [nodes, resources]."""
        return self.wanted.on(self.nodes) * self.tasks[:, None]


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A job that does not fit, and that no other may delay."""

    wanted: WantedNodes
    #: [nodes] where it may run; `wanted` is on those of them alone that no head before it may use, if they are enough
    allowed: NDArray[np.bool_]


class Throttles:
    """Tasks of arrays that may yet start by their throttles, of which those that run are a part."""

    def __init__(self, view: View) -> None:
        """Begin with those that run."""
        self._view = view
        self._left: dict[JobId, int] = {}

    def left(self, job: Job) -> int | None:
        """Number of tasks of the job's array that may start; None: it has no throttle."""
        array = job.array_job_id
        if array is None or not job.array_throttle:
            return None
        if array not in self._left:
            tasks = self._view.columns.tasks.get(array, ())
            self._left[array] = max(job.array_throttle - sum(one.on_nodes and not one.finished for one in tasks), 0)
        return self._left[array]

    def take(self, job: Job, tasks: int) -> None:
        """Let so many start."""
        if (left := self.left(job)) is not None and job.array_job_id is not None:
            self._left[job.array_job_id] = left - tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHeads:
    """What will become of the queue by itself."""

    #: rows of `Waiting` that start without help
    going: frozenset[int]
    #: what starts now, that and others
    starts: Sequence[Start]
    heads: Sequence[Head]
    throttles: Throttles

    def ends(self, view: View) -> Ends:
        """Return the ends of jobs on their nodes: those that run, those that start now, and those that orders serve."""
        known, now, free = view.columns.ends, view.now, view.columns.capacity.free
        found = [(one.nodes, now + one.wanted.run_s, one.takes) for one in self.starts]
        for order in view.reserving:
            less = free - unreserved_capacity((order,), view.snapshot, view.columns.capacity).free
            rows = np.flatnonzero(_any(less != 0))
            if order.preemptor in view.snapshot.jobs:
                found.append(
                    (tuple(rows.tolist()), now + _run_s(view.snapshot.jobs[order.preemptor], view), less[rows])
                )
        return Ends(
            node=np.concatenate([known.node, *(np.array(nodes, dtype=np.intp) for nodes, _, _ in found)]),
            at=np.concatenate([known.at, *(np.full(len(nodes), at) for nodes, at, _ in found)]),
            frees=np.concatenate([known.frees, *(frees for _, _, frees in found)]),
        )


def queue_of(view: View, free: NDArray[np.int64]) -> QueueHeads:
    """Return the queue: jobs that start by themselves, and the heads. Takes from `free` what starts."""
    waiting, total = view.columns.waiting, view.capacity.total
    going: set[int] = set()
    throttles = Throttles(view)
    starts: list[Start] = []
    heads: list[Head] = []
    boosted = view.memory.raised(By.QUEUE)
    #: [nodes] that no head may use
    clear = view.capacity.available.copy()
    is_clear = _any(waiting.allowed & clear)
    for row, job_id in _in_line(waiting):
        helped = job_id in boosted
        if not (helped or (clear.any() if row is None else is_clear[waiting.kind[row]])):
            continue
        job = view.snapshot.jobs[job_id]
        wanted = _of_job(job, view) if row is None else of_row(waiting, row)
        if wanted is None or not (helped or (wanted.allowed & clear).any()):
            continue
        if (may_start := throttles.left(job)) is not None:
            wanted = replace(wanted, tasks=min(wanted.tasks, may_start))
        if wanted.is_weighed and wanted.place(total) is None:
            continue  # it starts nowhere, whatever ends
        placed, places = _places(wanted, free, None if helped else clear)
        starts += places
        throttles.take(job, placed)
        if placed == wanted.tasks:
            going |= set() if row is None else {row}
            continue
        own = replace(wanted, allowed=wanted.allowed & clear)
        heads.append(Head(own if wanted.is_weighed and own.place(total) else wanted, wanted.allowed))
        clear &= ~wanted.allowed
        is_clear = _any(waiting.allowed & clear)
        if not (boosted or clear.any()):
            break
    return QueueHeads(going=frozenset(going), starts=starts, heads=heads, throttles=throttles)


def trials_of(view: View) -> Iterator[WantedNodes]:
    """Yield what the TE jobs want that come before every BE job, and for which nothing is reserved.

    Of those that want the same in the same places one stands for all; of more than `MOST_KINDS` any part of their nodes
    is wanted.
    """
    known = {job.job_id for job in view.waiting} | {order.preemptor for order in view.reserving}
    new = (job for job in view.columns.trials if job.job_id not in known and starts_by_itself(job, view.now, 0))
    kinds = {kind_of(job, view.snapshot, view.capacity): job for job in (*view.ahead, *new)}
    for number, job in enumerate(kinds.values()):
        wanted = _of_job(job, view) if number < MOST_KINDS else _unweighed(job, view)
        if wanted is not None:
            yield wanted


def of_row(waiting: Waiting, row: int) -> WantedNodes:
    """Return the demand of a job of `Waiting`."""
    return WantedNodes(
        job_id=JobId(int(waiting.job_id[row])),
        nodes=int(waiting.nodes[row]),
        each=waiting.demand[row],
        allowed=waiting.allowed[waiting.kind[row]],
        run_s=float(waiting.run_s[row]),
    )


def _any(table: NDArray[np.bool_]) -> list[bool]:
    found: list[bool] = np.logical_or.reduce(table, axis=1).tolist()
    return found


def _in_line(waiting: Waiting) -> Iterator[tuple[int | None, JobId]]:
    """Yield the queue, the highest priority first: the row of each, or None, and its id."""
    others, at = waiting.others, 0
    for row, job_id in enumerate(waiting.job_id.tolist()):
        while at < len(others) and others[at][0] <= row:
            yield None, others[at][1]
            at += 1
        yield row, job_id
    for _, job_id in others[at:]:
        yield None, job_id


def _places(wanted: WantedNodes, free: NDArray[np.int64], among: NDArray[np.bool_] | None) -> tuple[int, list[Start]]:
    """Take from `free` what it takes, or as many of its tasks as fit; return how many do, and where."""
    if not wanted.is_weighed or not wanted.tasks:
        return 0, []
    if wanted.tasks == 1:
        nodes = wanted.place(free, among)
        start = Start(wanted, nodes or (), np.ones(len(nodes or ()), dtype=np.int64))
    else:
        start = (_on_one_each if wanted.nodes == 1 else _on_several_each)(wanted, free, among)
    free[list(start.nodes)] -= start.takes
    placed = int(start.tasks.sum()) // wanted.nodes
    return placed, [start] if placed else []


def _on_one_each(wanted: WantedNodes, free: NDArray[np.int64], among: NDArray[np.bool_] | None) -> Start:
    """Return the start of as many tasks of one node each as fit, node by node."""
    nodes, fit = _fitting(wanted, free, among)
    before = np.cumsum(fit) - fit
    tasks = np.clip(wanted.tasks - before, 0, fit)
    has = tasks > 0
    return Start(wanted, tuple(nodes[has].tolist()), tasks[has])


def _on_several_each(wanted: WantedNodes, free: NDArray[np.int64], among: NDArray[np.bool_] | None) -> Start:
    """Return the start of as many tasks of several nodes each as fit, each on the first nodes that it fits on."""
    nodes, fit = _fitting(wanted, free, among)
    left, next_place = fit.copy(), wanted.nodes
    # Each round fills a node at least, or places the last task.
    here, to_place = np.arange(min(wanted.nodes, len(nodes))), wanted.tasks
    while len(here) == wanted.nodes and to_place:
        count = min(int(left[here].min()), to_place)
        left[here] -= count
        to_place -= count
        here = here[left[here] > 0]
        more = min(next_place + wanted.nodes - len(here), len(nodes))
        here = np.concatenate([here, np.arange(next_place, more)])
        next_place = more
    tasks = fit - left
    has = tasks > 0
    return Start(wanted, tuple(nodes[has].tolist()), tasks[has])


def _fitting(
    wanted: WantedNodes, free: NDArray[np.int64], among: NDArray[np.bool_] | None
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the nodes on which a task fits into what is free, and how many do there, no more than it has."""
    nodes = np.flatnonzero(wanted.allowed if among is None else wanted.allowed & among)
    fit = wanted.times(free, tuple(nodes.tolist()))
    return nodes[fit > 0], fit[fit > 0]


def _of_job(job: Job, view: View) -> WantedNodes | None:
    """Return the job's demand; None if no node has such resources."""
    capacity, unknown = view.capacity, _unweighed(job, view)
    if job.doubt or job.partly_read:
        return unknown
    try:
        demand = demand_of(job, view.snapshot, capacity)
    except UnsupportedRequestError:
        return unknown
    if demand.unknown_gres:
        return None
    if job.het_job_id is not None or len(demand.required) not in {0, demand.nodes}:
        return replace(unknown, allowed=demand.allowed)
    each = np.maximum(demand.takes, 0) if demand.takes.strides[0] else demand.per_node
    return WantedNodes(
        job_id=job.job_id,
        nodes=demand.nodes,
        each=each,
        allowed=demand.allowed,
        tasks=tasks_in(job) if job.array_tasks else 1,
        run_s=_run_s(job, view),
    )


def _unweighed(job: Job, view: View) -> WantedNodes:
    """Return that it wants any part of the nodes of its partitions."""
    masks = [view.capacity.partitions[name] for name in job.partitions if name in view.capacity.partitions]
    return WantedNodes(
        job_id=job.job_id,
        nodes=1,
        each=np.zeros(len(view.capacity.resources), dtype=np.int64),
        allowed=np.logical_or.reduce(masks, axis=0) if masks else np.zeros(len(view.capacity.names), dtype=np.bool_),
        is_weighed=False,
    )


def _run_s(job: Job, view: View) -> float:
    limit_s = inf if job.time_limit_s is None else float(job.time_limit_s)
    expected = view.snapshot.expected_run(job.job_id)
    return limit_s if expected is None else min(expected.median_s, limit_s)
