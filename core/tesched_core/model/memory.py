"""Memory: what tesched carries from one cycle to the next. Frozen; the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tesched_core.model.actions import OrderId
from tesched_core.model.bystander import Bystander, Examined
from tesched_core.model.change import By, Change, TeRules, lets_through, own_request
from tesched_core.model.cluster import Job, Request
from tesched_core.model.field import Field
from tesched_core.model.job_memory import NOTHING, JobMemory
from tesched_core.model.known_jobs import KnownCluster
from tesched_core.model.order import Order
from tesched_core.model.outlived import Outlived
from tesched_core.model.payment import Paid
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.site_answers import SiteAnswers
from tesched_core.model.snapshot import EndingTimes, LeaveTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class TeRun:
    """A TE job's turn in the queue and the run after it, as polls have seen them (`orders/came_back.py`)."""

    #: Slurm's count of its restarts
    restarts: int
    #: when it was last seen
    at: UnixSeconds
    #: since when it is seen to run, after its Prolog, and Slurm's time of that start; None: it does not
    running_since: UnixSeconds | None = None
    began: UnixSeconds | None = None
    #: it was completing then, or had ended
    over: bool = False
    #: it has run for long enough to be useful
    useful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory from cycle to cycle, and over a restart."""

    #: the last cycle
    cycle: int = 0
    #: the order that comes next
    next_order: OrderId = OrderId(1)
    #: orders that have not ended, and those that ended in this very cycle
    orders: Mapping[OrderId, Order] = field(default_factory=dict)
    #: what is remembered of each job; none of these is empty
    jobs: Mapping[JobId, JobMemory] = field(default_factory=dict)
    #: TE jobs that Slurm did not start on resources that were free for them; of an array, by its id. Not persisted: a
    #: new process tries the lesser reading of what they ask for once more (`placement/memory_reading.py`)
    declined: frozenset[JobId] = frozenset()
    #: victims that Slurm has just refused to put back in the queue; their users are yet to be notified. Not persisted
    newly_lost: frozenset[JobId] = frozenset()
    #: what went with the last marks. Not persisted: a new process writes the marks anew
    te_rules: TeRules = field(default_factory=TeRules)
    #: TE jobs in the queue and on nodes, while Slurm preempts by itself. Not persisted: a new process sees what comes
    te_runs: Mapping[JobId, TeRun] = field(default_factory=dict)
    #: when those were seen, and the newest job of all then; None: by no poll of this process
    te_poll: tuple[UnixSeconds, JobId] | None = None
    #: victims' payments of the last day
    paid: tuple[Paid, ...] = ()
    #: TE runs of the last day that outlived their time limits
    outlived: tuple[Outlived, ...] = ()
    #: how long jobs took to leave without a notice; read back from the orders of the past, so it is no part of the rest
    leave_times: LeaveTimes = field(default_factory=dict, compare=False)
    #: and for how long victims were ending on each node. Read back alike
    ending_times: EndingTimes = field(default_factory=dict, compare=False)
    #: BE jobs that TE jobs keep waiting, or have kept (`orders/bystanders.py`)
    bystanders: Mapping[JobId, Bystander] = field(default_factory=dict)
    #: when the queue was last examined for them. Not persisted: a new process does so at once
    examined: Examined | None = field(default=None, compare=False)
    #: what the last cycle has worked out of the site. Not persisted: a new process works it out anew
    answers: SiteAnswers | None = field(default=None, compare=False, repr=False)
    #: what the last cycle has read of the site and its jobs. Not persisted: a new process reads all
    known: KnownCluster | None = field(default=None, compare=False, repr=False)
    #: time of the last poll; None: there was none
    seen_at: UnixSeconds | None = field(default=None, compare=False)
    #: what tesched has changed in Slurm and is to put back, by field, then by job (of a throttle, by the array)
    changes: Mapping[str, Mapping[JobId, Change[Any]]] = field(default_factory=dict)
    #: changes that were seen to be put back lately, and when (`fields/put_back_lately.py`). Not persisted: a new
    #: process knows of those that are not over
    put_back: tuple[tuple[Change[Any], UnixSeconds], ...] = field(default=(), compare=False)
    #: kinds of change that Slurm refuses on this site, by the field that is set
    refused: Mapping[Field, RefusedChange] = field(default_factory=dict)
    #: what each policy remembers, by its name; nothing but the policy reads it
    policy_states: Mapping[str, Any] = field(default_factory=dict)

    def job(self, job_id: JobId) -> JobMemory:
        """Record of a job; an empty one if nothing is remembered of it."""
        return self.jobs.get(job_id, NOTHING)

    def changes_of(self, field: str) -> Mapping[JobId, Change[Any]]:
        """Return the changes of one field, by job."""
        return self.changes.get(field, {})

    def raised(self, by: By) -> Mapping[JobId, Change[int]]:
        """Return the changes of nice values that were made for one purpose, by job."""
        return {job_id: one for job_id, one in self.changes_of(Field.NICE).items() if one.by is by}

    @property
    def policies_hold(self) -> bool:
        """Whether a policy is at work that may hold or throttle BE jobs: each that does remembers some state.

        Slurm's eligible times are of its making then, and say nothing of what users have let their jobs wait.
        """
        return bool(self.policy_states)

    def without_dry_runs(self) -> Memory:
        """Return the memory without what shadow mode has only recorded: in mode enforce that is still to be done."""
        done = {
            name: {job_id: one for job_id, one in by_job.items() if not one.dry}
            for name, by_job in self.changes.items()
        }
        jobs = {
            job_id: one if one.shadowed_until is None else replace(one, shadowed_until=None)
            for job_id, one in self.jobs.items()
        }
        return replace(
            self,
            changes={name: by_job for name, by_job in done.items() if by_job},
            jobs={job_id: one for job_id, one in jobs.items() if one != NOTHING},
        )

    def is_bound(self, job_id: JobId) -> bool:
        """Check whether tesched has bound the job to nodes."""
        binding = self.changes_of(Field.NODES).get(job_id)
        return binding is not None and not binding.restored

    def is_let_through(self, job: Job) -> bool:
        """Check whether another hand has released the job, or its array, that tesched had held: for one run."""
        holds = self.changes_of(Field.HOLD)
        found = (holds.get(one) for one in (job.job_id, job.array_job_id) if one is not None)
        return any(one is not None and lets_through(one, job) for one in found)

    def own_request(self, job: Job) -> Request:
        """Request of the job itself, without the nodes to which tesched has bound it."""
        return own_request(job, self.changes_of(Field.NODES).get(job.job_id))

    def open_orders(self) -> tuple[Order, ...]:
        """Return the orders that have not ended, oldest first."""
        return tuple(order for _, order in sorted(self.orders.items()) if order.ended_at is None)
