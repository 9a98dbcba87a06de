"""Runs one of Slurm's commands: bounded in time, in a fixed locale and time format, never through a shell."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.errors import failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Way to run Slurm's commands."""

    #: seconds after which a call is given up
    timeout_s: float = 10.0
    #: slurm.conf; empty means the environment's, or Slurm's own search
    slurm_conf: str = ""
    #: how many RPCs slurmctld has had so far, by what they were for: "scontrol show job", "scancel", "pyslurm Do"
    calls: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    def run(self, argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str | Failure:
        """Return what the command printed, or why it failed. Slurm prints times as Unix seconds.

        `variables` are set in its environment.
        """
        self.calls[_kind(argv)] += rpcs(argv)
        return self._answer(argv, variables)

    def run_together(
        self, argvs: Sequence[Sequence[str]], variables: Mapping[str, str] | None = None
    ) -> list[str] | Failure:
        """Return what these commands printed, each, or why one of them failed. They run at the same time."""
        for argv in argvs:
            self.calls[_kind(argv)] += rpcs(argv)
        with ThreadPoolExecutor(len(argvs)) as pool:
            answers = list(pool.map(partial(self._answer, variables=variables), argvs))
        failures = [answer for answer in answers if isinstance(answer, Failure)]
        return failures[0] if failures else [answer for answer in answers if isinstance(answer, str)]

    def _answer(self, argv: Sequence[str], variables: Mapping[str, str] | None = None) -> str | Failure:
        environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("SQUEUE_", "SINFO_", "SCONTROL_"))
            },
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "SLURM_TIME_FORMAT": "%s",
            **(variables or {}),
        }
        if self.slurm_conf:
            environment["SLURM_CONF"] = self.slurm_conf
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError:
            message = f"{argv[0]}: no such command; are Slurm's client programs installed and on PATH?"
            return Failure(kind=FailureKind.UNREACHABLE, message=message)
        except OSError as error:
            return Failure(kind=FailureKind.UNREACHABLE, message=f"{argv[0]}: {error}")
        with process:
            try:
                out, err = process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                # The whole group: a client may have children that hold the pipes open.
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                message = f"{argv[0]} gave no answer within {self.timeout_s:.0f} s"
                return Failure(kind=FailureKind.UNREACHABLE, message=message)
        if process.returncode != 0:
            return failure(_text(err) or _text(out))
        return _text(out)


def _text(said: bytes) -> str:
    """Return it as it was printed: users' text may hold any bytes, and a carriage return is not a newline."""
    return said.decode("utf-8", "surrogateescape")


#: RPCs that a command comes to at most, where that is not one: as sdiag counts them, on 22.05 and on 26.05.
_RPCS = {
    "scontrol show job": 2,
    "scontrol show node": 2,
    "scontrol show config": 2,
    "squeue": 2,
    "scancel": 3,
}


def rpcs(argv: Sequence[str]) -> int:
    """Return how many RPCs this command is for slurmctld at most; of a job that waits it asks one less."""
    kind = _kind(argv)
    one_job = argv[-1].isdecimal() if kind == "scontrol show job" else "-j" in argv
    # For these it asks first which cluster of a federation the job belongs to, and for the job.
    needs_job = kind == "scontrol update" and any(word.lower().startswith("reqnodelist=") for word in argv)
    return _RPCS.get(kind, 1) + one_job + 2 * needs_job


def _kind(argv: Sequence[str]) -> str:
    """Return what is asked, without options and ids: "scontrol show job", "scontrol update", "squeue"."""
    program, *rest = argv
    if program != "scontrol":
        return program
    words = [word for word in rest if not word.startswith("-")]
    return " ".join((program, *words[: 2 if words[:1] == ["show"] else 1]))
