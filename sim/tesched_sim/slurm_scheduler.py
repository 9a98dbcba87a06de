"""Scheduling passes of the simulated Slurm: strictly in order, or with EASY backfill; and its own preemption.

Two things make a pass cheap. A line with a first job that did not fit is skipped until resources are freed or its
order has changed; and behind it, only jobs that have come since then can be backfilled until that happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import floor

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.columns import Ends
from tesched_core.placement.shadow_time import Shadow, shadow_of

from tesched_sim.priority_queue import PriorityQueue
from tesched_sim.shared_gpus import GpusThen
from tesched_sim.slurm import Event, JobPhase, Slurm
from tesched_sim.slurm_settings import Backfill, NativePreemption, NodeChoice

#: of GPUs that jobs may share, whose free parts do not add up (`GpusThen`)
_WEIGHED_APART = 2**40
#: resources [nodes, resources] that are free now and not reserved
FreeResources = Callable[[], NDArray[np.int64]]


class Scheduler:
    """Starts jobs."""

    def __init__(self, slurm: Slurm) -> None:
        """Work on this cluster."""
        self.slurm = slurm
        self.behaviour = slurm.behaviour
        #: resources that are kept for jobs: [nodes, resources], and by row the nodes on which each starts
        self.kept = np.zeros_like(slurm.free)
        self.reserved: dict[int, tuple[int, ...]] = {}
        #: first jobs that did not fit when last tried
        self._blocked: set[int] = set()
        #: of the first in line, after its row
        self._shadow: tuple[int, Shadow, GpusThen | None] | None = None
        #: when the queue is gone over next, where that is not at every event; how many of `arrived` were tried before
        self._next_pass = -1.0
        self._tried = 0
        self._backfills = self.behaviour.backfill is Backfill.EASY
        #: when the next pass is one that backfills
        self._next_backfill = 0.0
        #: the last pass did not backfill, and left jobs that may be
        self._owes_backfill = False
        #: when the last pass was, where only some backfill: what happens at that instant awaits the next one
        self._passed_s = -1.0

    def keep(self, row: int, nodes: tuple[int, ...]) -> None:
        """Reserve resources on these nodes for a waiting job, from now until it starts or is let go."""
        slurm = self.slurm
        self.reserved[row] = nodes
        for node in nodes:
            self.kept[node] += slurm.held_on(row, node)
        if slurm.shared is not None:
            slurm.shared.keep(row, nodes)
        if self._fits_on(row, nodes):
            slurm.stirred = True  # it starts now: no event of its own says that its nodes are free already

    def let_go(self, row: int) -> None:
        """Drop the job's reserved resources."""
        nodes = self.reserved.pop(row, ())
        for node in nodes:
            self.kept[node] -= self.slurm.held_on(row, node)
        if self.slurm.shared is not None:
            self.slurm.shared.let_go(row, nodes)
        self.slurm.stirred = True

    def _rebind(self, row: int) -> None:
        """Reserve resources for a bound job where it must start, nowhere else; others start beside it, as in Slurm."""
        if row in self.reserved:
            self.let_go(row)
        if row in self.slurm.bound and self.slurm.waits_in(self.slurm.line_of(row), row):
            self.keep(row, self.slurm.bound[row])

    def run(self) -> None:
        """Start all jobs that may start now."""
        slurm = self.slurm
        if slurm.is_away or not (slurm.stirred or slurm.arrived or self._owes_backfill):
            return
        for row in sorted(slurm.rebound):
            self._rebind(row)
        slurm.rebound.clear()
        if self.behaviour.pass_s and not self._is_pass(self.behaviour.pass_s):
            if self.behaviour.tries_new:
                self._try_arrived()
            return
        stirred, arrived = slurm.stirred or self._owes_backfill, slurm.arrived
        slurm.stirred, slurm.arrived, self._tried = False, [], 0
        if stirred:
            self._blocked.clear()
            self._shadow = None
            self._start_reserved()
        self._backfills = self._is_backfill()
        for line in slurm.lines:
            self._pass(line, arrived)
        if self.behaviour.native is not None and len(slurm.te_pending):
            self._preempt(self.behaviour.native)
        elif slurm.marks and len(slurm.te_pending):
            self._preempt_marked()

    def _is_pass(self, every_s: float) -> bool:
        """Check whether the queue is gone over now; if not, see to it that it is at the next pass."""
        now = self.slurm.now
        if now == self._next_pass > self._passed_s:
            return True
        if self._next_pass <= now:
            self._next_pass = self._pass_after(now, every_s)
            self.slurm.push(self._next_pass, Event.WAKE, 0)
        return False

    def _pass_after(self, now: float, every_s: float) -> float:
        at = (floor(now / every_s) + 1) * every_s
        return at if at > self._passed_s else at + every_s  # rounded, it may be that of now

    def _is_backfill(self) -> bool:
        """Check whether this pass backfills; after one that does not, the next one goes over all jobs again."""
        slurm, every_s, pass_s = self.slurm, self.behaviour.backfill_s, self.behaviour.pass_s
        self._owes_backfill = False
        if self.behaviour.backfill is not Backfill.EASY or not every_s:
            return self.behaviour.backfill is Backfill.EASY
        self._passed_s = slurm.now
        if slurm.now >= self._next_backfill:
            self._next_backfill = slurm.now + every_s
            return True
        if any(len(line) > 1 for line in slurm.lines):
            # Not `slurm.stirred`: what Slurm preempts for in this pass ends in `_start_reserved`, which clears that.
            self._owes_backfill = True
            self._next_pass = self._pass_after(slurm.now, pass_s) if pass_s else self._next_backfill
            slurm.push(self._next_pass, Event.WAKE, 0)
        return False

    def _try_arrived(self) -> None:
        slurm = self.slurm
        for row in slurm.arrived[self._tried :]:
            line = slurm.line_of(row)
            if slurm.waits_in(line, row) and line.first() == row and row not in self.reserved:
                nodes = self.place(row, self._free())
                if nodes is not None:
                    slurm.start(row, nodes)
        self._tried = len(slurm.arrived)

    def _free(self) -> NDArray[np.int64]:
        if not self.reserved:
            return self.slurm.free
        free = self.slurm.free - self.kept
        if self.slurm.shared is not None:
            for node in {node for nodes in self.reserved.values() for node in nodes}:
                self._count_gpus(free[node], node)
        return free

    def _count_gpus(self, free: NDArray[np.int64], node: int, gone: Iterable[int] = ()) -> None:
        """Correct what is free of a node [resources] once these jobs have left, where jobs may share GPUs."""
        shared = self.slurm.shared
        if shared is not None:
            shared.write(free, node, shared.left(node, gone=gone))

    def _start_reserved(self) -> None:
        slurm = self.slurm
        for row, nodes in list(self.reserved.items()):
            if slurm.state[row] is JobPhase.DONE:
                self.let_go(row)  # it was cancelled
                continue
            if self._fits_on(row, nodes) and slurm.waits(row):
                self.let_go(row)
                slurm.start(row, nodes)
        slurm.stirred = False

    def _fits_on(self, row: int, nodes: tuple[int, ...]) -> bool:
        slurm, demand = self.slurm, self.slurm.workload.demand[row]
        return all(slurm.up[node] and (slurm.free[node] >= demand).all() for node in nodes)

    def _pass(self, line: PriorityQueue, arrived: list[int]) -> None:
        slurm = self.slurm
        while (row := self._first(line)) is not None:
            if row in self._blocked:
                behind = [other for other in arrived if other != row and slurm.waits_in(line, other)]
                behind.sort(key=lambda other: (-slurm.priority[other], other))
            else:
                nodes = self.place(row, self._free())
                if nodes is not None:
                    slurm.start(row, nodes)
                    continue
                self._blocked.add(row)
                tried = islice(line, self.behaviour.backfill_depth or None)
                behind = [other for other in tried if other != row] if self._backfills else []
            if self._backfills:
                self._backfill(row, behind)
            return

    def _first(self, line: PriorityQueue) -> int | None:
        """First in line for which no resources are reserved."""
        if not self.reserved:
            return line.first() if len(line) else None
        return next((row for row in line if row not in self.reserved), None)

    def place(
        self, row: int, free: NDArray[np.int64], among: NDArray[np.bool_] | None = None
    ) -> tuple[int, ...] | None:
        """Nodes on which the job would start, of these free resources; None if it does not fit."""
        slurm = self.slurm
        mask = slurm.fits(row, free)
        if among is not None:
            mask &= among
        wanted, most = slurm.nodes_wanted[row], slurm.nodes_most[row]
        if self.behaviour.placement is NodeChoice.FIRST_FIT:
            if most == 1:
                node = int(mask.argmax())
                return (node,) if mask[node] else None
            nodes = np.flatnonzero(mask)
            return tuple(nodes[:most].tolist()) if len(nodes) >= wanted else None
        nodes = np.flatnonzero(mask)
        if len(nodes) < wanted:
            return None
        left = (free[nodes] / np.maximum(slurm.total[nodes], 1)).sum(axis=1)
        if self.behaviour.placement is NodeChoice.LEAST_LOADED:
            left = -left
        return tuple(nodes[np.argsort(left, kind="stable")[:most]].tolist())

    # Backfill.

    def _backfill(self, first: int, others: Iterable[int]) -> None:
        """Start those of `others` that fit and do not delay the first one."""
        slurm = self.slurm
        rows = np.fromiter(others, dtype=np.intp)
        if not len(rows):
            return
        most = self._free().max(axis=0)
        rows = rows[(slurm.workload.demand[rows] <= most).all(axis=1)]
        # Free resources only shrink in the course of this: where one job of a shape did not fit, no other will.
        without_resources: set[int] = set()
        without_spare: set[int] = set()
        for row in rows.tolist():
            shape = slurm.shape[row]
            if row in self.reserved or shape in without_resources or not slurm.waits(row):
                continue
            if self._shadow is None or self._shadow[0] != first:
                self._shadow = first, *self._shadow_of(first)
            _, shadow, gpus = self._shadow
            demand = slurm.workload.demand[row]
            outlasts = slurm.now + float(slurm.workload.limit_s[row]) > shadow.at
            if outlasts and shape in without_spare:
                continue
            free = self._free()
            spared = shadow.spared(len(free), demand) if outlasts else None
            if spared is not None and gpus is not None:
                spared = gpus.spares(row, spared)
            nodes = self.place(row, free, spared)
            if nodes is None:
                (without_spare if outlasts else without_resources).add(shape)
                continue
            if outlasts:
                shadow.take(nodes, demand)
                if gpus is not None:
                    gpus.take(row, nodes)
            slurm.start(row, nodes)

    def _shadow_of(self, row: int) -> tuple[Shadow, GpusThen | None]:
        """Time and nodes at which the job will start, if each running job stays as long as its time limit allows."""
        slurm, workload = self.slurm, self.slurm.workload
        running = np.fromiter(slurm.running, dtype=np.intp)
        places = [slurm.where[job] for job in running.tolist()]
        jobs = np.repeat(running, [len(nodes) for nodes in places])
        node = np.array([node for nodes in places for node in nodes], dtype=np.intp)
        at = slurm.started_s[jobs] + workload.limit_s[jobs]
        ends = Ends(node=node, at=at, frees=self._frees(jobs, node, at))
        allowed = workload.allowed[workload.constraint[row]] & slurm.up
        wanted = slurm.nodes_wanted[row]
        shadow = shadow_of(workload.demand[row], wanted, allowed, self._free(), ends=ends, now=slurm.now)
        if slurm.shared is None:
            return shadow, None
        gone = np.maximum(at, slurm.now) <= shadow.at
        left = {
            there: slurm.shared.left(there, gone=jobs[gone & (node == there)].tolist())
            for there in shadow.nodes.tolist()
        }
        shadow.free[:, slurm.shared.columns] = _WEIGHED_APART
        return shadow, GpusThen(slurm.shared, row, left)

    def _frees(self, jobs: NDArray[np.intp], node: NDArray[np.intp], at: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return [shares, resources] by how much what is free of each node grows as its jobs leave, one by one."""
        slurm = self.slurm
        frees = slurm.workload.demand[jobs]
        if slurm.shared is None or not len(jobs):
            return frees
        before = self._free().copy()
        gone: dict[int, list[int]] = {}
        for share in np.lexsort((at, node)).tolist():
            there = int(node[share])
            gone.setdefault(there, []).append(int(jobs[share]))
            then = before[there] + frees[share]
            self._count_gpus(then, there, gone[there])
            frees[share], before[there] = then - before[there], then
        return frees

    # Slurm's own preemption.

    def _preempt(self, native: NativePreemption) -> None:
        """Let best-effort jobs go for the first TE job that does not fit: on the first node that has enough of them."""
        slurm = self.slurm
        for row in list(slurm.te_pending):
            if row in self.reserved or not slurm.waits(row):
                continue
            rows = [job for job in slurm.running_be if not slurm.leaving[job]]  # in order of start
            chosen = self._native_victims(row, rows[::-1] if native.youngest_first else rows)
            if chosen is None:
                continue
            nodes, victims = chosen
            self.keep(row, nodes)
            for victim in victims:
                slurm.evict(victim, row, native.grace_s, told=native.tells_job)
        self._start_reserved()

    def _preempt_marked(self) -> None:
        """Let marked jobs go for TE jobs, as preempt/tesched does: in the order of their marks."""
        slurm, now = self.slurm, self.slurm.now
        users, user = slurm.workload.user_names, slurm.workload.user
        for row in [row for row, nodes in self.reserved.items() if not slurm.up[list(nodes)].all()]:
            self.let_go(row)
        for row in list(slurm.te_pending):
            if row in self.reserved or not slurm.waits(row) or users[user[row]] in slurm.barred:
                continue
            if slurm.came_back.get(row, 0.0) > now + slurm.ahead_s:
                continue
            waited_s = now - float(slurm.queued_s[row])
            if waited_s < slurm.te_wait_s:
                slurm.later(now + slurm.te_wait_s - waited_s, slurm.stir)
                continue
            marked = [job for job in slurm.running_be if self._may_be_preempted(job)]
            chosen = self._marked_victims(row, sorted(marked, key=lambda job: (slurm.marks[job].order, job)))
            if chosen is None:
                continue
            nodes, victims = chosen
            self.keep(row, nodes)
            for victim in victims:
                slurm.evict(victim, row, slurm.marks[victim].grace_s, told=False)
        self._start_reserved()

    def _may_be_preempted(self, job: int) -> bool:
        slurm, mark = self.slurm, self.slurm.marks.get(job)
        if mark is None or slurm.leaving[job] or slurm.state[job] is not JobPhase.RUNNING:
            return False
        runs_s = slurm.now - float(slurm.started_s[job])
        in_time = mark.after <= slurm.now + slurm.ahead_s <= mark.until
        return in_time and slurm.restarts[job] < mark.max_restarts and runs_s >= mark.least_run_s

    def _marked_victims(self, row: int, rows: Sequence[int]) -> tuple[tuple[int, ...], list[int]] | None:
        """Return nodes for a job and who leaves them: jobs are taken away one by one in this order until it fits."""
        slurm, free = self.slurm, self._free().copy()
        if self.place(row, free) is not None:
            return None
        gone: dict[int, list[int]] = {}
        for count, job in enumerate(rows, start=1):
            for node in slurm.where[job]:
                free[node] += slurm.held_on(job, node) if slurm.is_typed else slurm.workload.demand[job]
                gone.setdefault(node, []).append(job)
                self._count_gpus(free[node], node, gone[node])
            nodes = self.place(row, free)
            if nodes is not None:
                return nodes, [one for one in rows[:count] if not set(nodes).isdisjoint(slurm.where[one])]
        return None

    def _native_victims(self, row: int, rows: Sequence[int]) -> tuple[tuple[int, ...], list[int]] | None:
        slurm = self.slurm
        demand = slurm.workload.demand
        free = self._free()
        may_run = slurm.workload.allowed[slurm.workload.constraint[row]] & slurm.up
        by_node: dict[int, list[int]] = {}
        for job in rows:
            for node in slurm.where[job]:
                by_node.setdefault(node, []).append(job)
        nodes: list[int] = []
        victims: dict[int, None] = {}
        for node in np.flatnonzero(may_run).tolist():
            gone = [job for job in victims if node in slurm.where[job]]
            free_then = free[node] + sum((demand[job] for job in gone), 0)
            self._count_gpus(free_then, node, gone)
            asked: list[int] = []
            for job in by_node.get(node, []):
                if (free_then >= demand[row]).all():
                    break
                if job not in victims:
                    asked.append(job)
                    gone.append(job)
                    free_then = free_then + demand[job]
                    self._count_gpus(free_then, node, gone)
            if (free_then >= demand[row]).all():
                nodes.append(node)
                victims |= dict.fromkeys(asked)
            if len(nodes) == slurm.nodes_wanted[row]:
                return tuple(nodes), list(victims)
        return None
