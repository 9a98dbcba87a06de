"""Changes of development versions that kept them by lever: they are still put back, and stand by field from then on."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from tesched_core.model.change import By
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_db.engine import writing
from tesched_db.journal import SqlJournal
from tesched_db.tables import ChangeRow
from tesched_policies.registry import STATES
from tesched_testcluster.harness import store_examples

from tests.integration.test_db_round_trip import intend

JOB = JobId(7)


def old(lever: str, field: str, previous: Any, value: Any, **more: Any) -> dict[str, Any]:
    record = {"lever": lever, "job_id": JOB, "field": field, "previous": previous, "value": value, "before": None}
    record |= {"at": 10.0, "since": 10.0, "order_id": None, "dry": False, "restored": False, **more}
    return {"lever": lever, "job_id": JOB, "record": record}


def names(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(select(ChangeRow.lever).order_by(ChangeRow.lever)))


def loaded(store: Engine, *rows: dict[str, Any]) -> tuple[SqlJournal, Memory]:
    journal = SqlJournal(store, states=STATES)
    intend(journal, Memory(cycle=1), store_examples.decision(1, 1.0))
    with writing(store).begin() as connection:
        connection.execute(insert(ChangeRow), list(rows))
    journal = SqlJournal(store, states=STATES)
    return journal, journal.load()


@pytest.mark.parametrize(
    ("row", "name", "by"),
    [
        (("priority", "nice", -500), Field.NICE, By.PREEMPTOR),
        (("priority", "priority", 900), Field.NICE, By.PREEMPTOR),
        (("victim_boost", "nice", -500), Field.NICE, By.VICTIM),
        (("queue_boost", "nice", -500), Field.NICE, By.QUEUE),
        (("node_binding", "nodes", {"names": ["n1"], "count": None}), Field.NODES, None),
        (("begin_time", "begin", 500), Field.BEGIN, None),
        (("requeue", "hold", 1), Field.HOLD, By.REQUEUE),
        (("hold", "hold", 2), Field.HOLD, None),
        (("throttle", "throttle", 2), Field.THROTTLE, None),
    ],
)
def test_each_is_one_of_its_field_and_its_row_is_written_anew(
    store: Engine, row: tuple[str, str, Any], name: Field, by: By | None
) -> None:
    lever, field, value = row
    own: Any = {"names": [], "count": None} if field == "nodes" else 0
    journal, memory = loaded(store, old(lever, field, own, value))
    assert [(key, list(by_job), by_job[JOB].by) for key, by_job in memory.changes.items()] == [(name, [JOB], by)]
    intend(journal, memory, store_examples.decision(2, 2.0), at=2.0)
    assert names(store) == [name]
    assert SqlJournal(store, states=STATES).load() == memory
    intend(journal, Memory(cycle=3), store_examples.decision(3, 3.0), at=3.0)
    assert names(store) == []


def test_of_two_raises_of_one_job_its_own_value_is_put_back(store: Engine) -> None:
    """It was at the head of its queue (-851) when its turn came, and was raised further."""
    rows = old("queue_boost", "nice", 0, -851, own=None), old("priority", "nice", -851, -2000, order_id=4)
    _, memory = loaded(store, *rows)
    (one,) = memory.changes_of(Field.NICE).values()
    assert (one.by, one.order_id, one.previous, one.value) == (By.PREEMPTOR, 4, 0, -2000)


@pytest.mark.parametrize(("is_over", "by"), [(False, None), (True, By.REQUEUE)])
def test_of_a_hold_and_one_that_a_requeue_left_the_one_that_is_not_over_is_kept(
    store: Engine, is_over: bool, by: By | None
) -> None:
    _, memory = loaded(store, old("hold", "hold", 0, 2, restored=is_over), old("requeue", "hold", 0, 1))
    (one,) = memory.changes_of(Field.HOLD).values()
    assert (one.by, one.restored) == (by, False)
