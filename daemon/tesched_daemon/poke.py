"""A poke makes the daemon look at once, not at its next poll: the socket, who sends one, and when looks are due.

A poke says nothing but "look now": what stands in it is thrown away, so whoever may write to the socket can cause a
look and no more. Looks that pokes ask for are bounded: between two turns lie `PAUSE_S` and as long as the turn before
took, so that at most half of the time is spent on looking, however many pokes come.

The socket is a datagram socket: a sender never waits for the daemon, and nothing is left open when one of the two dies.
Source: unix(7).
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

#: Least seconds from the end of a turn to the start of one that was poked for.
PAUSE_S = 0.1
#: Seconds after a poke of its look. A submission's hook pokes a moment before slurmctld has made the job: it takes 1 to
#: 2 ms for that. A job that finds no room has its reason from the start (seen on 22.05 and 26.05).
AFTER_S = 0.03
#: Seconds after a poke of its second look, for a slurmctld that took longer.
AGAIN_S = 0.25
#: Pokes that are taken out of the queue for one call; Linux queues 10 to 512 (net.unix.max_dgram_qlen).
_AT_ONCE = 1000
#: slurmctld's user is another than the daemon's, which has no right to give the socket away.
_MODE = 0o666


class PokeError(Exception):
    """No poke could be sent. The text says why."""


def poke(path: str) -> None:
    """Send a poke; never waits. Raises PokeError if nobody listens on `path`.

    A socket whose queue is full has pokes enough: that is no error.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(b"poke", path)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                raise PokeError(f"{path}: no daemon listens there") from None
            raise PokeError(f"{path}: {error.strerror}") from None


class Agenda:
    """When the next turn is due, by a stopwatch that the caller reads: polls, and the looks that pokes ask for."""

    def __init__(self) -> None:
        """Begin with a poll that is due at once."""
        self._poll_at = 0.0
        self._not_before = 0.0
        #: of the pokes so far: the look that is due now, and the second one
        self._now: float | None = None
        self._again: float | None = None

    def poke(self, at: float) -> None:
        """Take a poke in. Any number of them before a turn begins are one."""
        self._now = at + AFTER_S if self._now is None else self._now
        self._again = at + AGAIN_S

    def begins(self, at: float) -> bool:
        """Take in that a turn begins, the look that all asked for who poked before; return whether anybody did."""
        again = self._again is not None and self._again <= at
        poked = again or (self._now is not None and self._now <= at)
        if poked:
            self._now = None
        if again:
            self._again = None
        return poked

    def ended(self, at: float, *, took_s: float, next_in_s: float, troubled: bool) -> None:
        """Take in that a turn ended, and when the next poll is due.

        After a turn that was `troubled` that is the next turn: pokes must not wear down a Slurm that does not answer.
        """
        self._poll_at = at + next_in_s
        self._not_before = self._poll_at if troubled else at + max(PAUSE_S, took_s)

    def wait_s(self, at: float) -> float:
        """Return the seconds from `at` until the next turn."""
        wanted = min(due for due in (self._poll_at, self._now, self._again) if due is not None)
        # A poll keeps its own time, also one that is shorter than the pause after a long turn.
        return max(min(max(wanted, self._not_before), self._poll_at) - at, 0.0)


@contextmanager
def listening(path: str, poked: Callable[[], None]) -> Iterator[None]:
    """Call `poked` for pokes that come to the socket `path` until the block ends; one call may stand for many.

    An empty path is no socket. One that cannot be made is a warning, and the daemon polls: it needs no poke.
    """
    channel = _bound(path) if path else None
    if channel is None:
        yield
        return
    ours = _identity(path)
    end, ending = os.pipe2(os.O_CLOEXEC)
    thread = threading.Thread(target=_listen, args=(channel, end, poked), name="poke")
    thread.start()
    log.info("pokes are taken on %s", path)
    try:
        yield
    finally:
        os.close(ending)
        thread.join()
        os.close(end)
        channel.close()
        # Somebody else's, who took its place, stays.
        if _identity(path) == ours:
            with suppress(OSError):
                Path(path).unlink()


def _bound(path: str) -> socket.socket | None:
    """Return the socket that listens on `path`, in the place of a stale one; None after a warning that says why not."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if _is_stale(path):
            Path(path).unlink()
        channel.bind(path)
        Path(path).chmod(_MODE)
    except OSError as error:
        channel.close()
        why = "another daemon listens there" if error.errno == errno.EADDRINUSE else error.strerror
        log.warning("no pokes are taken, every look waits for its poll: loop.socket %s: %s", path, why)
        return None
    return channel


def _is_stale(path: str) -> bool:
    """Return whether `path` is a socket that a dead daemon has left. Raises OSError for what cannot be looked at."""
    try:
        if not stat.S_ISSOCK(Path(path).lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "something is there that is no socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as trial:
        try:
            # Connecting to a datagram socket sends nothing.
            trial.connect(path)
        except ConnectionRefusedError:
            return True
    return False


def _listen(channel: socket.socket, end: int, poked: Callable[[], None]) -> None:
    """Call `poked` once for all pokes that are there, again and again, until the pipe `end` is closed."""
    waited_for: list[socket.socket | int] = [channel, end]
    while True:
        ready, _, _ = select.select(waited_for, [], [])
        if end in ready:
            return
        with suppress(BlockingIOError):
            # One byte is kept of each, and nobody looks at it. In a flood the rest waits for the next round.
            for _ in range(_AT_ONCE):
                channel.recv(1)
        poked()
        # A flood of pokes shall not keep this thread busy either: what comes meanwhile waits in the queue.
        select.select([end], [], [], PAUSE_S / 2)


def _identity(path: str) -> tuple[int, int] | None:
    """Return which file `path` is; None if there is none."""
    try:
        seen = Path(path).lstat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino
