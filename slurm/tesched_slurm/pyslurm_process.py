"""The daemon's end of its pyslurm process: one question at a time, each with a deadline.

pyslurm's calls have no time-out of their own (slurm.conf's MessageTimeout bounds each try, and there are several), and
they hold Python's lock while they wait, so a thread could not watch over them. A process can be killed: a call that
outlives its deadline takes the process with it, and the next question starts another one.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

import msgspec
from tesched_core.model.actions import Failure, FailureKind

from tesched_slurm.errors import failure
from tesched_slurm.pyslurm_wire import (
    LENGTH,
    Answer,
    Do,
    Hello,
    LookAtJob,
    PollAll,
    Question,
    Refused,
    frame,
    read_answer,
)
from tesched_slurm.run_command import ENVIRONMENT

#: more than this of what libslurm complains about is thrown away
_MOST_COMPLAINTS = 65_536
_CHUNK = 1 << 20
#: what changes a field of a job's record
_CHANGES = frozenset({"nice", "priority", "hold", "release"})
#: how many RPCs a question comes to at most, where that is not one: as sdiag counts them, on 26.05
_RPCS: Mapping[type, int] = {Hello: 0, PollAll: 6, LookAtJob: 4}


class _GoneError(Exception):
    """The process ended, or did not answer in time."""


class PyslurmProcess:
    """A process with pyslurm in it, started when first used, and again after it was given up."""

    def __init__(self, *, timeout_s: float, slurm_conf: str = "", calls: Counter[str] | None = None) -> None:
        """Make ready; nothing is started yet. `slurm_conf` empty means the environment's, or Slurm's own search.

        What Slurm is called for is counted in `calls`.
        """
        self._calls: Counter[str] = Counter() if calls is None else calls
        self._timeout_s = timeout_s
        self._slurm_conf = slurm_conf
        self._running: _Running | None = None
        #: ends it, also where `close` is not called: with this object, or with the daemon
        self._end: Callable[[], object] | None = None

    def ask(self, question: Question) -> Answer | Failure:
        """Return the answer, or why there is none within the time-out. A refusal of Slurm's comes as a Failure."""
        deadline = time.monotonic() + self._timeout_s
        self._calls[f"pyslurm {type(question).__name__}"] += _RPCS.get(type(question), 1)
        try:
            answer = self._exchange(question, deadline)
        except _GoneError as error:
            self.close()
            return failure(str(error))
        except msgspec.DecodeError as error:
            self.close()
            return Failure(kind=FailureKind.UNKNOWN, message=f"pyslurm: unexpected answer ({error})")
        if not isinstance(answer, Refused):
            return answer
        of_change = isinstance(question, Do) and question.what in _CHANGES
        return failure(answer.message, of_change=of_change, answered=of_change)

    def close(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end()  # which forgets it, too
        self._running = self._end = None

    def _exchange(self, question: Question, deadline: float) -> Answer:
        if self._running is None:
            self._running = _start(self._slurm_conf)
            self._end = weakref.finalize(self, self._running.end)
        running = self._running
        if os.fstat(running.complaints.fileno()).st_size > _MOST_COMPLAINTS:
            os.ftruncate(running.complaints.fileno(), 0)
        try:
            running.questions.write(frame(question))
            running.questions.flush()
        except OSError:
            raise _GoneError(running.last_words(deadline)) from None
        received = bytearray()
        wanted = LENGTH.size
        poll = select.poll()
        poll.register(running.answers, select.POLLIN)
        while len(received) < wanted:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not poll.poll(left_s * 1000):
                raise _GoneError(f"slurmctld gave pyslurm no answer: timed out after {self._timeout_s:g} s")
            chunk = os.read(running.answers.fileno(), _CHUNK)
            if not chunk:
                raise _GoneError(running.last_words(deadline))
            received += chunk
            if wanted == LENGTH.size <= len(received):
                wanted += LENGTH.unpack_from(received)[0]
        return read_answer(memoryview(received)[LENGTH.size :])


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """The process, while it runs."""

    process: subprocess.Popen[bytes]
    questions: IO[bytes]
    answers: IO[bytes]
    #: what libslurm wrote to standard error
    complaints: IO[bytes]

    def end(self) -> None:
        """Kill it and close what belongs to it; a second time does nothing."""
        self.process.kill()
        self.process.wait()
        for each in (self.answers, self.complaints):
            each.close()
        with suppress(BrokenPipeError):
            self.questions.close()

    def last_words(self, deadline: float) -> str:
        """Reason that it ended, after it closed its end of a pipe; its end is waited for until the deadline."""
        try:
            status = self.process.wait(timeout=max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            return "pyslurm's process closed its output"
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return f"pyslurm's process ended ({how}){': ' + lines[-1] if lines else ''}"


def _start(slurm_conf: str) -> _Running:
    """Start a process. Raises _GoneError if the operating system does not."""
    # As for Slurm's commands, but for what Python itself goes by.
    environment = {
        key: value for key, value in os.environ.items() if key in ENVIRONMENT or not key.startswith("SLURM_")
    }
    if slurm_conf:
        environment["SLURM_CONF"] = slurm_conf
    complaints = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed with the process
    try:
        process = subprocess.Popen(
            # Without the folder that the daemon was started in; in a session of its own, so that a signal to the
            # daemon's group does not end a call half-way.
            [sys.executable, "-P", "-m", "tesched_slurm.pyslurm_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        complaints.close()
        raise _GoneError(f"pyslurm's process cannot be started: {error}") from None
    if process.stdin is None or process.stdout is None:
        raise AssertionError("both are pipes")
    return _Running(process, process.stdin, process.stdout, complaints)
