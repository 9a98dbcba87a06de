"""The users of a soak, each a thread: hostile ones who draw actions, and an honest one who submits TE jobs."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tesched_testcluster.harness.attacks import raw_rpc
from tesched_testcluster.harness.attacks.fields import AFTER_2205, NOT_AFTER_2205, SCRIPTS
from tesched_testcluster.harness.attacks.grammar import Action, Command, RawSubmission, Submission, actions
from tesched_testcluster.local import LocalCluster

#: seconds after which a command that hangs, as some of a user's own do, is given up
_COMMAND_S = 4.0
#: the honest user's TE jobs
EVERY_S = 4.0
TE_OPTIONS = ("-J", "honest", "-p", "debug", "-t", "1", "--gres=gpu:1", "--mem=100", "--output=/dev/null")


class User(Protocol):
    """What one does until it is over."""

    def run(self, over: threading.Event) -> None:
        """Do it."""
        ...


@dataclass(kw_only=True)
class Honest:
    """Submits a short TE job every few seconds."""

    cluster: LocalCluster
    user: str
    jobs: list[int] = field(default_factory=list)

    def run(self, over: threading.Event) -> None:
        """Submit until it is over."""
        while not over.is_set():
            began = time.monotonic()
            self.jobs.append(self.cluster.sbatch(*TE_OPTIONS, wrap="exec sleep 1", user=self.user))
            over.wait(max(EVERY_S - (time.monotonic() - began), 0.1))


@dataclass(kw_only=True)
class Hostile:
    """Submits and changes jobs at random, `jobs` of them in `seconds`."""

    cluster: LocalCluster
    user: str
    rng: random.Random
    jobs: int
    seconds: float
    #: jobs of all users
    all_jobs: list[str]
    own: list[str] = field(default_factory=list)
    submitted: int = 0
    #: actions by kind and whether Slurm took them
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, over: threading.Event) -> None:
        """Act until it is over, at a pace that spreads the jobs over the time."""
        began = time.monotonic()
        for action in actions(self.rng):
            if over.is_set():
                return
            self._do(action)
            due_s = self.submitted * self.seconds / self.jobs
            over.wait(max(began + due_s - time.monotonic(), 0.0))

    def _do(self, action: Action) -> None:
        kind = type(action).__name__.lower()
        if isinstance(action, RawSubmission):
            if raw_rpc.lacking(self.cluster.release):
                return
            taken = self._submit_raw(action)
        elif isinstance(action, Submission):
            taken = self._submit(action)
        else:
            taken = self._command(action)
        self.counts[f"{kind} {'taken' if taken else 'refused'}"] += 1

    def _submit_raw(self, action: RawSubmission) -> bool:
        try:
            job_id = raw_rpc.submit(self.cluster, self.user, action.numbers, partition="main")
        except (raw_rpc.RawSubmissionError, subprocess.TimeoutExpired):
            return False
        self._add(str(job_id))
        return True

    def _submit(self, action: Submission) -> bool:
        script = script_path(self.cluster, action.script)
        argv = ["sbatch", "--parsable"]
        for number, options in enumerate(action.components):
            argv += [":"] * bool(number) + [self._filled(option) for option in options if self._known(option)]
        said = self._run([*argv, str(script)])
        if said is None:
            return False
        self._add(said.strip().partition(";")[0])
        return True

    def _command(self, action: Command) -> bool:
        return self._run([self._filled(word) for word in action.argv]) is not None

    def _add(self, job_id: str) -> None:
        if job_id.isdigit():
            self.submitted += 1
            self.own.append(job_id)
            self.all_jobs.append(job_id)

    def _known(self, option: str) -> bool:
        """Say whether this release's sbatch knows the option."""
        unknown = AFTER_2205 if self.cluster.release <= (22, 5) else NOT_AFTER_2205
        return option.partition("=")[0].removeprefix("--") not in unknown

    def _filled(self, word: str) -> str:
        if "{own}" not in word and "{other}" not in word:
            return word
        own = self.rng.choice(self.own[-50:] or ["1"]) + self.rng.choice(("", "", "", "_1", "_[0-3]", "+1"))
        return word.replace("{own}", own).replace("{other}", self.rng.choice(self.all_jobs[-50:] or ["1"]))

    def _run(self, argv: list[str]) -> str | None:
        """Run it as the user; return what it says, None if it fails."""
        environment = {**self.cluster.env, "LC_ALL": "C.UTF-8"}
        try:
            done = subprocess.run(
                [os.fsencode(word) for word in argv],
                env=environment,
                cwd=self.cluster.shared,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                user=self.user,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.counts["given up"] += 1
            return None
        except OSError:  # an argument that is too long
            return None
        return None if done.returncode else done.stdout.decode(errors="replace")


def write_scripts(cluster: LocalCluster) -> None:
    """Write all scripts of the grammar where each user may read them."""
    for name, text in SCRIPTS.items():
        path = script_path(cluster, name)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)


def script_path(cluster: LocalCluster, name: str) -> Path:
    """Return where a script of the grammar is."""
    return cluster.shared / f"{name.replace(' ', '-')}.sh"


def started(user: User, over: threading.Event, failed: Callable[[BaseException], object]) -> threading.Thread:
    """Let a user begin; what it raises is handed over."""

    def run() -> None:
        try:
            user.run(over)
        except BaseException as error:  # noqa: BLE001 - a thread's error would be lost
            failed(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
