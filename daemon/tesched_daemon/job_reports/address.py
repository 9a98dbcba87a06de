"""Address on which reports are taken, as the configuration names it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """Address to listen on; an empty host means all of this machine's addresses."""

    host: str
    port: int


def address_of(text: str) -> TcpAddress | Path:
    """Parse an address: `host:port`, `[v6]:port`, `:port` or an absolute path.

    Raises ValueError; where the host can be no name UnicodeError, which is one: so would the system's resolver.
    """
    if text.startswith("/"):
        # Linux takes 108 bytes, the last one for the end.
        if "\0" in text or len(text.encode()) > 107:
            raise ValueError("a path has at most 107 bytes")
        if text.endswith(("/", "/.", "/..")):
            raise ValueError('a path ends with the name of a socket, such as "/run/tesched/reports.sock"')
        return Path(text)
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:\s\[\]]*)):([0-9]{1,5})", text)
    if not found or not 1 <= int(found[3]) <= 65535:
        raise ValueError('it is "host:port", ":port" or an absolute path')
    where = TcpAddress(found[1] or found[2] or "", int(found[3]))
    try:
        where.host.encode("idna")
    except UnicodeError:
        raise UnicodeError("each part of a host's name, between dots, has 1 to 63 characters") from None
    return where


def is_loopback(listen: str) -> bool:
    """Check whether this host alone reaches it: a path, or an address of the loopback; or it is none (empty).

    Raises ValueError as `address_of` does.
    """
    where = address_of(listen) if listen else None
    if not isinstance(where, TcpAddress):
        return True
    with suppress(ValueError):
        return ip_address(where.host).is_loopback
    return where.host == "localhost"
