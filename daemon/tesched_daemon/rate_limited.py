"""Pace of the polls where slurmctld limits this user's RPCs (`SlurmctldParameters=rl_enable`).

Principle
    With an empty bucket each RPC waits for a second in its client, so that nothing that is read of a job is fresh
    enough for a command to rest on it (`fresh_look`). A daemon that polls on at its interval stays there: on 26.05.5
    one that ran as an Operator, with four TE jobs to serve, sent no requeue in 90 s, at 11 s a poll. So it counts
    what it spends, and begins each turn with the RPCs of one poll and one order, or with a full bucket where that is
    less. It rests for half a minute at most: a requeue at the end of a grace period must not be minutes late.

Worked example
    30 RPCs at once and 2 a second, a whole poll of 8 RPCs and no action: the next poll comes after 4 s. With two
    actions of 6 RPCs each, after 10 s, and after 15 s at most, in which the whole bucket fills. With 100 at once there
    are 92 left after that poll, and it does not rest. With 30 at once and 2 a minute it rests for 30 s, and then waits
    for each RPC as Slurm has it.

Source
    tesched's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.snapshot import Snapshot

from tesched_daemon.settings import Pace
from tesched_daemon.wakeup_shares import NO_RPCS

#: RPCs of a whole poll by the commands, but for the settings.
OF_A_POLL = 8
#: RPCs of one action at most: its job is read, and its command sent (scancel is three, a change of nodes too).
OF_AN_ACTION = 6
#: Actions of an order with one victim: its TE job is raised, bound and put back, its victim notified and requeued.
OF_AN_ORDER = 5
#: Seconds of a rest at most. Half an RPC a second brings a poll and one action in them; where a site gives less, each
#: RPC waits, whatever the pace of the polls.
MOST_S = 30.0
#: What ends the name of a client whose RPCs are limited.
_LIMITED = " (rl_enable)"


@dataclass(slots=True, kw_only=True)
class RpcBudget:
    """Rest of this user's bucket, as far as this process has used it."""

    _left: float = 0.0
    #: by the stopwatch, when that was
    _at: float | None = None
    _made: int = 0

    def pause_s(self, seen: Snapshot | None, calls: Mapping[str, int], actions: int, at: float) -> float:
        """Return the seconds, at most `MOST_S`, that slurmctld is to be left alone for after so many actions are sent.

        `calls` counts the RPCs since the start, and pokes beside them, which are none; `at` is the stopwatch's. 0 where
        there is no limit.
        """
        made = sum(count for kind, count in calls.items() if kind not in NO_RPCS)
        spent, self._made = made - self._made, made
        limit = seen.settings.rate_limit if seen is not None else None
        if limit is None:
            self._at = None
            return 0.0
        filled = limit.burst if self._at is None else self._left + max(at - self._at, 0.0) * limit.per_s
        self._left, self._at = max(min(filled, limit.burst) - spent, 0.0), at
        lacking = _enough(limit) - max(self._left - actions * OF_AN_ACTION, 0.0)
        return min(max(lacking, 0.0) / limit.per_s, MOST_S)


def longest_s(limit: RateLimit) -> float:
    """Return the seconds of the longest rest under this limit: the bucket is empty."""
    return min(_enough(limit) / limit.per_s, MOST_S)


def _enough(limit: RateLimit) -> int:
    """Count the RPCs that a turn begins with: those of a poll and an order, as far as the bucket holds them."""
    return min(limit.burst, OF_A_POLL + OF_AN_ORDER * OF_AN_ACTION)


def longest_wait_s(pace: Pace, limit: RateLimit | None) -> float:
    """Return the longest time from one poll to the next, in seconds, while slurmctld and the daemon are up."""
    rest_s = longest_s(limit) if limit is not None else 0.0
    return max(pace.poll_interval_s, pace.backoff_max_s, rest_s)


def with_limit(client: str, limit: RateLimit | None) -> str:
    """Return a client's name with the limit behind it, for `tesched status`."""
    if limit is None:
        return client
    return f"{client}, limited to {limit.per_s:g} RPCs a second, {limit.burst} at once{_LIMITED}"


def is_limited(client: str) -> bool:
    """Check whether a name of `with_limit` has a limit behind it."""
    return client.endswith(_LIMITED)
