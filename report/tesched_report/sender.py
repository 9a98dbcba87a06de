"""Sends a report to the daemon's socket, in a credential that munge makes: for sites without a shared file system.

`TESCHED_SOCKET` says where (host:port, or the path of a Unix socket). The command `munge` vouches for the sender.
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
from collections.abc import Mapping

SOCKET_VARIABLE = "TESCHED_SOCKET"
#: the socket of munged; without it the system's
_MUNGE_VARIABLE = "TESCHED_MUNGE_SOCKET"
#: Seconds that the command, or the daemon, is waited for.
_WAIT_S = 5.0
#: Longest answer that is read.
_ANSWER = 300


class BusyError(OSError):
    """The daemon has too much to do, and will take it later."""


def address_of(environment: Mapping[str, str]) -> str:
    """Address that reports are sent to; empty: none. Raises ValueError for what is no address."""
    address = environment.get(SOCKET_VARIABLE, "")
    if address and not address.startswith("/"):
        _parts(address)
    return address


def _parts(address: str) -> tuple[str, int]:
    found = re.fullmatch(r"\[?([^\s\[\]]+?)\]?:(\d{1,5})", address)
    if not found or not 1 <= int(found[2]) <= 65535:
        raise ValueError(f"{SOCKET_VARIABLE} is host:port or an absolute path, not {address[:80]!r}")
    return found[1], int(found[2])


def send(address: str, name: str, report: bytes, environment: Mapping[str, str]) -> None:
    """Send the report of the job of that name. Raises OSError; BusyError if it is to be tried again later."""
    credential = _vouched_for(b"tesched-report 1 %b\n%b" % (name.encode(), report), environment)
    with _connected(address) as channel:
        channel.sendall(credential + b"\n")
        answer = b""
        while b"\n" not in answer and len(answer) < _ANSWER and (piece := channel.recv(_ANSWER)):
            answer += piece
    said = answer.partition(b"\n")[0].decode(errors="replace")
    if said == "busy":
        raise BusyError(f"{address} is busy")
    if said != "ok":
        raise OSError(f"{address} says: {said if said.isprintable() and said else 'nothing'}")


def _connected(address: str) -> socket.socket:
    if not address.startswith("/"):
        return socket.create_connection(_parts(address), timeout=_WAIT_S)
    channel = socket.socket(socket.AF_UNIX)
    try:
        # A blocking socket waits its turn where many want to connect; one with a time-out fails at once.
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_WAIT_S), 0))
        channel.connect(address)
        channel.settimeout(_WAIT_S)
    except BaseException:
        channel.close()
        raise
    return channel


def _vouched_for(content: bytes, environment: Mapping[str, str]) -> bytes:
    munge_socket = environment.get(_MUNGE_VARIABLE, "")
    try:
        made = subprocess.run(
            ["munge", *(["--socket", munge_socket] if munge_socket else [])],
            input=content,
            capture_output=True,
            timeout=_WAIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise OSError("munge does not answer") from None
    if made.returncode != 0:
        raise OSError(f"munge: {made.stderr.decode(errors='replace').strip()[:200]}")
    return made.stdout.strip()
