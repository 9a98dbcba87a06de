"""Pokes that make the daemon poll at once, not when its next poll is due: the socket, the senders, and the due times.

A poke says "poll now", so a user who may write to the socket can cause a poll and no more; and each may so often only
(`wakeup_shares.py`). Polls that pokes ask for are bounded in all: between two turns are `PAUSE_S` and as long as the
turn before took, so that at most half of the time is spent on polling; and `POLLS` is how many there are, however many
pokes come. A poll that is put off by that comes as soon as it may, and serves all pokes that came meanwhile.
Where polls take long an early turn comes before it (`early.py`), not put off by the turn before: `EARLY` bounds these.

The socket is a datagram socket: a sender never waits for the daemon, and nothing is left open when one of the two dies.
Source: unix(7).
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

from tesched_daemon.rates import Allowance, Bucket
from tesched_daemon.wakeup_shares import WakeupShares

log = logging.getLogger(__name__)

#: Least seconds from the end of a turn to the start of one that was poked for.
PAUSE_S = 0.1
#: Seconds after an error of our own in which no poke is taken.
BROKEN_S = 1.0
#: Seconds after a poke of its poll. A submission's hook pokes a moment before slurmctld has made the job: it takes 1 to
#: 2 ms for that. A job that does not fit has its reason from the start (seen on 22.05 and 26.05).
AFTER_S = 0.03
#: Seconds after a poke of its second poll, for a slurmctld that took longer.
AGAIN_S = 0.25
#: Polls that pokes may cause: a burst of submissions at once, and 30 a minute in the long run, which is as many as
#: there are by default. Six calls each: 180 a minute.
POLLS = Allowance(burst=40, every_s=2.0)
#: Early turns that pokes may cause: ten a minute in the long run, of some 40 RPCs each for one job and its victim. One
#: of many reads counts as several (`early.READS`): fewer than 1,500 commands a minute in the long run.
EARLY = Allowance(burst=20, every_s=6.0)
#: Pokes that are taken out of the queue for one call; Linux queues 10 to 512 (net.unix.max_dgram_qlen).
_AT_ONCE = 1000
#: So many that were there at once may have filled the queue: Linux' own limit. A larger one only makes this cautious.
_FULL = 10
#: Bytes that are read of a poke: "submitted", and a user's id.
_LENGTH = 32
#: struct ucred: process, user, group
_CREDENTIALS = struct.Struct("3i")
#: Linux' user that stands for one without a number on this host (a user namespace)
_NO_USER = 65534
#: slurmctld's user is another than the daemon's, which has no right to give the socket away.
_MODE = 0o666


class PokeError(Exception):
    """No poke could be sent. The text says why."""


def poke(path: str) -> None:
    """Send a poke; never waits. Raises PokeError if no process listens on `path`.

    A socket with a full queue has pokes enough: that is no error.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as channel:
        try:
            channel.sendto(b"poke", path)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in {errno.ECONNREFUSED, errno.ENOENT}:
                raise PokeError(f"loop.socket {path}: no daemon listens there") from None
            raise PokeError(f"loop.socket {path}: {error.strerror}") from None


class Agenda:
    """Time of the next turn, by a stopwatch that the caller reads: polls, regular ones and those that pokes ask for."""

    def __init__(self) -> None:
        """Begin with a poll that is due at once."""
        self._poll_at = 0.0
        self._not_before = 0.0
        #: of the pokes so far: the poll that is due now, and the second one
        self._now: float | None = None
        self._again: float | None = None
        self._polls = Bucket(allowance=POLLS)
        #: of the early turn that the pokes so far ask for, None: there is none; and since when it may come
        self._early: float | None = None
        self._early_from = 0.0
        #: the last turn says that there may be an early one; and one has come since that poll was due
        self._takes_early = False
        self._was_early = False
        self._earlies = Bucket(allowance=EARLY)

    def poke(self, at: float, *, again: bool = True) -> None:
        """Take a poke in. Any number of them before a turn begins are one.

        Without `again` one poll will do, since slurmctld has made the job; none, if the second poll of an earlier poke
        is still to come.
        """
        if not again and self._again is not None:
            return
        self._now = at + AFTER_S if self._now is None else self._now
        self._early = at + AFTER_S if self._early is None else self._early
        if again:
            self._again = at + AGAIN_S

    def begins_early(self, at: float) -> bool:
        """Take in that an early turn begins, if one is due; return whether it is."""
        if self._early_wait_s(at) > 0:
            return False
        self._early, self._was_early = None, True
        return self._earlies.take(at)

    def begins(self, at: float) -> bool:
        """Take in that a turn begins, the poll that serves all earlier pokes; return whether there were any."""
        self._was_early = False
        again = self._again is not None and self._again <= at
        poked = again or (self._now is not None and self._now <= at)
        if poked:
            self._now = None
            # A poll comes in any case.
            if at < self._poll_at:
                self._polls.take(at)
        if again:
            self._again = None
        if self._early is not None and self._early <= at:
            self._early = None
        return poked

    def ended_early(self, at: float, *, took_s: float, next_in_s: float = inf, counts_as: int = 1) -> None:
        """Take in that an early turn ended, which `counts_as` so many by what it has read.

        A poll comes after each, also where the pokes have had theirs.

        It comes as long after it as it took, which on a slow slurmctld is a rest; and whatever puts it off, in
        `next_in_s` at the latest: a grace period that has begun is over then.
        """
        self._earlies.owe(counts_as - 1)
        self._poll_at = min(self._poll_at, at + next_in_s)
        self._early_from = at + PAUSE_S
        self._not_before = max(self._not_before, at + took_s)
        if self._now is None:
            self._now = at

    def ended(
        self,
        at: float,
        *,
        took_s: float,
        next_in_s: float,
        troubled: bool,
        pause_s: float = 0.0,
        takes_early: bool = False,
    ) -> None:
        """Take in that a turn ended, and when the next poll is due.

        After a turn that was `troubled` that is the next turn: pokes must not wear down a Slurm that does not answer.
        Nor is a poke served within `pause_s`. With `takes_early` an early turn may come before the poll, also in the
        time that is left between two polls.
        """
        self._takes_early = takes_early and not troubled and pause_s <= 0
        self._early_from = at + PAUSE_S
        self._poll_at = at + next_in_s
        self._not_before = self._poll_at if troubled else at + max(PAUSE_S, took_s, pause_s)

    def wait_s(self, at: float) -> float:
        """Return the seconds from `at` until the next turn."""
        return min(self._poll_wait_s(at), self._early_wait_s(at))

    def _early_wait_s(self, at: float) -> float:
        # One before a poll that is due: more would put that off.
        if self._early is None or not self._takes_early or (self._was_early and self._poll_wait_s(at) <= 0):
            return inf
        return max(self._early - at, self._early_from - at, self._earlies.wait_s(at), 0.0)

    def _poll_wait_s(self, at: float) -> float:
        wanted = min(due for due in (self._poll_at, self._now, self._again) if due is not None)
        if wanted < self._poll_at:
            wanted = max(wanted, at + self._polls.wait_s(at))
        # A poll keeps its own time, also one that is shorter than the pause after a long turn.
        return max(min(max(wanted, self._not_before), self._poll_at) - at, 0.0)


@contextmanager
def listening(path: str, poked: Callable[[], None], shares: WakeupShares | None = None) -> Iterator[None]:
    """Call `poked` for pokes that come to the socket `path` until the block ends; one call may stand for many.

    `shares` says which are served.

    An empty path is no socket. One that cannot be made is a warning, and the daemon polls: it needs no poke.
    """
    channel = _bound(path) if path else None
    if channel is None:
        yield
        return
    ours = _identity(path)
    end, ending = os.pipe2(os.O_CLOEXEC)
    thread = threading.Thread(target=_listen, args=(channel, end, poked, shares or WakeupShares()), name="poke")
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("no pokes are taken, so a new job waits for the next poll: %s", error)
    else:
        log.info("pokes are taken on %s", path)
    try:
        yield
    finally:
        os.close(ending)
        if thread.ident is not None:
            thread.join()
        os.close(end)
        channel.close()
        # Another process's, which took its place, stays.
        if _identity(path) == ours:
            with suppress(OSError):
                Path(path).unlink()


def _bound(path: str) -> socket.socket | None:
    """Return the socket that listens on `path`, in the place of a stale one; None after a warning that says why not."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if _is_stale(path):
            Path(path).unlink()
        # Before any message can come: its sender stands beside each poke, by the kernel's word.
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        channel.bind(path)
        Path(path).chmod(_MODE)
    except OSError as error:
        channel.close()
        why = "another daemon listens there" if error.errno == errno.EADDRINUSE else error.strerror
        log.warning("no pokes are taken, so a new job waits for the next poll: loop.socket %s: %s", path, why)
        return None
    return channel


def _is_stale(path: str) -> bool:
    """Check whether `path` is a socket that a dead daemon has left. Raises OSError for what cannot be examined."""
    try:
        if not stat.S_ISSOCK(Path(path).lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "a file is there that is no socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as trial:
        try:
            # Connecting to a datagram socket sends nothing.
            trial.connect(path)
        except ConnectionRefusedError:
            return True
    return False


def _listen(channel: socket.socket, end: int, poked: Callable[[], None], shares: WakeupShares) -> None:
    """Call `poked` once for all pokes that are there, again and again, until the pipe `end` is closed."""
    with selectors.DefaultSelector() as both, selectors.DefaultSelector() as ending:
        # Not select(2), which knows no descriptor above 1023.
        both.register(channel, selectors.EVENT_READ)
        both.register(end, selectors.EVENT_READ)
        ending.register(end, selectors.EVENT_READ)
        while end not in {key.fd for key, _ in both.select()}:
            pause_s = PAUSE_S / 2
            try:
                # In a flood the rest waits for the next round.
                served = [shares.take(*poke) for poke in _received(channel, _AT_ONCE)]
                if any(served) or (len(served) >= _FULL and shares.turned_away()):
                    poked()
            except Exception:
                # A bug of ours, or a socket that cannot be read now, must not end the pokes for ever.
                log.exception("a poke was lost: a new job waits for the next poll")
                pause_s = BROKEN_S
            # A flood of pokes shall not keep this thread busy either: what comes meanwhile waits in the queue.
            ending.select(pause_s)


def _received(channel: socket.socket, most: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pokes that are there: the user of each sender, and what it says."""
    for _ in range(most):
        try:
            # Space for the credentials alone: a descriptor that is sent along is not taken.
            said, beside, _, _ = channel.recvmsg(_LENGTH, socket.CMSG_LEN(_CREDENTIALS.size))
        except BlockingIOError:
            return
        users = [
            _CREDENTIALS.unpack(data)[1]
            for level, kind, data in beside
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == _CREDENTIALS.size
        ]
        yield (users[0] if users else _NO_USER), said


def _identity(path: str) -> tuple[int, int] | None:
    """Identify the file at `path`; None if there is none."""
    try:
        seen = Path(path).lstat()
    except OSError:
        return None
    return seen.st_dev, seen.st_ino
