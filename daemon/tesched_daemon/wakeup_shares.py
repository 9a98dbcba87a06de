"""Bounds on pokes: for each user by the kernel's word, for the submission hook by the user of each submission.

Definitions
    poke        "poll now"; what it costs is up to two polls of everything, eight RPCs to slurmctld each.
    sender      the user of the process that sent the poke, as the kernel says (SCM_CREDENTIALS): only root can
                send as another user.
    hook        a sender that slurmctld's plugin runs as, root or SlurmUser. It may name the user of the submission.
    share       what one user may ask for: so many pokes at once, and one more each so many seconds.

Principle
    Each user's pokes count against that user's share alone. Above it a poke is left to the next poll, which comes in
    any case, and is counted: no submission is lost by that, it is seen later. A user who submits has a larger share
    than one who pokes without a reason. How often tesched polls for all users together is bounded by `Agenda`.
    The socket's queue holds ten pokes (net.unix.max_dgram_qlen). While a flood keeps it full, the kernel turns other
    senders' pokes away, and does not show whose. So a queue that was found full counts as a poke of a sender of its
    own, which has a share, too: a submission that was turned away is seen `TURNED_AWAY.every_s` later at most.

Worked example
    A user calls `tesched poke` 100 times in a second: the first 5 are served, 95 are left to the poll, and 10 seconds
    later one more is. Meanwhile the hook pokes for a submission of another user with an untouched share: served at
    once.

Parameters
    The shares below. Each served poke is two polls at most, so a user who submits without end causes 24 polls a minute,
    one who pokes without end 12; all together 30 (`wakeup.POLLS`).

Source
    unix(7), SO_PASSCRED. Token buckets: RFC 2697.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable

from tesched_daemon.rates import Allowance, Bucket

log = logging.getLogger(__name__)

#: of a user who pokes
POKES = Allowance(burst=5, every_s=10.0)
#: of a user with submissions that the hook names
SUBMISSIONS = Allowance(burst=20, every_s=5.0)
#: of the hook's own user where it names no user: an older hook, an admin's script
HOOK = Allowance(burst=30, every_s=2.0)
#: of all users with submissions that the daemon finds by itself (`new_jobs.py`)
FOUND = Allowance(burst=20, every_s=5.0)
#: of all users with pokes that a full queue may have turned away
TURNED_AWAY = Allowance(burst=1, every_s=5.0)
#: What the hook says: the user of the submission.
_SUBMITTED = re.compile(rb"submitted (\d{1,10})")
#: Pokes that are left to the poll are reported in the log so often, seconds.
_LOG_S = 60.0
#: Slurm is queried so often, seconds, for its user while it does not answer.
ASKS_S = 60.0
#: Shares that are kept in mind; beyond that those at rest are forgotten.
_KEPT = 1000

#: Owner of a share: the kind, and the user.
_Owner = tuple[str, int]
_ALLOWANCES = {"poke": POKES, "submission": SUBMISSIONS, "hook": HOOK, "found": FOUND, "queue": TURNED_AWAY}
#: What `tesched status` counts, as a kind beside the calls to Slurm: none of these is an RPC.
SERVED, LEFT = "poke served", "poke left to the poll"
NO_RPCS = frozenset({SERVED, LEFT})


class WakeupShares:
    """Rest of each user's share. Its methods may be called from any thread."""

    def __init__(
        self, slurm_user: Callable[[], int | None] = lambda: None, *, stopwatch: Callable[[], float] = time.monotonic
    ) -> None:
        """Take what asks Slurm for the user that slurmctld runs as; it is called when another user than root pokes."""
        self._hooks = {0}
        self._slurm_user = slurm_user
        #: when Slurm is queried next for its user; None: it is known
        self._ask_at: float | None = stopwatch()
        self._stopwatch = stopwatch
        self._lock = threading.Lock()
        self._buckets: dict[_Owner, Bucket] = {}
        self._counts = Counter[str]()
        #: pokes by sender that were left to the poll since this was last logged
        self._left = Counter[int]()
        self._logged_at = stopwatch()

    def take(self, sender: int, said: bytes = b"") -> bool:
        """Take in a poke; return whether it is served at once."""
        if sender not in self._hooks:
            self._learn()
        named = _SUBMITTED.fullmatch(said) if sender in self._hooks else None
        if named:
            return self._served(("submission", int(named[1])))
        return self._served(("hook" if sender in self._hooks else "poke", sender))

    def turned_away(self) -> bool:
        """Take in that the queue was full; return whether that is served as a poke."""
        with self._lock:
            return self._bucket(("queue", 0)).take(self._stopwatch())

    def found(self) -> bool:
        """Take in that the daemon found a new job by itself; return whether that is served as a poke."""
        with self._lock:
            served = self._bucket(("found", 0)).take(self._stopwatch())
            self._counts[SERVED if served else LEFT] += 1
            return served

    def counts(self) -> dict[str, int]:
        """Count the pokes that were served so far, and those left to the poll."""
        with self._lock:
            return dict(self._counts)

    def hooks(self) -> frozenset[int]:
        """Return the users that slurmctld may run as: root, and SlurmUser once Slurm has said who that is."""
        self._learn()
        return frozenset(self._hooks)

    def _learn(self) -> None:
        """Query Slurm for its user, unless it is known or was queried a moment ago."""
        now = self._stopwatch()
        if self._ask_at is None or now < self._ask_at:
            return
        found = self._slurm_user()
        if found is None:
            self._ask_at = now + ASKS_S
        else:
            self._hooks, self._ask_at = {0, found}, None

    def _served(self, owner: _Owner) -> bool:
        with self._lock:
            now = self._stopwatch()
            served = self._bucket(owner).take(now)
            self._counts[SERVED if served else LEFT] += 1
            if not served:
                self._left[owner[1]] += 1
            self._log_left(now)
            return served

    def _bucket(self, owner: _Owner) -> Bucket:
        bucket = self._buckets.get(owner)
        if bucket is None:
            if len(self._buckets) >= _KEPT:
                now = self._stopwatch()
                self._buckets = {one: kept for one, kept in self._buckets.items() if not kept.rested(now)}
            bucket = self._buckets[owner] = Bucket(allowance=_ALLOWANCES[owner[0]])
        return bucket

    def _log_left(self, now: float) -> None:
        if not self._left or now - self._logged_at < _LOG_S:
            return
        (user, count), *_ = self._left.most_common(1)
        log.warning(
            "%d poke(s) above a user's share were left to the next poll, %d of user %d", self._left.total(), count, user
        )
        self._left.clear()
        self._logged_at = now
