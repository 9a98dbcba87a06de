"""Run tests; run what failed a second time, alone, on a machine at rest: `python -m tests.two_passes ARGUMENTS`.

The arguments are pytest's. A test that fails twice fails. One that fails and then passes is printed as FLAKY, with its
name, and kept in build/flaky.jsonl with what it said: `make test-flaky` runs each of those often, beside busy loops.
Only tests that wait for processes of their own have a second run (`AGAIN`): any other test says the same each time.
More than `MOST` failures are the change's fault, not the machine's: there is no second run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: folders whose tests wait for processes of their own
AGAIN = ("tests/cluster/", "tests/integration/")
#: failures beyond which there is no second run
MOST = 12
#: seconds for which a second run waits until the machine is at rest, and the load that counts as rest
REST_S, REST_LOAD = 90.0, 1.0
#: characters that are kept of what a flaky test said: the end, where pytest has the error
_KEPT = 4000
FLAKY = Path("build/flaky.jsonl")


@dataclass(slots=True)
class Recorder:
    """A pytest plugin that keeps the names of the tests that failed, and what each said."""

    failures: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a failure of any phase: set-up, test or clean-up."""
        if report.failed:
            self.failures.setdefault(report.nodeid, report.longreprtext)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondPass:
    """Outcome of the second pass: what failed again, and what passed."""

    failed: tuple[str, ...]
    flaky: tuple[str, ...]


def may_run_again(names: Sequence[str]) -> bool:
    """Check whether a second run of these failures is of use: there are few, and all wait for processes."""
    return 0 < len(names) <= MOST and all(name.startswith(AGAIN) for name in names)


def second_pass(names: Sequence[str], run_alone: Callable[[str], bool]) -> SecondPass:
    """Run each test alone by `run_alone`, which says whether it passed."""
    passed = {name: run_alone(name) for name in names}
    return SecondPass(
        failed=tuple(name for name in names if not passed[name]), flaky=tuple(name for name in names if passed[name])
    )


def keep_flaky(names: Sequence[str], failures: Mapping[str, str], *, load: float, path: Path = FLAKY) -> None:
    """Print the flaky tests' names, and append each to the file at `path` with the time, the load and what it said."""
    for name in names:
        print(f"FLAKY {name}", flush=True)
    rows = [
        {"at": time.time(), "load": round(load, 1), "test": name, "said": failures[name][-_KEPT:]} for name in names
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    except OSError as error:  # a container has the repository read-only, and its output is kept
        print(f"not kept: {error}", flush=True)


def await_rest() -> None:
    """Wait until the machine is at rest, for REST_S at most: the loops of `make test-busy` never end."""
    end = time.monotonic() + REST_S
    while os.getloadavg()[0] > REST_LOAD and time.monotonic() < end:
        time.sleep(1)


def run_alone(name: str) -> bool:
    """Run one test in a process of its own, with clusters of its own; return whether it passed."""
    return subprocess.run([sys.executable, "-m", "pytest", "-n", "0", name], check=False).returncode == 0


def main(arguments: Sequence[str]) -> int:
    """Run both passes and return pytest's status."""
    recorder = Recorder()
    status = pytest.main([f"--maxfail={MOST + 1}", *arguments], plugins=[recorder])
    names = sorted(recorder.failures)
    # Any other status is an interrupt, a usage error, or that nothing was collected.
    if status != pytest.ExitCode.TESTS_FAILED or not may_run_again(names):
        return int(status)
    load = os.getloadavg()[0]
    print(f"\n{len(names)} failed beside others (load {load:.1f}). Each runs once more, alone.", flush=True)
    await_rest()
    second = second_pass(names, run_alone)
    keep_flaky(second.flaky, recorder.failures, load=load)
    for name in second.failed:
        print(f"FAILED TWICE {name}", flush=True)
    print(f"{len(second.flaky)} flaky, {len(second.failed)} failed twice", flush=True)
    return int(pytest.ExitCode.TESTS_FAILED if second.failed else pytest.ExitCode.OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
