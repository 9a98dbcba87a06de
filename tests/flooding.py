"""Another user's process that pokes without end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_testcluster.patience import HANG_S

#: A user that this host need not know; not root, nor slurmctld's.
USER = 4711
#: It needs nothing but Python's own modules: the user may not be able to read ours.
_CODE = """
import socket, sys
channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for _ in range(int(sys.argv[2])) if sys.argv[2] != "-" else iter(int, 1):
    try:
        channel.sendto(b"submitted 0", sys.argv[1])
    except OSError:
        break
"""


@contextmanager
def flooding(path: str, count: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Poke the socket `path` as another user, `count` times or until the block ends."""
    if os.geteuid() != 0:
        pytest.fail("only root can be another user: run this test as root")
    # The virtual environment may be below a home folder.
    python = next((path for path in ("/usr/bin/python3",) if Path(path).exists()), sys.executable)
    words = [python, "-I", "-S", "-c", _CODE, path, "-" if count is None else str(count)]
    process = subprocess.Popen(words, user=USER, group=USER, extra_groups=[], cwd="/")
    try:
        yield process
    finally:
        if count is None:
            process.kill()
        process.wait(HANG_S)
