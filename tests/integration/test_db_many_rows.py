"""Many rows at once are written as SQLAlchemy writes them one by one, and of a poll those that it changes alone."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, select, update
from sqlalchemy.exc import StatementError
from tesched_core.model.cluster import JobState
from tesched_core.model.snapshot import JobClass
from tesched_db import many_rows
from tesched_db.engine import writing
from tesched_db.errors import RowError, store_errors
from tesched_db.job_values import job_values
from tesched_db.many_rows import insert_rows, update_rows
from tesched_db.rows import Values, rows_of
from tesched_db.tables import HistoryRow, JobRow
from tesched_testcluster.harness.store_examples import BE, Writer, job

QUESTION = {"submit_time": 1.5, "restarts": 0, "name": "run", "comment": "", "partitions": ["p"], "qos": "n"}
QUESTION |= {"account": "a", "time_limit_s": None}


def new_row(key: int, **values: Any) -> Values:
    return {
        **job_values(job(key), BE),
        "key": key,
        "first_submit_time": 1.0,
        "first_seen": 2.0,
        "question": None,
        **values,
    }


def rows_from(first: int) -> list[Values]:
    """Return rows whose values of one column are of several types, or none, and text that no database takes."""
    return [
        new_row(first, start_time=5, nodes=[], name="a\0b", job_id=1),
        new_row(first + 1, start_time=5.25, nodes=["n1", "n2"], name="\udcff'\"%s?{}\\,", job_id=3),
        new_row(first + 2, start_time=None, nodes=["n,3"], name="日本", job_id=2**62, question=QUESTION),
        new_row(first + 3, job_class=JobClass.TE, state=JobState.RUNNING, elastic=True, time_limit_s=60, job_id=4),
    ]


def stored(store: Engine) -> dict[int, Values]:
    with store.connect() as connection:
        return {row.key: row._asdict() for row in connection.execute(select(JobRow))}


def test_rows_are_inserted_as_sqlalchemy_inserts_them_one_by_one(store: Engine) -> None:
    ours, theirs = rows_from(1), rows_from(11)
    with writing(store).begin() as connection:
        insert_rows(connection, JobRow, ours)
        for row in theirs:
            connection.execute(insert(JobRow).values(row))
    found = stored(store)
    assert len(found) == 8
    for key in range(1, 5):
        assert {**found[key], "key": 0, "label": ""} == {**found[key + 10], "key": 0, "label": ""}


def test_rows_are_updated_as_sqlalchemy_updates_them_and_no_other_column_or_row_is(store: Engine) -> None:
    with writing(store).begin() as connection:
        insert_rows(connection, JobRow, [new_row(key) for key in range(1, 20)])
    before = stored(store)
    names = ("job_id", "name", "start_time", "nodes", "question", "job_class", "elastic", "time_limit_s")
    changes = [{name: row[name] for name in names} for row in rows_from(1)]
    with writing(store).begin() as connection:
        update_rows(connection, JobRow, [{**change, "key": key} for key, change in enumerate(changes, 1)])
        for key, change in enumerate(changes, 11):
            connection.execute(update(JobRow).where(JobRow.key == key).values(change))
    found = stored(store)
    for key in range(1, 5):
        assert {name: found[key][name] for name in names} == {name: found[key + 10][name] for name in names}
        assert found[key] == before[key] | {name: found[key][name] for name in names}
    for key in (*range(5, 11), *range(15, 20)):
        assert found[key] == before[key]


def test_lines_of_the_history_have_the_keys_of_their_order(store: Engine) -> None:
    line = {"at": 1, "state": "RUNNING", "completing": False, "reason": "", "restarts": 0, "submit_time": 0.0}
    line |= {"start_time": None, "end_time": None}
    with writing(store).begin() as connection:
        insert_rows(connection, JobRow, [new_row(1)])
        for first in (0, 1500):
            lines = [{**line, "job_key": 1, "restarts": at, "nodes": [f"n{at}"]} for at in range(first, first + 1500)]
            insert_rows(connection, HistoryRow, lines)
    with store.connect() as connection:
        rows = rows_of(connection, select(HistoryRow).order_by(HistoryRow.key))
    assert [(row.restarts, row.nodes) for row in rows] == [(at, [f"n{at}"]) for at in range(3000)]


#: Of another type than their column's: some in a column of which no other value is, some where each is.
WRONG_TYPES = [
    {"priority": True},
    {"priority": "5"},
    {"priority": 5.5},
    {"priority": 5.0},
    {"start_time": "5"},
    {"start_time": False},
    {"elastic": 1},
    {"elastic": "perhaps"},
    {"name": 5},
]


@pytest.mark.parametrize("wrong", [{"priority": 2**63}, {"name": None}, *WRONG_TYPES])
def test_a_value_that_the_store_cannot_hold_is_an_error_of_a_row_and_nothing_is_written(
    store: Engine, wrong: Values
) -> None:
    rows = [new_row(1), new_row(2, **wrong), new_row(3)]
    with pytest.raises(RowError), store_errors("write", reads=False), writing(store).begin() as connection:
        insert_rows(connection, JobRow, rows)
    assert stored(store) == {}


def test_of_a_poll_the_rows_of_the_jobs_that_have_changed_are_written_and_no_others(store: Engine) -> None:
    writer, seen = Writer(store), [job(number) for number in range(1, 8)]
    writer.look(100.0, *seen)
    with writing(store).begin() as connection:
        connection.execute(update(JobRow).values(user="another hand", priority=9))
    now = [replace(one, priority=1) if one.job_id in {2, 5} else one for one in seen]
    now[6] = job(7)  # read anew, and as it was
    writer.look(102.0, *now)
    found = {row["job_id"]: (row["priority"], row["user_name"]) for row in stored(store).values()}
    left, one = (9, "another hand"), (1, "another hand")
    assert found == {1: left, 2: one, 3: left, 4: left, 5: one, 6: left, 7: left}


@pytest.mark.parametrize("wrong", WRONG_TYPES, ids=str)
@pytest.mark.parametrize("updates", [False, True], ids=["inserted", "updated"])
@pytest.mark.parametrize("beside", [(), (None,), ("same",), ("right",)], ids=["alone", "none", "same", "right"])
def test_a_value_of_another_type_is_named_whatever_stands_beside_it(
    store: Engine, wrong: Values, updates: bool, beside: tuple[str | None, ...]
) -> None:
    ((name, value),) = wrong.items()
    others: dict[str | None, Values] = {None: {name: None}, "same": wrong, "right": {}}
    rows = [new_row(1, **wrong), *(new_row(2, **others[which]) for which in beside)]
    with writing(store).begin() as connection:
        if updates:
            insert_rows(connection, JobRow, [new_row(row["key"]) for row in rows])
    before = stored(store)
    with pytest.raises(StatementError) as raised, writing(store).begin() as connection:
        (update_rows if updates else insert_rows)(connection, JobRow, rows)
    assert isinstance(raised.value.orig, TypeError)
    kind = {"priority": "int", "start_time": "float", "elastic": "bool", "name": "str"}[name]
    assert str(raised.value.orig) == f"jobs.{name}: {value!r} is no {kind}"
    assert stored(store) == before


def test_a_value_that_json_lacks_is_an_error_of_the_statement_and_of_a_row(store: Engine) -> None:
    rows = [new_row(1), new_row(2, question={"name": {1, 2}})]
    said = "Object of type set is not JSON serializable"
    with pytest.raises(StatementError, match=said) as raised, writing(store).begin() as connection:
        insert_rows(connection, JobRow, rows)
    assert isinstance(raised.value.orig, TypeError)
    with pytest.raises(RowError), store_errors("write", reads=False), writing(store).begin() as connection:
        insert_rows(connection, JobRow, rows)
    assert stored(store) == {}


def test_a_statement_has_as_many_rows_as_their_columns_leave_and_one_at_least() -> None:
    most = [many_rows.rows_of_a_statement(columns) for columns in (1, 3, 40, 10_000, 20_000)]
    assert most == [10_000, 3333, 250, 1, 1]


@pytest.mark.parametrize("most", [100, 1], ids=["some rows", "fewer than of one row"])
def test_a_statement_for_postgresql_has_so_many_values_at_most_and_one_row_at_least(
    store: Engine, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(many_rows, "MOST_VALUES", most)
    rows = [new_row(key) for key in range(1, 8)]
    changes = [{"key": key, "priority": key, "name": f"n{key}"} for key in range(1, 8)]
    said: list[str] = []
    event.listen(store, "before_cursor_execute", lambda *args: said.append(args[2].split()[0]))
    with writing(store).begin() as connection:
        insert_rows(connection, JobRow, rows)
        update_rows(connection, JobRow, changes)
    assert {key: row["priority"] for key, row in stored(store).items()} == {key: key for key in range(1, 8)}
    together = store.dialect.name == "sqlite"
    inserts, updates = (1 if together else ceil(7 / max(most // len(row), 1)) for row in (rows[0], changes[0]))
    assert (said.count("INSERT"), said.count("UPDATE")) == (inserts, updates)


def test_none_is_no_json_and_is_refused_where_a_column_may_not_be_null(store: Engine) -> None:
    rows = [new_row(1), new_row(2, nodes=None)]
    for write in (
        lambda connection: insert_rows(connection, JobRow, rows),
        lambda connection: connection.execute(insert(JobRow), rows),
    ):
        with pytest.raises(RowError), store_errors("write", reads=False), writing(store).begin() as connection:
            write(connection)
    assert stored(store) == {}


def test_none_is_null_where_a_column_may_be(store: Engine) -> None:
    with writing(store).begin() as connection:
        insert_rows(connection, JobRow, [new_row(1), new_row(2, question=QUESTION)])
        connection.execute(insert(JobRow), [new_row(3)])
        update_rows(connection, JobRow, [{"key": 2, "question": None}])
    with store.connect() as connection:
        found = connection.execute(select(JobRow.key).where(JobRow.question.is_(None)).order_by(JobRow.key))
        assert [*found.scalars()] == [1, 2, 3]
