"""A TCP port before a server's Unix socket, which can fall silent without closing: a proxy that hangs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Relay:
    """A relay on 127.0.0.1. While it is silent it takes connections and bytes, and passes nothing on."""

    def __init__(self, target: Path) -> None:
        """Take the socket of the server."""
        self._target = str(target)
        self._speaks = threading.Event()
        self._speaks.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)

    def fall_silent(self) -> None:
        """Pass nothing on from now on."""
        self._speaks.clear()

    def speak(self) -> None:
        """Pass on what came meanwhile, and go on."""
        self._speaks.set()

    def close(self) -> None:
        """End all connections."""
        self._speaks.set()
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _start(self, target: object, *arguments: socket.socket) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                server.connect(self._target)
                self._start(self._pass_on, client, server)
                self._start(self._pass_on, server, client)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._speaks.wait()
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@contextmanager
def relay_to(folder: Path) -> Iterator[Relay]:
    """Give a relay to the PostgreSQL server whose socket is in this folder."""
    relay = Relay(folder / ".s.PGSQL.5432")
    try:
        yield relay
    finally:
        relay.close()
