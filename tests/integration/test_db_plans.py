"""What is read again and again grows with what counts now, not with all that the store keeps: SQLite's plans say so."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine
from tesched_db import queries as read
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.store_examples import Writer, job, notice, order, remembering, victim

from tests.integration.query_plans import query_plans

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
#: Tables in which the past is kept.
PAST = ("jobs", "job_history", "actions", "orders", "victims", "bystanders", "transitions")


def scanned(plans: list[str]) -> set[str]:
    """Tables of the past that are read from one end to the other."""
    return {step for step in plans for table in PAST if step == f"SCAN {table}" or step.startswith(f"SCAN {table} ")}


def written(store: Engine) -> Writer:
    """Write a cycle with an order and a notice."""
    writer = Writer(store)
    memory = remembering(order(1, 7, victim(3)))
    writer.look(200.0, job(3), job(7), te=[7], memory=memory, actions=[notice(3, 7, 1)])
    return writer


def test_a_daemon_that_starts_reads_no_victim_that_counts_no_more(store: Engine) -> None:
    written(store)
    with query_plans(store) as plans:
        SqlJournal(store).load()
    # The newest job, by the end of its key.
    assert scanned(plans) == {"SCAN jobs"}
    assert any(step.startswith("SEARCH victims USING INDEX ix_victims_left_at (") for step in plans)


def test_the_status_reads_no_victim_action_or_cycle_that_counts_no_more(store: Engine) -> None:
    written(store)
    with query_plans(store) as plans:
        read.status(store, now=300.0)
    assert scanned(plans) == set()
    for table, index in [
        ("victims", "left_at"),
        ("victims", "suspended_at"),
        ("victims", "back_at"),
        ("actions", "intended_at"),
        ("cycles", "idle_key"),
    ]:
        assert any(step.startswith(f"SEARCH {table} USING INDEX ix_{table}_{index} (") for step in plans), index
    # Not from the key's other end either.
    assert not [step for step in plans if "(rowid<?)" in step or "(rowid>?)" in step]
