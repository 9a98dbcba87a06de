"""One program run with bounds: a time, and an amount of what it may say. What floods is ended, as what hangs is.

subprocess.communicate() has no bound on what it keeps: a program that floods its standard error for three seconds had
the daemon hold gigabytes, and its time-out was late by as long as they took to copy.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

#: Bytes that are kept of what a program complains of; with more it is ended.
MOST_COMPLAINTS = 1 << 20
#: seconds after which the stopwatch is read again, whatever the program says
WAKES_S = 1.0
#: Bytes that are kept of an output that is handed on: it may be what the program complains of.
_BEGINNING = 1 << 12
_CHUNK = 1 << 16
#: Bytes that a program may be ahead of what reads its output: the most that Linux gives to any user.
_PIPE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """What a program said, and how it ended."""

    #: its exit status; negative: a signal
    status: int
    #: as it was read: a copy of what a large site's queue says would be 100 MB
    out: bytes | bytearray
    err: bytes | bytearray
    #: why it was ended, in words; empty if it ended by itself, or had said enough
    stopped: str = ""
    #: it had said as much as was wanted, and was ended: its status is no word on that
    had_enough: bool = False


def ours(names: Container[str]) -> dict[str, str]:
    """Return those of this process's environment variables that have one of these names."""
    return {name: value for name, value in os.environ.items() if name in names}


def run_bounded(
    argv: Sequence[str],
    *,
    timeout_s: float,
    most_out: int | None,
    enough: int | None = None,
    environment: Mapping[str, str],
    said: bytes = b"",
    folder: str | None = None,
    into: Callable[[bytes], None] | None = None,
    stopwatch: Callable[[], float] = time.monotonic,
) -> ProgramResult:
    """Run it in a session of its own, with `said` as its standard input. Raises OSError where it can't be started.

    After `timeout_s`, or above `most_out` bytes of output or `MOST_COMPLAINTS` of complaints, its whole process group
    is killed: a client may have children that hold the pipes open. `most_out` None: its output is not read. With
    `enough`, so many bytes of its output are wanted: it is ended as soon as they are there. With `into` each piece of
    its output is handed on as it comes, and only its beginning is kept; the time that takes is none of the program's.
    """
    until = stopwatch() + timeout_s
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if said else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if most_out is None else subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
        bufsize=0,
    )
    if into is not None and process.stdout is not None:
        # Quicker, no more: where its user may have no pipe as large (fs.pipe-max-size, pipe-user-pages-soft), it stays
        with suppress(OSError):
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
    kept = _Output(most_out=most_out or 0, enough=enough, into=into, stopwatch=stopwatch)
    stopped, had_enough = "", False
    try:
        _exchange(process, memoryview(said), kept, lambda: until + kept.handing_s - stopwatch())
    except (TimeoutError, subprocess.TimeoutExpired):
        stopped = f"took more than {timeout_s:g} s"
    except _FloodError as error:
        stopped = str(error)
    except _EnoughError:
        had_enough = True
    finally:
        # Before its pipes are closed: it ends by our signal, and not by what it makes of a broken pipe.
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return ProgramResult(
        status=process.returncode,
        out=kept.out if enough is None else kept.out[:enough],
        err=kept.err,
        stopped=stopped,
        had_enough=had_enough,
    )


class _FloodError(Exception):
    """It says too much."""


class _EnoughError(Exception):
    """It has said what was wanted."""


@dataclass(slots=True, kw_only=True)
class _Output:
    """What a program has said so far."""

    most_out: int
    enough: int | None
    into: Callable[[bytes], None] | None
    stopwatch: Callable[[], float]
    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)
    #: bytes of output so far, and the seconds in which they were handed on
    said: int = 0
    handing_s: float = 0.0

    def take(self, piece: bytes) -> None:
        """Keep the next piece of output, or hand it on."""
        self.said += len(piece)
        if self.into is None:
            self.out.extend(piece)
        elif piece and self.said <= self.most_out:
            self.out.extend(piece[: max(_BEGINNING - len(self.out), 0)])
            began = self.stopwatch()
            self.into(piece)
            self.handing_s += self.stopwatch() - began

    def check(self) -> None:
        """Raise _EnoughError if it is enough, _FloodError if it is too much."""
        if self.enough is not None and self.said >= self.enough:
            raise _EnoughError
        for what, said, most in (("output", self.said, self.most_out), ("complaints", len(self.err), MOST_COMPLAINTS)):
            if said > most:
                raise _FloodError(f"said more than {most >> 20} MiB of {what}")


def _exchange(process: subprocess.Popen[bytes], said: memoryview, kept: _Output, left_s: Callable[[], float]) -> None:
    """Write and read until it has ended. Raises TimeoutError, subprocess.TimeoutExpired, _FloodError, _EnoughError."""
    with selectors.DefaultSelector() as selector:
        pipe: Any
        for pipe, take in ((process.stdout, kept.take), (process.stderr, kept.err.extend)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, take)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            if (wait_s := left_s()) <= 0:
                raise TimeoutError
            for key, _ in selector.select(min(wait_s, WAKES_S)):
                if key.data is None:
                    said = _write(key.fd, said)
                    is_over = not said
                else:
                    piece = os.read(key.fd, _PIPE)
                    key.data(piece)
                    is_over = not piece
                if is_over:
                    pipe = selector.unregister(key.fileobj).fileobj
                    pipe.close()
            kept.check()
    process.wait(max(left_s(), 0.0))


def _write(descriptor: int, said: memoryview) -> memoryview:
    """Write as much as the pipe takes; return the rest, nothing for a program that does not read."""
    try:
        return said[os.write(descriptor, said[:_CHUNK]) :]
    except BlockingIOError:
        return said
    except BrokenPipeError:
        return said[:0]  # what it says and how it ends counts
