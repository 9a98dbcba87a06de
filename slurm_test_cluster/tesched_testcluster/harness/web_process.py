"""`tesched web` in a process of its own, on a free port or a Unix socket."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tesched_testcluster.harness.daemon_process import TESCHED
from tesched_testcluster.harness.private_prometheus import free_port
from tesched_testcluster.patience import Patience


@contextmanager
def running_web(
    config: Path,
    *argv: str,
    host: str = "127.0.0.1",
    listen: str = "",
    before: Sequence[str] = (),
    is_silent: bool = True,
) -> Iterator[str]:
    """Give the address of a page of this configuration's store; it must end by SIGTERM with status 0.

    `before` are words before the command, which run it as another user. With `is_silent` it must say no more.
    """
    command = [
        *before,
        str(TESCHED),
        "web",
        "--config",
        str(config),
        "--listen",
        listen or f"{host}:{free_port()}",
        *argv,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.fullmatch(r"the page is at (?:the Unix socket )?(\S+?)/?\n", said)
            assert found, said + process.stderr.read()
            yield found[1]
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert (process.wait(timeout=Patience().limit_s), rest if is_silent else "") == (0, "")
        except BaseException:
            process.kill()
            raise
