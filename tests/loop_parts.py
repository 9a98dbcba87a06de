"""Loop with an observer, an actuator and a journal in memory that do, and fail, as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.intake.classify import Question
from tesched_core.model.actions import (
    Action,
    Failure,
    Outcome,
    Status,
    kind_of,
)
from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition, Request
from tesched_core.model.decision import Decision
from tesched_core.model.journal_error import JournalError, UnwritableError
from tesched_core.model.lead import Lead
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Transition
from tesched_core.model.resources import JobId, Tres, with_bare_names
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.policy import in_turn
from tesched_core.ports import Barred, CycleReport, never_barred
from tesched_daemon.loop import Loop
from tesched_daemon.settings import Mode, Pace
from tesched_policies.fitgpp import FitGpp

GPUS = with_bare_names([("gpu", 8)])
FULL = Tres(cpus=8, mem_mib=8000, gres=GPUS)
ASKS = Request(cpus=8, min_cpus_per_node=8, mem_per_node_mib=8000, gres_per_node=(("gpu", 8),))
VICTIM = Job(
    job_id=JobId(1),
    name="be",
    state=JobState.RUNNING,
    partitions=("main",),
    priority=100,
    start_time=0.0,
    request=ASKS,
    allocation=(NodeShare(node="n1", tres=FULL),),
)
TRIAL = Job(
    job_id=JobId(2),
    name="te",
    state=JobState.PENDING,
    reason="Resources",
    partitions=("main",),
    priority=50,
    submit_time=990.0,
    request=ASKS,
)
FULL_CLUSTER = Snapshot.of(
    1000.0,
    jobs=[VICTIM, TRIAL],
    nodes=[Node(name="n1", state="ALLOCATED", total=FULL)],
    partitions=[Partition(name="main", nodes=frozenset({"n1"}))],
)


class Crash(BaseException):
    """kill -9, as far as a test can have it: nothing catches it."""


@dataclass
class Cluster:
    """An observer and an actuator that do as the test says."""

    seen: Snapshot | Failure = FULL_CLUSTER
    #: what a whole poll shows, where that differs
    now: Snapshot | None = None
    #: what to answer, by the action's kind; SENT otherwise
    answers: dict[str, Outcome | Failure | Crash] = field(default_factory=dict)
    acted: list[Action] = field(default_factory=list)
    #: of each poll, whether it was to be a whole one
    whole: list[bool] = field(default_factory=list)
    #: and whether each change was to be read
    ends: list[bool] = field(default_factory=list)
    #: what happens while an action queries its job, before its command
    looking: Callable[[], object] = lambda: None

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        self.whole.append(whole)
        self.ends.append(ends)
        return self.now if whole and self.now is not None else self.seen

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        answer = self.answers.get(kind_of(action))
        if isinstance(answer, Crash):
            raise answer
        self.looking()
        if barred():
            return Outcome(action=action, status=Status.SKIPPED, at=1000.0)
        self.acted.append(action)
        if isinstance(answer, Failure):
            return Outcome(action=action, status=Status.FAILED, at=1000.0, failure=answer)
        return Outcome(action=action, status=Status.SENT, at=1000.0)


@dataclass
class Notebook:
    """A journal in memory that can fail, and outlives the loop that writes it."""

    memory: Memory = field(default_factory=Memory)
    fails: set[str] = field(default_factory=set)
    unseen_reports: list[CycleReport] = field(default_factory=list)
    concluded: list[Outcome] = field(default_factory=list)
    says: Lead = field(default_factory=Lead)
    #: names of jobs that it cannot hold, and how often it was to hold a poll
    cannot_hold: set[str] = field(default_factory=set)
    tried: int = 0
    #: why what is written here is not found again
    gone: str = ""
    #: of the last report
    mode: str = ""
    leaving: str = ""
    new_jobs: str = ""

    def _check(self, call: str) -> None:
        if call in self.fails:
            raise JournalError(f"{call}: disk full")

    def _check_held(self, snapshot: Snapshot) -> None:
        self.tried += 1
        found = [job for job in snapshot.jobs.values() if job.name in self.cannot_hold]
        if found:
            raise UnwritableError(f"cannot write to the state store: {found[0].name}")

    def lead(self) -> Lead:
        self._check("lead")
        return replace(self.says, mode=self.mode, leaving=self.leaving)

    def resign(self) -> None:
        """Nothing else waits for it."""

    def lost(self) -> str:
        return self.gone

    def questions(self) -> Mapping[JobId, Question]:
        return {}

    def load(self) -> Memory:
        self._check("load")
        return self.memory

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self._check("intend")
        self._check_held(snapshot)
        self.memory, self.mode, self.leaving = memory, report.mode, report.leaving
        self.new_jobs = report.new_jobs

    def rehearse(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self._check("intend")
        self._check_held(snapshot)

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        self._check("conclude")
        self.memory = memory
        self.concluded += outcomes

    def unseen(self, report: CycleReport) -> None:
        self._check("unseen")
        self.unseen_reports.append(report)
        self.mode, self.leaving = report.mode, report.leaving


@dataclass
class Reported(Notebook):
    """A journal that keeps what the daemon has reported of itself."""

    reports: list[CycleReport] = field(default_factory=list)

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        super().intend(snapshot, memory, decision, report)
        self.reports.append(report)

    def unseen(self, report: CycleReport) -> None:
        super().unseen(report)
        self.reports.append(report)


def loop_of(cluster: Cluster, notebook: Notebook, mode: Mode = Mode.ENFORCE) -> Loop:
    """Loop whose clock and stopwatch stand still, so that no limit on time is reached however slow the machine is."""
    return Loop(
        observer=cluster,
        actuator=cluster,
        journal=notebook,
        policies=in_turn(FitGpp()),
        limits=Limits(min_run_time_s=0),
        classes=Classification(
            rules=(Rule(name="te", job_class=JobClass.TE, match=Match(names=("te",))),), default_notice_signal="B:USR1"
        ),
        mode=mode,
        pace=Pace(poll_interval_s=1.0, backoff_max_s=8.0),
        clock=lambda: 1000.0,
        stopwatch=lambda: 5000.0,
    )


def reloaded(loop: Loop) -> None:
    """Go on as after a reload of a configuration in which nothing has changed."""
    loop.go_on_with(
        actuator=loop.actuator,
        policies=loop.policies,
        limits=loop.limits,
        classes=loop.classes,
        mode=loop.mode,
        pace=loop.pace,
        telling=loop.telling,
    )
