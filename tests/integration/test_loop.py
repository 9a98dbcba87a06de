"""The loop: what it does when Slurm or the journal fail, and what a crash between any two of its steps leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from tesched_core.actions import Action, Failure, FailureKind, Notify, Outcome, SetNice, Status
from tesched_core.classify import Classification, Match, Rule
from tesched_core.cluster import Job, JobState, Node, NodeShare, Partition, Request
from tesched_core.decision import Decision, Memory
from tesched_core.fitgpp import FitGpp
from tesched_core.guard import Limits
from tesched_core.orders import Transition, VictimState
from tesched_core.ports import CycleReport, JournalError
from tesched_core.resources import JobId, Tres, with_bare_names
from tesched_core.snapshot import JobClass, Snapshot
from tesched_daemon.loop import Loop, Mode, Pace

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
    """An observer and an actuator that do as they are told."""

    seen: Snapshot | Failure = FULL_CLUSTER
    #: what to answer, by the action's type; SENT otherwise
    answers: dict[type, Outcome | Failure | Crash] = field(default_factory=dict)
    acted: list[Action] = field(default_factory=list)

    def observe(self) -> Snapshot | Failure:
        return self.seen

    def act(self, action: Action) -> Outcome:
        answer = self.answers.get(type(action))
        if isinstance(answer, Crash):
            raise answer
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

    def _check(self, call: str) -> None:
        if call in self.fails:
            raise JournalError(f"{call}: disk full")

    def load(self) -> Memory:
        self._check("load")
        return self.memory

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        self._check("intend")
        self.memory = memory

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        self._check("conclude")
        self.memory = memory
        self.concluded += outcomes

    def unseen(self, report: CycleReport) -> None:
        self._check("unseen")
        self.unseen_reports.append(report)


def loop_of(cluster: Cluster, notebook: Notebook, mode: Mode = Mode.ENFORCE) -> Loop:
    return Loop(
        observer=cluster,
        actuator=cluster,
        journal=notebook,
        policy=FitGpp(),
        limits=Limits(min_run_time_s=0),
        classes=Classification(rules=(Rule(name="te", job_class=JobClass.TE, match=Match(names=("te",))),)),
        mode=mode,
        pace=Pace(poll_interval_s=1.0, backoff_max_s=8.0),
        clock=lambda: 1000.0,
    )


def kinds(cluster: Cluster) -> list[type]:
    return [type(action) for action in cluster.acted]


def test_the_preemptor_is_raised_before_its_victim_gets_notice() -> None:
    cluster, notebook = Cluster(), Notebook()
    turn = loop_of(cluster, notebook).turn()
    assert kinds(cluster) == [SetNice, Notify]
    assert [outcome.status for outcome in turn.outcomes] == [Status.SENT, Status.SENT]
    assert notebook.concluded == list(turn.outcomes)


def test_nothing_is_done_that_the_journal_was_not_told_first() -> None:
    cluster, notebook = Cluster(), Notebook(fails={"intend"})
    loop = loop_of(cluster, notebook)
    turn = loop.turn()
    assert "disk full" in turn.trouble
    assert cluster.acted == []
    notebook.fails.clear()
    loop.turn()
    assert kinds(cluster) == [SetNice, Notify]


def test_a_failed_look_decides_nothing_and_waits_longer_each_time_until_it_works() -> None:
    cluster, notebook = Cluster(seen=Failure(kind=FailureKind.UNREACHABLE, message="no answer")), Notebook()
    loop = loop_of(cluster, notebook)
    assert [loop.turn().next_in_s for _ in range(5)] == [2.0, 4.0, 8.0, 8.0, 8.0]
    assert cluster.acted == []
    assert [report.failure for report in notebook.unseen_reports] == [cluster.seen] * 5
    cluster.seen = FULL_CLUSTER
    assert loop.turn().next_in_s == 1.0
    assert kinds(cluster) == [SetNice, Notify]


def test_no_notice_is_sent_if_the_raise_failed_and_both_are_tried_again() -> None:
    cluster, notebook = Cluster(answers={SetNice: Failure(kind=FailureKind.BUSY, message="busy")}), Notebook()
    loop = loop_of(cluster, notebook)
    turn = loop.turn()
    assert [outcome.status for outcome in turn.outcomes] == [Status.FAILED, Status.SKIPPED]
    cluster.answers.clear()
    cluster.acted.clear()
    cluster.seen = replace(FULL_CLUSTER, taken_at=1001.0)
    loop.turn()
    assert kinds(cluster) == [SetNice, Notify]


def test_watching_decides_nothing() -> None:
    cluster, notebook = Cluster(), Notebook()
    turn = loop_of(cluster, notebook, Mode.OBSERVE).turn()
    assert (turn.outcomes, cluster.acted) == ((), [])
    assert notebook.memory.orders == {}


@pytest.mark.parametrize("at", [SetNice, Notify])
def test_a_daemon_killed_between_two_actions_repeats_no_notice_and_forgets_no_order(at: type) -> None:
    cluster, notebook = Cluster(answers={at: Crash()}), Notebook()
    with pytest.raises(Crash):
        loop_of(cluster, notebook).turn()
    cluster.answers.clear()
    before = len(cluster.acted)
    # A new daemon with the same journal; the cluster looks as before, but for the nice value if that was set.
    sent = [action for action in cluster.acted if isinstance(action, SetNice)]
    trial = replace(TRIAL, nice=sent[0].nice, priority=TRIAL.priority - sent[0].nice) if sent else TRIAL
    cluster.seen = Snapshot.of(
        1001.0,
        jobs=[VICTIM, trial],
        nodes=FULL_CLUSTER.nodes.values(),
        partitions=FULL_CLUSTER.partitions.values(),
    )
    loop_of(cluster, notebook).turn()
    (order,) = notebook.memory.orders.values()
    assert [victim.state for victim in order.victims] == [VictimState.NOTICED]
    # Whether the notice arrived nobody knows, so it is not repeated; the raise is seen to be missing, and is.
    assert [type(action) for action in cluster.acted[before:]] == ([] if sent else [SetNice])
    assert notebook.memory.next_order == order.order_id + 1


def test_an_outcome_that_could_not_be_written_leaves_the_intent() -> None:
    cluster, notebook = Cluster(), Notebook(fails={"conclude"})
    loop = loop_of(cluster, notebook)
    assert "disk full" in loop.turn().trouble
    assert kinds(cluster) == [SetNice, Notify]
    assert len(notebook.memory.orders) == 1
    notebook.fails.clear()
    cluster.acted.clear()
    raised = replace(TRIAL, nice=-2000, priority=2050)
    cluster.seen = replace(FULL_CLUSTER, taken_at=1001.0, jobs={VICTIM.job_id: VICTIM, TRIAL.job_id: raised})
    loop.turn()
    assert Notify not in kinds(cluster)
