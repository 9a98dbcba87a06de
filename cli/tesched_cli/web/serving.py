"""Server of the page: Uvicorn on a socket that listens already."""

from __future__ import annotations

import signal
import socket
from collections.abc import Sequence

import uvicorn

from tesched_cli.web.app import application
from tesched_cli.web.command import MOST_CLIENTS
from tesched_cli.web.content import Source

#: Seconds that open connections have at the end.
_ENDS_WITHIN_S = 2


def server_of(source: Source, hosts: Sequence[str], token: str | None) -> uvicorn.Server:
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
            http="h11",
            loop="asyncio",
            limit_concurrency=MOST_CLIENTS,
            h11_max_incomplete_event_size=8192,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=_ENDS_WITHIN_S,
        )
    )
    return server


def serve(source: Source, listener: socket.socket, hosts: Sequence[str], token: str | None) -> None:
    """Serve the page until SIGTERM or SIGINT."""
    # It ends by them, and raises them again for its caller: for this process they have done their work.
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)
    server_of(source, hosts, token).run(sockets=[listener])


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing."""
