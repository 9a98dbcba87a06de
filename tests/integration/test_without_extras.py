"""tesched as `pip install .` brings it: what it does without its extras, and what it says where one is missing.

The packages of the extras are hidden in every process, those of a pool among them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main

from tests.missing_packages import hide

EXTRAS = ("cvxpy", "matplotlib", "psycopg", "pyslurm", "scipy", "starlette", "submitit", "textual", "uvicorn")
#: Python imports it at its start.
HIDING = f"""
from importlib.machinery import PathFinder
finds = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in {EXTRAS!r} else finds(name, *more)
"""
TESCHED = Path(sys.executable).with_name("tesched")
SMALL = ("--set", "workload.jobs=100", "--set", "workload.nodes=4")
POLICIES = "fifo,te-first,native,fitgpp,patient,lrtp,rand,youngest,none,patient+fill"
TRACE = """JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State
1|ada|1000|1010|1070|60|30|1|4|COMPLETED
"""


class Slim:
    """tesched's commands in a folder with an empty store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "python").mkdir()
        (folder / "python" / "sitecustomize.py").write_text(HIDING)
        (folder / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{folder}/store.sqlite"\n')
        (folder / "trace.txt").write_text(TRACE)

    def run(self, *argv: str, program: str | Path = TESCHED) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "python"), "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(
            [program, *argv], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def slim(tmp_path: Path) -> Slim:
    return Slim(tmp_path)


def test_the_packages_are_hidden_here(slim: Slim) -> None:
    done = slim.run("-c", "import numpy, scipy", program=sys.executable)
    assert "ModuleNotFoundError: No module named 'scipy'" in done.stderr


def test_every_policy_is_there(slim: Slim) -> None:
    done = slim.run("-c", "from tesched_policies.registry import *; print(BROKEN, *INSTALLED)", program=sys.executable)
    names = "fill fitgpp gavel lrtp none patient pdors rand slaq youngest"
    assert (done.stdout, done.stderr) == (f"{{}} {names}\n", "")


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (("--help",), 0, "simulate"),
        (("config", "example"), 0, "[policy"),
        (("config", "check", "tesched.toml"), 0, "good (mode shadow, policy fitgpp"),
    ],
)
def test_a_command_that_needs_no_extra_works(slim: Slim, argv: tuple[str, ...], status: int, words: str) -> None:
    done = slim.run(*argv)
    assert (done.returncode, words in done.stdout) == (status, True), done.stderr


def test_a_store_is_made_filled_and_read(slim: Slim) -> None:
    assert slim.run("db", "upgrade").returncode == 0
    done = slim.run("learn", "--trace", "trace.txt", "--json")
    assert (done.returncode, '"new": 1' in done.stdout) == (0, True), done.stderr
    done = slim.run("status")
    assert (done.returncode, done.stderr) == (3, "")
    assert "no daemon has ever run on this store" in done.stdout


def test_fitgpp_and_the_baselines_are_simulated_with_intervals(slim: Slim) -> None:
    done = slim.run("simulate", *SMALL, "--policy", POLICIES, "--seeds", "2")
    assert done.returncode == 0, done.stderr
    assert "±" in done.stdout


def test_the_daemon_starts_with_fitgpp(slim: Slim) -> None:
    (slim.folder / "tesched.toml").write_text(
        f'store.url = "sqlite:///{slim.folder}/store.sqlite"\n[slurm]\ntimeout_s = 0.5\nconf = "{slim.folder}/none"\n'
    )
    done = slim.run("daemon", "--once")
    assert (done.returncode, "Slurm cannot be seen" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("simulate", *SMALL, "--html", "x.html"), ("--html", "Matplotlib", "plots")),
        (("simulate", *SMALL, "--on", "slurm", "--folder", "runs"), ("--on slurm", "submitit", "submitit")),
        (("top", "--config", "none.toml"), ("tesched top", "Textual", "top")),
    ],
)
def test_an_option_that_needs_an_extra_says_so_before_anything_is_run(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: tuple[str, str, str]
) -> None:
    option, package, extra = said
    hide(monkeypatch, *EXTRAS)
    done = CliRunner().invoke(main, [*argv])
    line = f"Error: {option} needs {package}, which is not installed; pip install '.[{extra}]'\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", line)


def test_a_policy_that_needs_an_extra_is_refused_by_the_check_and_by_the_daemon(slim: Slim) -> None:
    (slim.folder / "tesched.toml").write_text('policy.be = "gavel"\n')
    why = """policy.be: "gavel" needs SciPy, which is not installed; pip install '.[gavel]'"""
    for argv in (("config", "check", "tesched.toml"), ("daemon", "--once", "--config", "tesched.toml")):
        done = slim.run(*argv)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: tesched.toml: {why}\n")
    done = slim.run("doctor", "--config", "tesched.toml")
    text, _, advice = why.partition("; ")
    assert done.returncode == 1
    assert f"FAIL configuration  tesched.toml: {text}\n{'':20}to do: {advice}\n" in done.stdout
