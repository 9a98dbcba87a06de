"""The simulated Slurm's jobs and nodes, and what can be done to them. Other modules decide when, and to which.

Jobs are rows of the workload, nodes are rows of its machines, times are seconds after its beginning.

Over 400 lines: one class, the cluster's state and each change of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappush
from math import floor, inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.actions import MarkLine
from tesched_core.model.column_layout import SHARD

from tesched_sim.arrays import Arrays, TrainingProgress
from tesched_sim.priority_queue import PriorityQueue
from tesched_sim.shared_gpus import SharedGpus
from tesched_sim.slurm_settings import Behaviour, ReleasedTo, RequeuedTo
from tesched_sim.workload import Workload

#: seconds for which a finished job is still known (MinJobAge)
MIN_JOB_AGE_S = 300.0
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
    #: a training has done its iterations
    TRAINED = 6
    #: what another module has put off (`Slurm.later`)
    CALL = 7
    #: the same, of what slurmctld has no part in
    APART = 8


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
        self._in_all = self.total.sum(axis=0)
        #: accelerators have types; of each node [nodes] the column of its own, and the column of all
        self.is_typed = workload.machines.type_of is not None
        self._typed, self._gpu = workload.machines.typed_columns()
        #: who holds which part of which GPU; None: GPUs are given whole alone
        self.shared = SharedGpus(workload) if SHARD in workload.machines.resources else None
        #: [nodes, resources] what a job may have there; below zero nowhere
        self.free = workload.machines.most.copy()
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
        #: best effort: those alone can be victims
        self.be: list[bool] = workload.be.tolist()
        self.run_s: list[float] = workload.run_s.tolist()
        #: seconds of work that its present run does in a second
        self.speed = [1.0] * count
        self._speeds_differ = workload.speed is not None or workload.most_nodes is not None
        self.grace_s: list[float] = workload.grace_s.tolist()
        self.yield_s: list[float] = workload.yield_s.tolist()
        self.restart_s: list[float] = workload.restart_s.tolist()
        shapes = np.column_stack([workload.demand, workload.constraint, workload.nodes])
        #: jobs of one number want the same
        self.shape: list[int] = np.unique(shapes, axis=0, return_inverse=True)[1].reshape(-1).tolist()
        #: fewest and most nodes
        self.nodes_wanted: list[int] = workload.nodes.tolist()
        self.nodes_most: list[int] = (workload.nodes if workload.most_nodes is None else workload.most_nodes).tolist()
        # Columns that are read for many jobs at once.
        self.started_s = np.full(count, nan)
        #: when it was put in the queue for its present or next run
        self.queued_s = workload.submit_s.copy()
        self.first_start_s = np.full(count, nan)
        self.end_s = np.full(count, nan)
        #: nodes times seconds of each job: held, by all its runs, and of those in which it did no work that lasted
        self.held_node_s = np.zeros(count)
        self.lost_node_s = np.zeros(count)
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
        #: tasks that wait for another one of their array to end (ArrayTaskThrottle), and jobs that wait for others
        self.throttled: set[int] = set()
        self.dependent: set[int] = set()
        self.dependency: dict[int, str] = {}
        #: jobs whose priority was set as a number: it stays, and nice counts for nothing, until their release
        self.fixed: set[int] = set()
        #: from when on a job that is not eligible may start
        self.eligible_s: dict[int, float] = {}
        #: jobs that were ended for good, and jobs that have failed
        self.cancelled: set[int] = set()
        self.failed: set[int] = set()
        #: jobs that their users hold, and nice values that were set by hand
        self.held_by_user: set[int] = set()
        self.nice_by_hand: dict[int, int] = {}
        #: jobs that a requeue has left held (REQUEUE_HOLD)
        self.left_held: set[int] = set()
        #: licences of those that have some
        self.licenses: dict[int, str] = {}
        #: marks of jobs that Slurm's plugin may preempt, by row
        self.marks: dict[int, MarkLine] = {}
        #: users for whose TE jobs none is; how long a TE job waits first; TE jobs for which none is, and until when
        self.barred: frozenset[str] = frozenset()
        self.te_wait_s = 0.0
        self.came_back: dict[int, float] = {}
        #: slurmctld is away; of nodes that are up those that have not reported since; until when no reason is known
        self.is_away = False
        #: from when on it forgets jobs that ended too long ago
        self.forgets_from = -inf
        self.unreported: set[int] = set()
        self.unexamined_until = 0.0
        #: seconds by which its clock is ahead
        self.ahead_s = 0.0
        #: when slurmctld learns of what happens now to a row; None: at once
        self.learns_at: Callable[[int, int], float] | None = None
        self._calls: dict[int, Callable[[], None]] = {}
        self.arrays = None if workload.array is None else Arrays(workload.array, workload.throttle)
        self.trainings = [TrainingProgress(model=one) for one in workload.trainings]
        #: [trainings] which of the ends that were foretold holds
        self._foretold = [0] * len(self.trainings)
        #: what the jobs' records say to their users
        self.notes: dict[int, str] = {}
        #: jobs that slurmctld knows, in order of submission, and those of them that have ended, in that order
        self.known: dict[int, None] = {}
        self._ended: deque[int] = deque()
        self.be_waiting = 0
        #: resources were given back, or the queue's order has changed, since the last pass over the queue
        self.stirred = True
        #: rows that were put into a line since then
        self.arrived: list[int] = []
        self.records: list[PreemptionRecord] = []
        self._record_of: dict[int, PreemptionRecord] = {}
        self._heads = 0
        #: places that the end of the queue has given away
        self._tails = 0
        self._place = [0] * count
        #: waiting jobs that must start on these nodes, and those for which that has changed since the last pass
        self.bound: dict[int, tuple[int, ...]] = {}
        self.rebound: set[int] = set()
        #: called for every job that starts, leaves or ends
        self.watchers: list[Callable[[int], None]] = []

    # The queue.

    def line_of(self, row: int) -> PriorityQueue:
        """Return the line in which a job waits."""
        return self.lines[0 if self.te[row] else -1]

    def waits(self, row: int) -> bool:
        """Check whether the job waits in a line: it would start if resources were free."""
        here = self.state[row] is JobPhase.PENDING and row not in self.ineligible and row not in self.held
        return here and row not in self.throttled and row not in self.dependent

    def waits_in(self, line: PriorityQueue, row: int) -> bool:
        """Check whether the job waits in this line."""
        return self.waits(row) and self.line_of(row) is line

    def submit(self, row: int, *, held: bool = False) -> None:
        """Submit the job; `held`: the submission hook holds it."""
        self._place[row] = self.new_place()
        self.priority[row] = self.own_priority(row)
        self.submitted += 1
        self.known[row] = None
        if self.arrays is not None and self.arrays.of[row] >= 0:
            self.arrays.known[self.arrays.of[row]] += 1
        if held:
            self.priority[row] = 0
            self.held.add(row)
            self.held_by_hook.add(row)
        self._enqueue(row)

    def new_place(self) -> int:
        """Give away the place at the end of the queue, behind all that were submitted, or put there, before."""
        self._tails += 1
        return self._tails

    def own_priority(self, row: int, place: int | None = None) -> int:
        """Priority that Slurm gives a job in its place of the queue: that of its submission, or another one."""
        first = TE_PRIORITY if self.te[row] and self.behaviour.te_first else PRIORITY
        return first + 1 - (self._place[row] if place is None else place) - self.nice[row]

    def released_priority(self, row: int) -> int:
        """Priority that Slurm gives a job anew, when its hold ends or it goes on."""
        is_last = self.behaviour.released_to is ReleasedTo.TAIL
        return self.own_priority(row, self.new_place() if is_last else None)

    def keep_back(self, row: int, why: set[int], *, back: bool) -> None:
        """Put a job among those that may not start for this reason (`held`, `throttled`, `dependent`), or take it out.

        Its priority must be the one with which it waits, or will wait, in its line.
        """
        waited = self.waits(row)
        (why.add if back else why.discard)(row)
        if waited and not self.waits(row):
            self.line_of(row).remove(row, self.priority[row])
        elif not waited and self.waits(row):
            self.line_of(row).add(row, self.priority[row])
            self.stirred = True

    def forget(self) -> None:
        """Forget the jobs that ended too long ago for slurmctld to know them (MinJobAge)."""
        if self.now < self.forgets_from:
            return
        while self._ended and self.now - self.end_s[self._ended[0]] > MIN_JOB_AGE_S:
            row = self._ended.popleft()
            # One that was put back in the queue meanwhile has ended again since, or runs.
            if self._is_old(row) and not self._stands_for_others(row):
                self._forget_one(row)
                self._forget_array(row)

    def _is_old(self, row: int) -> bool:
        return self.state[row] is JobPhase.DONE and self.now - self.end_s[row] > MIN_JOB_AGE_S

    def _stands_for_others(self, row: int) -> bool:
        """Check whether this is the record of an array of which other tasks are known."""
        arrays = self.arrays
        if arrays is None or arrays.of[row] < 0 or arrays.record_of(row) != row:
            return False
        return arrays.known[arrays.of[row]] > (row in self.known)

    def _forget_array(self, row: int) -> None:
        """Forget the record of an array with the last one of its tasks."""
        if self.arrays is None or self.arrays.of[row] < 0:
            return
        record = self.arrays.record_of(row)
        if self._is_old(record) and not self._stands_for_others(record):
            self._forget_one(record)

    def _forget_one(self, row: int) -> None:
        if row in self.known:
            del self.known[row]
            if self.arrays is not None and self.arrays.of[row] >= 0:
                self.arrays.known[self.arrays.of[row]] -= 1

    def rows_of(self, row: int) -> list[int]:
        """Return the rows that the record of this one stands for: of an array, all tasks that have not started."""
        return [row] if self.arrays is None else self.arrays.together(row)

    def throttle(self, array: int) -> None:
        """Let as many tasks of an array start as its throttle allows beside those that run."""
        if self.arrays is None:
            return
        most = self.arrays.throttle[array]
        left = most - self.arrays.running[array] if most else len(self.arrays.rows[array])
        before, last = self.arrays.open_to[array], -1
        for row in self.arrays.waiting[array]:
            if left > 0:
                last = row
            elif row > before:
                break  # it is kept back already, as all behind it are
            self.keep_back(row, self.throttled, back=left <= 0)
            # A task that may not start yet, such as one that was just requeued, takes no other's place.
            left -= not (row in self.held or row in self.ineligible or row in self.dependent)
        self.arrays.open_to[array] = last

    def _enqueue(self, row: int) -> None:
        self.state[row] = JobPhase.PENDING
        array = -1 if self.arrays is None else self.arrays.of[row]
        if self.arrays is not None and array >= 0:
            self.arrays.waits(row)
            self.throttled.add(row)
        if self.te[row]:
            self.te_pending[row] = None
        else:
            self.be_waiting += 1
        if self.waits(row):
            self.line_of(row).add(row, self.priority[row])
        self.arrived.append(row)
        if row in self.bound:
            self.rebound.add(row)
        if self.arrays is not None and array >= 0 and (self.restarts[row] or row == self.arrays.record_of(row)):
            self.throttle(array)

    def put_off(self, row: int, until_s: float) -> None:
        """Let a job of the queue not start before this time; one that has come lets it start now."""
        if until_s <= self.now:
            if row in self.ineligible:
                self.ineligible.discard(row)
                self._enqueue(row)
            return
        if row not in self.ineligible:
            if self.waits(row):
                self.line_of(row).remove(row, self.priority[row])
            if self.te[row]:
                del self.te_pending[row]
            else:
                self.be_waiting -= 1
            self.ineligible.add(row)
        if row in self.bound:
            self.rebound.add(row)
        self.eligible_s[row] = until_s
        self.push(until_s, Event.ELIGIBLE, row)

    def set_priority(self, row: int, priority: int) -> None:
        """Change a job's priority; it changes its place in the line if it waits in one."""
        line = self.line_of(row)
        waits = self.waits(row)
        if waits:
            line.remove(row, self.priority[row])
        self.priority[row] = priority
        if waits:
            line.add(row, priority)
            self.stirred = True

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
        """Start a job that waits in a line on these nodes, which must have its resources free."""
        self.line_of(row).remove(row, self.priority[row])
        if self.te[row]:
            del self.te_pending[row]
        else:
            self.be_waiting -= 1
            if self.be[row]:
                self.running_be[row] = None
        self.running[row] = None
        self._take(row, nodes)
        self.where[row] = nodes
        self.state[row] = JobPhase.RUNNING
        if self.arrays is not None:
            self.arrays.waits_no_more(row)
            self._workers_change(row, 1)
        self.started_s[row] = self.now
        if self.restarts[row]:
            record = self._record_of.pop(row, None)
            if record is not None:
                record.back_s = self.now
        else:
            self.first_start_s[row] = self.now
        self._epoch[row] += 1
        if self._speeds_differ:
            self.speed[row] = self.workload.speed_on(row, nodes)
        self.push(self.now + self._overhead_s(row) + self._left_s(row), Event.END, row)
        self._tell(row)

    def _overhead_s(self, row: int) -> float:
        """Seconds that the job's present run takes besides its work."""
        return self.behaviour.start_s + (self.restart_s[row] if self.restarts[row] else 0.0)

    def _left_s(self, row: int) -> float:
        """Return the seconds that a job which starts, or goes on, works until its end, as fast as it is now."""
        return (self.run_s[row] - self.saved_s[row]) / self.speed[row]

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
        # SIGTERM comes when its grace period is over, and SIGKILL after KillWait: it has saved by then, or never does.
        if self.yield_s[row] <= (wait_s if told else self.behaviour.kill_wait_s):
            self.noticed_s[row] = self.now if told else self.now + grace_s
            if told:
                self._epoch[row] += 1  # it saves, and does nothing more
                wait_s = self.yield_s[row]
        self.push(self.now + wait_s, Event.LEAVE, row)

    def suspend(self, row: int) -> None:
        """Stop a running job's processes: its CPUs are free, its memory and GRES are not."""
        self.state[row] = JobPhase.SUSPENDED
        self.suspended_s[row] = self.now
        self.priority[row] = 0
        self._epoch[row] += 1
        for node in self.where[row]:
            self.free[node, 0] += self.workload.demand[row, 0]
        self.stirred = True

    def resume(self, row: int) -> None:
        """Let a suspended job go on, with a new priority; its CPUs must be free."""
        self.state[row] = JobPhase.RUNNING
        self.priority[row] = self.priority[row] or self.released_priority(row)
        for node in self.where[row]:
            self.free[node, 0] -= self.workload.demand[row, 0]
        # As if it had started so much later.
        stood_s = self.now - self.suspended_s[row]
        self._lose(row, stood_s)
        self.held_node_s[row] += stood_s * len(self.where[row])
        self.started_s[row] += stood_s
        self._epoch[row] += 1
        self.push(float(self.started_s[row]) + self._overhead_s(row) + self._left_s(row), Event.END, row)

    def node_down(self, node: int) -> None:
        """Take a node away: its jobs go back to the queue without having saved."""
        self.up[node] = False
        for row in [row for row in self.running if node in self.where[row]]:
            self.noticed_s[row] = nan
            self._leave(row)

    def node_up(self, node: int) -> None:
        """Bring a node back."""
        self.up[node] = True
        self.unreported.discard(node)
        self.stirred = True

    # What happens by itself.

    def push(self, at_s: float, event: Event, row: int, epoch: int = 0) -> None:
        """Let this happen then, or now if that has passed. One of a job is void when its run has ended or changed."""
        self._sequence += 1
        at_s = max(at_s, self.now)
        epoch = self._epoch[row] if event in {Event.END, Event.LEAVE} else epoch
        heappush(self.heap, (at_s, event, self._sequence, row, epoch))

    def stir(self) -> None:
        """Let the queue be gone over."""
        self.stirred = True

    def later(self, at_s: float, call: Callable[[], None], *, apart: bool = False) -> None:
        """Let this be done then; `apart`: also while slurmctld is away."""
        self.push(at_s, Event.APART if apart else Event.CALL, self._sequence)
        self._calls[self._sequence - 1] = call

    def happen(self, event: int, row: int, epoch: int) -> None:
        """Let it happen, when slurmctld learns of it."""
        if self.learns_at is not None and (at := self.learns_at(event, row)) > self.now:
            self._sequence += 1
            heappush(self.heap, (at, event, self._sequence, row, epoch))
            return
        if event == Event.END:
            if self._epoch[row] == epoch and self.state[row] is JobPhase.RUNNING:
                self._finish(row)
        elif event == Event.LEAVE:
            if self._epoch[row] == epoch:
                self._leave(row)
        elif event == Event.ELIGIBLE:
            # Void if it may start at another time by now.
            if row in self.ineligible and self.eligible_s[row] <= self.now:
                self.ineligible.discard(row)
                self._enqueue(row)
        elif event == Event.TRAINED:
            if self._foretold[row] == epoch:
                self._trained(row)
        elif event == Event.NODE_DOWN:
            self.node_down(row)
        elif event in {Event.CALL, Event.APART}:
            self._calls.pop(row)()
        elif event == Event.NODE_UP:
            self.node_up(row)

    def ends_now(self, row: int) -> None:
        """Let a running job have done its work at this moment."""
        self.saved_s[row] = self.run_s[row] - max(self.now - float(self.started_s[row]), 0.0) * self.speed[row]
        self._finish(row)

    def fail(self, row: int) -> None:
        """Let a running job end as FAILED; what it has saved stays saved."""
        kept_s = self._kept(row)
        self._lose(row, self.now - float(self.started_s[row]) - (kept_s - self.saved_s[row]) / self.speed[row])
        self.saved_s[row] = max(kept_s, self.saved_s[row])
        self.failed.add(row)
        self._end(row)

    def leaves(self, row: int) -> None:
        """Let a run end in a requeue, now."""
        self._leave(row)

    def never_started(self, row: int) -> None:
        """Let a job that has just started be in the queue as before; nothing is left of its run."""
        self._epoch[row] += 1
        self._give_back(row)
        self._enqueue(row)

    def never_left(self, row: int, nodes: tuple[int, ...], *, started_s: float, queued_s: float) -> None:
        """Let a job that has just left these nodes be shown to run there as before; its resources must be free."""
        if self.waits(row):
            self.line_of(row).remove(row, self.priority[row])
        if row not in self.ineligible:
            self.te_pending.pop(row, None)
            self.be_waiting -= not self.te[row]
        self.ineligible.discard(row)
        self.restarts[row] -= 1
        self._epoch[row] += 1
        if self.arrays is not None:
            self.arrays.waits_no_more(row)
        self.state[row], self.where[row] = JobPhase.RUNNING, nodes
        self.started_s[row], self.queued_s[row] = started_s, queued_s
        # Its end counts all of it anew: what it held until it left is counted already, and then it held none.
        self.held_node_s[row] -= (self.now - started_s) * len(nodes)
        self._lose(row, started_s - self.now)
        self.running[row] = None
        if self.be[row]:
            self.running_be[row] = None
        self._take(row, nodes)

    def hold_again(self, row: int) -> None:
        """Leave a job that is just back in the queue held by its requeue (REQUEUE_HOLD)."""
        self.keep_back(row, self.held, back=True)
        self.priority[row] = 0
        self.left_held.add(row)

    def _finish(self, row: int) -> None:
        self._lose(row, self.now - float(self.started_s[row]) - self._left_s(row))
        self._end(row)

    def _lose(self, row: int, seconds: float) -> None:
        self.lost_node_s[row] += seconds * len(self.where[row])

    def _end(self, row: int) -> None:
        self.state[row] = JobPhase.DONE
        self.end_s[row] = self.now
        self._ended.append(row)
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
        lost_s = held_s - (kept_s - self.saved_s[row]) / self.speed[row]
        self.saved_s[row] = kept_s
        self._lose(row, lost_s)
        record = self._record_of.get(row)
        if record is not None:
            record.left_s = self.now
            record.lost_node_s = lost_s * len(self.where[row])
        self._epoch[row] += 1
        self.restarts[row] += 1
        self.leaving[row] = False
        self.noticed_s[row] = nan
        self._give_back(row)
        to = self.behaviour.requeued_to
        if row in self.fixed:
            pass  # an explicit priority survives a requeue
        elif to is RequeuedTo.HEAD:
            self._heads += 1
            self.priority[row] = PRIORITY + self._heads - self.nice[row]
        elif to is RequeuedTo.TAIL:
            self.priority[row] = self.own_priority(row, self.new_place())
        self.requeued(row)
        self._tell(row)

    def requeued(self, row: int) -> None:
        """Put a job whose run is over back in the queue, where it may start after Slurm's delay."""
        self.state[row] = JobPhase.PENDING
        if self.arrays is not None and (array := self.arrays.of[row]) >= 0:
            self.arrays.waits(row)
            self.arrays.open_to[array] = max(self.arrays.open_to[array], row)
        self.queued_s[row] = self.now
        if row in self.held:
            self.priority[row] = 0
        if self.behaviour.requeue_delay_s > 0:
            self.ineligible.add(row)
            self.eligible_s[row] = self.now + self.behaviour.requeue_delay_s
            self.push(self.eligible_s[row], Event.ELIGIBLE, row)
        else:
            self._enqueue(row)

    def _kept(self, row: int) -> float:
        """Return the seconds of work that a run which ends now has to its credit, with all runs before it."""
        before_s = self.saved_s[row]
        noticed = self.noticed_s[row] <= self.now and bool(self.workload.saves_on_notice[row])
        until = self.noticed_s[row] if noticed else self.now
        worked_s = before_s + max(until - float(self.started_s[row]) - self._overhead_s(row), 0.0) * self.speed[row]
        if noticed:
            return min(worked_s, self.run_s[row])
        every_s = float(self.workload.checkpoint_s[row])
        periodic = floor(worked_s / every_s) * every_s if every_s < inf else 0.0
        return max(before_s, min(periodic, self.run_s[row]))

    def _take(self, row: int, nodes: tuple[int, ...]) -> None:
        demand = self.workload.demand[row]
        for node in nodes:
            self.free[node] -= self.held_on(row, node) if self.is_typed else demand
            if self.shared is not None:
                self.shared.take(row, node, self.free)

    def _give_back(self, row: int) -> None:
        demand = self.workload.demand[row]
        for node in self.where[row]:
            self.free[node] += self.held_on(row, node) if self.is_typed else demand
            if self.shared is not None:
                self.shared.give_back(row, node, self.free)
        self.held_node_s[row] += (self.now - self.started_s[row]) * len(self.where[row])
        self.where[row] = ()
        if self.arrays is not None:
            self._workers_change(row, -1)
        del self.running[row]
        self.running_be.pop(row, None)
        self.stirred = True

    def _tell(self, row: int) -> None:
        for watcher in self.watchers:
            watcher(row)

    def _workers_change(self, row: int, by: int) -> None:
        """Count one worker more or less of the array that has this task: its training goes on with so many."""
        arrays = self.arrays
        if arrays is None or (array := arrays.of[row]) < 0:
            return
        arrays.started.add(row)
        training = self.trainings[array]
        training.count(self.now, arrays.running[array])
        arrays.running[array] += by
        self._foretold[array] += 1
        if training.is_done:
            self.push(self.now, Event.TRAINED, array, self._foretold[array])
        elif arrays.running[array]:
            self.push(training.ends_s(arrays.running[array]), Event.TRAINED, array, self._foretold[array])
        self.throttle(array)

    def _trained(self, array: int) -> None:
        """End a training's tasks, as it does itself when it is done."""
        if self.arrays is None:
            return
        self.trainings[array].count(self.now, self.arrays.running[array])
        rows = [row for row in self.arrays.rows[array] if self.state[row] is not JobPhase.DONE]
        # Those that wait first: none of them is to start in the place of one that ends.
        for row in sorted(rows, key=lambda row: self.state[row] is not JobPhase.PENDING):
            self.cancel(row)

    def cancel(self, row: int) -> None:
        """End a job for good, in the queue or on its nodes."""
        if self.state[row] is JobPhase.PENDING:
            if self.waits(row):
                self.line_of(row).remove(row, self.priority[row])
            if row not in self.ineligible:
                self.te_pending.pop(row, None)
                self.be_waiting -= not self.te[row]
            for kept in (self.ineligible, self.held, self.held_by_hook, self.throttled, self.dependent):
                kept.discard(row)
            if self.arrays is not None:
                self.arrays.waits_no_more(row)
            self.state[row] = JobPhase.DONE
        else:
            if self.state[row] is JobPhase.SUSPENDED:
                self.resume(row)
            self.state[row] = JobPhase.DONE
            self.ran_on[row] = self.where[row]
            self.leaving[row] = False
            self._record_of.pop(row, None)
            self._give_back(row)
        self.cancelled.add(row)
        self.end_s[row] = self.now
        self._ended.append(row)
        self.done += 1
        self._epoch[row] += 1
        self._tell(row)

    # Where a job fits.

    def held_on(self, row: int, node: int) -> NDArray[np.int64]:
        """Return [resources] what a job takes of a node: of accelerators without a type, those of the node's."""
        held: NDArray[np.int64] = self.workload.demand[row]
        if self.is_typed:
            held = held.copy()
            held[self._typed[node]] = held[self._gpu]
        return held

    def in_use(self) -> NDArray[np.int64]:
        """Return [resources] what is not free on all nodes: GPUs with a shard in use, too, and shards of whole GPUs."""
        found: NDArray[np.int64] = self._in_all - self.free.sum(axis=0)
        if self.shared is not None:
            found[self.shared.shard] = self.shared.shards_held
        return found

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
