"""A daemon beside a list (`beside_a_list.py`) whose PostgreSQL is behind a network that loses all packets at times.

    unshare --net -- python -m tests.integration.cut_off FOLDER DATABASE HOST LIST BEGAN

FOLDER has the server's socket. The process has a network of its own, the loopback interface alone, and reaches the
server by TCP through a relay of its own. While the file LIST.cut is there the interface is down: packets are lost in
both directions and no connection is closed, as with a firewall that forgets, or a host that has lost its power. A peer
is taken for dead after PROBE_S (1 s) * (PROBES (1) + 1); the shipped bounds are longer.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tesched_db import engine

from tests.integration import beside_a_list
from tests.integration.relay import relay_to

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def set_loopback(*, up: bool) -> None:
    """Set the loopback interface of this process's network up or down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(any_socket, _GET_FLAGS, asked), 16)
        flags = flags | _UP if up else flags & ~_UP
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags))


def _follow(cut: Path) -> None:
    was = False
    while True:
        if cut.exists() != was:
            was = not was
            set_loopback(up=not was)
            cut.with_suffix(".is-cut" if was else ".is-whole").touch()
        time.sleep(0.02)


def main(argv: Sequence[str]) -> None:
    """Run the daemon until the process is killed."""
    folder, database, host, path, began = argv
    setattr(engine, "PROBE_S", 1)  # noqa: B010 - constants there
    setattr(engine, "PROBES", 1)  # noqa: B010
    set_loopback(up=True)
    threading.Thread(target=_follow, args=(Path(path).with_suffix(".cut"),), daemon=True).start()
    with relay_to(Path(folder)) as relay:
        url = f"postgresql://tesched@127.0.0.1:{relay.port}/{database}?sslmode=disable"
        beside_a_list.main([url, host, path, began])


if __name__ == "__main__":
    main(sys.argv[1:])
