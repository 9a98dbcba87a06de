"""`tesched doctor` on a state store that lacks what this code reads."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_daemon.doctor.doctor import examine
from tesched_daemon.doctor.finding import Finding, Severity
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.store_examples import configured_store

from tests.integration.test_lease import FIRST, turn

ANEW = (
    "(made by another development version: run `tesched undo` of the version that made it first, then move it away and "
    "make a new one by tesched db upgrade)"
)


def store_found(config: Path) -> list[Finding]:
    # Slurm is not queried: what its configuration file would say is missing.
    config.write_text(config.read_text() + '[slurm]\nconf = "/nowhere/slurm.conf"\n')
    return [one for one in examine(config) if one.check == "store"]


def changed(config: Path, statement: str) -> None:
    with sqlite3.connect(config.with_name("store.sqlite")) as connection:
        connection.execute(statement)
    connection.close()


def test_a_store_with_all_columns_is_good(tmp_path: Path) -> None:
    config, _ = configured_store(tmp_path)
    assert [one.level for one in store_found(config)] == [Severity.OK]


@pytest.mark.parametrize(
    ("statement", "lacks", "command"),
    [
        ("ALTER TABLE jobs DROP COLUMN elastic", "no such column: jobs.elastic", ["jobs"]),
        ("ALTER TABLE daemon DROP COLUMN bound", "no such column: daemon.bound", ["status"]),
        ("ALTER TABLE victims DROP COLUMN held_before", "no such column: victims.held_before", []),
        ("DROP TABLE refusals", "no such table: refusals", []),
    ],
)
def test_a_store_that_lacks_some_fails_in_the_words_of_what_reads_it(
    tmp_path: Path, statement: str, lacks: str, command: list[str]
) -> None:
    config, url = configured_store(tmp_path)
    changed(config, statement)
    (found,) = store_found(config)
    file = url.removeprefix("sqlite:///")
    assert (found.level, found.text) == (Severity.FAIL, f"cannot read the state store {file}: {lacks} {ANEW}")
    if command:
        said = CliRunner(env={"NO_COLOR": "1"}).invoke(main, [*command, "--config", str(config)]).output
        assert said == f"Error: {found.text}\n"


def test_a_daemon_that_polled_at_a_time_to_come_fails(tmp_path: Path) -> None:
    config, _ = configured_store(tmp_path)
    config.write_text(config.read_text() + '[slurm]\nconf = "/nowhere/slurm.conf"\n')
    engine = open_store(f"sqlite:///{config.with_name('store.sqlite')}")
    turn(SqlJournal(engine, identity=FIRST), time.time())
    engine.dispose()
    changed(config, "UPDATE daemon SET lease_until = lease_until + 21600, reported_at = reported_at + 21600")
    changed(config, "UPDATE daemon SET next_at = next_at + 21600")
    (found,) = [one for one in examine(config) if one.check == "daemon"]
    assert found.level is Severity.FAIL
    assert "has last polled at a time that is still to come, since the clock was ahead" in found.text
