"""Journal of cycles, actions, refusals and the daemon: what it keeps, and what it collapses."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import StrEnum

import pytest
from sqlalchemy import Engine, event, update
from tesched_core.model.actions import Action, Failure, FailureKind, Outcome, Status
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.memory import Memory
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_db import queries as read
from tesched_db.engine import writing
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal
from tesched_db.tables import ActionRow, CycleRow, DaemonRow, HistoryRow, JobRow, RefusalRow
from tesched_testcluster.harness.store_examples import (
    DOWN,
    Writer,
    job,
    moved,
    notice,
    order,
    refusal,
    remembering,
    report,
    requeue,
    rows,
    victim,
)


def test_a_new_store_holds_an_empty_memory_and_no_daemon(store: Engine) -> None:
    assert SqlJournal(store).load() == Memory()
    assert read.status(store).daemon is None
    assert read.memory(store) == Memory()


def test_an_intent_without_outcome_can_be_read_after_a_crash(store: Engine) -> None:
    memory = remembering(order(1, 7, victim(3)))
    Writer(store).look(
        200.0,
        job(3, JobState.RUNNING, nodes=["n1"]),
        job(7),
        te=[7],
        memory=memory,
        actions=[notice(3, 7, 1)],
        transitions=[moved(1, 200.0, "", "open")],
        summary="resources for job 7",
    )
    # tesched dies here; the next daemon finds the order and the intent.
    assert SqlJournal(store).load().orders == memory.orders
    story = read.job_story(store, "3")
    assert story is not None
    (action,) = story.actions
    assert (action.kind, action.status, action.preemptor, action.signal) == ("notify", None, 7, "USR1")
    assert [view.order for view in story.orders_as_victim] == list(memory.orders.values())


def test_outcomes_are_written_to_the_actions_that_they_are_of(store: Engine) -> None:
    writer = Writer(store)
    memory = remembering(order(1, 7, victim(3), victim(4)))
    actions: list[Action] = [notice(3, 7, 1), notice(4, 7, 1), requeue(4, 7, 1)]
    meant = writer.look(
        200.0, job(3), job(4), job(7), memory=memory, actions=actions, transitions=[moved(1, 200.0, "", "open")]
    )
    busy = Failure(kind=FailureKind.BUSY, message="too many requests")
    planned = remembering(order(1, 7, victim(3), victim(4, VictimState.PLANNED)))
    writer.journal.conclude(
        planned,
        meant,
        [
            Outcome(action=actions[0], status=Status.SENT, at=201.0, took_s=0.5),
            Outcome(action=actions[1], status=Status.FAILED, at=202.0, took_s=0.25, failure=busy),
            Outcome(action=actions[2], status=Status.SKIPPED, at=202.0),
        ],
        [moved(1, 202.0, "sent", "not sent", job_id=4)],
    )
    (cycle,) = read.status(store, now=203.0).decisions
    assert [(view.status, view.took_s, view.failure_kind, view.failure) for view in cycle.actions] == [
        (Status.SENT, 0.5, None, ""),
        (Status.FAILED, 0.25, FailureKind.BUSY, "too many requests"),
        (Status.SKIPPED, 0.0, None, ""),
    ]
    assert cycle.act_s == 0.75
    assert SqlJournal(store).load() == planned
    (view,) = read.orders(store)
    assert [(step.job_id, step.after) for step in view.transitions] == [(None, "open"), (4, "not sent")]


def test_the_same_action_meant_twice_gets_two_outcomes(store: Engine) -> None:
    writer = Writer(store)
    actions = [notice(3, 7, 1), notice(3, 7, 1)]
    meant = writer.look(200.0, job(3), actions=actions)
    outcomes = [
        Outcome(action=action, status=status, at=201.0)
        for action, status in zip(actions, (Status.SENT, Status.SKIPPED), strict=True)
    ]
    writer.journal.conclude(writer.memory, meant, outcomes, [])
    assert [view.status for view in read.status(store).decisions[0].actions] == [Status.SENT, Status.SKIPPED]


def test_an_outcome_of_what_was_never_meant_is_a_fault_and_leaves_nothing_behind(store: Engine) -> None:
    writer = Writer(store)
    meant = writer.look(200.0, job(3))
    with pytest.raises(LookupError, match="never meant"):
        writer.journal.conclude(
            remembering(order(5, 7)), meant, [Outcome(action=notice(3, 7, 1), status=Status.SENT, at=201.0)], []
        )
    assert writer.journal.load() == writer.memory


def test_idle_cycles_that_say_the_same_are_one_row(store: Engine) -> None:
    writer = Writer(store)
    for number in range(50):
        writer.look(100.0 + 2 * number, job(3))
    # A restart does not begin a new row.
    Writer(store).look(200.0, job(3))
    (cycle,) = read.status(store).cycles
    assert (cycle.count, cycle.first_at, cycle.last_at, cycle.first_cycle, cycle.last_cycle) == (51, 100, 200, 1, 51)
    assert cycle.observe_s == pytest.approx(0.1)
    assert cycle.counts == {JobClass.BE: {JobState.PENDING: 1}}


def test_a_cycle_that_says_or_does_other_than_the_last_is_a_row_of_its_own(store: Engine) -> None:
    writer = Writer(store)
    for at in (1.0, 2.0):
        writer.look(at, job(3))
    writer.look(3.0, job(3), summary="did nothing, because it is Sunday")
    for at in (4.0, 5.0):
        writer.look(at, job(3), actions=[notice(3, 7, 1)], summary="did nothing, because it is Sunday")
    writer.look(6.0, job(3), summary="did nothing, because it is Sunday")
    assert [cycle.count for cycle in read.status(store).cycles] == [1, 1, 1, 1, 2]
    assert [cycle.first_at for cycle in read.status(store).decisions] == [5.0, 4.0]


def test_no_row_stands_for_more_than_an_hour(store: Engine) -> None:
    writer = Writer(store)
    for at in (0.0, 3599.0, 3600.0, 3601.0):
        writer.look(at, job(3))
    assert [cycle.count for cycle in read.status(store).cycles] == [2, 2]


def test_failed_polls_are_one_row_and_touch_no_job(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, JobState.RUNNING, nodes=["n1"]))
    for at in (110.0, 120.0, 130.0):
        before = time.time()
        writer.journal.unseen(report(at, failure=DOWN, next_in_s=10.0))
    after = time.time()
    status = read.status(store)
    assert [(cycle.count, cycle.failure_kind) for cycle in status.cycles] == [(3, FailureKind.UNREACHABLE), (1, None)]
    assert status.daemon is not None
    assert (status.daemon.seen_at, status.daemon.reported_at) == (100.0, 130.0)
    # Announced from the write: a poll that found nothing may have taken long.
    assert before + 10 <= status.daemon.next_at <= after + 10
    assert status.daemon.failure == "slurmctld does not answer"
    (seen,) = read.jobs(store)
    assert (seen.state, seen.last_seen, seen.gone) == (JobState.RUNNING, 100.0, False)
    writer.look(140.0, job(3, JobState.RUNNING, nodes=["n1"]))
    daemon = read.status(store).daemon
    assert daemon is not None
    assert (daemon.failure_kind, daemon.failure) == (None, "")


def test_a_store_can_begin_with_failed_polls(store: Engine) -> None:
    journal = SqlJournal(store)
    journal.unseen(report(1.0, failure=DOWN))
    assert journal.load() == Memory()
    daemon = read.status(store).daemon
    assert daemon is not None
    assert daemon.seen_at is None


def test_refusals_that_stand_are_written_once(store: Engine) -> None:
    writer = Writer(store)
    same = [refusal(3, 7, RefusalCode.MIN_RUN_TIME), refusal(7, 7, RefusalCode.NO_VICTIM)]
    for at in range(100, 150):
        writer.look(float(at), job(3), job(7), te=[7], refusals=same)
    # Another order, another score and a restart change nothing.
    Writer(store).look(
        150.0, job(3), job(7), te=[7], refusals=[refusal(3, 7, RefusalCode.MIN_RUN_TIME, score=2.0), same[1]]
    )
    assert rows(store, RefusalRow) == 2
    story = read.job_story(store, "7")
    assert story is not None
    assert {view.code for view in story.refusals_as_preemptor} == {RefusalCode.MIN_RUN_TIME, RefusalCode.NO_VICTIM}
    assert {(view.first_seen, view.last_seen, view.stands) for view in story.refusals_as_preemptor} == {
        (100.0, 150.0, True)
    }


def test_a_refusal_that_changes_is_ended_and_another_begins(store: Engine) -> None:
    writer = Writer(store)
    for at in (100.0, 102.0):
        writer.look(at, job(3), job(7), te=[7], refusals=[refusal(3, 7, RefusalCode.MIN_RUN_TIME)])
    writer.look(104.0, job(3), job(7), te=[7], refusals=[refusal(3, 7, RefusalCode.OUTSCORED, score=1.5)])
    story = read.job_story(store, "3")
    assert story is not None
    (stands,) = story.refusals_as_candidate
    assert (stands.code, stands.score, stands.first_seen) == (RefusalCode.OUTSCORED, 1.5, 104.0)
    writer.look(106.0, job(3), job(7), te=[7])
    story = read.job_story(store, "3")
    assert story is not None
    (last,) = story.refusals_as_candidate
    assert (last.code, last.last_seen, last.stands) == (RefusalCode.OUTSCORED, 104.0, False)
    assert rows(store, RefusalRow) == 2


def test_what_is_said_of_a_preemptor_itself_is_kept_up_to_date(store: Engine) -> None:
    writer = Writer(store)
    for at in (100.0, 102.0):
        text = f"tried again in {200 - at:.0f} s"
        writer.look(at, job(7), te=[7], refusals=[refusal(7, 7, RefusalCode.RETRY_LATER, text)])
    story = read.job_story(store, "7")
    assert story is not None
    (said,) = story.refusals_as_preemptor
    assert (said.text, said.first_seen) == ("tried again in 98 s", 100.0)
    assert story.refusals_as_candidate == ()


def test_an_idle_cycle_writes_two_rows_whatever_the_queue(store: Engine) -> None:
    writer = Writer(store)
    many = [job(number) for number in range(1, 700)]
    said = [refusal(number, 7, RefusalCode.MIN_RUN_TIME) for number in range(1, 700)]
    writer.look(100.0, *many, refusals=said)
    statements: list[str] = []
    event.listen(store, "before_cursor_execute", lambda *args: statements.append(args[2]))
    writer.look(102.0, *[job(number) for number in range(1, 700)], refusals=list(said))
    changes = [statement for statement in statements if not statement.startswith(("BEGIN", "SELECT"))]
    assert [statement.split()[:2] for statement in changes] == [["UPDATE", "daemon"], ["UPDATE", "cycles"]]


def test_two_daemons_on_one_store_are_noticed(store: Engine) -> None:
    first, second = Writer(store), Writer(store)
    first.look(100.0, job(3))
    with pytest.raises(StoreError, match="another daemon writes"):
        second.look(101.0, job(3))
    first.look(102.0, job(3))
    second.memory = second.journal.load()
    second.look(103.0, job(3))
    with pytest.raises(StoreError, match="another daemon writes to this state store: process"):
        first.look(104.0, job(4))
    # What it meant to write is not there.
    assert [view.job_id for view in read.jobs(store)] == [3]


def test_a_failed_write_leaves_nothing_and_the_next_one_works(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3))
    with writing(store).begin() as connection:
        connection.execute(update(DaemonRow).values(revision=DaemonRow.revision + 1))
    with pytest.raises(StoreError):
        writer.look(102.0, job(3), job(4), memory=remembering(order(1, 4)), actions=[notice(3, 4, 1)])
    assert (rows(store, JobRow), rows(store, ActionRow), rows(store, CycleRow)) == (1, 0, 1)
    writer.memory = writer.journal.load()
    assert writer.memory.orders == {}
    writer.look(104.0, job(3), job(4))
    assert (rows(store, JobRow), rows(store, HistoryRow)) == (2, 2)


def test_what_a_failed_write_was_about_is_written_by_the_next_one(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3))
    unknown = moved(99, 101.0, "", "open")  # a step of an order that was never made
    with pytest.raises(StoreError, match="cannot write to the state store"):
        writer.look(
            102.0,
            job(4, reason="Resources"),
            memory=remembering(order(1, 4)),
            refusals=[refusal(4, 4, RefusalCode.NO_VICTIM)],
            transitions=[unknown],
        )
    writer.look(
        104.0,
        job(4, reason="Resources"),
        memory=remembering(order(1, 4)),
        refusals=[refusal(4, 4, RefusalCode.NO_VICTIM)],
    )
    assert [view.job_id for view in read.jobs(store)] == [4]
    assert SqlJournal(store).load() == writer.memory
    story = read.job_story(store, "4")
    assert story is not None
    assert [(view.code, view.first_seen) for view in story.refusals_as_preemptor] == [(RefusalCode.NO_VICTIM, 104.0)]


class Mode(StrEnum):
    OBSERVE = "observe"


def test_a_mode_is_kept_by_its_value(store: Engine) -> None:
    journal = SqlJournal(store)
    for at in (1.0, 2.0):
        journal.unseen(replace(report(at, failure=DOWN), mode=Mode.OBSERVE))
    status = read.status(store)
    assert status.daemon is not None
    assert (status.daemon.mode, [cycle.mode for cycle in status.cycles]) == ("observe", ["observe"])


def test_the_daemon_names_its_process(store: Engine) -> None:
    Writer(store).look(100.0, job(3), summary="did this and that")
    daemon = read.status(store).daemon
    assert daemon is not None
    assert (daemon.mode, daemon.client, daemon.summary, daemon.cycle) == ("enforce", "commands", "did this and that", 1)
    assert daemon.pid > 0
    assert daemon.host


@dataclass(frozen=True)
class Unkept:
    """A state that JSON cannot hold."""

    what: object

    def shifted(self, by_s: float) -> Unkept:
        return self


def test_absence_and_what_shadow_mode_has_recorded_are_not_kept(store: Engine) -> None:
    writer = Writer(store)
    kept = JobMemory(preemptions=2, lost_runs=1, retry_at=300.0)
    absent, shadowed = JobMemory(missing_since=90.0), JobMemory(shadowed_until=400.0)
    more = replace(kept, missing_since=90.0, shadowed_until=400.0)
    writer.memory = replace(writer.memory, jobs={JobId(7): more, JobId(8): absent, JobId(9): shadowed})
    writer.look(100.0, job(7))
    assert SqlJournal(store).load().jobs == {JobId(7): kept}
    writer.memory = replace(writer.memory, jobs={JobId(7): absent})
    writer.look(101.0, job(7))
    assert SqlJournal(store).load().jobs == {}


def test_a_raise_and_the_jobs_own_priority_are_read_back(store: Engine) -> None:
    one = Change(
        by=By.PREEMPTOR,
        job_id=JobId(7),
        field=Field.NICE,
        previous=0,
        value=-2002,
        at=5.0,
        since=4.0,
        own=100,
        shown=99,
        restarts=1,
        undone=2,
    )
    writer = Writer(store)
    writer.memory = replace(writer.memory, changes={Field.NICE: {one.job_id: one}})
    writer.look(100.0, job(7))
    assert SqlJournal(store).load().changes == {Field.NICE: {one.job_id: one}}


def test_a_state_that_json_cannot_hold_is_left_out_and_the_rest_is_kept(store: Engine) -> None:
    job_id = JobId(7)
    one = Change(job_id=job_id, field=Field.HOLD, previous=0, value=1, at=5.0, since=5.0)
    held = {str(Field.HOLD): {job_id: one}}
    writer = Writer(store)
    writer.memory = replace(writer.memory, policy_states={"own": Unkept(what=object())}, changes=held)
    writer.look(100.0, job(3))
    again = SqlJournal(store, states={"own": Unkept}).load()
    assert again.policy_states == {}
    assert again.changes == held
