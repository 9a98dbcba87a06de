"""Whether the tests notice when a rule is broken: `python -m benchmarks.mutations [--check] [--jobs N] [WORD …]`.

Each rule of the heart, of the simulator, of the loop and of the store (`broken_rules.py`) is changed in one place, in a
copy; then at least one test must fail. First the text of every rule must be in its file, once (with `--check`, nothing
else is done), and all tests must pass with no rule broken. What survives, or could not be tried, is printed, and ends
the command with 1. With words, only rules with one of them in their name or file are tried. As many are tried at once
as there are cores, each in a copy of its own; `--jobs` gives another number. It takes an hour or more: with
`--noticed FILE`, the output of an earlier run, what was noticed there is left out.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import py_compile
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.broken_rules import MUTATIONS
from benchmarks.mutation import Mutation
from benchmarks.near_tests import NEAR

ROOT = Path(__file__).parents[1]
WARM_PYTEST = Path(__file__).with_name("warm_pytest.py")
PACKAGES = (
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
    "slurm_plugin",
    "docs",
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
_OPTIONS = ("-q", "-p", "no:cacheprovider", "-m", "not postgresql")
#: pytest's exit status, where all tests passed; and where one failed, or could not be imported
_PASSED, _FAILED = 0, (1, 2)
#: what becomes of a rule, unless its tests could not be run
NOTICED, SURVIVES = "noticed", "SURVIVES"
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


class _Copy:
    """A copy of all that is tried, compiled, with a warm pytest on it."""

    def __init__(self, folder: Path) -> None:
        """`folder` has what `_compiled` left there."""
        self._folder = folder
        self._pytest = subprocess.Popen(
            [sys.executable, WARM_PYTEST],
            cwd=folder,
            env=_environment(folder) | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tried(self, mutation: Mutation) -> str:
        """Break the rule, and say what became of it: NOTICED, SURVIVES if all tests pass, or an error."""
        try:
            return SURVIVES if self._survives(mutation) else NOTICED
        except RuntimeError as error:  # the other rules are tried all the same
            return f"ERROR ({error})"

    def _survives(self, mutation: Mutation) -> bool:
        path = self._folder / mutation.path
        whole = path.read_text()
        path.write_text(whole.replace(mutation.text, mutation.instead))
        near, all_tests = _tests_of(mutation)
        try:
            return (not near or self._pass(near)) and self._pass(all_tests)
        finally:
            path.write_text(whole)

    def _pass(self, tests: Sequence[str]) -> bool:
        if not (self._pytest.stdin and self._pytest.stdout):
            raise RuntimeError("its pytest has no pipes")
        print(json.dumps([*_OPTIONS, "-x", *tests]), file=self._pytest.stdin, flush=True)
        status = int(self._pytest.stdout.readline())
        if status not in (_PASSED, *_FAILED) and status > 0:
            raise RuntimeError(f"pytest ends with status {status}: {' '.join(tests)}")
        return status == _PASSED

    def check(self, mutations: Sequence[Mutation]) -> None:
        """Raise RuntimeError unless all tests of these rules pass with none of them broken."""
        tests = dict.fromkeys(test for mutation in mutations for some in _tests_of(mutation) for test in some)
        folders = tuple(test for test in TESTS if test in tests)
        every = [test for test in tests if test in folders or not test.startswith(folders)]
        if every and not self._pass(every):
            raise RuntimeError("with no rule broken, not all tests pass: " + " ".join(every))

    def close(self) -> None:
        """End its pytest."""
        self._pytest.communicate()


def _tests_of(mutation: Mutation) -> tuple[Sequence[str], Sequence[str]]:
    """Tests that are near the rule, and all that could notice it."""
    near = NEAR.get(Path(mutation.path).stem, ())
    return near, TESTS if mutation.path.startswith(_COVERED) else DAEMON_TESTS


def _environment(folder: Path) -> dict[str, str]:
    packages = os.pathsep.join(str(folder / package) for package in (*PACKAGES[:-1], "."))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": packages}


def _compiled(folder: Path) -> Path:
    """Copy what is tried, and compile it: by hash, since a file may change twice in a second and keep its size."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    compileall.compile_dir(str(folder), quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    collect = [sys.executable, "-m", "pytest", *_OPTIONS, "--collect-only", "tests"]
    subprocess.run(collect, cwd=folder, env=_environment(folder), capture_output=True, check=False)
    return folder


def main() -> int:
    """Print what became of each mutation; return 1 if one survived, or if one's text is not in its file once."""
    arguments = _parser().parse_args()
    faults = [fault for mutation in MUTATIONS for fault in faults_of(mutation)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return 1
    if arguments.check:
        return 0
    words, before = arguments.words, arguments.noticed.read_text(encoding="utf-8") if arguments.noticed else ""
    chosen = [one for one in MUTATIONS if not words or any(word in one.rule or word in one.path for word in words)]
    chosen = [one for one in chosen if _line(one, NOTICED) not in before.split("\n")]
    left = 0
    for count, (mutation, became) in enumerate(_tried(chosen, arguments.jobs), 1):
        left += became != NOTICED
        print(_line(mutation, became), flush=True)
        if sys.stderr.isatty():
            print(f"{count} of {len(chosen)} are tried", end="\r", file=sys.stderr, flush=True)
    print(f"{len(chosen) - left} of {len(chosen)} are noticed")
    return min(left, 1)


def _line(mutation: Mutation, became: str) -> str:
    return f"{became:8}  {mutation.rule} ({mutation.path})"


def _tried(mutations: Sequence[Mutation], jobs: int) -> Iterator[tuple[Mutation, str]]:
    """Yield each mutation, as it is done, with what became of it."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        first = _compiled(Path(name) / "0")
        folders = [first, *(Path(shutil.copytree(first, first.with_name(str(i)))) for i in range(1, jobs))]
        free: queue.SimpleQueue[_Copy] = queue.SimpleQueue()
        for folder in folders:
            free.put(stack.enter_context(closing(_Copy(folder))))
        copy = free.get()
        copy.check(mutations)
        free.put(copy)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        tried = {pool.submit(_tried_in, free, mutation): mutation for mutation in mutations}
        for done in as_completed(tried):
            yield tried[done], done.result()


def _tried_in(free: queue.SimpleQueue[_Copy], mutation: Mutation) -> str:
    copy = free.get()
    try:
        return copy.tried(mutation)
    finally:
        free.put(copy)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutations", description="Break each rule, run the tests."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="only rules with this in their name or file")
    parser.add_argument("--check", action="store_true", help="only check that each rule's text is in its file, once")
    parser.add_argument("--noticed", type=Path, metavar="FILE", help="leave out what an earlier output has as noticed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="how many are tried at once")
    return parser


if __name__ == "__main__":
    sys.exit(main())
