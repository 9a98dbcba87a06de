"""Final time-outs on a busy machine: what takes a second on an idle one takes many where processes wait for a core.

A time-out here ends a wait for something that does not come. It is no measure of speed: on an idle machine it is as it
was given, on a busy one longer, by the load of the last minute, read again as long as the wait lasts.
"""

from __future__ import annotations

import os
import time

#: What starts several processes one after the other waits for each.
_MARGIN = 2.0


def slowness() -> float:
    """Return how many times as long things take as on an idle machine, roughly; at least 1."""
    return max(_MARGIN * os.getloadavg()[0] / (os.cpu_count() or 1), 1.0)


class Patience:
    """Decides when a wait has been long enough."""

    def __init__(self, timeout_s: float) -> None:
        """Begin to wait; `timeout_s` is in seconds of an idle machine."""
        self._began = time.monotonic()
        self._timeout_s = timeout_s
        self._slowest = 1.0

    @property
    def waited_s(self) -> float:
        """Return the seconds that it has been."""
        return time.monotonic() - self._began

    def is_over(self) -> bool:
        """Return whether it has been long enough."""
        self._slowest = max(self._slowest, slowness())
        return self.waited_s > self._timeout_s * self._slowest
