"""A store with values of another kind than tesched writes: an error of the store in one line wherever they are read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import JSON, Boolean, Column, Connection, create_engine, literal_column, select
from tesched_cli.main import main
from tesched_core.intake.classify import Question
from tesched_core.model.resources import Tres
from tesched_core.model.size import Size
from tesched_db.checked import CheckedJson, CheckedValue
from tesched_db.engine import open_store
from tesched_db.errors import StoreError, store_errors
from tesched_db.tables import Base, RunQuestion, SizeRecord, TresRecord

from tests.integration.damaged import READINGS, full_store, loop_on

#: JSON of shapes that no column has, or some alone
SHAPES = ("3", "null", "[[1]]", '[{"a": 1}]', '{"a": {"b": []}}')
COLUMNS = [column for table in Base.metadata.sorted_tables for column in table.columns]
#: what a policy keeps is its own matter: of another form it is left out, and the policy begins anew
IN_JSON = [str(one) for one in COLUMNS if isinstance(one.type, (JSON, CheckedJson)) and one.key != "state"]
#: words of which each reader knows all
WORDS = (
    *("jobs.job_class", "jobs.state", "jobs.notice_target", "jobs.exit0", "job_history.state", "actions.reason"),
    *("actions.status", "orders.state", "victims.state", "victims.notice_target", "victims.purpose", "paid.purpose"),
    *("refusals.code", "job_memory.futile_ending"),
)
HINT = "(another version wrote it, or another hand; restore the store from a copy, or move it away)"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Give the file of a store with rows in every table."""
    folder = tmp_path_factory.mktemp("whole")
    full_store(folder)
    return (folder / "store.sqlite").read_bytes()


@pytest.fixture
def store(whole: bytes, tmp_path: Path) -> Path:
    """Give a copy of it."""
    path = tmp_path / "store.sqlite"
    path.write_bytes(whole)
    (tmp_path / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{path}"\n')
    return path


@pytest.fixture(scope="module")
def reader() -> Iterator[Connection]:
    """Give a connection to an SQLite store without tables."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def _damage(store: Path, column: str, value: object) -> None:
    table, name = column.split(".")
    with sqlite3.connect(store) as connection:
        connection.execute(f"UPDATE {table} SET {name} = ?", (value,))  # noqa: S608 - of our own tables
    connection.close()


def _refusals(store: Path) -> list[str]:
    """Read in each way; return what is said where that cannot be. Raises what is no error of the store."""
    refused = []
    engine = open_store(f"sqlite:///{store}")
    for read in READINGS.values():
        try:
            read(engine)
        except StoreError as error:
            refused.append(str(error))
    engine.dispose()
    return refused


@pytest.mark.parametrize("column", IN_JSON)
def test_json_of_another_shape_is_an_error_of_one_line_however_it_is_read(
    column: str, store: Path, whole: bytes
) -> None:
    refused: list[str] = []
    for shape in SHAPES:
        store.write_bytes(whole)
        _damage(store, column, shape)
        refused += _refusals(store)
    assert refused
    assert all("a record holds what tesched does not write: " in said and HINT in said for said in refused)
    assert all("\n" not in said for said in refused)


@pytest.mark.parametrize("column", WORDS)
def test_a_word_that_is_none_of_its_kind_is_an_error_of_one_line_however_it_is_read(column: str, store: Path) -> None:
    _damage(store, column, "ASLEEP")
    refused = _refusals(store)
    assert refused
    assert all("ASLEEP" in said and HINT in said and "\n" not in said for said in refused)


@pytest.mark.parametrize(
    "column",
    [
        *("cycles.count", "cycles.step_s", "daemon.seen_at", "daemon.lease_until", "daemon.clock_ahead_s"),
        *("daemon.cycle", "finished_runs.run_s", "job_memory.retry_at", "jobs.first_submit_time", "jobs.cpus"),
        *(
            "jobs.last_seen",
            "orders.preemptor_key",
            "victims.job_key",
            "job_history.at",
            "orders.created_at",
            "victims.started_at",
            "progress.loss",
        ),
    ],
)
def test_a_word_for_a_number_is_an_error_of_one_line_however_it_is_read(column: str, store: Path) -> None:
    _damage(store, column, "many")
    refused = _refusals(store)
    assert refused
    assert all(f"{column}: 'many' is no " in said and HINT in said for said in refused)


@pytest.mark.parametrize("column", COLUMNS, ids=str)
def test_a_number_or_a_text_of_another_type_is_an_error_that_names_its_column(
    column: Column[Any], reader: Connection
) -> None:
    if not isinstance(column.type, CheckedValue):
        # SQLite itself keeps single keys to whole numbers, and takes any value for true or false.
        assert column.primary_key or isinstance(column.type, (Boolean, CheckedJson, JSON))
        return
    with pytest.raises(StoreError, match=f"{column}: b'.xff' is no "), store_errors("read the state store"):
        reader.execute(select(literal_column("x'ff'", column.type))).all()


def test_a_job_without_a_history_is_an_error_of_one_line(store: Path) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM job_history")
    connection.close()
    assert all("job 2 has no history" in said or "job 1 has no history" in said for said in _refusals(store))


@pytest.mark.parametrize("column", ["daemon.held", "jobs.nodes", "jobs.not_followed", "job_history.nodes"])
@pytest.mark.parametrize("shape", ["3", "[[1]]"])
def test_commands_end_with_one_line_and_2_and_a_daemon_goes_on(column: str, shape: str, store: Path) -> None:
    _damage(store, column, shape)
    config = str(store.parent / "tesched.toml")
    ended = {}
    for argv in (["status"], ["jobs"], ["explain", "2"], ["undo", "--dry-run"]):
        done = CliRunner().invoke(main, [*argv, "--config", config])
        assert done.exception is None or isinstance(done.exception, SystemExit), argv
        ended[argv[0]] = done.exit_code
        if column in done.stderr:
            assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert 2 in ended.values()
    engine = open_store(f"sqlite:///{store}")
    turn = loop_on(engine).turn()
    assert turn.next_in_s > 0
    assert "Traceback" not in turn.trouble
    engine.dispose()


@pytest.mark.parametrize("column", ["daemon.held", "daemon.calls", "daemon.told", "daemon.doubts", "cycles.counts"])
def test_what_is_only_shown_keeps_no_daemon_from_its_work_which_replaces_it(column: str, store: Path) -> None:
    _damage(store, column, "[[1]]")
    assert _refusals(store)
    engine = open_store(f"sqlite:///{store}")
    turn = loop_on(engine).turn()
    engine.dispose()
    assert (turn.trouble, turn.saw) == ("", True)
    # A row of an older cycle stays as it is
    assert _refusals(store) == [] or column == "cycles.counts"


SIZE = {"nodes": 1, "tres": {"cpus": 1, "mem_mib": 0, "gres": []}, "exclusive": False, "all_memory": False}
SIZE |= {"time_limit_s": None, "licenses": "", "partitions": ["main"], "seen_waiting": True}


@pytest.mark.parametrize("table", ["orders", "victims"])
@pytest.mark.parametrize(
    "wrong", [{"nodes": "many"}, {"nodes": None}, {"tres": {"cpus": 1, "gres": [["gpu"]]}}, {"partitions": [1]}]
)
def test_a_size_of_another_shape_is_an_error_that_names_its_column(
    table: str, wrong: dict[str, Any], store: Path
) -> None:
    _damage(store, f"{table}.size", json.dumps(SIZE))
    assert _refusals(store) == []
    _damage(store, f"{table}.size", json.dumps(SIZE | wrong))
    refused = _refusals(store)
    assert refused
    assert all(f"{table}.size: " in said and HINT in said and "\n" not in said for said in refused)


@pytest.mark.parametrize("record", [Size, Tres])
def test_the_record_of_a_size_has_the_fields_of_one(record: type[Any]) -> None:
    kept = {Size: SizeRecord, Tres: TresRecord}[record]
    assert kept.__annotations__.keys() == record.__dataclass_fields__.keys()


def test_what_a_job_said_as_its_run_began_has_the_fields_of_a_question() -> None:
    assert RunQuestion.__annotations__.keys() == Question.__dataclass_fields__.keys()
