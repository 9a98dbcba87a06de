"""Liveness of the daemon, by what it last wrote and by its process."""

from __future__ import annotations

from enum import StrEnum

from tesched_core.model.resources import UnixSeconds

from tesched_db.clock_skew import DIFFER_S
from tesched_db.process import alive
from tesched_db.views import DAEMON, DaemonView


class DaemonState(StrEnum):
    """State of the daemon."""

    #: it polls, decides and writes
    WELL = "well"
    #: it runs, and cannot see Slurm
    BLIND = "blind"
    #: its process is there, and it does not write
    SILENT = "silent"
    #: it was stopped, and said so
    STOPPED = "stopped"
    #: `tesched undo` wrote last: it runs without a daemon alone
    UNDONE = "undone"
    #: it ended without a word
    DIED = "died"
    #: none has ever written here
    NEVER = "never"

    @property
    def running(self) -> bool:
        """Check whether there is a daemon."""
        return self in {DaemonState.WELL, DaemonState.BLIND, DaemonState.SILENT}


def state_of(daemon: DaemonView | None, now: UnixSeconds) -> DaemonState:
    """State of the daemon now."""
    if daemon is None:
        return DaemonState.NEVER
    if daemon.role != DAEMON:
        return DaemonState.UNDONE
    if daemon.stopped_at is not None:
        return DaemonState.STOPPED
    there = alive(daemon.pid, daemon.place, daemon.pid_ticks)
    if there is False:
        return DaemonState.DIED
    if now > daemon.late_at:
        return DaemonState.SILENT if there else DaemonState.DIED
    return DaemonState.WELL if daemon.failure_kind is None else DaemonState.BLIND


def heard_s_ago(daemon: DaemonView, now: UnixSeconds) -> float | None:
    """Seconds since the daemon wrote of itself; None if that is still to come, by a clock that was set back since."""
    ago_s = now - (daemon.reported_at - daemon.ahead_s)
    return None if ago_s < -DIFFER_S else max(ago_s, 0.0)
