"""What each command's `--json` prints is by its schema (`json_by_its_schema` in tests/conftest.py checks it)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.json_schemas import with_json
from tesched_cli.main import main
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.store_examples import configured_store

from tests.loop_parts import FULL_CLUSTER, Cluster, Notebook, loop_of

#: how each is run; a command that is added needs an entry
RUNS: Mapping[str, Sequence[str]] = {
    "check": ("check", "--json", "--wrap=true"),
    "config show": ("config", "show", "--json"),
    "db prune": ("db", "prune", "--json"),
    "doctor": ("doctor", "--json"),
    "explain": ("explain", "--json", "1"),
    "jobs": ("jobs", "--json"),
    "learn": ("learn", "--forget", "--json"),
    "orders": ("orders", "--json"),
    "pause": ("pause", "--for", "1h", "--json"),
    "status": ("status", "--json"),
    "throughputs list": ("throughputs", "list", "--json"),
    "undo": ("undo", "--dry-run", "--json"),
    "unpause": ("unpause", "--json"),
}
#: those that take long, or need a Slurm: the file of tests that prints them
ELSEWHERE = {
    "advise": "integration/test_cli_advise.py",
    "ask": "cluster/test_ask.py",
    "simulate": "integration/test_cli_simulate.py",
    "whatif": "cluster/test_whatif.py",
}
TESTS = Path(__file__).parents[1]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a configuration with one preemption under way in its store: job 1 was given notice for job 2."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    loop = loop_of(Cluster(), Notebook())
    loop.journal = SqlJournal(engine)
    loop.turn()
    engine.dispose()
    monkeypatch.setattr("tesched_cli.undo.look", lambda _: FULL_CLUSTER)
    return path


@pytest.mark.parametrize("command", sorted(with_json(main)))
def test_json_of_each_command_is_by_its_schema(command: str, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if command in ELSEWHERE:
        text = (TESTS / ELSEWHERE[command]).read_text()
        assert command in text
        assert '"--json"' in text or "daemon.json(" in text
        return
    assert command in RUNS, f"{command} has --json: say in RUNS how it is run"
    monkeypatch.setenv("TESCHED_CONFIG", str(config))
    done = CliRunner().invoke(main, [*RUNS[command]])
    # A daemon that has gone, a client that is not there: that is said, too.
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert json.loads(done.stdout)["meta"]["command"] == command


def test_json_of_ones_own_jobs_is_by_the_schema_of_jobs(config: Path) -> None:
    done = CliRunner().invoke(main, ["jobs", "--mine", "--json", "--config", str(config)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["mine"] is True
