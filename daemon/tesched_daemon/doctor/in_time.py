"""Read of a file system that may hang, such as a file server's, with a limit on the wait.

A call of the kernel on a mount that hangs cannot be ended, so it is left alone in a thread that keeps no process alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

#: Seconds for which a file system is waited for.
WAIT_S = 5.0


def in_time(read: Callable[[], Answer]) -> Answer | None:
    """Answer of `read`, which is never None; None if it takes longer than `WAIT_S`. Raises what that raises."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(read())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            errors.append(error)

    reader = threading.Thread(target=run, name="doctor", daemon=True)
    reader.start()
    reader.join(WAIT_S)
    if errors:
        raise errors[0]
    return answers[0] if answers else None
