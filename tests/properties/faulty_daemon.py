"""The real loop and the real journal beside a `FaultySlurm`; any call through a port may fail, or be the last one.

Faults are given beforehand, and happen at the next call of their kind. What must hold at every step is checked where it
would go wrong: when a decision is written (`check_decision`), and when an action is performed (`check_action`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tesched_core.actions import (
    Action,
    Failure,
    FailureKind,
    Notify,
    OrderId,
    Outcome,
    Release,
    Requeue,
    Resume,
    SetNice,
    SetNodes,
    SetPriority,
    Status,
    Suspend,
)
from tesched_core.cluster import JobState
from tesched_core.decision import Decision, Memory
from tesched_core.guard import Limits
from tesched_core.orders import HOLDS_ROOM, OrderState, Transition
from tesched_core.ports import CycleReport, Lead
from tesched_core.resources import JobId
from tesched_core.snapshot import JobClass, Snapshot
from tesched_daemon.loop import Loop
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal

from tests.properties.faulty_slurm import CPUS, MIN_JOB_AGE_S, FaultySlurm


class Crash(BaseException):
    """kill -9, as far as a test can have it: nothing catches it."""


class What(StrEnum):
    """How a call through a port goes wrong."""

    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    #: the store does not do it, or does it and cannot say so
    NOT_WRITTEN = "not written"
    WRITTEN_UNHEARD = "written, and nobody heard"
    #: slurmctld does not answer; answers with no job, or with no node
    UNSEEN = "unseen"
    NO_JOBS = "no jobs"
    NO_NODES = "no nodes"
    #: a command fails, or has an effect in spite of its failure
    BUSY = "busy"
    DENIED = "denied"
    REFUSED = "refused"
    LOST = "lost"
    STRANGE = "strange"
    DONE_UNHEARD = "done, and nobody heard"
    DONE_STRANGE = "done, strange answer"
    #: something happens to the job between the intent and the action
    JOB_ENDS = "job ends before the action"
    JOB_SUSPENDED = "job suspended before the action"
    #: the same, and the release that belongs to its requeue does not arrive
    LEFT_HELD = "job suspended before the action, the rest of which is lost"
    #: the process sleeps after the call, for so long that another takes over
    SLEEPS = "sleeps after"


class Port(StrEnum):
    """Which call."""

    LEAD = "lead"
    LOAD = "load"
    OBSERVE = "observe"
    INTEND = "intend"
    ACT = "act"
    CONCLUDE = "conclude"


_DEATHS = (What.DIES_BEFORE, What.DIES_AFTER)
#: what may go wrong where
POSSIBLE: dict[Port, tuple[What, ...]] = {
    Port.LEAD: (What.DIES_BEFORE, What.NOT_WRITTEN),
    Port.LOAD: (What.DIES_AFTER, What.NOT_WRITTEN),
    Port.OBSERVE: (What.UNSEEN, What.NO_JOBS, What.NO_NODES, What.DIES_AFTER),
    Port.INTEND: (*_DEATHS, What.NOT_WRITTEN, What.WRITTEN_UNHEARD, What.SLEEPS),
    Port.ACT: (
        *_DEATHS,
        What.BUSY,
        What.DENIED,
        What.REFUSED,
        What.LOST,
        What.STRANGE,
        What.DONE_UNHEARD,
        What.DONE_STRANGE,
        What.JOB_ENDS,
        What.JOB_SUSPENDED,
        What.LEFT_HELD,
        What.SLEEPS,
    ),
    Port.CONCLUDE: (*_DEATHS, What.NOT_WRITTEN, What.WRITTEN_UNHEARD),
}
_FAILURES: dict[What, FailureKind] = {
    What.BUSY: FailureKind.BUSY,
    What.DENIED: FailureKind.DENIED,
    What.REFUSED: FailureKind.REFUSED,
    What.LOST: FailureKind.UNREACHABLE,
    What.STRANGE: FailureKind.UNKNOWN,
    What.DONE_UNHEARD: FailureKind.UNREACHABLE,
    What.LEFT_HELD: FailureKind.UNREACHABLE,
    What.DONE_STRANGE: FailureKind.UNKNOWN,
}


@dataclass(frozen=True)
class Fault:
    """What goes wrong at the `nth` call of this kind in a turn (0 is the first)."""

    port: Port
    what: What
    nth: int = 0


@dataclass(kw_only=True)
class Ledger:
    """What tesched has really done, and what must hold of it."""

    slurm: FaultySlurm
    limits: Limits
    #: users whose jobs are protected
    protected: frozenset[str]
    #: when a notice or a requeue reached a run, by order, job and restarts
    noticed: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    requeued: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    #: the same of suspensions
    suspended: dict[tuple[OrderId | None, JobId, int], float] = field(default_factory=dict)
    #: runs that it has meant to suspend: whoever suspends them, too, cannot be told from tesched
    may_be_suspended: set[tuple[JobId, int]] = field(default_factory=set)
    #: which daemon has written last what it means
    meant_by: str = ""
    paused: bool = False
    #: the clock was set forward while nobody could tell, so nothing can be said of times any more; and who can tell,
    #: but has not written yet
    untimed: bool = False
    knows_of_jump: str = ""
    #: runs that held their room when `undo` let them go: who leaves all the same is not counted
    undone: set[tuple[JobId, int]] = field(default_factory=set)
    #: when anybody last saw the cluster
    good_look_s: float = 0.0
    known_orders: set[OrderId] = field(default_factory=set)
    endings: dict[OrderId, str] = field(default_factory=dict)
    #: faults that have really happened, and actions that were performed
    happened: Counter[str] = field(default_factory=Counter)

    def check_decision(self, snapshot: Snapshot, memory: Memory, decision: Decision) -> None:
        """Check what is meant against what was seen."""
        new = {order_id for order_id in memory.orders if order_id not in self.known_orders}
        asked: set[JobId] = set()
        for action in decision.actions:
            job = snapshot.jobs[action.job_id]
            if not isinstance(action, Notify | Requeue | Suspend):
                assert not job.finished, f"{action} of a job that has ended"
                assert snapshot.job_class(job.job_id) is not JobClass.EXEMPT, f"{action} of a protected job"
                continue
            assert action.job_id not in asked, "asked twice in one cycle"
            asked.add(action.job_id)
            # The very run that was meant, still on its nodes, and not on its way out.
            assert (job.state, job.completing) == (JobState.RUNNING, False)
            if isinstance(action, Suspend):
                self.may_be_suspended.add((job.job_id, job.restarts))
            else:
                assert action.restarts == job.restarts
            assert snapshot.job_class(job.job_id) is JobClass.BE
            assert job.batch
            assert job.requeueable
            assert job.user not in self.protected
            if action.reason.order_id in new:
                assert job.start_time is not None
                assert snapshot.taken_at - job.start_time >= self.limits.min_run_time_s
        orders = memory.open_orders()
        assert len(orders) <= self.limits.max_open_orders
        assert not (new and self.paused), "an order was opened while tesched was paused"
        fresh = [victim for order_id in new for victim in memory.orders[order_id].victims]
        assert len(fresh) <= self.limits.max_victims_per_cycle
        paying = [one.job_id for order in orders for one in order.victims if one.state in HOLDS_ROOM]
        assert len(set(paying)) == len(paying), "one job pays for two orders"
        served = [order.preemptor for order in orders if order.state is OrderState.OPEN]
        assert len(set(served)) == len(served), "two orders for one job"

    def written(self, memory: Memory, by: str) -> None:
        """Take in that a decision is in the store."""
        self.untimed = self.untimed or self.knows_of_jump not in {"", by}
        self.knows_of_jump = ""
        self.meant_by = by
        self.known_orders |= memory.orders.keys()
        for order_id, order in memory.orders.items():
            if order.ended_at is not None and order.ending is not None:
                self.endings[order_id] = order.ending.value

    def check_action(self, action: Action, by: str) -> None:
        """Check an action right before it is performed."""
        assert self.meant_by == by, f"{by} acts after {self.meant_by} has taken over"
        if isinstance(action, Resume):
            self._check_room_of(action.job_id)
        if not isinstance(action, Notify | Requeue | Suspend):
            return
        restarts = self.slurm.jobs[action.job_id].restarts
        key = (action.reason.order_id, action.job_id, restarts)
        now = self.slurm.clock.steady_s
        if isinstance(action, Notify):
            assert key not in self.noticed, "a second notice for one order"
        assert key not in self.requeued, "a second requeue for one order"
        if self.untimed:
            return
        work = self.slurm.jobs[action.job_id]
        if isinstance(action, Requeue) and key in self.noticed:
            # Slurm's clock counts what ours does: a second is the smallest step.
            assert now - self.noticed[key] >= work.grace_s, "requeued before its grace period was over"
        before = [
            at
            for done in (self.noticed, self.requeued, self.suspended)
            for (order_id, job_id, _), at in done.items()
            if job_id == action.job_id and order_id != action.reason.order_id
        ]
        if before:
            assert now - max(before) >= self.limits.cool_down_s, "asked again before its cool-down was over"

    def _check_room_of(self, job_id: JobId) -> None:
        """Check that who is resumed has its CPUs for itself: Slurm would let it share them."""
        work = self.slurm.jobs[job_id]
        others = (one for one in self.slurm.jobs.values() if one.node == work.node and one is not work)
        assert not work.suspended_by_user, f"job {job_id} was suspended by somebody else"
        held = sum(one.cpus for one in others if one.state is not JobState.SUSPENDED)
        assert held + work.cpus <= CPUS, f"job {job_id} is resumed beside others on its CPUs"

    def check(self) -> None:
        """Check what holds whenever nobody is in the middle of a turn."""
        paid = self.paid()
        for job_id, times in Counter(job_id for job_id, _ in paid).items():
            assert times <= self.limits.max_preemptions_per_job, f"job {job_id} was preempted {times} times"
        if self.untimed:
            return
        users = {work.job_id: work.user for work in (*self.slurm.jobs.values(), *self.slurm.forgotten)}
        now = self.slurm.clock.steady_s
        by_user = Counter(users[job_id] for (job_id, _), at in paid.items() if now - at < 3600)
        most = self.limits.max_preemptions_per_user_hour
        assert not by_user or max(by_user.values()) <= most, "a user paid more than his hour allows"
        lately = [at for at in paid.values() if now - at < 3600]
        assert len(lately) <= self.limits.max_preemptions_per_hour

    def paid(self) -> dict[tuple[JobId, int], float]:
        """Return the runs that tesched has ended, or that left because of its notice, and when."""
        runs = {(job_id, restarts): at for (_, job_id, restarts), at in self.requeued.items()}
        return {run: at for run, at in (self.slurm.answered | runs).items() if run not in self.undone}


@dataclass(kw_only=True)
class Daemon:
    """One process: its loop, and its ports with the faults of the present turn."""

    name: str
    slurm: FaultySlurm
    ledger: Ledger
    journal: SqlJournal
    #: what to do when the process sleeps: time passes, others go on
    sleeps: Callable[[], None]
    store_is_up: Callable[[], bool]
    loop: Loop = field(init=False)
    faults: dict[tuple[Port, int], What] = field(default_factory=dict)
    _calls: Counter[Port] = field(default_factory=Counter)
    #: when it last saw the cluster, or began to look, by the clock that only runs
    _good_look_s: float | None = None

    def turn(self, faults: Sequence[Fault], call: Callable[[], object]) -> None:
        """Make a turn (or an undo); these faults happen as soon as there is such a call. Raises Crash."""
        self.faults |= {(one.port, one.nth): one.what for one in faults}
        self._calls.clear()
        call()

    def _begins(self, port: Port) -> What | None:
        what = self.faults.pop((port, self._calls[port]), None)
        self._calls[port] += 1
        if what is What.NO_JOBS and self._long_unseen():
            return None  # an answer without jobs is believed then, on purpose
        if what is not None:
            self.ledger.happened[f"{port}: {what}"] += 1
        if what is What.DIES_BEFORE:
            raise Crash
        return what

    def _long_unseen(self) -> bool:
        since = self.ledger.good_look_s if self._good_look_s is None or self.name == "undo" else self._good_look_s
        return self.slurm.clock.steady_s - since >= MIN_JOB_AGE_S

    @property
    def looked(self) -> bool:
        """Return whether it has seen the cluster."""
        return self._good_look_s is not None

    # The observer.

    def observe(self) -> Snapshot | Failure:
        """Look, or fail to."""
        if self._good_look_s is None:
            self._good_look_s = self.slurm.clock.steady_s
        what = self._begins(Port.OBSERVE)
        if what is What.UNSEEN or not self.slurm.reachable:
            return Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
        seen = self.slurm.snapshot()
        if what is What.NO_NODES:
            return Snapshot.of(seen.taken_at, settings=seen.settings)
        if what is What.NO_JOBS:
            return Snapshot.of(
                seen.taken_at,
                nodes=seen.nodes.values(),
                partitions=seen.partitions.values(),
                settings=seen.settings,
            )
        self._after(what)
        self._good_look_s = self.ledger.good_look_s = self.slurm.clock.steady_s
        return seen

    # The actuator.

    def act(self, action: Action) -> Outcome:
        """Perform an action, or not, and say what became of it, or something else."""
        what = self._begins(Port.ACT)
        work = self.slurm.jobs.get(action.job_id)
        asks = isinstance(action, Notify | Requeue)
        if what is What.JOB_ENDS and work is not None and work.runs:
            work.completed += 1
            self.slurm.leave(work, JobState.COMPLETED)
        elif what in {What.JOB_SUSPENDED, What.LEFT_HELD} and work is not None and work.runs and asks:
            work.state, work.suspended_by_user = JobState.SUSPENDED, True
        kind = FailureKind.UNREACHABLE if not self.slurm.reachable else _FAILURES.get(what) if what else None
        done = self.slurm.reachable and (kind is None or what in {What.DONE_UNHEARD, What.DONE_STRANGE, What.LEFT_HELD})
        if done:
            said = self._perform(action, heard=kind is None)
            kind = kind or said
        self._after(what)
        failure = Failure(kind=kind, message="no") if kind else None
        status = Status.FAILED if failure else Status.SENT
        return Outcome(action=action, status=status, at=self.slurm.clock.time(), failure=failure)

    def _perform(self, action: Action, *, heard: bool) -> FailureKind | None:
        """Look once more and do it, as the real actuators do; one that is not `heard` ends after its first command."""
        slurm, work = self.slurm, self.slurm.jobs.get(action.job_id)
        if work is None:
            return FailureKind.NOT_FOUND
        if work.finished:
            return FailureKind.ALREADY_DONE
        if isinstance(action, Notify | Requeue):
            on_nodes = work.node and work.leaves_s is None
            if not on_nodes or work.restarts != action.restarts:
                return FailureKind.ALREADY_DONE
        self.ledger.check_action(action, self.name)
        self.ledger.happened[type(action).__name__.lower()] += 1
        now = slurm.clock.steady_s
        match action:
            case Notify():
                self.ledger.noticed[action.reason.order_id, work.job_id, work.restarts] = now
                slurm.notify(work)
            case Requeue():
                self.ledger.requeued[action.reason.order_id, work.job_id, work.restarts] = now
                was_suspended, was_held = work.state is JobState.SUSPENDED, work.held
                slurm.requeue(work)
                if was_suspended and heard:
                    work.held = was_held
            case SetNice():
                if work.explicit is None:
                    work.nice = action.nice
            case SetPriority():
                work.explicit = action.priority
            case SetNodes():
                if not work.waits:
                    return FailureKind.REFUSED
                work.bound_to = action.nodes
            case Release():
                work.held = False
            case Suspend():
                if not work.runs:
                    return FailureKind.ALREADY_DONE
                self.ledger.suspended[action.reason.order_id, work.job_id, work.restarts] = now
                work.state = JobState.SUSPENDED
            case Resume():
                if work.state is not JobState.SUSPENDED:
                    return FailureKind.ALREADY_DONE
                work.state = JobState.RUNNING
            case _:
                raise AssertionError(action)
        return None

    # The journal.

    def lead(self) -> Lead:
        """Ask who leads."""
        self._store(self._begins(Port.LEAD))
        return self.journal.lead()

    def resign(self) -> None:
        """Give the lead up."""
        self._store(None)
        self.journal.resign()

    def load(self) -> Memory:
        """Read the memory."""
        what = self._begins(Port.LOAD)
        self._store(what)
        memory = self.journal.load()
        self._after(what)
        return memory

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Write what is meant."""
        # To die or to sleep where nothing is meant is nothing: that waits for a decision that has actions.
        idle = not decision.actions and self.faults.get((Port.INTEND, 0)) in {*_DEATHS, What.SLEEPS}
        what = None if idle else self._begins(Port.INTEND)
        self._store(what)
        self.ledger.check_decision(snapshot, memory, decision)
        self.journal.intend(snapshot, memory, decision, report)
        self.ledger.written(memory, self.name)
        self._after_write(what)

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        """Write what became of it."""
        what = self._begins(Port.CONCLUDE)
        self._store(what)
        self.journal.conclude(memory, decision, outcomes, transitions)
        self.ledger.written(memory, self.name)
        self._after_write(what)

    def unseen(self, report: CycleReport) -> None:
        """Write that nothing was seen."""
        self._store(None)
        self.journal.unseen(report)

    def _store(self, what: What | None) -> None:
        if what is What.NOT_WRITTEN or not self.store_is_up():
            raise StoreError("the disk is full")

    def _after_write(self, what: What | None) -> None:
        self._after(what)
        if what is What.WRITTEN_UNHEARD:
            raise StoreError("the connection was lost")

    def _after(self, what: What | None) -> None:
        if what is What.DIES_AFTER:
            raise Crash
        if what is What.SLEEPS:
            self.sleeps()
