"""Takes reports on a socket: of compute nodes that share no file system with the daemon, and at once.

A message is a munge credential and a line's end; in it stands `tesched-report 1 JOB`, a line's end, and a report as it
would stand in the spool. The answer is one line: `ok`, `busy` (try again later) or `refused: why`. What holds, whatever
is sent:

- munge says which user sent it. A credential is taken once: one that was caught and is sent again is refused, one
  of another site's key, too. The job's owner is found later (`reports.py`).
- One thread does all of it and never waits for a client. A client has `DEADLINE_S` to say what it has to say, in at
  most `MOST_MESSAGE` bytes. Where more than `MOST_CLIENTS` are there, one is sent away of that host (or, on a Unix
  socket, user by the kernel's word) that has most of them.
- Messages are taken in turn from those hosts or users, and the thread rests `RESTS` times as long as they took: a flood
  takes a quarter of a core. On a Unix socket it delays its own user alone; by TCP that host's others, too, which are
  answered "busy" now and then and send again.
- Nothing that comes is written to the log, but how many were refused.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import selectors
import socket
import stat
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tesched_core.model.job_report import MOST_BYTES

from tesched_daemon.job_reports.address import TcpAddress, address_of
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.munge import Munge, MungeError

log = logging.getLogger(__name__)

#: Of a message: a report in base 64, and what munge adds.
MOST_MESSAGE = MOST_BYTES * 4 // 3 + 2048
MOST_CLIENTS = 128
#: Connections that the kernel keeps until they are accepted. A flood must not fill it while the thread rests: in there
#: it cannot be seen which user's they are. The system may have a lower bound (net.core.somaxconn).
BACKLOG = 4096
DEADLINE_S = 5.0
RESTS = 3.0
#: Messages that are taken between two rests, at most.
_AT_ONCE = 16
#: Seconds of rest where no client can be let in.
_PAUSE_S = 0.2
#: Seconds between two lines of the log on what was refused.
_LOG_S = 600.0
#: Users of compute nodes are other ones than the daemon's.
_MODE = 0o666
_HEAD = re.compile(rb"tesched-report 1 (\d{1,10}(?:_\d{1,10})?)\n")
#: What the doctor sends: it is answered, and nothing else comes of it.
HELLO = b"tesched-hello 1\n"
_CREDENTIALS = struct.Struct("3i")


@contextmanager
def listening(address: str, munge_socket: str, inbox: Inbox) -> Iterator[None]:
    """Take reports into the inbox until the block ends.

    An empty address is no socket. One that cannot be made, or a missing munge, is a warning: the spool is read anyway.
    """
    listener = _bound(address) if address else None
    if listener is None:
        yield
        return
    try:
        server = Server(listener, Munge(socket=munge_socket), inbox)
    except MungeError as error:
        log.warning("no reports are taken on reports.socket %s: %s", address, error)
        listener.close()
        yield
        return
    log.info("reports are taken on %s", address)
    with server.running():
        yield


def _bound(address: str) -> socket.socket | None:
    where = address_of(address)
    try:
        if isinstance(where, Path):
            return bound_path(where, _MODE)
        return bound_port(where, BACKLOG)
    except OSError as error:
        log.warning("no reports are taken on reports.socket %s: %s", address, error.strerror or error)
        return None


def bound_port(where: TcpAddress, backlog: int) -> socket.socket:
    """Return a socket that listens on this port; without a host on all of this machine's addresses. Raises OSError."""
    if not where.host and socket.has_dualstack_ipv6():
        everywhere = ("", where.port)
        return socket.create_server(everywhere, family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    found = socket.getaddrinfo(where.host or "0.0.0.0", where.port, type=socket.SOCK_STREAM)  # noqa: S104
    return socket.create_server(found[0][4][:2], family=found[0][0], backlog=backlog)


def bound_path(path: Path, mode: int) -> socket.socket:
    """Return a Unix socket that listens at this path, in the place of a dead process's. Raises OSError."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            with socket.socket(socket.AF_UNIX) as trial:
                try:
                    trial.connect(str(path))
                except ConnectionRefusedError:
                    path.unlink()  # a dead daemon has left it
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@dataclass(eq=False, slots=True)
class _Client:
    channel: socket.socket
    #: the host, or on a Unix socket the user
    peer: str
    until: float
    said: bytearray = field(default_factory=bytearray)
    whole: bool = False


class Server:
    """Takes reports on a socket that listens."""

    def __init__(self, listener: socket.socket, munge: Munge, inbox: Inbox) -> None:
        """Take the socket, which is closed in the end."""
        self._listener, self._munge, self._inbox = listener, munge, inbox
        listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        #: oldest first
        self._clients: dict[int, _Client] = {}
        self._refused: Counter[str] = Counter()
        self._logged_at = 0.0
        self._cannot_accept = False
        #: the last time a client was sent away for others
        self._crowded = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run in a thread of its own until the block ends."""
        end, ending = os.pipe2(os.O_CLOEXEC)
        self._selector.register(end, selectors.EVENT_READ)
        # A daemon thread: munged may hang, and the service must end.
        thread = threading.Thread(target=self._run, args=(end,), name="report socket", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("no reports are taken on reports.socket: %s", error)
            self._listener.close()
        try:
            yield
        finally:
            os.close(ending)
            if thread.ident is not None:
                thread.join(DEADLINE_S)
            if not thread.is_alive():
                os.close(end)

    def _run(self, end: int) -> None:
        rest_s = 0.0
        while True:
            if rest_s and self._ends_within(end, rest_s):
                break
            busy = any(client.whole for client in self._clients.values())
            ready = {key.fd for key, _ in self._selector.select(0.0 if busy else 0.5 if self._clients else None)}
            if end in ready:
                break
            # What has come counts before its time does: on a busy host this thread may be the one that is late.
            for descriptor in ready & self._clients.keys():
                self._hear(self._clients[descriptor])
            self._send_away_who_is_late()
            began = time.thread_time()
            # The clients that are there come first: their numbers must not be given to new ones meanwhile.
            if self._listener.fileno() in ready:
                self._accept()
            tired = self._take_some()
            rest_s = RESTS * (time.thread_time() - began) if tired or self._crowded else 0.0
            if self._cannot_accept:
                rest_s = max(rest_s, _PAUSE_S)
        for client in list(self._clients.values()):
            self._close(client)
        self._selector.close()
        self._listener.close()

    @staticmethod
    def _ends_within(end: int, seconds: float) -> bool:
        with selectors.DefaultSelector() as waiting:
            waiting.register(end, selectors.EVENT_READ)
            return bool(waiting.select(seconds))

    def _accept(self) -> None:
        self._cannot_accept = self._crowded = False
        for _ in range(BACKLOG):
            try:
                channel, where = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # Without files left the listener stays ready.
                self._cannot_accept = True
                self._refuse(f"{error.strerror}")
                return
            channel.setblocking(False)
            if len(self._clients) >= MOST_CLIENTS:
                self._crowded = True
                self._make_space()
            client = _Client(channel, _peer(channel, where), time.monotonic() + DEADLINE_S)
            self._clients[channel.fileno()] = client
            self._selector.register(channel, selectors.EVENT_READ)

    def _make_space(self) -> None:
        ((worst, _),) = Counter(client.peer for client in self._clients.values()).most_common(1)
        self._answer(secrets.choice([client for client in self._clients.values() if client.peer == worst]), "busy")

    def _send_away_who_is_late(self) -> None:
        now = time.monotonic()
        for client in [client for client in self._clients.values() if client.until < now and not client.whole]:
            self._answer(client, f"refused: nothing whole came within {DEADLINE_S:.0f} s")

    def _hear(self, client: _Client) -> None:
        try:
            piece = client.channel.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            self._close(client)
            return
        client.said += piece
        if len(client.said) > MOST_MESSAGE:
            self._answer(client, f"refused: it is longer than {MOST_MESSAGE} bytes")
        elif not piece or b"\n" in piece:
            client.whole = True
            # It waits for its turn, and has nothing more to say.
            self._selector.unregister(client.channel)

    def _take_some(self) -> bool:
        """Take some whole messages, of the hosts by turns; return whether there was one.

        The sender of a message by TCP is known once it is decoded. So of one host any may be the next: where one
        user sends more than can be taken, the others of that host come through as often as their share of it.
        """
        whole: dict[str, list[_Client]] = {}
        for client in self._clients.values():
            if client.whole:
                whole.setdefault(client.peer, []).append(client)
        for client in islice(_by_turns(list(whole.values())), _AT_ONCE):
            try:
                answer = self._taken(bytes(client.said).partition(b"\n")[0])
            except Exception:
                # A bug of ours over one message must not end the socket for all others.
                log.exception("a message on reports.socket was not taken")
                answer = "refused: an error of tesched's own, see its log"
            self._answer(client, answer)
        return bool(whole)

    def _taken(self, credential: bytes) -> str:
        try:
            user, content = self._munge.decoded(credential)
        except MungeError as error:
            return f"refused: munge says: {error}"
        if content == HELLO:
            return "ok"
        found = _HEAD.match(content)
        if not found:
            return "refused: it is no report"
        report = content[found.end() :]
        if len(report) > MOST_BYTES:
            return f"refused: the report is longer than {MOST_BYTES} bytes"
        return "ok" if self._inbox.put(user, found[1].decode(), report) else "busy"

    def _answer(self, client: _Client, text: str) -> None:
        if text != "ok":
            self._refuse(text)
        # It is short enough for any buffer; a client that does not listen is not waited for.
        with suppress(OSError):
            client.channel.send(f"{text}\n".encode())
        self._close(client)

    def _refuse(self, why: str) -> None:
        self._refused[why] += 1
        now = time.monotonic()
        if not self._logged_at or now - self._logged_at > _LOG_S:
            self._logged_at = now
            (said, _), count = self._refused.most_common(1)[0], self._refused.total()
            log.warning("%d message(s) on reports.socket were not taken, most of them: %s", count, said)
            self._refused.clear()

    def _close(self, client: _Client) -> None:
        del self._clients[client.channel.fileno()]
        with suppress(KeyError):
            self._selector.unregister(client.channel)
        client.channel.close()


def _by_turns(of_hosts: Sequence[list[_Client]]) -> Iterator[_Client]:
    """Yield a random one of each host, then another one of each, until there are no more."""
    while any(of_hosts):
        for clients in filter(None, of_hosts):
            yield clients.pop(secrets.randbelow(len(clients)))


def _peer(channel: socket.socket, where: object) -> str:
    if channel.family == socket.AF_UNIX:
        found = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"user {_CREDENTIALS.unpack(found)[1]}"
    return str(where[0]) if isinstance(where, tuple) else ""
