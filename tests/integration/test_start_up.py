"""Start-up of the command line: what is not needed is not imported. Modules are counted, not seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tesched_cli.main import COMMANDS, main
from tesched_db import migrate

HEAVY = frozenset({"alembic", "apscheduler", "matplotlib", "msgspec", "numpy", "rich", "scipy", "sqlalchemy"})
PROGRAM = """
import sys
from contextlib import suppress
from tesched_cli.main import main
with suppress(SystemExit):
    main(sys.argv[1:])
print("\\n", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def imported(*argv: str, **variables: str) -> set[str]:
    """Return the packages that are imported by the end of this command."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *argv], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("argv", [("--version",), ("--help",), ("nosuchcommand",)])
def test_what_runs_no_command_imports_none(argv: tuple[str, ...]) -> None:
    assert imported(*argv) & HEAVY == set()


def test_completion_imports_no_command() -> None:
    words = {"_TESCHED_COMPLETE": "bash_complete", "COMP_WORDS": "tesched st", "COMP_CWORD": "1"}
    program = PROGRAM.replace("main(sys.argv[1:])", "main(prog_name='tesched')")
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **words}, capture_output=True, text=True, check=True
    )
    assert "plain,status" in done.stdout.splitlines()
    assert set(done.stdout.splitlines()[-1].split()) & HEAVY == set()


def test_status_imports_no_migrations_no_solvers_and_no_scheduler(tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n')
    migrate.upgrade(f"sqlite:///{tmp_path}/store.sqlite")
    assert imported("status", "--config", str(config)) & {"alembic", "apscheduler", "matplotlib", "scipy"} == set()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_commands_help_in_the_list_is_its_own(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert COMMANDS[name].short_help == command.get_short_help_str(limit=1000)
    assert command.name == name
