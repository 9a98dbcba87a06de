"""The loop: what it does when Slurm or the journal fail, and what a crash between any two of its steps leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tesched_core.model.actions import (
    Failure,
    FailureKind,
    SetField,
    Status,
    kind_of,
)
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field, Nodes
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.step import step
from tesched_daemon.loop import ACT_WITHIN_S, NEW_FOR_S
from tesched_daemon.probes import PROBES, SOON_S
from tesched_daemon.settings import Mode, Pace

from tests.builders import by_job
from tests.loop_parts import ASKS, FULL_CLUSTER, TRIAL, VICTIM, Cluster, Crash, Notebook, loop_of


def kinds(cluster: Cluster) -> list[str]:
    return [kind_of(action) for action in cluster.acted]


def test_the_preemptor_is_raised_before_its_victim_gets_notice() -> None:
    cluster, notebook = Cluster(), Notebook()
    turn = loop_of(cluster, notebook).turn()
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]
    assert [outcome.status for outcome in turn.outcomes] == [Status.SENT, Status.SENT, Status.SENT]
    assert notebook.concluded == list(turn.outcomes)


@pytest.mark.parametrize(
    ("changes", "next_in_s"),
    [
        ({"reason": "None", "submit_time": 998.0}, SOON_S),
        ({"reason": "", "submit_time": 998.0}, SOON_S),
        ({"reason": "None", "submit_time": 1000.0 - NEW_FOR_S}, 1.0),
        ({"reason": "None", "submit_time": 1000.0 + NEW_FOR_S}, 1.0),
        ({"reason": "Dependency", "submit_time": 998.0}, 1.0),
        ({"reason": "None", "submit_time": 998.0, "name": "be"}, 1.0),
        ({"reason": "None", "submit_time": 998.0, "priority": 0}, 1.0),
    ],
)
def test_the_next_poll_is_soon_while_slurm_has_yet_to_consider_a_new_te_job(
    changes: dict[str, Any], next_in_s: float
) -> None:
    cluster = Cluster(seen=replace(FULL_CLUSTER, jobs={1: VICTIM, 2: replace(TRIAL, **changes)}))  # type: ignore[dict-item]
    assert loop_of(cluster, Notebook()).turn().next_in_s == next_in_s
    assert loop_of(cluster, Notebook(), Mode.OBSERVE).turn().next_in_s == 1.0


@dataclass
class Probes:
    """A watcher that says whether Slurm has considered the job, and whether it has ended."""

    looked: bool = False
    ended: bool = False
    asked_for: list[int] = field(default_factory=list)

    def looked_at(self, job_id: int) -> bool:
        self.asked_for.append(job_id)
        return self.looked

    def has_ended(self, job_id: int) -> bool:
        self.asked_for.append(job_id)
        return self.ended


def test_a_turn_is_a_probe_of_a_new_te_job_until_slurm_has_considered_it() -> None:
    new = replace(FULL_CLUSTER, jobs={1: VICTIM, 2: replace(TRIAL, reason="None", submit_time=998.0)})  # type: ignore[dict-item]
    cluster, notebook, probes, watch = Cluster(seen=new), Notebook(), Probes(), [50.0]
    loop = loop_of(cluster, notebook)
    loop.watcher, loop.stopwatch = probes, lambda: watch[0]
    assert loop.turn().next_in_s == pytest.approx(SOON_S)
    cluster.seen = FULL_CLUSTER
    watch[0] += SOON_S
    assert loop.turn().next_in_s == pytest.approx(SOON_S)
    assert notebook.memory.cycle == 1
    assert probes.asked_for == [2]
    probes.looked = True
    watch[0] += SOON_S
    loop.turn()
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]


def test_a_victim_is_probed_after_its_notice_and_a_poll_follows_its_end() -> None:
    cluster, notebook, probes, watch = Cluster(), Notebook(), Probes(), [50.0]
    loop = loop_of(cluster, notebook)
    loop.watcher, loop.stopwatch = probes, lambda: watch[0]
    assert loop.turn().next_in_s == pytest.approx(SOON_S)
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]
    failed = replace(VICTIM, state=JobState.UNKNOWN, flags=frozenset({"COMPLETING"}), reason="NonZeroExitCode")
    cluster.seen = replace(FULL_CLUSTER, jobs={1: failed, 2: TRIAL})  # type: ignore[dict-item]
    for _ in range(3):
        watch[0] += SOON_S
        loop.turn()
    assert (probes.asked_for, notebook.memory.cycle) == ([1, 1, 1], 1)
    probes.ended = True
    watch[0] += SOON_S
    assert loop.turn().next_in_s == 1.0, "it is ending, and its nodes may take their time"
    assert kinds(cluster)[-1] == "rerun"


def test_however_many_te_jobs_come_probes_are_bounded_and_polls_keep_their_time() -> None:
    """A user who submits a new TE job every moment, on a Slurm that considers none of them."""
    new = replace(FULL_CLUSTER, jobs={1: VICTIM, 2: replace(TRIAL, reason="None", submit_time=998.0)})  # type: ignore[dict-item]
    notebook, probes, watch = Notebook(), Probes(), [50.0]
    loop = loop_of(Cluster(seen=new), notebook)
    loop.watcher, loop.stopwatch = probes, lambda: watch[0]
    while watch[0] < 50.0 + 600:
        watch[0] += loop.turn().next_in_s
    assert len(probes.asked_for) <= PROBES.burst + 600 / PROBES.every_s + 1
    # One poll a second, as the poll says.
    assert 595 <= notebook.memory.cycle <= 602


@pytest.mark.parametrize(("passed_s", "asked"), [(0.9, True), (1.0, False)])
def test_everything_is_read_on_a_poke_and_when_the_poll_is_due(passed_s: float, asked: bool) -> None:
    new = replace(FULL_CLUSTER, jobs={1: VICTIM, 2: replace(TRIAL, reason="None", submit_time=998.0)})  # type: ignore[dict-item]
    notebook, watch = Notebook(), [50.0]
    loop = loop_of(Cluster(seen=new), notebook)
    loop.watcher, loop.stopwatch = Probes(), lambda: watch[0]
    loop.turn()
    watch[0] += passed_s
    loop.turn(asked=asked)
    assert notebook.memory.cycle == 2


@pytest.mark.parametrize(
    ("grace_period_s", "clock", "next_in_s"),
    [
        (10.0, 1000.0, 10.0),
        (10.0, 1000.5, 9.5),  # the poll and what followed took a while
        (0.2, 1000.5, 0.0),
        (45.0, 1000.0, 30.0),
    ],
)
def test_the_next_poll_is_no_later_than_the_end_of_a_grace_period(
    grace_period_s: float, clock: float, next_in_s: float
) -> None:
    cluster = Cluster()
    loop = loop_of(cluster, Notebook())
    loop.classes = replace(loop.classes, default_grace_period_s=grace_period_s)
    loop.pace = Pace(poll_interval_s=30.0, backoff_max_s=30.0)
    loop.clock = lambda: clock
    assert loop.turn().next_in_s == pytest.approx(next_in_s)
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]


def test_a_decision_knows_how_far_apart_two_polls_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[float] = []

    def watched(*args: Any, longest_wait_s: float, **options: Any) -> tuple[Memory, Decision]:
        known.append(longest_wait_s)
        return step(*args, longest_wait_s=longest_wait_s, **options)

    monkeypatch.setattr("tesched_daemon.loop.step", watched)
    loop = loop_of(Cluster(), Notebook())
    loop.pace = Pace(poll_interval_s=2.0, backoff_max_s=45.0)
    loop.turn()
    assert known == [45.0]


def test_a_grace_period_that_is_over_keeps_no_loop_busy() -> None:
    cluster = Cluster()
    loop = loop_of(cluster, Notebook())
    loop.classes = replace(loop.classes, default_grace_period_s=10.0)
    loop.turn()
    # Suspended by another user, the victim is not requeued, and stays where it is.
    stays = replace(VICTIM, state=JobState.SUSPENDED)
    raised = replace(TRIAL, nice=-1051, priority=1101, request=replace(ASKS, required_nodes=("n1",)))
    cluster.seen = replace(FULL_CLUSTER, taken_at=1010.0, jobs={stays.job_id: stays, raised.job_id: raised})
    cluster.acted.clear()
    loop.clock = lambda: 1010.0
    assert loop.turn().next_in_s == 1.0
    assert cluster.acted == []


def test_nothing_is_done_before_the_journal_has_it() -> None:
    cluster, notebook = Cluster(), Notebook(fails={"intend"})
    loop = loop_of(cluster, notebook)
    turn = loop.turn()
    assert "disk full" in turn.trouble
    assert cluster.acted == []
    notebook.fails.clear()
    loop.turn()
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]


def test_a_failed_poll_decides_nothing_and_waits_longer_each_time_until_it_works() -> None:
    cluster, notebook = Cluster(seen=Failure(kind=FailureKind.UNREACHABLE, message="no answer")), Notebook()
    loop = loop_of(cluster, notebook)
    assert [loop.turn().next_in_s for _ in range(5)] == [2.0, 4.0, 8.0, 8.0, 8.0]
    assert cluster.acted == []
    assert [report.failure for report in notebook.unseen_reports] == [cluster.seen] * 5
    cluster.seen = FULL_CLUSTER
    turn = loop.turn()
    assert (turn.next_in_s, turn.saw) == (1.0, True)
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]


def test_no_notice_is_sent_if_the_raise_failed_and_both_are_tried_again() -> None:
    cluster, notebook = Cluster(answers={"setnice": Failure(kind=FailureKind.BUSY, message="busy")}), Notebook()
    loop = loop_of(cluster, notebook)
    turn = loop.turn()
    assert [outcome.status for outcome in turn.outcomes] == [Status.FAILED, Status.SKIPPED, Status.SKIPPED]
    cluster.answers.clear()
    cluster.acted.clear()
    cluster.seen = replace(FULL_CLUSTER, taken_at=1001.0)
    loop.turn()
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]


def test_watching_decides_nothing() -> None:
    cluster, notebook = Cluster(), Notebook()
    turn = loop_of(cluster, notebook, Mode.OBSERVE).turn()
    assert (turn.outcomes, cluster.acted) == ((), [])
    assert notebook.memory.orders == {}


@pytest.mark.parametrize("at", ["setnice", "setnodes", "notify"])
def test_a_daemon_killed_between_two_actions_repeats_no_notice_and_forgets_no_order(at: str) -> None:
    cluster, notebook = Cluster(answers={at: Crash()}), Notebook()
    with pytest.raises(Crash):
        loop_of(cluster, notebook).turn()
    cluster.answers.clear()
    before = len(cluster.acted)
    # A new daemon with the same journal; the cluster is as before, but for what arrived.
    trial, missing = TRIAL, ["setnice", "setnodes"]
    for action in cluster.acted:
        missing = [kind for kind in missing if kind != kind_of(action)]
        match action:
            case SetField(field=Field.NICE, value=int(nice)):
                trial = replace(trial, nice=nice, priority=trial.priority - nice)
            case SetField(value=Nodes(names=names)):
                trial = replace(trial, request=replace(trial.request, required_nodes=names))
    cluster.seen = Snapshot.of(
        1001.0,
        jobs=[VICTIM, trial],
        nodes=FULL_CLUSTER.nodes.values(),
        partitions=FULL_CLUSTER.partitions.values(),
    )
    loop_of(cluster, notebook).turn()
    (order,) = notebook.memory.orders.values()
    assert [victim.state for victim in order.victims] == [VictimState.NOTICED]
    # It is not known whether the notice arrived, so it is not repeated; what is seen to be missing is.
    assert [kind_of(action) for action in cluster.acted[before:]] == missing
    assert notebook.memory.next_order == order.order_id + 1


def test_an_outcome_that_could_not_be_written_leaves_the_intent() -> None:
    cluster, notebook = Cluster(), Notebook(fails={"conclude"})
    loop = loop_of(cluster, notebook)
    assert "disk full" in loop.turn().trouble
    assert kinds(cluster) == ["setnice", "setnodes", "notify"]
    assert len(notebook.memory.orders) == 1
    notebook.fails.clear()
    cluster.acted.clear()
    raised = replace(TRIAL, nice=-2000, priority=2050)
    cluster.seen = replace(FULL_CLUSTER, taken_at=1001.0, jobs={VICTIM.job_id: VICTIM, TRIAL.job_id: raised})
    loop.turn()
    assert "notify" not in kinds(cluster)


class TestLead:
    """A standby does nothing; a paused daemon begins nothing; one that has slept does nothing more."""

    def test_a_standby_does_not_even_poll(self) -> None:
        cluster, notebook = Cluster(), Notebook(says=Lead(leader="process 7 on login2 leads"))
        turn = loop_of(cluster, notebook).turn()
        assert (turn.summary, turn.trouble, turn.saw) == ("standby: process 7 on login2 leads", "", False)
        assert (cluster.acted, notebook.memory) == ([], Memory())

    def test_a_new_leader_reads_what_the_last_one_has_done(self) -> None:
        cluster, notebook = Cluster(), Notebook()
        loop = loop_of(cluster, notebook)
        loop.turn()
        assert kinds(cluster) == ["setnice", "setnodes", "notify"]
        notebook.says = Lead(leader="process 7 on login2 leads")
        loop.turn()
        notebook.memory = replace(notebook.memory, cycle=77)
        notebook.says = Lead()
        loop.turn()
        assert notebook.memory.cycle == 78

    def test_paused_it_begins_nothing_and_says_why(self) -> None:
        cluster, notebook = Cluster(), Notebook(says=Lead(paused="tesched is paused by ann"))
        turn = loop_of(cluster, notebook).turn()
        assert turn.summary == "did nothing new: tesched is paused by ann"
        assert cluster.acted == []

    def test_paused_it_goes_on_with_what_is_under_way(self) -> None:
        cluster, notebook = Cluster(), Notebook()
        loop = loop_of(cluster, notebook)
        loop.turn()
        notebook.says = Lead(paused="tesched is paused by ann")
        started = replace(TRIAL, state=JobState.RUNNING, start_time=1001.0, reason="", nice=-1051, priority=1101)
        cluster.seen = replace(FULL_CLUSTER, taken_at=1002.0, jobs={VICTIM.job_id: VICTIM, TRIAL.job_id: started})
        cluster.acted.clear()
        loop.turn()
        assert [(kind_of(action), action.job_id) for action in cluster.acted] == [("setnice", TRIAL.job_id)]

    def test_a_daemon_that_has_slept_since_the_intent_acts_no_more(self) -> None:
        cluster, notebook = Cluster(), Notebook()
        loop = loop_of(cluster, notebook)
        # It sleeps while the second action's job is queried.
        passed = iter([0.0, 0.1 + ACT_WITHIN_S])
        now = [0.0]
        loop.stopwatch = lambda: now[0]
        cluster.looking = lambda: now.__setitem__(0, now[0] + next(passed))
        turn = loop.turn()
        assert [outcome.status for outcome in turn.outcomes] == [Status.SENT, Status.SKIPPED, Status.SKIPPED]
        assert len(cluster.acted) == 1
        (order,) = notebook.memory.open_orders()
        assert [victim.state for victim in order.victims] == [VictimState.PLANNED], "its notice is still to be given"


class TestLostStore:
    """The store's file is deleted, renamed or replaced while the daemon acts."""

    def test_nothing_is_sent_once_the_store_is_lost(self) -> None:
        cluster, notebook = Cluster(), Notebook(gone="the state store was deleted")
        turn = loop_of(cluster, notebook).turn()
        assert not cluster.acted
        assert {outcome.status for outcome in turn.outcomes} == {Status.SKIPPED}

    def test_a_store_that_is_lost_during_an_actions_read_stops_its_command(self) -> None:
        cluster, notebook = Cluster(), Notebook()
        cluster.looking = lambda: setattr(notebook, "gone", "the state store was deleted" if cluster.acted else "")
        turn = loop_of(cluster, notebook).turn()
        assert len(cluster.acted) == 1
        assert [outcome.status for outcome in turn.outcomes] == [Status.SENT, Status.SKIPPED, Status.SKIPPED]


class TestClock:
    """The clock is set by an hour in the middle of a grace period of 30 s: it goes on as if it had not been."""

    @pytest.mark.parametrize("in_a_poll", [False, True], ids=["between two polls", "in a poll"])
    @pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
    def test_a_grace_period_lasts_as_long_as_it_was_given(self, jump_s: float, *, in_a_poll: bool) -> None:
        cluster, notebook = Cluster(), Notebook()
        loop = loop_of(cluster, notebook)
        now = {"wall": 1000.0, "steady": 50.0}
        loop.clock, loop.stopwatch = (lambda: now["wall"]), (lambda: now["steady"])

        def turn(passed_s: float, jumped_s: float = 0.0) -> list[str]:
            now["steady"] += passed_s
            now["wall"] += passed_s + (0.0 if in_a_poll else jumped_s)

            def observe(*, whole: bool = True, ends: bool = True) -> Snapshot | Failure:
                cluster.seen = replace(FULL_CLUSTER, taken_at=now["wall"])
                now["wall"] += jumped_s if in_a_poll else 0.0
                return Cluster.observe(cluster, whole=whole, ends=ends)

            cluster.observe = observe  # type: ignore[method-assign]
            cluster.acted.clear()
            loop.turn()
            return [kind_of(action) for action in cluster.acted if action.job_id == VICTIM.job_id]

        assert turn(0.0) == ["notify"]
        grace_s = loop.classes.default_grace_period_s
        assert turn(5.0) == []
        assert turn(2.0, jump_s) == []
        assert turn(grace_s - 8.0) == [], "a second is left"
        assert turn(1.0) == ["requeue"]

    def test_a_clock_that_is_set_right_little_by_little_is_no_jump(self) -> None:
        memory = Memory(jobs={JobId(1): JobMemory(retry_at=5000.0)})
        loop = loop_of(Cluster(seen=replace(FULL_CLUSTER, jobs={JobId(1): VICTIM})), Notebook(memory=memory))
        ticks = iter([0.0, 1.0, 2.0])
        loop.clock, loop.stopwatch = (lambda: next(ticks, 3.0)), (lambda: 0.5)
        loop.turn()
        loop.turn()
        assert by_job(loop.journal.load(), "retry_at") == {JobId(1): 5000.0}
