"""Whatever is written is read back the same."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from tesched_core.model.actions import Reason, kind_of
from tesched_core.model.decision import Decision
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport, Journal
from tesched_db import queries as read
from tesched_db.engine import writing
from tesched_db.journal import SqlJournal
from tesched_db.tables import Base
from tesched_policies.registry import STATES

from tests import strategies
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
