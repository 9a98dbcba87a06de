"""A job that makes a turn raise, whatever it is, is set aside; the others are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import Engine
from tesched_core.model.actions import Action, FailureKind, Outcome, Status, kind_of, sets
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field
from tesched_core.model.journal_error import UnwritableError
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.undo import undo
from tesched_core.ports import Barred, CycleReport, never_barred
from tesched_core.step import step
from tesched_daemon import loop as loop_module
from tesched_daemon.bisection import Found
from tesched_daemon.set_aside import MOST_OF_A_USER, SetAside
from tesched_daemon.settings import Mode
from tesched_db import queries as read
from tesched_db.errors import RowError
from tesched_db.journal import SqlJournal
from tesched_db.lease import LEASE
from tesched_testcluster.harness.store_examples import Writer, decision, report
from tesched_testcluster.harness.store_examples import job as example

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of, reloaded


def waiting(job_id: int, user: str = "mallory", name: str = "bad") -> Job:
    return replace(TRIAL, job_id=JobId(job_id), user=user, name=name)


def with_jobs(*jobs: Job) -> Snapshot:
    return replace(FULL_CLUSTER, jobs={job.job_id: job for job in (VICTIM, TRIAL, *jobs)})


@dataclass(kw_only=True)
class Reporting(Notebook):
    """A journal in memory that keeps the reports."""

    reports: list[CycleReport] = field(default_factory=list)

    def intend(self, snapshot: Any, memory: Any, decision: Any, report: CycleReport) -> None:
        super().intend(snapshot, memory, decision, report)
        self.reports.append(report)

    @property
    def doubts(self) -> dict[str, tuple[str, str]]:
        return {label: (user, why) for label, user, why in self.reports[-1].doubts}


def fails_on(name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let each decision on a job of this name raise; return a list that gets the number of jobs at each."""
    asked: list[int] = []

    def raising(whole: Callable[..., Any]) -> Callable[..., Any]:
        def stage(memory: Any, snapshot: Snapshot, *rest: Any, **more: Any) -> Any:
            asked.append(len(snapshot.jobs))
            for job in snapshot.jobs.values():
                if job.name == name:
                    raise RecursionError(f"at job {job.job_id} \x1b\x00\nsecond line")
            return whole(memory, snapshot, *rest, **more)

        return stage

    monkeypatch.setattr(loop_module, "step", raising(step))
    monkeypatch.setattr(loop_module, "undo", raising(undo))
    return asked


class TestDeciding:
    def test_a_job_that_makes_it_raise_is_named_and_the_trial_is_served(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fails_on("bad", monkeypatch)
        cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting()
        loop = loop_of(cluster, notebook)
        turn = loop.turn()
        assert not turn.trouble
        assert [kind_of(action) for action in cluster.acted] == ["setnice", "setnodes", "notify"]
        why = r"tesched fails on it (RecursionError: at job 9 \x1b\x00): it is left alone"
        assert notebook.doubts == {"9": ("mallory", why)}

    def test_a_faulty_job_is_tried_once_and_stays_aside_until_it_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = fails_on("bad", monkeypatch)
        cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting()
        loop = loop_of(cluster, notebook)
        loop.turn()
        asked.clear()
        loop.turn()
        assert len(asked) == 1
        assert set(notebook.doubts) == {"9"}
        cluster.seen = with_jobs()
        loop.turn()
        cluster.seen = with_jobs(waiting(9, name="another job"))
        loop.turn()
        assert notebook.doubts == {}

    @pytest.mark.parametrize("bad", [(3,), (3, 70), (40, 41), (70,)])
    def test_each_is_found_among_many(self, bad: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        asked = fails_on("bad", monkeypatch)
        others = [waiting(job_id, name="bad" if job_id in bad else "good") for job_id in range(3, 71)]
        cluster, notebook = Cluster(seen=with_jobs(*others)), Reporting()
        assert not loop_of(cluster, notebook).turn().trouble
        assert set(notebook.doubts) == set(map(str, bad))
        # One to fail, two to know that it is a job's fault, seven halvings of 70: for each; and one that succeeds. Of
        # the last job, of which no half has shown it, one more.
        assert len(asked) <= len(bad) * 10 + 1 + (70 in bad)

    def test_all_jobs_of_a_user_are_set_aside_after_a_few_and_those_of_others_are_served(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = fails_on("bad", monkeypatch)
        cluster, notebook = Cluster(seen=with_jobs(*map(waiting, range(3, 2003)))), Reporting()
        turn = loop_of(cluster, notebook).turn()
        assert not turn.trouble
        assert cluster.acted
        assert notebook.reports[-1].doubtful == 2000
        assert {user for user, _ in notebook.doubts.values()} == {"mallory"}
        assert len(asked) <= MOST_OF_A_USER * 14 + 1

    def test_a_reload_tries_them_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            fails_on("bad", patch)
            cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting()
            loop = loop_of(cluster, notebook)
            loop.turn()
        loop.turn()
        assert set(notebook.doubts) == {"9"}
        reloaded(loop)
        loop.turn()
        assert notebook.doubts == {}

    def test_undo_puts_back_in_spite_of_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cluster, notebook = Cluster(), Reporting()
        loop_of(cluster, notebook).turn()
        (raised,) = (action for action in cluster.acted if sets(action, Field.NICE))
        cluster.acted.clear()
        fails_on("bad", monkeypatch)
        assert isinstance(raised.value, int)
        cluster.seen = with_jobs(replace(TRIAL, nice=raised.value), waiting(9))
        turn = loop_of(cluster, notebook).undo()
        assert not turn.trouble
        assert [action.value for action in cluster.acted if sets(action, Field.NICE)] == [0]
        assert set(notebook.doubts) == {"9"}

    def test_what_is_raised_without_any_job_is_a_bug_of_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("always")

        monkeypatch.setattr(loop_module, "step", broken)
        cluster, notebook = Cluster(), Reporting()
        with pytest.raises(ZeroDivisionError, match="always"):
            loop_of(cluster, notebook).turn()
        assert not cluster.acted
        assert not notebook.reports

    def test_where_it_takes_long_the_next_turn_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fails_on("bad", monkeypatch)
        jobs = [waiting(job_id, user=f"user{job_id}") for job_id in range(3, 7)]
        cluster, notebook = Cluster(seen=with_jobs(*jobs)), Reporting()
        now = 0.0

        def stopwatch() -> float:
            nonlocal now
            now += 1.0
            return now

        loop = loop_of(cluster, notebook)
        loop.stopwatch = stopwatch
        turns = [loop.turn()]
        while turns[-1].trouble:
            assert not cluster.acted
            turns.append(loop.turn())
        assert 1 < len(turns) <= len(jobs)
        assert turns[0].trouble == "nothing is done: jobs make tesched fail; the search for them goes on"
        assert set(notebook.doubts) == {"3", "4", "5", "6"}
        assert cluster.acted


def test_no_job_is_set_aside_where_the_fault_has_passed() -> None:
    aside, failures = SetAside(), [None, None]
    assert aside.find(FULL_CLUSTER, lambda _: failures.pop()) is Found.NOTHING
    assert aside.without(FULL_CLUSTER) == FULL_CLUSTER


def test_an_error_in_deciding_that_comes_and_goes_is_reported_and_the_next_poll_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0

    def every_third(*arguments: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked % 3 == 1:  # at first, and each time after a search that found nothing
            raise RuntimeError("it comes and goes")
        return step(*arguments, **more)

    monkeypatch.setattr(loop_module, "step", every_third)
    cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting()
    turn = loop_of(cluster, notebook).turn()
    assert asked == 6
    said = "RuntimeError: it comes and goes"
    assert turn.trouble == f"nothing is done: it fails now and then, and with no job in particular: {said}"
    assert not cluster.acted
    assert not notebook.reports


def test_the_last_job_is_not_to_blame_for_an_error_that_passes_in_the_search() -> None:
    aside, failures = SetAside(), [RuntimeError("once")]
    whole = with_jobs(waiting(9))

    def raised_with(trial: Snapshot) -> Exception | None:
        return failures.pop() if failures and not any(job.doubt for job in trial.jobs.values()) else None

    assert aside.find(whole, raised_with) is Found.NOTHING
    assert aside.without(whole) == whole


@dataclass(kw_only=True)
class FailsToIntend(Reporting):
    """A journal that fails where it is to write what is meant, so many times, and never where it rehearses that."""

    error: Exception
    times: int
    intended: int = 0
    read: int = 0

    def load(self) -> Any:
        self.read += 1
        return super().load()

    def intend(self, snapshot: Any, memory: Any, decision: Any, report: CycleReport) -> None:
        self.intended += 1
        if self.intended <= self.times:
            raise self.error
        super().intend(snapshot, memory, decision, report)


class TestWriting:
    @pytest.mark.parametrize("error", [KeyError("a bug of the journal's"), UnwritableError("a value")], ids=str)
    def test_an_error_of_the_journal_that_no_job_makes_is_reported_and_the_next_poll_tries_again(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster = Cluster(seen=with_jobs(waiting(9)))
        notebook = FailsToIntend(error=error, times=100)
        loop = loop_of(cluster, notebook)
        first, second = loop.turn(), loop.turn()
        # Each turn tries once, and once more after the search: not for as long as a search may take.
        assert notebook.intended == 4
        assert first.trouble.startswith("the state store cannot be used, nothing is done: ")
        assert str(error) in first.trouble
        assert str(error) in caplog.text
        assert (first.next_in_s, second.next_in_s) == (2.0, 4.0)
        assert notebook.read == 2  # what was meant may be half written
        assert not cluster.acted
        notebook.times = 0
        assert not loop.turn().trouble
        assert notebook.doubts == {}
        assert cluster.acted

    def test_an_error_of_the_journal_that_does_not_come_again_costs_nothing(self) -> None:
        cluster = Cluster(seen=with_jobs(waiting(9)))
        notebook = FailsToIntend(error=KeyError("once"), times=1)
        assert not loop_of(cluster, notebook).turn().trouble
        assert notebook.doubts == {}
        assert cluster.acted

    def test_a_job_with_which_the_journal_fails_in_any_way_is_set_aside(self) -> None:
        @dataclass(kw_only=True)
        class Failing(Reporting):
            def _check_held(self, snapshot: Snapshot) -> None:
                if any(job.name == "bad" for job in snapshot.jobs.values()):
                    raise AttributeError("a bug of the journal's")

        cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Failing()
        assert not loop_of(cluster, notebook).turn().trouble
        assert set(notebook.doubts) == {"9"}
        assert cluster.acted

    def test_an_error_of_the_journal_without_any_job_ends_no_daemon(self) -> None:
        class Failing(Reporting):
            def _check_held(self, snapshot: Snapshot) -> None:
                raise AttributeError("a bug of the journal's")

        cluster, notebook = Cluster(), Failing()
        assert "AttributeError: a bug of the journal's" in loop_of(cluster, notebook).turn().trouble
        assert not cluster.acted

    def test_a_job_that_the_journal_cannot_hold_is_set_aside(self) -> None:
        cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting(cannot_hold={"bad"})
        assert not loop_of(cluster, notebook).turn().trouble
        assert set(notebook.doubts) == {"9"}
        assert cluster.acted

    def test_a_journal_that_is_away_sets_no_job_aside(self) -> None:
        cluster, notebook = Cluster(seen=with_jobs(waiting(9))), Reporting(fails={"intend"})
        loop = loop_of(cluster, notebook)
        assert "disk full" in loop.turn().trouble
        assert notebook.tried == 0
        notebook.fails.clear()
        loop.turn()
        assert notebook.doubts == {}

    @pytest.mark.parametrize(
        "bad",
        [
            {"priority": 2**63},
            {"priority": -(2**64)},
            {"time_limit_s": 10**30},
            {"name": "half a \udcff character"},
            {"account": "half a \udcff character, and \x00"},
            {"submit_time": float("nan")},
            {"name": {"no": "text"}},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ENFORCE])
    def test_the_store_goes_on_without_it(self, store: Engine, bad: dict[str, Any], mode: Mode) -> None:
        cluster = Cluster(seen=with_jobs(replace(waiting(9, name="odd"), **bad)))
        journal = SqlJournal(store)
        loop = loop_of(cluster, Notebook(), mode)
        loop.journal = journal
        for _ in range(2):
            turn = loop.turn()
            assert not turn.trouble
        status = read.status(store)
        assert status.daemon is not None
        assert [label for label, _, _ in status.daemon.doubts] in ([], ["9"])
        assert read.job_story(store, "2") is not None
        # Another process finds the store as it should be.
        assert SqlJournal(store).load() == loop._memory

    def test_a_rehearsal_leaves_nothing(self, store: Engine) -> None:
        writer = Writer(store)
        writer.look(200.0, example(3, JobState.RUNNING, nodes=["n1"]))
        seen = Snapshot.of(201.0, jobs=[example(3, JobState.RUNNING, nodes=["n1"]), example(4)])
        before = _held(store)
        memory = replace(writer.memory, cycle=writer.memory.cycle + 1)
        writer.journal.rehearse(seen, memory, decision(memory.cycle, 201.0), report(201.0))
        assert _held(store) == before
        assert read.job_story(store, "4") is None
        writer.journal.intend(seen, memory, decision(memory.cycle, 201.0), report(201.0))
        assert read.job_story(store, "4") is not None

    def test_a_rehearsal_raises_what_the_writing_would(self, store: Engine) -> None:
        writer = Writer(store)
        seen = Snapshot.of(201.0, jobs=[replace(example(4), priority=2**70)])
        with pytest.raises(RowError, match=r"cannot write to the state store: .*(large|range)"):
            writer.journal.rehearse(seen, writer.memory, decision(1, 201.0), report(201.0))


def _held(store: Engine) -> tuple[object, ...]:
    """Return what status says, and the lease. When the daemon is late is the lease by the reader's clock, read anew."""
    said = read.status(store)
    assert said.daemon is not None
    with store.connect() as connection:
        lease = connection.execute(LEASE).one()
    return replace(said, daemon=replace(said.daemon, late_at=0.0)), tuple(lease)


def test_an_action_that_raises_has_failed_and_the_others_are_taken() -> None:
    @dataclass
    class Raising(Cluster):
        def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
            if not self.acted:
                raise RuntimeError("a bug")
            return super().act(action, barred)

    cluster, notebook = Raising(), Notebook()
    turn = loop_of(cluster, notebook).turn()
    failed, *others = turn.outcomes
    assert failed.status is Status.FAILED
    assert failed.failure is not None
    assert (failed.failure.kind, failed.failure.message) == (FailureKind.UNKNOWN, "RuntimeError: a bug")
    # They belong to the same order, and wait for the next turn.
    assert {outcome.status for outcome in others} == {Status.SKIPPED}
    assert notebook.concluded == list(turn.outcomes)
