"""Context of one step: the orders' advance is written here while it runs, then read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tesched_core.intake.leave_times import patience_s
from tesched_core.model.actions import Action, OrderId
from tesched_core.model.capacity import Capacity
from tesched_core.model.change import By, Change, own_request
from tesched_core.model.cluster import Job, Request
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.draft import MemoryDraft
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Order, Transition, Victim
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import EndingTimes, Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.deadlines import Deadlines
from tesched_core.placement.jobs_there import JobsThere
from tesched_core.placement.reserved import demand_there
from tesched_core.placement.spread import fits_on

#: Seconds after which a command is sent again if the cluster still does not show its effect; KillWait comes on top of
#: it for a requeue.
RESEND_AFTER_S = 5.0


@dataclass
class CycleContext:
    """The orders after this snapshot, and what follows from it. Filled while one step runs, then read."""

    snapshot: Snapshot
    columns: ClusterColumns
    limits: Limits
    #: the memory as far as orders and levers write it in this cycle
    draft: MemoryDraft = field(default_factory=MemoryDraft)
    #: jobs that orders free resources for: none of them has to be ahead of another
    preemptors: set[JobId] = field(default_factory=set)
    #: those under way when the step began
    orders: tuple[Order, ...] = ()
    #: nodes at which a suspended victim goes on in this very cycle
    resumed_on: set[str] = field(default_factory=set)
    #: victims that wait to run again: none of them has to be ahead of another
    returning: set[JobId] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    #: leave times seen in this cycle, with user and name
    leave_times: list[tuple[tuple[str, str], float]] = field(default_factory=list)
    #: for how long victims that have left in this cycle were ending, with their nodes; and what was known before
    ending_times: list[tuple[tuple[str, ...], float]] = field(default_factory=list)
    known_ending_times: EndingTimes = field(default_factory=dict)
    #: kinds of change that Slurm refuses, which are not tried yet again; empty where all is tried (`undo`)
    refused: Mapping[Field, RefusedChange] = field(default_factory=dict)
    #: no policy proposes: an admin has paused tesched
    paused: bool = False
    #: the longest time between two polls, in seconds
    longest_wait_s: float = 0.0
    #: until when TE jobs may delay each BE job; None: nothing is bounded
    deadlines: Deadlines | None = None
    #: jobs that this answer does not show, or of which it shows what was last known: nothing is concluded from that
    absent: frozenset[JobId] = frozenset()
    _ending: list[Job] | None = None
    _beside: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)
    _over: dict[tuple[str, ...], frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Memory, snapshot: Snapshot, columns: ClusterColumns, limits: Limits) -> CycleContext:
        """Return the context of a cycle that begins with this memory."""
        return cls(
            snapshot=snapshot,
            columns=columns,
            limits=limits,
            draft=MemoryDraft.of(memory),
            orders=memory.open_orders(),
            refused=memory.refused,
            known_ending_times=memory.ending_times,
        )

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    @property
    def release(self) -> str:
        """Return Slurm's release."""
        return self.snapshot.settings.release

    @cached_property
    def capacity_by_jobs(self) -> Capacity:
        """What is free by the jobs alone, whatever the nodes say that they hold."""
        nodes = {name: replace(node, held=None) for name, node in self.snapshot.nodes.items()}
        return capacity_of(replace(self.snapshot, nodes=nodes))

    @cached_property
    def there(self) -> JobsThere:
        """Return the jobs on each node, and what they hold."""
        return JobsThere(self.snapshot)

    @property
    def changes(self) -> dict[str, dict[JobId, Change[Any]]]:
        """What was changed, by field, then by job; to be written."""
        return self.draft.changes

    def changes_of(self, field: str) -> dict[JobId, Change[Any]]:
        """Return the changes of one field, by job; to be written."""
        return self.changes.setdefault(field, {})

    def made_by(self, field: str, by: By | None) -> dict[JobId, Change[Any]]:
        """Return the changes of one field that were made for one purpose, by job."""
        return {job_id: one for job_id, one in self.changes_of(field).items() if one.by is by}

    def is_refused(self, field: Field, user: str, *, puts_back: bool = False) -> bool:
        """Check whether Slurm refuses to set this field of the user's jobs, and it is not tried again yet."""
        one = self.refused.get(field)
        return one is not None and one.holds(user, self.now, puts_back=puts_back)

    def own_request(self, job: Job) -> Request:
        """Request of the job itself, without the nodes to which tesched has bound it."""
        return own_request(job, self.changes_of(Field.NODES).get(job.job_id))

    def is_awaited(self, order: Order) -> bool:
        """Check whether an order that frees resources awaits jobs that are ending on its nodes.

        These are its victims or, where it has none and its preemptor does not fit yet, what ends there by itself. A job
        that takes too long hangs (`intake/leave_times.py`), and is not awaited any more.
        """
        if not order.frees_resources:
            return False
        if not order.victims:
            return self._ends_on(order) and not self.fits(order)
        return any(self.is_ending(victim) for victim in order.victims)

    def is_ending(self, victim: Victim) -> bool:
        """Check whether a victim is ending on its nodes, and not for too long; of one not seen, whether it was."""
        job = self.snapshot.jobs.get(victim.job_id)
        if victim.state not in HOLDS_RESOURCES:
            return False
        since = victim.ending_since
        if victim.job_id in self.absent:
            since = victim.requeue_sent_at if since is None else since
            return since is not None and self._is_patient(victim.nodes, since)
        if job is None or not (job.completing or not job.on_nodes):
            return False
        return self._is_patient(victim.nodes, self.now if since is None else since)

    def hanging(self, order: Order) -> str:
        """Victims that have been ending for longer than an order awaits, in words; empty if none."""
        jobs = (self.snapshot.jobs.get(victim.job_id) for victim in order.victims if victim.state in HOLDS_RESOURCES)
        hang = [job for job in jobs if job is not None and job.completing]
        named = ", ".join(f"job {job.label} on {','.join(job.nodes)}" for job in hang)
        return f"still completing, in an Epilog or by a process that can't be killed: {named}" if hang else ""

    def _ends_on(self, order: Order) -> bool:
        if self._ending is None:
            self._ending = [job for job in self.snapshot.jobs.values() if job.completing]
        nodes = set(order.nodes)
        return any(
            not nodes.isdisjoint(job.nodes) and self._is_patient(job.nodes, order.created_at) for job in self._ending
        )

    def fits(self, order: Order) -> bool:
        """Check whether the order's preemptor fits into what is free now on the order's nodes, evenly spread or not."""
        job, capacity = self.snapshot.jobs.get(order.preemptor), self.columns.capacity
        rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
        demand = None if job is None else demand_there(order, job, self.snapshot, capacity)
        return demand is not None and fits_on(demand, rows, capacity)

    def _is_patient(self, nodes: Iterable[str], since: UnixSeconds) -> bool:
        return self.now - since <= patience_s(self.known_ending_times, nodes)

    def tasks_of(self, array: JobId) -> Sequence[Job]:
        """Return the tasks of a job array that have a record of their own, and its record of those that wait."""
        return self.columns.tasks.get(array, ())

    def partitions_beside(self, partitions: tuple[str, ...]) -> frozenset[str]:
        """Return these partitions, and those of their tiers that share nodes with them.

        Slurm goes by PriorityTier first, and by the jobs' priorities only within a tier.
        """
        if partitions not in self._beside:
            everything = self.snapshot.partitions
            mine = [everything[name] for name in partitions if name in everything]
            tiers = {partition.priority_tier for partition in mine}
            self._beside[partitions] = frozenset(partitions) | {
                name
                for name, partition in everything.items()
                if partition.priority_tier in tiers and any(not one.nodes.isdisjoint(partition.nodes) for one in mine)
            }
        return self._beside[partitions]

    def partitions_over(self, partitions: tuple[str, ...]) -> frozenset[str]:
        """Return these partitions, and those of any tier that share nodes with them."""
        if partitions not in self._over:
            everything = self.snapshot.partitions
            nodes = frozenset().union(*(everything[name].nodes for name in partitions if name in everything))
            shared = (name for name, one in everything.items() if not nodes.isdisjoint(one.nodes))
            self._over[partitions] = frozenset(partitions) | frozenset(shared)
        return self._over[partitions]

    def order_step(self, before: Order | None, after: Order, text: str) -> Order:
        """Record what became of an order (None: before it was opened), by its states; return it as it is now."""
        self.moved(after.order_id, None, "" if before is None else before.state, after.state, text)
        return after

    def victim_step(self, order: Order, before: Victim, after: Victim, text: str) -> Victim:
        """Record what became of an order's victim, by its states; return it as it is now."""
        self.moved(order.order_id, before.job_id, before.state, after.state, text)
        return after

    def moved(self, order_id: OrderId, job_id: JobId | None, before: str, after: str, text: str) -> None:
        """Record a transition of what has no state of its own, as a command that was not sent."""
        self.transitions.append(
            Transition(order_id=order_id, at=self.now, job_id=job_id, before=before, after=after, text=text)
        )
