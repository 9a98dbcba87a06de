"""The endpoint: HTTP on a socket, `GET /metrics`, answered from a text that is there already.

One thread does all of it, and never waits for a client. A client has `DEADLINE_S` for its request, of `MOST_REQUEST`
bytes at most, and for taking the answer. Where more than `MOST_CLIENTS` are there the oldest is cut off: one that is
served at once is never the oldest for long. Between two that are let in are `PAUSE_S`, so that a flood of them takes a
small part of a core. Nothing that a client sends is kept, logged or acted on but the path and the wanted format.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tesched_daemon.job_reports.address import TcpAddress, address_of
from tesched_daemon.job_reports.socket import bound_path, bound_port

log = logging.getLogger(__name__)

MOST_CLIENTS = 32
MOST_REQUEST = 8192
DEADLINE_S = 5.0
PAUSE_S = 0.002
#: Seconds until the next try where no client can be let in: no file is left.
_REST_S = 0.5
BACKLOG = 64
#: Of a Unix socket: the group that the service runs as, such as a reverse proxy's.
_MODE = 0o660
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
#: of an address that is there when the endpoint ends
_ENDS_WITHIN_S = 2 * DEADLINE_S


def bound(address: str) -> socket.socket:
    """Return a socket that listens on the address. Raises OSError."""
    where = address_of(address)
    if not isinstance(where, TcpAddress):
        return bound_path(where, _MODE)
    return bound_port(where, BACKLOG)


class Endpoint:
    """Serves one text, which `page` gives: in OpenMetrics' form, or in the older one."""

    def __init__(self, listener: socket.socket, page: Callable[[bool], bytes]) -> None:
        """Take the socket, which is closed in the end, and begin. Raises RuntimeError if no thread can be started."""
        self._listener, self._page = listener, page
        #: of a TCP socket
        self.port = int(listener.getsockname()[1]) if listener.family != socket.AF_UNIX else 0
        self._path = listener.getsockname() if listener.family == socket.AF_UNIX else ""
        self._clients: dict[asyncio.Task[None], None] = {}
        self._loop = asyncio.new_event_loop()
        self._ends = asyncio.Event()
        listener.setblocking(False)
        # A daemon thread: whatever hangs in it, the service must end.
        self._thread = threading.Thread(target=self._run, name="metrics endpoint", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._loop.close()
            listener.close()
            raise

    @property
    def alive(self) -> bool:
        """Check whether it serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End it; connections that are open are cut off."""
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._ends.set)
        self._thread.join(_ENDS_WITHIN_S)
        if self._path:
            with suppress(OSError):
                Path(self._path).unlink()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except Exception:
            log.exception("metrics are served no more")
        finally:
            self._listener.close()
            self._loop.close()

    async def _serve(self) -> None:
        accepting = self._loop.create_task(self._accept())
        ends = self._loop.create_task(self._ends.wait())
        try:
            done, _ = await asyncio.wait([accepting, ends], return_when=asyncio.FIRST_COMPLETED)
            if accepting in done:
                accepting.result()  # it never ends but by an error
        finally:
            left = [accepting, ends, *self._clients]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                channel, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                # Without files left the listener stays ready.
                await asyncio.sleep(_REST_S)
                continue
            if len(self._clients) >= MOST_CLIENTS:
                oldest = next(iter(self._clients))
                oldest.cancel()
                del self._clients[oldest]
            task = self._loop.create_task(self._client(channel))
            self._clients[task] = None
            task.add_done_callback(lambda done: self._clients.pop(done, None))
            await asyncio.sleep(PAUSE_S)

    async def _client(self, channel: socket.socket) -> None:
        """Serve one client."""
        try:
            # Whatever it does, or does not do, is its own affair; a time-out is an OSError.
            with suppress(OSError):
                async with asyncio.timeout(DEADLINE_S):
                    await self._loop.sock_sendall(channel, answer(await self._request(channel), self._page))
        finally:
            channel.close()

    async def _request(self, channel: socket.socket) -> bytes:
        """Return the head of a request, as far as it came."""
        said = b""
        while b"\r\n\r\n" not in said and len(said) <= MOST_REQUEST:
            piece = await self._loop.sock_recv(channel, MOST_REQUEST)
            if not piece:
                break
            said += piece
        return said


def answer(request: bytes, page: Callable[[bool], bytes]) -> bytes:
    """Return the answer to a request."""
    head, end, _ = request.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if not end or len(head) > MOST_REQUEST or len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _response("400 Bad Request", "text/plain", b"no request\n")
    method, target, _ = words
    if method not in {"GET", "HEAD"}:
        return _response("405 Method Not Allowed", "text/plain", b"GET alone\n", "Allow: GET, HEAD\r\n")
    path = target.partition("?")[0]
    if path == "/":
        return _response("200 OK", "text/plain", b"tesched: /metrics\n", body=method == "GET")
    if path != "/metrics":
        return _response("404 Not Found", "text/plain", b"/metrics is there\n", body=method == "GET")
    wanted = any(
        name.strip().lower() == "accept" and "application/openmetrics-text" in value.lower()
        for name, _, value in (one.partition(":") for one in fields)
    )
    return _response("200 OK", OPENMETRICS if wanted else TEXT, page(wanted), body=method == "GET")


def _response(status: str, kind: str, content: bytes, more: str = "", *, body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
        f"Connection: close\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n{more}\r\n"
    )
    return head.encode() + (content if body else b"")
