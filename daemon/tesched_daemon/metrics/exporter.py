"""Metrics of this process: a thread that reads them off the store, and the endpoint, as the configuration names it.

A scrape reads nothing: it gets the text of the last read. Reads come each `EVERY_S`, and take a twentieth of the time
at most: one that took long, on a large store, is followed by a longer rest. The thread has a connection of its own,
which only reads. Whatever fails in it is logged and shown by the metrics themselves; the loop goes on.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tesched_core.model.journal_error import JournalError
from tesched_db.engine import make_engine
from tesched_db.journal import Identity
from tesched_db.tail import Tail
from tesched_db.views import DAEMON, DaemonView

from tesched_daemon.job_reports.address import TcpAddress, address_of
from tesched_daemon.metrics.endpoint import Endpoint, bound
from tesched_daemon.settings import Mode

if TYPE_CHECKING:
    from tesched_daemon.metrics.families import Families

log = logging.getLogger(__name__)

#: Seconds from one read to the next, and how much longer than the read itself that is at least.
EVERY_S = 5.0
RESTS = 19.0
#: Seconds that the end of the service waits for a read under way.
_ENDS_WITHIN_S = 10.0


def _families() -> Families:
    # The command line knows this module, and needs no client of Prometheus.
    from tesched_daemon.metrics.families import Families  # noqa: PLC0415

    return Families()


def _words(error: Exception) -> str:
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    # That of a socket's names the address again; a resolver's numbers are below 0.
    return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)


def _port_of(address: str) -> int:
    """Return the port of an address; 0: it has none."""
    where = address_of(address) if address else None
    return where.port if isinstance(where, TcpAddress) else 0


@dataclass(kw_only=True)
class Exporter:
    """Serves the metrics of one daemon; nothing runs before `configure`."""

    store_url: str
    mode: Callable[[], Mode]
    #: how often Slurm was called so far, by kind
    calls: Callable[[], Mapping[str, int]] = dict
    #: Slurm's partitions, as far as they are known
    partitions: Callable[[], Collection[str]] = tuple
    _families: Families = field(default_factory=_families)
    _identity: Identity = field(default_factory=Identity.here)
    _address: str = ""
    #: why the last address cannot be had
    _refused: str = ""
    _endpoint: Endpoint | None = None
    _reader: threading.Thread | None = None
    _ends: threading.Event = field(default_factory=threading.Event)
    #: held while the values or the text are changed: a reader that was ended may yet be in its read
    _stores: threading.Lock = field(default_factory=threading.Lock)
    #: the text that is served: in the older form, and in OpenMetrics'
    _text: tuple[bytes, bytes] = (b"", b"")
    _leads: bool = False
    #: why the store could not be read, as the log has it
    _said: str = ""

    def configure(self, address: str) -> str:
        """Serve on this address from now on, or nowhere if it is empty. Return what is wrong, also in `trouble`.

        The endpoint of before stays where the new one cannot be had.
        """
        self._refused = ""
        if address != self._address or self._is_dead:
            try:
                self._change(address)
            except (OSError, RuntimeError, ValueError) as error:
                self._refuse(address, "cannot be listened on", error)
            except JournalError as error:
                self._refuse(address, "is not served", error)
        return self.trouble

    @property
    def trouble(self) -> str:
        """Trouble with the endpoint, in words; empty if there is none."""
        if self._refused or not self._is_dead:
            return self._refused
        return f"metrics.listen: {self._address} is served no more, the log says why; a reload serves it again"

    def close(self) -> None:
        """End it, and wait for the read under way."""
        reader = self._reader
        self._change("")
        if reader is not None:
            reader.join(_ENDS_WITHIN_S)

    @property
    def port(self) -> int:
        """Return the port that is listened on; 0: none."""
        return self._endpoint.port if self._endpoint is not None else 0

    @property
    def _is_dead(self) -> bool:
        return self._endpoint is not None and not self._endpoint.alive

    def _refuse(self, address: str, what: str, error: Exception) -> None:
        stays = f"; metrics are served on {self._address}, as before" if self._endpoint is not None else ""
        self._refused = f"metrics.listen: {address} {what}: {_words(error)}{stays}"

    def _change(self, address: str) -> None:
        """Serve on this address.

        Raises OSError, RuntimeError, ValueError and JournalError; what was served before is served on, if it can be.
        """
        if self._is_dead:
            # Nothing is lost by that, and its path may be the new one's.
            self._end_endpoint()
        endpoint = None
        if address:
            try:
                endpoint = self._serve(self._bound(address))
            except BaseException:
                if self._endpoint is None:
                    self._stop()
                raise
        self._end_endpoint()
        self._endpoint, self._address = endpoint, address
        if endpoint is None:
            self._stop()
        else:
            log.info("metrics are served on %s", address)

    def _serve(self, listener: socket.socket) -> Endpoint:
        try:
            self._start()
            return Endpoint(listener, self._page)
        except BaseException:
            listener.close()
            raise

    def _bound(self, address: str) -> socket.socket:
        """Return a socket that listens there, where need be in the place of the one of before."""
        before = self._address
        try:
            return bound(address)
        except OSError as error:
            port = _port_of(address)
            if error.errno != errno.EADDRINUSE or self._endpoint is None or not port or port != _port_of(before):
                raise
        # 0.0.0.0 and one of this machine's addresses cannot have the same port: ours may be all that is in the way.
        self._end_endpoint()
        try:
            return bound(address)
        except OSError:
            self._endpoint, self._address = self._serve(bound(before)), before
            raise

    def _end_endpoint(self) -> None:
        endpoint, self._endpoint, self._address = self._endpoint, None, ""
        if endpoint is not None:
            endpoint.close()

    def _page(self, openmetrics: bool) -> bytes:
        return self._text[openmetrics]

    def _start(self) -> None:
        """Start the thread that reads, if it does not run."""
        if self._reader is not None:
            return
        tail = Tail(engine=make_engine(self.store_url, read_only=True), began_at=self._identity.started_at)
        with self._stores:
            self._render(leads=False)
        try:
            # What happens from here on is counted: at the start of the service the first turn comes after it.
            tail.skip()
        except JournalError as error:
            self._say(str(error))
        ends = threading.Event()
        reader = threading.Thread(target=self._read_on, args=(tail, ends), name="metrics", daemon=True)
        try:
            reader.start()
        except RuntimeError:
            tail.engine.dispose()
            raise
        self._reader, self._ends = reader, ends

    def _stop(self) -> None:
        """End the thread that reads; a read under way is not waited for, and nothing comes of it."""
        self._ends.set()
        self._reader = None

    def _read_on(self, tail: Tail, ends: threading.Event) -> None:
        """Read again and again, until the end."""
        took_s = 0.0
        while not ends.wait(max(EVERY_S, RESTS * took_s) if took_s else 0.0):
            began = time.perf_counter()
            try:
                self._read(tail, ends)
            except Exception:
                # A bug of ours is no reason for the daemon to end.
                log.exception("the metrics could not be brought up to date")
            took_s = time.perf_counter() - began
        tail.engine.dispose()

    def _read(self, tail: Tail, ends: threading.Event) -> None:
        began, at = time.perf_counter(), time.time()
        now, failure = None, ""
        try:
            now = tail.read(at)
        except JournalError as error:
            failure = str(error)
        took_s = time.perf_counter() - began
        with self._stores:
            if ends.is_set():
                return  # another reader may be at work
            self._say(failure)
            if now is not None:
                self._leads = self._is_ours(now.daemon)
                if self._leads:
                    self._families.counts.know(self.partitions())
                    self._families.store_now(now)
            self._families.read(at=None if now is None else at, took_s=took_s)
            self._render(leads=self._leads)

    def _is_ours(self, daemon: DaemonView | None) -> bool:
        """Check whether this process wrote the daemon's row last: it leads."""
        ours = self._identity
        return (
            daemon is not None
            and daemon.role == DAEMON
            and daemon.stopped_at is None
            and (daemon.pid, daemon.place, daemon.pid_ticks) == (ours.pid, ours.place, ours.ticks)
        )

    def _render(self, *, leads: bool) -> None:
        families = self._families
        families.own_now(leads=leads, mode=self.mode(), version=self._identity.version, calls=dict(self.calls()))
        plain, openmetrics = (families.text(openmetrics=each, leads=leads) for each in (False, True))
        self._text = plain, openmetrics

    def _say(self, why: str) -> None:
        """Log once why the store cannot be read."""
        if why and why != self._said:
            log.warning("the metrics are not brought up to date: %s", why)
        self._said = why
