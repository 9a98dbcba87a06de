"""The simulated Slurm's jobs and nodes, and what can be done to them. Other modules decide when, and to which.

Jobs are rows of the workload, nodes are rows of its machines, times are seconds after its beginning.

Over 400 lines: one class, the cluster's state and each change of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappush
from math import floor, inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from tesched_sim.priority_queue import PriorityQueue
from tesched_sim.slurm_settings import Behaviour, RequeuedTo
from tesched_sim.workload import Workload

#: Priorities of jobs as submitted; a job's row is taken off. TE jobs of a line of their own are ahead of all others.
TE_PRIORITY = 3_500_000_000
PRIORITY = 2_000_000_000


class JobPhase(IntEnum):
    """Phase of a job."""

    FUTURE = 0
    #: in the queue, or soon to be: not yet eligible after a requeue
    PENDING = 1
    RUNNING = 2
    SUSPENDED = 3
    DONE = 4


class Event(IntEnum):
    """Kinds of events; of several at an instant, the lower one first."""

    END = 0
    LEAVE = 1
    NODE_UP = 2
    NODE_DOWN = 3
    ELIGIBLE = 4
    WAKE = 5


@dataclass(slots=True)
class PreemptionRecord:
    """One victim's preemption, written while it happens."""

    victim: int
    preemptor: int
    order_id: int
    notice_s: float
    nodes: tuple[int, ...]
    left_s: float = nan
    back_s: float = nan
    lost_node_s: float = 0.0
    futile: bool = False


class Slurm:
    """The cluster at one instant of the simulation."""

    def __init__(self, workload: Workload, behaviour: Behaviour) -> None:
        """Begin with an empty cluster, before the first submission."""
        count = len(workload)
        self.workload = workload
        self.behaviour = behaviour
        self.now = 0.0
        self.heap: list[tuple[float, int, int, int, int]] = []
        self._sequence = 0
        self.total = workload.machines.total
        #: [nodes, resources]; below zero nowhere
        self.free = self.total.copy()
        self.up = np.ones(len(self.total), dtype=np.bool_)
        self.submitted = 0
        self.done = 0
        # What is read and written job by job is kept in lists: ten times as fast as arrays are.
        self.state = [JobPhase.FUTURE] * count
        self.restarts = [0] * count
        self.priority = [0] * count
        self.nice = [0] * count
        self.where: list[tuple[int, ...]] = [()] * count
        #: where a finished job ran
        self.ran_on: list[tuple[int, ...]] = [()] * count
        self.saved_s = [0.0] * count
        self.noticed_s = [nan] * count
        self.leaving = [False] * count
        self.suspended_s = [nan] * count
        self._epoch = [0] * count
        self.te: list[bool] = workload.te.tolist()
        self.run_s: list[float] = workload.run_s.tolist()
        self.grace_s: list[float] = workload.grace_s.tolist()
        self.yield_s: list[float] = workload.yield_s.tolist()
        self.restart_s: list[float] = workload.restart_s.tolist()
        shapes = np.column_stack([workload.demand, workload.constraint, workload.nodes])
        #: jobs of one number want the same
        self.shape: list[int] = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(-1).tolist()
        self.nodes_wanted: list[int] = workload.nodes.tolist()
        # What is looked at for many jobs at once.
        self.started_s = np.full(count, nan)
        #: when it was put in the queue for its present or next run
        self.queued_s = workload.submit_s.copy()
        self.first_start_s = np.full(count, nan)
        self.end_s = np.full(count, nan)
        self.lost_s = np.zeros(count)
        #: one line, or TE jobs' and the others'
        self.lines = (PriorityQueue(), PriorityQueue()) if behaviour.te_first else (PriorityQueue(),)
        #: best-effort jobs that hold nodes, in order of start, and all that do
        self.running_be: dict[int, None] = {}
        self.running: dict[int, None] = {}
        self.te_pending: dict[int, None] = {}
        #: requeued jobs that may not start yet
        self.ineligible: set[int] = set()
        #: jobs that are held, and of those the ones that the submission hook holds
        self.held: set[int] = set()
        self.held_by_hook: set[int] = set()
        self.be_waiting = 0
        #: room was given back, or the queue's order has changed, since the last pass over the queue
        self.stirred = True
        #: rows that were put into a line since then
        self.arrived: list[int] = []
        self.records: list[PreemptionRecord] = []
        self._record_of: dict[int, PreemptionRecord] = {}
        self._heads = 0
        #: waiting jobs that must start on these nodes, and those for which that has changed since the last pass
        self.bound: dict[int, tuple[int, ...]] = {}
        self.rebound: set[int] = set()
        #: told of every job that starts, leaves or ends
        self.watchers: list[Callable[[int], None]] = []

    # The queue.

    def line_of(self, row: int) -> PriorityQueue:
        """Return the line in which a job waits."""
        return self.lines[0 if self.te[row] else -1]

    def waits_in(self, line: PriorityQueue, row: int) -> bool:
        """Return whether the job waits in this line."""
        waits = self.state[row] is JobPhase.PENDING and row not in self.ineligible and row not in self.held
        return waits and self.line_of(row) is line

    def submit(self, row: int, *, held: bool = False) -> None:
        """Submit the job; `held`: the submission hook holds it."""
        self.priority[row] = self._own_priority(row)
        self.submitted += 1
        if held:
            self.priority[row] = 0
            self.held.add(row)
            self.held_by_hook.add(row)
        self._enqueue(row)

    def _own_priority(self, row: int) -> int:
        first = TE_PRIORITY if self.te[row] and self.behaviour.te_first else PRIORITY
        return first - row - self.nice[row]

    def hold(self, row: int) -> None:
        """Keep a waiting job from starting: its priority is 0."""
        self.set_priority(row, 0)
        line = self.line_of(row)
        if self.waits_in(line, row):
            line.remove(row, 0)
        self.held.add(row)

    def release(self, row: int) -> None:
        """End a hold; the job's priority is worked out anew."""
        if row not in self.held:
            return
        self.held.discard(row)
        self.held_by_hook.discard(row)
        self.priority[row] = self._own_priority(row)
        if self.waits_in(self.line_of(row), row):
            self.line_of(row).add(row, self.priority[row])
            self.stirred = True

    def _enqueue(self, row: int) -> None:
        self.state[row] = JobPhase.PENDING
        if self.te[row]:
            self.te_pending[row] = None
        else:
            self.be_waiting += 1
        if row not in self.held:
            self.line_of(row).add(row, self.priority[row])
        self.arrived.append(row)
        if row in self.bound:
            self.rebound.add(row)

    def set_priority(self, row: int, priority: int) -> None:
        """Change a job's priority; it changes its place in the line if it waits in one."""
        line = self.line_of(row)
        waits = self.waits_in(line, row)
        if waits:
            line.remove(row, self.priority[row])
        self.priority[row] = priority
        if waits:
            line.add(row, priority)
            self.stirred = True

    def set_nice(self, row: int, nice: int) -> None:
        """Change a job's nice value, and its priority with it, unless it is held."""
        if row not in self.held:
            self.set_priority(row, self.priority[row] + self.nice[row] - nice)
        self.nice[row] = nice

    def bind(self, row: int, nodes: tuple[int, ...]) -> None:
        """Let a waiting job start on these nodes alone; none: wherever it may run."""
        if nodes:
            self.bound[row] = nodes
        else:
            self.bound.pop(row, None)
        self.rebound.add(row)
        self.stirred = True

    # Runs.

    def start(self, row: int, nodes: tuple[int, ...]) -> None:
        """Start a job that waits in a line on these nodes, which must have room."""
        self.line_of(row).remove(row, self.priority[row])
        if self.te[row]:
            del self.te_pending[row]
        else:
            self.be_waiting -= 1
            self.running_be[row] = None
        self.running[row] = None
        demand = self.workload.demand[row]
        for node in nodes:
            self.free[node] -= demand
        self.where[row] = nodes
        self.state[row] = JobPhase.RUNNING
        self.started_s[row] = self.now
        again = self.restarts[row] > 0
        if again:
            record = self._record_of.pop(row, None)
            if record is not None:
                record.back_s = self.now
        else:
            self.first_start_s[row] = self.now
        self._epoch[row] += 1
        overhead = self.restart_s[row] if again else 0.0
        self.push(self.now + overhead + self.run_s[row] - self.saved_s[row], Event.END, row)
        self._tell(row)

    def notify(self, row: int, preemptor: int, order_id: int) -> None:
        """Give a running job its notice: one that will leave by itself saves its work and does nothing more."""
        self.noticed_s[row] = self.now
        record = PreemptionRecord(
            victim=row, preemptor=preemptor, order_id=order_id, notice_s=self.now, nodes=self.where[row]
        )
        self.records.append(record)
        self._record_of[row] = record
        if self.yield_s[row] <= self.grace_s[row]:
            self._epoch[row] += 1
            self.push(self.now + self.yield_s[row], Event.LEAVE, row)

    def requeue(self, row: int, preemptor: int, order_id: int) -> None:
        """Put a running job back in the queue; its processes end now, or after KillWait if it has not saved."""
        if row not in self._record_of:
            self._record_of[row] = record = PreemptionRecord(
                victim=row, preemptor=preemptor, order_id=order_id, notice_s=self.now, nodes=self.where[row]
            )
            self.records.append(record)
        self._epoch[row] += 1
        self.leaving[row] = True
        # A requeue begins with SIGTERM: a job that needs no longer than KillWait still saves.
        if not isfinite(self.noticed_s[row]) and self.yield_s[row] <= self.behaviour.kill_wait_s:
            self.noticed_s[row] = self.now
        wait_s = self.behaviour.kill_wait_s if self.yield_s[row] > self.grace_s[row] else 0.0
        self.push(self.now + wait_s, Event.LEAVE, row)

    def evict(self, row: int, preemptor: int, grace_s: float, *, told: bool) -> None:
        """Let Slurm's own preemption take a running job: it goes on until its grace period, and KillWait, are over."""
        self.records.append(
            PreemptionRecord(victim=row, preemptor=preemptor, order_id=0, notice_s=self.now, nodes=self.where[row])
        )
        self._record_of[row] = self.records[-1]
        self.leaving[row] = True
        wait_s = grace_s + self.behaviour.kill_wait_s
        if told:
            self.noticed_s[row] = self.now
            if self.yield_s[row] <= grace_s:
                self._epoch[row] += 1  # it saves, and does nothing more
                wait_s = self.yield_s[row]
        self.push(self.now + wait_s, Event.LEAVE, row)

    def suspend(self, row: int) -> None:
        """Stop a running job's processes: its CPUs are free, its memory and GRES are not."""
        self.state[row] = JobPhase.SUSPENDED
        self.suspended_s[row] = self.now
        self._epoch[row] += 1
        for node in self.where[row]:
            self.free[node, 0] += self.workload.demand[row, 0]
        self.stirred = True

    def resume(self, row: int) -> None:
        """Let a suspended job go on; its CPUs must be free."""
        self.state[row] = JobPhase.RUNNING
        for node in self.where[row]:
            self.free[node, 0] -= self.workload.demand[row, 0]
        # As if it had started so much later.
        self.lost_s[row] += self.now - self.suspended_s[row]
        self.started_s[row] += self.now - self.suspended_s[row]
        overhead = self.restart_s[row] if self.restarts[row] else 0.0
        self._epoch[row] += 1
        self.push(self.started_s[row] + overhead + self.run_s[row] - self.saved_s[row], Event.END, row)

    def node_down(self, node: int) -> None:
        """Take a node away: its jobs go back to the queue without having saved."""
        self.up[node] = False
        for row in [row for row in self.running if node in self.where[row]]:
            self.noticed_s[row] = nan
            self._leave(row)

    def node_up(self, node: int) -> None:
        """Bring a node back."""
        self.up[node] = True
        self.stirred = True

    # What happens by itself.

    def push(self, at_s: float, event: Event, row: int) -> None:
        """Let this happen then. An event of a job is void when its run has ended or changed by then."""
        self._sequence += 1
        epoch = self._epoch[row] if event in {Event.END, Event.LEAVE} else 0
        heappush(self.heap, (at_s, event, self._sequence, row, epoch))

    def happen(self, event: int, row: int, epoch: int) -> None:
        """Let it happen."""
        if event == Event.END:
            if self._epoch[row] == epoch and self.state[row] is JobPhase.RUNNING:
                self._finish(row)
        elif event == Event.LEAVE:
            if self._epoch[row] == epoch:
                self._leave(row)
        elif event == Event.ELIGIBLE:
            self.ineligible.discard(row)
            self._enqueue(row)
        elif event == Event.NODE_DOWN:
            self.node_down(row)
        elif event == Event.NODE_UP:
            self.node_up(row)

    def _finish(self, row: int) -> None:
        self.lost_s[row] += self.now - self.started_s[row] - (self.run_s[row] - self.saved_s[row])
        self.state[row] = JobPhase.DONE
        self.end_s[row] = self.now
        self.done += 1
        self._epoch[row] += 1
        self._record_of.pop(row, None)
        self.ran_on[row] = self.where[row]
        self._give_back(row)
        self._tell(row)

    def _leave(self, row: int) -> None:
        """Let a run end in a requeue."""
        if self.state[row] is JobPhase.SUSPENDED:
            self.resume(row)
        held_s = self.now - float(self.started_s[row])
        kept_s = self._kept(row)
        lost_s = held_s - (kept_s - self.saved_s[row])
        self.saved_s[row] = kept_s
        self.lost_s[row] += lost_s
        record = self._record_of.get(row)
        if record is not None:
            record.left_s = self.now
            record.lost_node_s = lost_s * len(self.where[row])
        self._epoch[row] += 1
        self.restarts[row] += 1
        self.leaving[row] = False
        self.noticed_s[row] = nan
        self._give_back(row)
        self.state[row] = JobPhase.PENDING
        self.queued_s[row] = self.now
        to = self.behaviour.requeued_to
        if to is RequeuedTo.HEAD:
            self._heads += 1
            self.priority[row] = PRIORITY + self._heads - self.nice[row]
        elif to is RequeuedTo.TAIL:
            self.priority[row] = PRIORITY - self.submitted - len(self.records) - self.nice[row]
        if self.behaviour.requeue_delay_s > 0:
            self.ineligible.add(row)
            self.push(self.now + self.behaviour.requeue_delay_s, Event.ELIGIBLE, row)
        else:
            self._enqueue(row)
        self._tell(row)

    def _kept(self, row: int) -> float:
        """Return the seconds of work that a run which ends now has to its credit, with all runs before it."""
        before_s = self.saved_s[row]
        overhead = self.restart_s[row] if self.restarts[row] else 0.0
        noticed = isfinite(self.noticed_s[row]) and bool(self.workload.saves_on_notice[row])
        until = self.noticed_s[row] if noticed else self.now
        worked_s = before_s + max(until - float(self.started_s[row]) - overhead, 0.0)
        if noticed:
            return min(worked_s, self.run_s[row])
        every_s = float(self.workload.checkpoint_s[row])
        periodic = floor(worked_s / every_s) * every_s if every_s < inf else 0.0
        return max(before_s, periodic)

    def _give_back(self, row: int) -> None:
        demand = self.workload.demand[row]
        for node in self.where[row]:
            self.free[node] += demand
        self.where[row] = ()
        del self.running[row]
        self.running_be.pop(row, None)
        self.stirred = True

    def _tell(self, row: int) -> None:
        for watcher in self.watchers:
            watcher(row)

    # Where a job fits.

    def fits(self, row: int, free: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return [nodes] where the job's share fits into `free` and it may run."""
        demand = self.workload.demand[row]
        mask: NDArray[np.bool_] = free[:, 0] >= demand[0]
        for resource in range(1, free.shape[1]):
            if demand[resource]:
                mask &= free[:, resource] >= demand[resource]
        constraint = self.workload.constraint[row]
        if constraint:
            mask &= self.workload.allowed[constraint]
        if not self.up.all():
            mask &= self.up
        return mask
