"""Time that a job without a declared signal takes to leave its nodes after a requeue, learned from jobs like it.

Definitions
    leave time  seconds from the first requeue of a victim that had no notice until it was seen to have left its nodes,
                as exactly as the daemon polls. Slurm sends SIGTERM at once and SIGKILL after KillWait, so KillWait is
                the most that counts.
    like it     jobs of the same user and the same name: what a user submits again and again under one name is mostly
                the same program. (Predictors of run times go by the same two.)

The leave time to expect is the median of the last `MOST_TIMES`; without any, it is KillWait, the most that it can be.

Worked example, KillWait 30 s: jobs named `train` of ada took 2, 2.5 and 31 s. The next one is expected to take 2.5 s;
with 31 s as the only one, 30 s; a job of ada's named `eval`, of which nothing is known, 30 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TypeAlias

from tesched_core.model.order import Departure, Victim
from tesched_core.model.snapshot import LeaveTimes

#: leave times that count, of each user and name; and pairs of these that are remembered, the latest
MOST_TIMES = 20
MOST_PAIRS = 5000

Pair: TypeAlias = tuple[str, str]


def leave_time_s(victim: Victim) -> float | None:
    """Return the victim's leave time, seconds; None if it had a notice, was suspended or left in another way."""
    asked_at, left_at = victim.noticed_at, victim.left_at
    if victim.notice_signal or victim.by_suspending or victim.departure is not Departure.REQUEUED:
        return None
    return None if asked_at is None or left_at is None else max(left_at - asked_at, 0.0)


def with_leave_times(known: LeaveTimes, seen: Iterable[tuple[Pair, float]]) -> LeaveTimes:
    """Return the leave times with further ones, each with its user and name, oldest first."""
    seen = tuple(seen)
    if not seen:
        return known
    times = dict(known)
    for pair, took_s in seen:
        # The latest pair stands last.
        times[pair] = (*times.pop(pair, ()), took_s)[-MOST_TIMES:]
    return dict(list(times.items())[-MOST_PAIRS:]) if len(times) > MOST_PAIRS else times


def expected_leave_s(known: Mapping[Pair, tuple[float, ...]], pair: Pair, kill_wait_s: float) -> float:
    """Return how long a job of this user and name is expected to take to leave, seconds."""
    times = known.get(pair)
    return min(median(times), kill_wait_s) if times else kill_wait_s
