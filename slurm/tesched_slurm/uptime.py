"""Stopwatch that goes on while the host is suspended: what was read of Slurm is as old as it is for slurmctld.

As `tesched_daemon.uptime`, which the daemon's loop has: that knows nothing of Slurm's side.
"""

from __future__ import annotations

import time

#: Linux alone has it. The other clocks that are never set stand still while the host is suspended.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def uptime_s() -> float:
    """Seconds since some moment, by a clock that is never set."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
