"""Server of the page: Uvicorn on a socket that listens already."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Sequence

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tesched_cli.web.app import application
from tesched_cli.web.content import StoreSource

#: Connections at a time; more are answered with 503. A page that is open holds one.
MOST_CLIENTS = 64
#: Seconds that open connections have at the end.
_ENDS_WITHIN_S = 2
#: Seconds that a connection may be without a whole request. Browsers open some in advance, and each counts.
REQUEST_S = 5.0


class _Connection(H11Protocol):
    """A connection that is closed if no request comes: Uvicorn itself waits for the first one for ever."""

    _check: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._check_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check is not None:
            self._check.cancel()
        super().connection_lost(exc)

    def _check_later(self) -> None:
        self._check = self.loop.call_later(REQUEST_S, self._close_if_idle, self.cycle)

    def _close_if_idle(self, before: RequestResponseCycle | None) -> None:
        """Close it if all requests were answered at the last check, and none has come since."""
        answered = before is None or before.response_complete
        if answered and self.cycle is before:
            self.transport.close()
        else:
            self._check_later()


def server_of(source: StoreSource, hosts: Sequence[str], token: str | None) -> uvicorn.Server:
    """Return a server of the page, for `run`; without `token` it asks for none."""
    app = application(source, hosts, token=token, ending=lambda: server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            http=_Connection,
            loop="asyncio",
            limit_concurrency=MOST_CLIENTS,
            h11_max_incomplete_event_size=8192,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_ENDS_WITHIN_S,
        )
    )
    return server


def serve(source: StoreSource, listener: socket.socket, hosts: Sequence[str], token: str | None) -> None:
    """Serve the page until SIGTERM or SIGINT."""
    # It ends by them, and raises them again for its caller: for this process they have done their work.
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)
    server_of(source, hosts, token).run(sockets=[listener])


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing."""
