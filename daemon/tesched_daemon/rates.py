"""How often something happens, from counts that only go up."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

#: Seconds that a rate looks back; longer if nobody asked for so long.
WINDOW_S = 60.0


class PerMinute:
    """Counts of the last minute, by kind."""

    def __init__(self) -> None:
        """Begin; nothing has happened yet."""
        self._before: deque[tuple[float, Mapping[str, int]]] = deque()

    def of(self, counts: Mapping[str, int], at: float) -> dict[str, float]:
        """Return how often a minute each kind has happened; `counts` holds until `at`, by a stopwatch in seconds."""
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
