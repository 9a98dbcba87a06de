"""Whether the tests notice when a rule is broken: `python -m benchmarks.mutations`.

Each rule of the heart and of the simulator is changed in one place, in a copy; then at least one test must fail. What
survives is printed, and ends the command with status 1. It takes a few minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = ("core", "sim", "tests")
TESTS = (
    "tests/scenarios",
    "tests/unit/test_core_planning.py",
    "tests/unit/test_core_guard.py",
    "tests/unit/test_core_fitgpp.py",
    "tests/unit/test_core_waiting.py",
)


class Mutation(NamedTuple):
    """One rule, and how it is broken."""

    rule: str
    path: str
    text: str
    instead: str


_SLURM, _PASS, _ENGINE = (f"sim/tesched_sim/{name}.py" for name in ("slurm", "scheduling", "engine"))
_GUARD, _PLAN, _TRIAL, _STEP = (f"core/tesched_core/{name}.py" for name in ("guard", "planning", "trial", "step"))
_ADVANCE, _QUEUE = "core/tesched_core/advance.py", "core/tesched_core/queue_order.py"
_FITGPP, _PATIENT = "core/tesched_core/fitgpp.py", "core/tesched_core/patient.py"

MUTATIONS = (
    Mutation("a requeue counts", _SLURM, "self.restarts[row] += 1", "pass"),
    Mutation("work of earlier runs is kept", _SLURM, "worked_s = before_s + max(until", "worked_s = max(until"),
    Mutation("a checkpoint is kept", _SLURM, "self.saved_s[row] = kept_s", "self.saved_s[row] = 0.0"),
    Mutation("back at the head of the queue", _SLURM, "if to is RequeuedTo.HEAD:", "if False:"),
    Mutation("KillWait", _SLURM, "wait_s = grace_s + self.behaviour.kill_wait_s", "wait_s = grace_s"),
    Mutation(
        "room is kept",
        _PASS,
        "return self.slurm.free - self.kept if self.reserved else self.slurm.free",
        "return self.slurm.free",
    ),
    Mutation("backfill does not delay the first", _PASS, "> self._shadow.at_s:", "> self._shadow.at_s + 1e9:"),
    Mutation("spare room is spare once", _PASS, "self._shadow.free[taken] -= slurm.workload.demand[row]", "pass"),
    Mutation("who ends by then makes room", _PASS, "then[place] += frees", "then[place] += 0 * frees"),
    Mutation("the queue waits for its pass", _PASS, "if now == self._next_pass:", "if True:"),
    Mutation("whom an order serves is not served twice", _ENGINE, "served.add(preemptor)", "pass"),
    Mutation("deadlines are kept", _ENGINE, "slurm.push(slurm.now + victim.grace_period_s, Event.WAKE, 0)", "pass"),
    Mutation("the load is held", _ENGINE, "self._load < self.hold_load", "self._load <= self.hold_load"),
    Mutation("P", _GUARD, "if count >= limits.max_preemptions_per_job", "if count > limits.max_preemptions_per_job"),
    Mutation("least run time", _GUARD, "now - running.started < seconds", "now - running.started <= seconds"),
    Mutation("cool-down", _GUARD, "if now - at < seconds", "if now - at < 0"),
    Mutation("nobody pays in vain", _PLAN, "if without is None:", "if True:"),
    Mutation("a victim is taken once", _PLAN, "pool[list(found.victims)] = False", "pass"),
    Mutation("the cheapest on a node", _TRIAL, "self.score[jobs]))[::-1]", "self.score[jobs]))"),
    Mutation("grace periods are weighed against the longest", _FITGPP, "running.grace_s / longest", "running.grace_s"),
    Mutation("sizes are weighed against the largest", _FITGPP, "running.size / largest", "running.size"),
    Mutation("a preemption is remembered", _ADVANCE, "work.last_preempted[victim.job_id] = work.now", "pass"),
    Mutation("who leaves after all has paid", _ADVANCE, "return victim if may_leave else", "return"),
    Mutation("room that is promised is taken", _STEP, "rows += there", "pass"),
    Mutation("ahead of all others", _QUEUE, "return 1 + max(paying,", "return max(paying,"),
    Mutation("patience", _PATIENT, "return since + self.patience_s", "return since + 2 * self.patience_s"),
)


def survives(mutation: Mutation, folder: Path) -> bool:
    """Return whether all tests pass with the rule broken. Raises ValueError if the text is not there."""
    path = folder / mutation.path
    whole = path.read_text()
    if mutation.text not in whole:
        raise ValueError(f"{mutation.path} has no {mutation.text!r}")
    path.write_text(whole.replace(mutation.text, mutation.instead, 1))
    rooms = os.pathsep.join(str(folder / room) for room in ("core", "sim", "."))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *TESTS],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": rooms, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
    finally:
        path.write_text(whole)
    return done.returncode == 0


def main() -> int:
    """Print what became of each mutation; return how many survived, at most 1."""
    left = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for room in ROOMS:
            shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        for mutation in MUTATIONS:
            alive = survives(mutation, folder)
            left += alive
            print(f"{'SURVIVES' if alive else 'noticed '}  {mutation.rule} ({mutation.path})", flush=True)
    print(f"{len(MUTATIONS) - left} of {len(MUTATIONS)} are noticed")
    return min(left, 1)


if __name__ == "__main__":
    sys.exit(main())
