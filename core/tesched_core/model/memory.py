"""Memory: what tesched carries from one cycle to the next. Frozen; the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tesched_core.model.actions import NodeCount, OrderId
from tesched_core.model.order import Ending, Order, Raise
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import LeaveTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """A BE job that was brought to the head of the queue, so that it fills room that is left over."""

    job_id: JobId
    at: UnixSeconds
    raised: Raise


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBinding:
    """A job that was bound to nodes while it waits: for room that its victims make there, or for its turn."""

    job_id: JobId
    order_id: OrderId
    at: UnixSeconds
    #: the nodes, sorted, and which it asked for itself
    nodes: tuple[str, ...]
    previous: tuple[str, ...]
    #: to which it was bound by an order before this one when it was bound anew; empty if it was not
    before: tuple[str, ...] = ()
    #: how many it asked for itself, where that was changed to the number of `nodes`
    previous_count: NodeCount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """A job array whose throttle tesched has set."""

    #: when it was last set
    at: UnixSeconds
    #: the array's own, to be put back; 0: no limit
    previous: int
    #: what was asked for last, and what was in place then: it is not known of every change whether it arrived
    value: int
    before: int
    #: there is nothing to put back: it was only said what would be done
    dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Futility:
    """What came of the orders for one TE job that asked victims and came to nothing; of an array, for all its tasks."""

    #: how many there were
    count: int
    #: how the last one ended
    ending: Ending
    #: what Slurm said of the job then (its reason word)
    said: str = ""
    #: a digest of what decides whether another order can do better (`futility.basis_of`); empty until it was taken
    basis: str = ""
    #: after one that ended at a limit: the most jobs of its user, account and QOS that were seen running since
    fellows: int = 0
    #: something that mattered has changed since
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a job has behind it that Slurm does not say: it resets the submission at each requeue."""

    #: its first submission
    submitted_at: UnixSeconds
    #: how long it ran before, all runs together, seconds
    ran_s: float
    #: and for how long of that, and of its present run, tesched had it suspended
    suspended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What must be remembered from cycle to cycle, and over a restart."""

    #: the last cycle
    cycle: int = 0
    #: the order that comes next
    next_order: OrderId = OrderId(1)
    #: orders that have not ended, and those that ended in this very cycle
    orders: Mapping[OrderId, Order] = field(default_factory=dict)
    #: how often a job was preempted, all its runs together (never more than the guard allows)
    preemptions: Mapping[JobId, int] = field(default_factory=dict)
    #: when a job was last preempted, or let go after its notice
    last_preempted: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: TE jobs whose order came to nothing, and when they may be tried again; of an array, by the array's id
    retry_at: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: what came of their futile orders, by the same id
    futile: Mapping[JobId, Futility] = field(default_factory=dict)
    #: TE jobs for which shadow mode has recorded an order, and when it may record the next. Not persisted
    shadowed: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: victims that Slurm has just refused to put back in the queue, whose users are yet to be told. Not persisted
    newly_lost: frozenset[JobId] = frozenset()
    #: remembered jobs that the last answers did not show, and since when. Not persisted
    missing: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: victims' payments of the last day
    paid: tuple[Paid, ...] = ()
    #: how long jobs took to leave without a notice; read back from the orders of the past, so it is no part of the rest
    leave_times: LeaveTimes = field(default_factory=dict, compare=False)
    #: what became of a preempted job before its present turn in the queue
    past: Mapping[JobId, Past] = field(default_factory=dict)
    #: BE jobs that a best-effort policy has brought to the head of the queue
    forwarded: Mapping[JobId, Forwarded] = field(default_factory=dict)
    #: TE jobs that were bound to nodes, until they have ended or are seen to be free again
    bound: Mapping[JobId, NodeBinding] = field(default_factory=dict)
    #: when such a job was bound for the first time since it last ran: `guard.bind_for_s` counts from there
    bound_since: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: jobs that tesched holds, and since when
    held: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: job arrays whose throttle tesched has set, by the array's id
    throttled: Mapping[JobId, Throttled] = field(default_factory=dict)
    #: what each policy remembers, by its name; nothing but the policy reads it
    policy_states: Mapping[str, Any] = field(default_factory=dict)

    def open_orders(self) -> tuple[Order, ...]:
        """Return the orders that have not ended, oldest first."""
        return tuple(order for _, order in sorted(self.orders.items()) if order.ended_at is None)
