"""What the gate says of the last run of all tests, and what such a run keeps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import full_run
from tests.flaky_again import names
from tests.full_run import Part, figures_of, flaky_in, run_part, say
from tests.order import LONGEST, places

ROOT = Path(__file__).parents[3]


def git(*arguments: str) -> str:
    """Run git in the current folder, with an author's name."""
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a repository with one commit, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "queue.py").write_text("one\n")
    (tmp_path / "README.md").write_text("one\n")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    return tmp_path


def result(tree: str | None, status: int = 0) -> dict[str, object]:
    """Return a full run of 34 minutes."""
    parts = [{"target": "test", "status": 0}, {"target": "test-cluster", "status": status}]
    return {"tree": tree, "at": "2026-11-25T03:00:00+00:00", "seconds": 2040, "parts": parts}


def test_the_gate_names_the_files_that_have_changed_since_the_last_full_run(clone: Path) -> None:
    tree = git("rev-parse", "HEAD^{tree}")
    unchanged = say(result(tree))[-1]
    assert unchanged == f"Nothing has changed since in {', '.join(full_run.DEPENDS_ON)}."
    (clone / "README.md").write_text("two\n")
    assert say(result(tree))[-1] == unchanged
    (clone / "slurm" / "queue.py").write_text("two\n")
    said = say(result(tree))
    assert f"2026-11-25, tree {tree[:12]}, 34 min, all passed" in said[1]
    assert said[2].endswith("1 files (slurm/queue.py).")


@pytest.mark.parametrize("tree", [None, "0123456789abcdef0123456789abcdef01234567"])
def test_a_tree_that_the_clone_lacks_is_said_to_be_unknown(clone: Path, tree: str | None) -> None:
    assert "is unknown: that tree" in say(result(tree))[-1]


def test_a_failed_full_run_names_its_parts(clone: Path) -> None:
    assert "failed: test-cluster" in say(result(git("rev-parse", "HEAD^{tree}"), status=2))[1]


def test_without_a_full_run_on_record_the_gate_says_so(clone: Path) -> None:
    assert say(None)[-1] == "No full run is on record (tests/full-run.json)."


def test_figures_are_those_of_the_first_pass() -> None:
    log = (
        "collected 9 items\nFLAKY is no line of pytest's\n"
        "====== 1 failed, 5676 passed, 2 skipped, 1 error in 301.22s (0:05:01) ======\n"
        "====== 1 passed in 3.10s ======\nFLAKY tests/cluster/test_x.py::test_y[a b]\n"
    )
    assert figures_of(log) == {"failed": 1, "passed": 5676, "skipped": 2, "error": 1}
    assert flaky_in(log)[-1] == "tests/cluster/test_x.py::test_y[a b]"
    assert figures_of("make: *** [Makefile:1: test] Error 1\n") == {}


def test_a_part_is_one_target_with_kept_output(clone: Path) -> None:
    (clone / "build" / "full-run").mkdir(parents=True)
    (clone / "Makefile").write_text("good:\n\t@echo '3 passed in 1.00s'\nbad:\n\t@echo '1 failed in 1.00s'; exit 1\n")
    good, bad = run_part(Part("good", "a good one")), run_part(Part("bad", "a bad one"))
    assert (good["status"], good["passed"], bad["failed"]) == (0, 3, 1)
    assert bad["status"] != 0
    assert (clone / "build" / "full-run" / "good.log").read_text() == "3 passed in 1.00s\n"


def test_each_part_is_a_target_of_the_makefile() -> None:
    targets = {line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    assert {part.target for row in full_run.PARTS for part in row} <= targets


def test_a_flaky_test_is_run_again_once_however_often_it_is_on_record(tmp_path: Path) -> None:
    path = tmp_path / "flaky.jsonl"
    assert names(path) == []
    path.write_text("".join(json.dumps({"test": name}) + "\n" for name in ("a", "b", "a")))
    assert names(path) == ["a", "b"]


def test_the_longest_files_run_first_then_those_that_wait_beside_those_that_compute() -> None:
    waiting = [f"tests/cluster/test_x{number}.py" for number in range(2)]
    unit = [f"tests/unit/core/test_x{number}.py" for number in range(3)]
    long = [*LONGEST[:2]]
    found = places([*unit, *long[::-1], *waiting, "tests/integration/test_x.py"])
    first, second = waiting
    others = ["tests/integration/test_x.py", *unit]
    in_order = sorted({*waiting, *others, *long}, key=lambda file: found[file])
    assert in_order[:2] == long
    assert [file for file in in_order if file in others] == others
    assert others[0] in in_order[2:4]
    assert first in in_order[2:4]
    assert others[1] in in_order[: in_order.index(second)]
    assert in_order[-1] == others[-1], "no test that waits is left for the end"


def test_every_long_file_is_there() -> None:
    assert [path for path in LONGEST if not (ROOT / path).exists()] == []
