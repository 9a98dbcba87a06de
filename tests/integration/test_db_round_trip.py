"""Whatever is written is read back the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, update
from tesched_core.model.actions import Reason, kind_of
from tesched_core.model.decision import Decision
from tesched_core.model.job_memory import Futility, JobMemory, Past
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport, Journal
from tesched_db import queries as read
from tesched_db.engine import writing
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal
from tesched_db.tables import Base, JobMemoryRow, VictimRow
from tesched_policies.registry import STATES
from tesched_testcluster.harness import store_examples

from tests import strategies
from tests.builders import by_job
from tests.examples import examples

# The store is emptied before each example, so one fixture serves them all.
several = settings(
    max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)


def emptied(store: Engine) -> Engine:
    with writing(store).begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
    return store


def intend(journal: Journal, memory: Memory, decision: Decision, at: float = 1.0) -> None:
    report = CycleReport(at=at, mode="enforce", client="test", observe_s=0.0, step_s=0.0)
    journal.intend(Snapshot.of(at), memory, decision, report)


@several
@given(st.lists(strategies.decided(), min_size=1, max_size=4))
def test_a_restarted_daemon_remembers_exactly_what_was_written_last(
    store: Engine, cycles: list[tuple[Memory, Decision]]
) -> None:
    journal: Journal = SqlJournal(emptied(store), states=STATES)
    for number, (memory, decision) in enumerate(cycles):
        intend(journal, memory, decision, at=float(number))
        assert SqlJournal(store, states=STATES).load() == memory
        assert read.memory(store, STATES) == memory


@several
@given(strategies.decided(), strategies.memories)
def test_a_conclusion_replaces_the_memory_that_was_meant(
    store: Engine, meant: tuple[Memory, Decision], learned: Memory
) -> None:
    journal = SqlJournal(emptied(store), states=STATES)
    intend(journal, *meant)
    journal.conclude(learned, meant[1], [], [])
    assert SqlJournal(store, states=STATES).load() == learned


@several
@given(strategies.decided())
def test_actions_transitions_and_refusals_are_read_as_they_were_decided(
    store: Engine, meant: tuple[Memory, Decision]
) -> None:
    memory, decision = meant
    intend(SqlJournal(emptied(store), states=STATES), memory, decision)
    assert read.recent_transitions(store, limit=10) == decision.transitions
    (cycle,) = read.status(store, now=1.0).cycles
    assert (cycle.summary, cycle.policy) == (decision.summary, decision.policy)
    for action, view in zip(decision.actions, cycle.actions, strict=True):
        reason = Reason(code=view.reason, text=view.text, preemptor=view.preemptor, order_id=view.order_id)
        assert (view.kind, view.job_id, reason) == (kind_of(action), action.job_id, action.reason)
    assert all(view.status is None for view in cycle.actions)


def test_what_an_earlier_release_did_not_write_is_the_fields_default(store: Engine) -> None:
    past = Past(submitted_at=100.0, ran_s=30.0, longest_run_s=20.0, delayed_s=5.0)
    futile = Futility(count=2, ending=Ending.STARTED_ELSEWHERE, said="Resources", fellows=3)
    memory = Memory(cycle=1, jobs={JobId(1): JobMemory(past=past), JobId(2): JobMemory(futile=futile)})
    intend(SqlJournal(emptied(store), states=STATES), memory, store_examples.decision(1, 1.0))
    with writing(store).begin() as connection:
        unwritten = {"longest_run_s": None, "delayed_s": None, "futile_said": None, "futile_fellows": None}
        connection.execute(update(JobMemoryRow).values(unwritten))
    loaded = SqlJournal(store, states=STATES).load()
    assert by_job(loaded, "past") == {JobId(1): replace(past, longest_run_s=0.0, delayed_s=0.0)}
    assert by_job(loaded, "futile") == {JobId(2): replace(futile, said="", fellows=0)}


def test_a_record_that_another_hand_has_changed_is_an_error_of_one_line(store: Engine) -> None:
    made = store_examples.remembering(store_examples.order(1, 9, store_examples.victim(1)))
    intend(SqlJournal(emptied(store), states=STATES), made, store_examples.decision(1, 1.0))
    with writing(store).begin() as connection:
        connection.execute(update(VictimRow).values(state="asleep"))
    with pytest.raises(StoreError, match="a record holds what tesched does not write: Invalid enum value 'asleep'"):
        SqlJournal(store, states=STATES).load()
    with pytest.raises(StoreError, match="restore the store from a copy"):
        read.memory(store, STATES)
