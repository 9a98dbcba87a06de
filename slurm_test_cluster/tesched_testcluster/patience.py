"""Time-outs of waits, on any machine: a wait for what must come ends when it has come, however busy the machine is.

A time-out is no measure of speed. It ends a test that hangs, so it is long, and longer still while processes wait for a
core. A test that says that a step is quick counts calls, polls or notices; benchmarks measure seconds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

#: seconds after which what was to come will not; what takes one on an idle machine took 60 beside eight busy loops
HANG_S = 180.0
#: the same for an idle machine; on one that is slower than HANG_S allows for it grows by the slowness
_IDLE_HANG_S = 20.0
#: What starts several processes one after the other waits for each.
_MARGIN = 2.0
#: most that the share of stalled time counts for: beyond it the file shows noise
_MOST_STALLED = 0.95
_PRESSURE = Path("/proc/pressure/cpu")


def slowness() -> float:
    """Return how many times as long a step takes as on an idle machine, roughly; at least 1.

    By the load of the last minute, and by the share of the last ten seconds in which some process waited for a core:
    the load of a virtual machine does not count what its host gives to others, and knows of a burst late.
    """
    load = _MARGIN * os.getloadavg()[0] / (os.cpu_count() or 1)
    return max(load, 1.0 / (1.0 - min(_stalled(), _MOST_STALLED)), 1.0)


def _stalled() -> float:
    """Return the share of the last ten seconds in which a runnable process waited; 0 where the kernel has none."""
    try:
        # some avg10=12.34 avg60=... avg300=... total=...
        return float(_PRESSURE.read_text().split("avg10=")[1].split()[0]) / 100
    except (OSError, IndexError, ValueError):
        return 0.0


class Patience:
    """Decides when a wait has been long enough."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """Begin to wait: for what must come, or for `timeout_s` seconds of an idle machine."""
        self._began = time.monotonic()
        self._timeout_s = timeout_s
        self._slowest = 1.0

    @property
    def waited_s(self) -> float:
        """Return the seconds that it has been."""
        return time.monotonic() - self._began

    @property
    def limit_s(self) -> float:
        """Return the seconds from the beginning after which it is over, by the slowest that the machine has been."""
        self._slowest = max(self._slowest, slowness())
        if self._timeout_s is None:
            return max(HANG_S, _IDLE_HANG_S * self._slowest)
        return self._timeout_s * self._slowest

    def is_over(self) -> bool:
        """Return whether it has been long enough."""
        return self.waited_s > self.limit_s


def wait_for(condition: Callable[[], object], what: str = "it") -> None:
    """Wait until the condition holds. Raises AssertionError once it has been long enough."""
    patience = Patience()
    while not condition():
        if patience.is_over():
            raise AssertionError(f"waited {patience.waited_s:.0f} s for {what}")
        time.sleep(0.01)
