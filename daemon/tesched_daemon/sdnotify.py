"""Notifies systemd of the daemon's state: READY, STATUS, WATCHDOG, STOPPING, EXTEND_TIMEOUT_USEC.

Does nothing where no systemd listens.

Source: sd_notify(3).
"""

from __future__ import annotations

import logging
import os
import socket

from tesched_core.model.visible import visible

log = logging.getLogger(__name__)

#: Seconds after which a service that stops is ended if no further message has come, once TimeoutStopSec is over: one
#: turn of putting back, as long as WatchdogSec allows.
BUSY_S = 180


def notify(**fields: str) -> None:
    """Send the fields, such as `READY="1"`, `STATUS="…"`. A systemd that does not listen is no error of ours."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # An address that begins with @ is in Linux' abstract namespace.
    path = "\0" + address[1:] if address.startswith("@") else address
    # A line feed would begin another field, such as MAINPID.
    message = "\n".join(f"{key}={visible(value)}" for key, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.settimeout(1.0)
            channel.sendto(message.encode(), path)
    except OSError as error:
        log.debug("systemd does not listen on %s: %s", address, error)


def notify_busy() -> None:
    """Let the service go on, though its time for a stop may be over: there is progress, and it will end."""
    notify(WATCHDOG="1", EXTEND_TIMEOUT_USEC=str(BUSY_S * 1_000_000))
