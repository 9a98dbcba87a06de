"""Stopwatch that goes on while the host is suspended: what passes then has passed for Slurm and for users, too."""

from __future__ import annotations

import time

#: Linux alone has it. The other clocks that are never set stand still while the host is suspended, and the clock of the
#: day, ahead of them by then, seems to have been set.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def uptime_s() -> float:
    """Seconds since some moment, by a clock that is never set."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
