"""Whether the tests notice when a rule is broken: `python -m benchmarks.mutations [--check] [WORD …]`.

Each rule of the heart, of the simulator, of the loop and of the store (`broken_rules.py`) is changed in one place, in a
copy; then at least one test must fail. What survives is printed, and ends the command with status 1. It takes about ten
minutes; with words, only rules with one of them in their name or file are tried. First the text of every rule must be
in its file, once; with `--check`, nothing else is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.broken_rules import MUTATIONS
from benchmarks.mutation import Mutation
from benchmarks.near_tests import NEAR

ROOT = Path(__file__).parents[1]
ROOMS = (
    "core",
    "policies",
    "predict",
    "sim",
    "slurm",
    "db",
    "daemon",
    "report",
    "cli",
    "systemd",
    "slurm_test_cluster",
    "tests",
)
TESTS = (
    "tests/unit/policies/test_victim_search.py",
    "tests/unit/core/guard/test_budget.py",
    "tests/unit/core/guard/test_guard.py",
    "tests/unit/core/model/test_refused.py",
    "tests/unit/policies/test_fitgpp.py",
    "tests/unit/core/intake/test_pending_reason.py",
    "tests/scenarios",
    "tests/integration/test_loop.py",
    "tests/integration/test_faults_found.py",
)
#: of what only the daemon and its store do
DAEMON_TESTS = (
    "tests/unit/daemon/test_plausibility.py",
    "tests/integration/test_loop.py",
    "tests/integration/test_faults_found.py",
    "tests/integration/test_lease.py",
    "tests/integration/test_db_journal.py",
)


def faults_of(mutation: Mutation) -> Iterator[str]:
    """Yield what keeps this rule from being broken."""
    path = ROOT / mutation.path
    count = path.read_text(encoding="utf-8").count(mutation.text) if path.is_file() else 0
    if count != 1:
        yield f"{mutation.rule}: {mutation.path} has {mutation.text!r} {count} times, not once"
    if mutation.instead == mutation.text:
        yield f"{mutation.rule}: nothing is changed in {mutation.path}"


def survives(mutation: Mutation, folder: Path) -> bool:
    """Return whether all tests pass with the rule broken."""
    path = folder / mutation.path
    whole = path.read_text()
    path.write_text(whole.replace(mutation.text, mutation.instead))
    all_tests = TESTS if mutation.path.startswith(("core", "policies", "sim")) else DAEMON_TESTS
    near = NEAR.get(path.stem, ())
    try:
        return (not near or _pass(near, folder)) and _pass(all_tests, folder)
    finally:
        path.write_text(whole)


def _pass(tests: Sequence[str], folder: Path) -> bool:
    rooms = os.pathsep.join(str(folder / room) for room in (*ROOMS[:-1], "."))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not postgresql", *tests],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": rooms, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def main() -> int:
    """Print what became of each mutation; return 1 if one survived, or if one's text is not in its file once."""
    faults = [fault for mutation in MUTATIONS for fault in faults_of(mutation)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    words = [word for word in sys.argv[1:] if word != "--check"]
    if "--check" in sys.argv[1:]:
        return 0
    chosen = [one for one in MUTATIONS if not words or any(word in one.rule or word in one.path for word in words)]
    left = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for room in ROOMS:
            shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for mutation in chosen:
            alive = survives(mutation, folder)
            left += alive
            print(f"{'SURVIVES' if alive else 'noticed '}  {mutation.rule} ({mutation.path})", flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} are noticed")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main())
