"""All tests, and when they were run last: `python -m tests.full_run run` (make test-all), `… say` (end of make test).

A full run takes half an hour and needs a Docker engine, so a change lands by the gate. What a full run found stands in
tests/full-run.json: which tree, when, on what machine, figures by part. The gate says from it what it did not run
itself, and which files have changed since on which those parts depend.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = Path("tests/full-run.json")
LOGS = Path("build/full-run")
#: what decides whether a full run still counts: the ways to Slurm, and their tests
DEPENDS_ON = ("slurm", "slurm_plugin", "slurm_test_cluster", "tests/cluster")
#: changed files that are named; of more, their number is enough
_NAMED = 8
_COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)")
#: pytest's last line, with or without the line of = around it
_SUMMARY = re.compile(r"\d+ (passed|failed|errors?).* in [\d.]+s")


@dataclass(frozen=True, slots=True)
class Part:
    """One target of the Makefile, and what it tests."""

    target: str
    what: str


#: One after the other; those of one line side by side: containers mostly wait.
PARTS: tuple[tuple[Part, ...], ...] = (
    (Part("test", "the gate"),),
    (Part("test-cluster", "the rest of tests/cluster on this host's Slurm"),),
    (Part("test-images", "the images of Slurm 26.05 and 24.11"),),
    (
        Part("test-docker-cluster", "the Docker cluster"),
        Part("test-release-26", "Slurm 26.05: what differs by release"),
    ),
    (Part("test-plugin-24", "preempt/tesched on Slurm 24.11"),),
)
NOT_RUN = (
    "make test-nightly: all of tests/cluster on Slurm 26.05, and random examples of the properties",
    "make test-clients: trainings with Lightning and Transformers",
)


def figures_of(log: str) -> dict[str, int]:
    """Return the counts of pytest's first closing line (later ones are second runs); {} if there is none."""
    found = next((line for line in log.splitlines() if _SUMMARY.search(line)), "")
    return {what.rstrip("s") if what == "errors" else what: int(count) for count, what in _COUNTS.findall(found)}


def flaky_in(log: str) -> list[str]:
    """Return the tests that failed in the first pass alone."""
    return [line.removeprefix("FLAKY ") for line in log.splitlines() if line.startswith("FLAKY ")]


def run_part(part: Part) -> dict[str, Any]:
    """Run one target, its output in a file below build/full-run, and return its row."""
    log = LOGS / f"{part.target}.log"
    print(f"make {part.target}: {part.what}; what it prints: {log}", flush=True)
    began = time.monotonic()
    with log.open("wb") as out:
        status = subprocess.run(
            ["make", "--no-print-directory", part.target], stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        ).returncode
    said = log.read_text(errors="replace")
    row = {"target": part.target, "what": part.what, "status": status, "seconds": round(time.monotonic() - began)}
    row |= figures_of(said)
    if flaky := flaky_in(said):
        row["flaky"] = flaky
    print(f"make {part.target}: {_summary(row)}", flush=True)
    if status:
        print("\n".join(said.splitlines()[-40:]), flush=True)
    return row


def run() -> int:
    """Run every part, write the file, and return 0 if all have passed, 1 if not, 2 if there is no Docker engine."""
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        print(
            "make test-all needs a Docker engine, and none answers. Without one: make test test-cluster",
            file=sys.stderr,
        )
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    began, load, at = time.monotonic(), os.getloadavg()[0], datetime.now(UTC)
    tree, changed = _git("rev-parse", "HEAD^{tree}"), _git("status", "--porcelain")
    rows: list[dict[str, Any]] = []
    for side_by_side in PARTS:
        with ThreadPoolExecutor(len(side_by_side)) as pool:
            rows += pool.map(run_part, side_by_side)
    result = {
        "tree": tree,
        "uncommitted": [line[3:] for line in (changed or "").splitlines()],
        "at": at.isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": round(load, 1)},
        "seconds": round(time.monotonic() - began),
        "parts": rows,
        "not_run": list(NOT_RUN),
    }
    FILE.write_text(json.dumps(result, indent=2) + "\n")
    print("\n".join(say(result)))
    return int(any(row["status"] for row in rows))


def say(result: dict[str, Any] | None) -> list[str]:
    """Return what the gate says of the last full run, in lines."""
    lines = ["Not run here: the rest of tests/cluster, the Docker cluster, Slurm 26.05 and 24.11 (make test-all)."]
    if result is None:
        return [*lines, f"No full run is on record ({FILE})."]
    failed = [row["target"] for row in result["parts"] if row["status"]]
    verdict = f"failed: {', '.join(failed)}" if failed else "all passed"
    lines.append(
        f"The last full run: {result['at'][:10]}, tree {(result['tree'] or 'unknown')[:12]}, "
        f"{round(result['seconds'] / 60)} min, {verdict}."
    )
    since = changed_since(result["tree"])
    if since is None:
        lines.append("What has changed since is unknown: that tree is not in this clone.")
    elif since:
        named = ", ".join(since[:_NAMED]) + (f" and {len(since) - _NAMED} more" if len(since) > _NAMED else "")
        lines.append(f"Changed since in {', '.join(DEPENDS_ON)}: {len(since)} files ({named}).")
    else:
        lines.append(f"Nothing has changed since in {', '.join(DEPENDS_ON)}.")
    return lines


def changed_since(tree: str | None) -> list[str] | None:
    """Return the files on which a full run depends that differ from those in `tree`; None if that is unknown."""
    said = _git("diff", "--name-only", tree, "--", *DEPENDS_ON) if tree else None
    return None if said is None else said.splitlines()


def _summary(row: dict[str, Any]) -> str:
    verdict = "FAILED" if row["status"] else "passed"
    counts = [f"{row[what]} {what}" for what in ("passed", "failed", "error", "skipped") if what in row]
    counts += [f"flaky: {name}" for name in row.get("flaky", ())]
    return f"{verdict} in {row['seconds']} s" + (f" ({', '.join(counts)})" if counts else "")


def _git(*arguments: str) -> str | None:
    """Return what git prints; None where this is no clone, or git cannot say."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def main(arguments: list[str]) -> int:
    """Run the command and return its status."""
    if arguments == ["run"]:
        return run()
    if arguments == ["say"]:
        print("\n".join(say(json.loads(FILE.read_text()) if FILE.exists() else None)))
        return 0
    print("usage: python -m tests.full_run run|say", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
