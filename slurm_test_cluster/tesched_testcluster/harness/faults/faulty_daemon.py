"""The real loop and the real journal beside a `FaultySlurm`; any call through a port may fail, or be the last one.

Faults are given beforehand, and happen at the next call of their kind. What must hold is checked by the `Ledger`, where
it would go wrong: when a decision is written, and when an action is performed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tesched_core.intake.classify import Question
from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    Requeue,
    Rerun,
    Resume,
    SetField,
    Status,
    Suspend,
    kind_of,
)
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.order import Transition
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Barred, CycleReport, never_barred
from tesched_daemon.loop import Loop
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal

from tesched_testcluster.harness.faults.faulty_ledger import Ledger
from tesched_testcluster.harness.faults.faulty_slurm import MIN_JOB_AGE_S, FaultySlurm


class Crash(BaseException):
    """kill -9, as far as a test can have it: nothing catches it."""


class What(StrEnum):
    """Faults of a call through a port."""

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
    #: the job changes between the intent and the action
    JOB_ENDS = "job ends before the action"
    JOB_SUSPENDED = "job suspended before the action"
    #: the same, and the release that belongs to its requeue does not arrive
    LEFT_HELD = "job suspended before the action, the rest of which is lost"
    #: the process sleeps after the call, for so long that another takes over
    SLEEPS = "sleeps after"


class Port(StrEnum):
    """Calls that may go wrong."""

    LEAD = "lead"
    LOAD = "load"
    OBSERVE = "observe"
    READ = "read"
    INTEND = "intend"
    ACT = "act"
    CONCLUDE = "conclude"


_DEATHS = (What.DIES_BEFORE, What.DIES_AFTER)
#: what may go wrong where
POSSIBLE: dict[Port, tuple[What, ...]] = {
    Port.LEAD: (What.DIES_BEFORE, What.NOT_WRITTEN),
    Port.LOAD: (What.DIES_AFTER, What.NOT_WRITTEN),
    Port.OBSERVE: (What.UNSEEN, What.NO_JOBS, What.NO_NODES, What.DIES_AFTER),
    # Of one job, in an early turn.
    Port.READ: (What.UNSEEN, What.DIES_AFTER, What.JOB_ENDS, What.JOB_SUSPENDED),
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
    """A fault at the `nth` call of this kind in a turn (0 is the first)."""

    port: Port
    what: What
    nth: int = 0


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
    #: when it last saw the cluster, or began to poll, by the clock that only runs
    _good_look_s: float | None = None
    #: what the ledger found in the present turn
    _broken: list[AssertionError] = field(default_factory=list)

    def turn(self, faults: Sequence[Fault], call: Callable[[], object]) -> None:
        """Make a turn (or an undo); these faults happen as soon as there is such a call.

        Raises Crash, and AssertionError for what the ledger found.
        """
        self.faults |= {(one.port, one.nth): one.what for one in faults}
        self._calls.clear()
        self._broken.clear()
        try:
            call()
        finally:
            if self._broken:
                raise self._broken[0]

    @contextmanager
    def _keeps(self) -> Iterator[None]:
        """Keep what the ledger finds for the end of the turn: the loop would take it for an error about a job."""
        try:
            yield
        except AssertionError as error:
            self._broken.append(error)

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

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:  # noqa: ARG002 - each poll is a whole one
        """Observe, or fail to."""
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

    # Single reads.

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:  # noqa: ARG002 - in no time
        """Read jobs, or fail to; each may change right after that."""
        found: dict[JobId, Job] = {}
        for job_id in job_ids:
            what = self._begins(Port.READ)
            if what is What.UNSEEN or not self.slurm.reachable:
                return Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
            read = self.slurm.record(job_id)
            found |= {} if read is None else {job_id: read}
            if what in {What.JOB_ENDS, What.JOB_SUSPENDED}:
                self.slurm.interrupt(job_id, ends=what is What.JOB_ENDS)
            self._after(what)
        return found

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:  # noqa: ARG002 - nor do these
        """Read the nodes."""
        seen = self.slurm.snapshot()
        return replace(last, nodes=seen.nodes, partitions=seen.partitions)

    # The actuator.

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform an action, or not, and say what became of it, or otherwise."""
        what = self._begins(Port.ACT)
        asks = isinstance(action, Notify | Requeue | Cancel)
        if what is What.JOB_ENDS or (asks and what in {What.JOB_SUSPENDED, What.LEFT_HELD}):
            self.slurm.interrupt(action.job_id, ends=what is What.JOB_ENDS)
        if barred():
            return Outcome(action=action, status=Status.SKIPPED, at=self.slurm.clock.time())
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
        """Query once more and do it, as the real actuators do; one that is not `heard` ends after its first command."""
        slurm, work = self.slurm, self.slurm.jobs.get(action.job_id)
        if work is None:
            return FailureKind.NOT_FOUND
        if isinstance(action, Rerun):
            ended = work.state is JobState.FAILED and work.leaves_s is None
            if not ended or work.restarts != action.restarts:
                return FailureKind.ALREADY_DONE
            self.ledger.happened["rerun"] += 1
            slurm.rerun(work)
            return None
        if work.finished:
            return FailureKind.ALREADY_DONE
        if isinstance(action, Notify | Requeue | Cancel):
            on_nodes = work.node and work.leaves_s is None
            if not on_nodes or work.restarts != action.restarts:
                return FailureKind.ALREADY_DONE
        if isinstance(action, Cancel) and not work.runs:
            return FailureKind.ALREADY_DONE  # --state=RUNNING
        with self._keeps():
            self.ledger.check_action(action, self.name)
        self.ledger.happened[kind_of(action)] += 1
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
            case Cancel():
                self.ledger.requeued[action.reason.order_id, work.job_id, work.restarts] = now
                slurm.cancel(work)
            case SetField(field=Field.NICE, value=int(nice)):
                if work.explicit is None:
                    work.nice = nice
            case SetField(field=Field.PRIORITY, value=int(priority)):
                work.explicit = priority
            case SetField(value=Nodes() as nodes):
                if not work.waits:
                    return FailureKind.REFUSED
                work.bound_to = nodes.names
            case SetField(value=HoldState.RELEASED | HoldState.UNMARKED):
                work.held = False
            case Suspend():
                if not work.runs or work.restarts != action.restarts:
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
        """Ask which daemon leads."""
        self._store(self._begins(Port.LEAD))
        return self.journal.lead()

    def resign(self) -> None:
        """Give the lead up."""
        self._store(None)
        self.journal.resign()

    def questions(self) -> Mapping[JobId, Question]:
        """Read what running jobs said of themselves."""
        return self.journal.questions()

    def lost(self) -> str:
        """Ask whether the store is still there."""
        return self.journal.lost()

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
        with self._keeps():
            self.ledger.check_decision(snapshot, memory, decision)
        self.journal.intend(snapshot, memory, decision, report)
        self.ledger.written(memory, self.name)
        self._after_write(what)

    def rehearse(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Try what would be written."""
        self._store(None)
        self.journal.rehearse(snapshot, memory, decision, report)

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
