"""Check that a process that the store knows by its number is still the same one.

A number is used again: by another process later on, in another container, after the next boot. So the store keeps with
it where it counts (`place`) and when the process was started, as the kernel counts it (`ticks_of`).
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

#: Under systemd's ProcSubset=pid there is no boot_id; then the machine's id has to do.
_IDS = (Path("/proc/sys/kernel/random/boot_id"), Path("/etc/machine-id"))


def place() -> str:
    """Place where our pid counts: containers of one host may have its name, and pids of their own. Empty: unknown."""
    return next(iter(_places()), "")


def ticks_of(pid: int) -> int | None:
    """Time at which the process was started, in clock ticks since the boot; None if that is not to be seen.

    Source: proc(5), /proc/PID/stat, field 22. The name in field 2 may have blanks and brackets in it.
    """
    try:
        after_name = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2]
        return int(after_name.split()[19])
    except (OSError, IndexError, ValueError):
        return None


def alive(pid: int, where: str, ticks: int | None) -> bool | None:
    """Check whether the process that had this number in this place is there; None if that cannot be known from here.

    `ticks` is when it was started; None if that was not recorded.
    """
    if not where or where not in _places():
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's, as the daemon's is
    now = ticks_of(pid)
    return ticks is None or now is None or now == ticks


def _places() -> tuple[str, ...]:
    """Names that our place may have: a service that sees less of /proc calls it otherwise than a shell does."""
    found: list[str] = []
    try:
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return ()
    for file in _IDS:
        try:
            boot = file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if boot:
            found.append(f"{socket.gethostname()}/{boot}/{namespace}")
    return tuple(found)
