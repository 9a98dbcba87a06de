"""`python -m tesched_papers`: its commands, and the one line for what cannot be done."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner
from tesched_cli.main import main as tesched
from tesched_papers.__main__ import main


def test_the_module_is_run_by_its_name_and_an_error_is_one_line_with_status_2() -> None:
    words = [sys.executable, "-m", "tesched_papers", "pdors", "--method", "best", "--set", "workload.jobs=2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: there is no scheduler best; there are pd-ors, ")


def test_help_has_each_paper_whole_on_one_line_of_80_columns() -> None:
    lines = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"]).output.splitlines()
    found = lines[lines.index("Commands:") + 1 :]
    assert [line.split()[0] for line in found] == ["gavel", "pdors", "slaq"]
    assert [line for line in found if len(line) > 80 or not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("name", ["simulate-gavel", "simulate-pdors", "simulate-slaq"])
def test_what_is_installed_has_no_command_of_a_paper(name: str) -> None:
    done = CliRunner().invoke(tesched, [name, "--help"])
    assert done.exit_code == 2
    assert f"No such command '{name}'" in done.stderr
