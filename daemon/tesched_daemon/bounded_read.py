"""One read of a file system that may hang, such as a file server's, with a limit on the wait.

A call of the kernel on a mount that hangs cannot be ended, so it is left alone in a thread that keeps no process alive.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

#: Seconds for which a file system is waited for.
WAIT_S = 5.0


def bounded_read(read: Callable[[], Answer]) -> Answer:
    """Answer of `read`. Raises what that raises, and TimeoutError, an OSError, if it takes longer than `WAIT_S`."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(read())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            errors.append(error)

    reader = threading.Thread(target=run, name="bounded read", daemon=True)
    reader.start()
    reader.join(WAIT_S)
    if errors:
        raise errors[0]
    if not answers:
        raise TimeoutError(errno.ETIMEDOUT, f"has not answered for {WAIT_S:.0f} s")
    return answers[0]
