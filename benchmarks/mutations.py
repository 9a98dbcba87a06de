"""Whether the tests notice when a rule is broken: `python -m benchmarks.mutations [--check] [--jobs N] [WORD …]`.

Each rule of the heart, of the simulator, of the loop and of the store (`broken_rules.py`) is changed in one place, in a
copy; then at least one test must fail. What survives is printed, and ends the command with status 1. All of them take
TIME on two cores; with words, only rules with one of them in their name or file are tried. First the text of every
rule must be in its file, once; with `--check`, nothing else is done. As many are tried at once as there are cores, each
in a copy of its own; `--jobs` gives another number.
"""

from __future__ import annotations

import argparse
import compileall
import os
import py_compile
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
#: what TESTS are about
_COVERED = ("core", "policies", "sim")
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
    if not mutation.path.startswith(_COVERED) and path.stem not in NEAR:
        yield f"{mutation.rule}: no test is near {mutation.path} (near_tests.py)"
    if mutation.instead == mutation.text:
        yield f"{mutation.rule}: nothing is changed in {mutation.path}"


def survives(mutation: Mutation, folder: Path) -> bool:
    """Return whether all tests pass with the rule broken."""
    path = folder / mutation.path
    whole = path.read_text()
    path.write_text(whole.replace(mutation.text, mutation.instead))
    all_tests = TESTS if mutation.path.startswith(_COVERED) else DAEMON_TESTS
    near = NEAR.get(path.stem, ())
    try:
        return (not near or _pass(near, folder)) and _pass(all_tests, folder)
    finally:
        path.write_text(whole)


def _pass(tests: Sequence[str], folder: Path) -> bool:
    environment = _environment(folder) | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(_pytest("-x", *tests), cwd=folder, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def _pytest(*arguments: str) -> Sequence[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not postgresql", *arguments]


def _environment(folder: Path) -> dict[str, str]:
    rooms = os.pathsep.join(str(folder / room) for room in (*ROOMS[:-1], "."))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": rooms}


def main() -> int:
    """Print what became of each mutation; return 1 if one survived, or if one's text is not in its file once."""
    arguments = _parser().parse_args()
    faults = [fault for mutation in MUTATIONS for fault in faults_of(mutation)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if arguments.check:
        return 0
    words = arguments.words
    chosen = [one for one in MUTATIONS if not words or any(word in one.rule or word in one.path for word in words)]
    left = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(arguments.jobs) as pool:
        free: queue.SimpleQueue[Path] = queue.SimpleQueue()
        first = _compiled_copy(Path(name) / "0")
        free.put(first)
        for number in range(1, arguments.jobs):
            free.put(Path(shutil.copytree(first, first.with_name(str(number)))))
        tried = {pool.submit(_survives_in, free, mutation): mutation for mutation in chosen}
        for count, done in enumerate(as_completed(tried), 1):
            alive, mutation = done.result(), tried[done]
            left += alive
            print(f"{'SURVIVES' if alive else 'noticed '}  {mutation.rule} ({mutation.path})", flush=True)
            if sys.stderr.isatty():
                print(f"{count} of {len(chosen)} are tried", end="\r", file=sys.stderr, flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} are noticed")
    return min(left, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutations", description="Break each rule, run the tests."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rules with this in their name or file")
    parser.add_argument("--check", action="store_true", help="only check that each rule's text is in its file, once")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many are tried at once")
    return parser


def _compiled_copy(folder: Path) -> Path:
    """Copy what is tried, and compile it: by hash, since a file may change twice in a second and keep its size."""
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    compileall.compile_dir(str(folder), quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    subprocess.run(
        _pytest("--collect-only", "tests"), cwd=folder, env=_environment(folder), capture_output=True, check=False
    )
    return folder


def _survives_in(free: queue.SimpleQueue[Path], mutation: Mutation) -> bool:
    folder = free.get()
    try:
        return survives(mutation, folder)
    finally:
        free.put(folder)


if __name__ == "__main__":
    sys.exit(main())
