"""A command on a terminal of its own, 80 columns by 24 lines, as over ssh: its keys, and the text on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte
from tesched_testcluster.patience import Patience

COLUMNS, LINES = 80, 24
#: Seconds in which an interrupted command ends.
_ENDS_WITHIN_S = 60.0
ENTER, ESCAPE = "\r", "\x1b"


class OnTerminal:
    """A process on a terminal."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        """Take the process, and this side of its terminal."""
        self.process = process
        self._descriptor = descriptor
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    def press(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._descriptor, keys.encode())

    def lines(self) -> list[str]:
        """Return the screen as it is now, without blanks at the ends of lines."""
        while select.select([self._descriptor], [], [], 0.05)[0]:
            # Linux says EIO once the process has closed the other side.
            with suppress(OSError):
                if data := os.read(self._descriptor, 65536):
                    self._stream.feed(data)
                    continue
            break
        return [line.rstrip() for line in self._screen.display]

    def wait_for(self, shown: Callable[[list[str]], object], what: str) -> list[str]:
        """Wait until the screen is so, and return it."""
        patience = Patience()
        while not shown(lines := self.lines()):
            assert not patience.is_over(), f"{what} is not on the screen:\n" + "\n".join(lines)
        return lines


@contextmanager
def on_terminal(argv: Sequence[str | Path], **variables: str) -> Iterator[OnTerminal]:
    """Run a command on a terminal until the block ends."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    process = subprocess.Popen(
        # Its terminal is that of a login: Ctrl-C interrupts it.
        ["setsid", "--ctty", *(str(word) for word in argv)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    try:
        yield OnTerminal(process, ours)
    finally:
        # What it has started is its own to stop.
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
        process.kill()
        process.wait()
        os.close(ours)
