"""One program run with bounds: a time, and an amount of what it may say. What floods is ended, as what hangs is.

subprocess.communicate() has no bound on what it keeps: a program that floods its standard error for three seconds had
the daemon hold gigabytes, and its time-out was late by as long as they took to copy.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

#: Bytes that are kept of what a program complains of; with more it is ended.
MOST_COMPLAINTS = 1 << 20
#: seconds after which the stopwatch is read again, whatever the program says
WAKES_S = 1.0
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a program said, and how it ended."""

    #: its exit status; negative: a signal
    status: int
    out: bytes
    err: bytes
    #: why it was ended, in words; empty if it ended by itself
    stopped: str = ""


def run_bounded(
    argv: Sequence[str],
    *,
    timeout_s: float,
    most_out: int | None,
    environment: Mapping[str, str] | None = None,
    said: bytes = b"",
    folder: str | None = None,
    stopwatch: Callable[[], float] = time.monotonic,
) -> Ended:
    """Run it in a session of its own, with `said` as its standard input. Raises OSError where it can't be started.

    After `timeout_s`, or above `most_out` bytes of output or `MOST_COMPLAINTS` of complaints, its whole process group
    is killed: a client may have children that hold the pipes open. `most_out` None: nobody reads its output.
    """
    until = stopwatch() + timeout_s
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if said else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if most_out is None else subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if environment is None else dict(environment),
        cwd=folder,
        start_new_session=True,
        bufsize=0,
    )
    pipes = _Pipes(process, said, most_out or 0, stopwatch)
    try:
        stopped = pipes.exchange(until)
    finally:
        # Before its pipes are closed: it ends by our signal, and not by what it makes of a broken pipe.
        if process.returncode is None:
            _kill(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if stopped == _LATE:
        stopped = f"took more than {timeout_s:g} s"
    return Ended(status=process.returncode, out=bytes(pipes.out), err=bytes(pipes.err), stopped=stopped)


_LATE = "late"


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class _Pipes:
    """The pipes of one program."""

    def __init__(
        self, process: subprocess.Popen[bytes], said: bytes, most_out: int, stopwatch: Callable[[], float]
    ) -> None:
        self._stopwatch = stopwatch
        self.process, self.out, self.err = process, bytearray(), bytearray()
        self._said, self._most_out = memoryview(said), most_out

    def exchange(self, until: float) -> str:
        """Write and read until it has ended; return why not, if it has not."""
        process = self.process
        with selectors.DefaultSelector() as selector:
            for pipe, what in ((process.stdout, self.out), (process.stderr, self.err)):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, what)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                selector.register(process.stdin, selectors.EVENT_WRITE)
            while selector.get_map():
                left_s = until - self._stopwatch()
                if left_s <= 0:
                    return _LATE
                for key, _ in selector.select(min(left_s, WAKES_S)):
                    if key.data is None:
                        self._write(selector, key.fileobj)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        selector.unregister(key.fileobj)
                    key.data.extend(chunk)
                if len(self.out) > self._most_out or len(self.err) > MOST_COMPLAINTS:
                    return f"said more than {_amount(self._most_out, MOST_COMPLAINTS, len(self.out))}"
        try:
            process.wait(max(until - self._stopwatch(), 0.0))
        except subprocess.TimeoutExpired:
            return _LATE
        return ""

    def _write(self, selector: selectors.BaseSelector, pipe: Any) -> None:
        try:
            self._said = self._said[os.write(pipe.fileno(), self._said[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._said = self._said[:0]  # it does not read: what it says and how it ends counts
        if not self._said:
            selector.unregister(pipe)
            pipe.close()


def _amount(most_out: int, most_err: int, out: int) -> str:
    most, where = (most_out, "output") if out > most_out else (most_err, "complaints")
    return f"{most >> 20} MiB of {where}"
