"""Rates of events, from counts that only go up, and bounds on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Seconds that a rate covers; longer if it was not read for so long.
WINDOW_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Bound on how often an event may happen."""

    #: so often at once, after a rest
    burst: int
    #: seconds for each time more
    every_s: float


@dataclass(slots=True, kw_only=True)
class Bucket:
    """Rest of an allowance (a token bucket), by a stopwatch in seconds."""

    allowance: Allowance
    _left: float = field(init=False)
    _at: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        """Begin rested."""
        self._left = float(self.allowance.burst)

    def take(self, at: float) -> bool:
        """Use the allowance once; return whether there was any left."""
        if self.wait_s(at) > 0:
            return False
        self._left -= 1.0
        return True

    def owe(self, times: int) -> None:
        """Use the allowance so often besides, also where nothing is left: the next use waits for as long."""
        self._left -= times

    def wait_s(self, at: float) -> float:
        """Return the seconds from `at` until there is some left."""
        since_s = max(at - self._at, 0.0)
        self._left = min(self._left + since_s / self.allowance.every_s, float(self.allowance.burst))
        self._at = max(at, self._at)
        # A hair less than one is one: fractions of seconds do not add up exactly.
        return 0.0 if self._left > 1.0 - 1e-9 else (1.0 - self._left) * self.allowance.every_s

    def rested(self, at: float) -> bool:
        """Check whether it is as it was at first."""
        self.wait_s(at)
        return self._left >= self.allowance.burst


class PerMinute:
    """Counts of the last minute, by kind."""

    def __init__(self) -> None:
        """Begin; nothing has happened yet."""
        self._before: deque[tuple[float, Mapping[str, int]]] = deque()

    def of(self, counts: Mapping[str, int], at: float) -> dict[str, float]:
        """Rates at which each kind has happened, a minute; `counts` holds until `at`, by a stopwatch in seconds."""
        self._before.append((at, dict(counts)))
        while len(self._before) > 1 and self._before[1][0] <= at - WINDOW_S:
            self._before.popleft()
        then, was = self._before[0]
        if at - then < WINDOW_S:
            # Younger than a minute: all that has ever happened was in it.
            return {kind: float(count) for kind, count in counts.items()}
        minutes = (at - then) / 60
        since = {kind: count - was.get(kind, 0) for kind, count in counts.items()}
        return {kind: round(count / minutes, 1) for kind, count in since.items() if count}
