"""`make test` runs failed tests of processes a second time, alone: on toy suites, each in a pytest of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.two_passes import MOST, may_run_again

ROOT = Path(__file__).parents[3]
#: without the wait for a machine at rest
DRIVER = "import sys; from tests import two_passes; two_passes.REST_S = 0.0; sys.exit(two_passes.main(sys.argv[1:]))"
#: fails in its first run alone
FLAKY = """
from pathlib import Path
def test_it_fails_once():
    runs = Path(__file__).with_suffix(".runs")
    before = runs.read_text() if runs.exists() else ""
    runs.write_text(before + "x")
    assert before, "the window was missed"
"""
BAD = """
from pathlib import Path
def test_it_fails():
    with Path(__file__).with_suffix(".runs").open("a") as runs:
        runs.write("x")
    raise ValueError("wrong")
"""
GOOD = "def test_it_passes(): pass\n"
BAD_SET_UP = """
import pytest
@pytest.fixture
def cluster():
    raise OSError("no cluster")
def test_it_has_a_cluster(cluster): pass
"""


class Suite:
    """A toy suite in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")

    def add(self, path: str, text: str) -> None:
        """Add a test file."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it in two passes."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", DRIVER, *(arguments or ("tests",))]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    def runs(self, path: str) -> int:
        """Return how often the test of a file was run."""
        return len((self.folder / path).with_suffix(".runs").read_text())

    def kept(self) -> list[dict[str, object]]:
        """Return the rows of build/flaky.jsonl."""
        path = self.folder / "build" / "flaky.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_a_test_that_passes_the_second_time_is_printed_and_kept(suite: Suite) -> None:
    suite.add("tests/cluster/test_window.py", FLAKY)
    suite.add("tests/unit/test_good.py", GOOD)
    done = suite.run()
    assert done.returncode == 0, done.stdout
    name = "tests/cluster/test_window.py::test_it_fails_once"
    assert f"\nFLAKY {name}\n" in done.stdout
    (row,) = suite.kept()
    assert row["test"] == name
    assert "the window was missed" in str(row["said"])
    assert suite.runs("tests/cluster/test_window.py") == 2


def test_a_test_that_fails_twice_fails(suite: Suite) -> None:
    suite.add("tests/integration/test_bad.py", BAD)
    suite.add("tests/cluster/test_window.py", FLAKY)
    done = suite.run()
    assert done.returncode == 1
    assert "\nFAILED TWICE tests/integration/test_bad.py::test_it_fails\n" in done.stdout
    assert suite.runs("tests/integration/test_bad.py") == 2
    assert [row["test"] for row in suite.kept()] == ["tests/cluster/test_window.py::test_it_fails_once"]


def test_a_failed_set_up_counts_as_a_failure(suite: Suite) -> None:
    suite.add("tests/cluster/test_set_up.py", BAD_SET_UP)
    done = suite.run()
    assert done.returncode == 1
    assert "\nFAILED TWICE tests/cluster/test_set_up.py::test_it_has_a_cluster\n" in done.stdout


def test_a_unit_test_has_no_second_run_and_neither_have_those_beside_it(suite: Suite) -> None:
    suite.add("tests/unit/test_bad.py", BAD)
    suite.add("tests/cluster/test_window.py", FLAKY)
    done = suite.run()
    assert done.returncode == 1
    assert (suite.runs("tests/unit/test_bad.py"), suite.runs("tests/cluster/test_window.py")) == (1, 1)
    assert suite.kept() == []


def test_a_hang_in_a_worker_ends_with_a_traceback_and_has_its_second_run(suite: Suite) -> None:
    hang = FLAKY.replace('assert before, "the window was missed"', "import time; before or time.sleep(1000)")
    suite.add("tests/cluster/test_hang.py", hang)
    done = suite.run("tests", "-n", "1", "-o", "faulthandler_timeout=2", "-o", "faulthandler_exit_on_timeout=true")
    assert done.returncode == 0, done.stdout
    assert "\nFLAKY tests/cluster/test_hang.py::test_it_fails_once\n" in done.stdout
    assert "test_hang.py" in done.stderr, "faulthandler's traceback names the line that hung"


def test_no_tests_is_no_success(suite: Suite) -> None:
    suite.add("tests/unit/test_none.py", "")
    assert suite.run().returncode == 5


def test_few_failures_of_processes_alone_have_a_second_run() -> None:
    few = [f"tests/cluster/test_x.py::test_{number}" for number in range(MOST)]
    assert may_run_again(few)
    assert not may_run_again([*few, "tests/cluster/test_x.py::test_more"])
    assert not may_run_again([])
    assert not may_run_again(["tests/properties/test_x.py::test_y"])
