"""Time that a victim takes to leave its nodes after its requeue, learned from jobs like it, and by node.

Definitions
    leave time  seconds from the first requeue of a victim that had no notice until it was seen to have left its nodes,
                as exactly as the daemon polls. Slurm sends SIGTERM at once and SIGKILL after KillWait, so KillWait is
                the most that counts.
    like it     jobs of the same user and the same name: what a user submits again and again under one name is mostly
                the same program. (Predictors of run times go by the same two.)

    ending time seconds for which a victim is seen to be ending on its nodes (COMPLETING: KillWait, processes that can't
                be killed yet, the Epilog), however its run ended
    patience    seconds for which an order awaits a victim that is ending. After that it hangs

The leave time to expect is the median of the last `MOST_TIMES`; without any, it is KillWait, the most that it can be.

An ending time depends on the node and the site: an Epilog that checks the node's health takes minutes on some sites,
and nowhere is said how long it may. So the patience is twice the longest of the last `MOST_TIMES` ending times on these
nodes or, where none is known there, on all nodes; and `LEAST_PATIENCE_S` at least.

Worked example, KillWait 30 s: jobs named `train` of ada took 2, 2.5 and 31 s. The next one is expected to take 2.5 s;
with 31 s as the only one, 30 s; a job of ada's named `eval`, of which nothing is known, 30 s.

Victims were ending on n1 for 70 and 400 s, and on n2 for 20 s: an order awaits one on n1 for 800 s, one on n2, where
twice 20 s is less than that, for 600 s, and one on n3, of which nothing is known, for 800 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import TypeAlias

from tesched_core.model.order import Departure, Victim
from tesched_core.model.snapshot import EndingTimes, LeaveTimes

#: leave times that count, of each user and name; and pairs of these that are remembered, the latest
MOST_TIMES = 20
MOST_PAIRS = 5000
#: An order awaits a job that is ending for so long, seconds, where none is known to have taken as long.
LEAST_PATIENCE_S = 600.0

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


def ending_s(victim: Victim) -> float | None:
    """Ending time of a victim that has left, seconds; None if it was not seen to be ending."""
    since, left_at = victim.ending_since, victim.left_at
    return None if since is None or left_at is None else max(left_at - since, 0.0)


def with_ending_times(known: EndingTimes, seen: Iterable[tuple[tuple[str, ...], float]]) -> EndingTimes:
    """Return the ending times by node with further ones, each with its victim's nodes, oldest first.

    What took longer than it was awaited is left out: it hung, or no daemon polled.
    """
    seen = tuple(seen)
    if not seen:
        return known
    times = dict(known)
    for nodes, took_s in seen:
        if took_s <= patience_s(times, nodes):
            for name in nodes:
                times[name] = (*times.get(name, ()), took_s)[-MOST_TIMES:]
    return times


def patience_s(known: EndingTimes, nodes: Iterable[str]) -> float:
    """Patience with a job that is ending on these nodes, seconds."""
    here = [max(known[name]) for name in nodes if name in known] or [max(times) for times in known.values()]
    return max([2 * took_s for took_s in here] + [LEAST_PATIENCE_S])


def expected_leave_s(known: Mapping[Pair, tuple[float, ...]], pair: Pair, kill_wait_s: float) -> float:
    """Expected time that a job of this user and name takes to leave, seconds."""
    times = known.get(pair)
    return min(median(times), kill_wait_s) if times else kill_wait_s
