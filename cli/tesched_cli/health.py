"""Health of the daemon, in words, and the exit status of `tesched status` that says the same."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.model.resources import UnixSeconds
from tesched_db.lease import Standby
from tesched_db.liveness import DaemonState, heard_s_ago, state_of
from tesched_db.views import DaemonView

from tesched_cli.common import clock, duration

#: Exit status of `tesched status`; 2 is for what cannot be used (the command line, the configuration, the store).
WELL, TROUBLE, NO_DAEMON = 0, 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Health of the daemon."""

    state: DaemonState
    #: for an admin
    line: str
    exit_status: int

    @property
    def well(self) -> bool:
        """Check whether it does its work."""
        return self.state is DaemonState.WELL


def health(daemon: DaemonView | None, now: UnixSeconds, standbys: tuple[Standby, ...] = ()) -> Health:
    """Health of the daemon now."""
    state = state_of(daemon, now)
    line = _line(daemon, state, now)
    if state is DaemonState.WELL:
        status = WELL
    elif state.running or standbys:
        status = TROUBLE
    else:
        status = NO_DAEMON
    if standbys and not state.running:
        line = f"{line}; pid {standbys[0].pid} on {standbys[0].host} stands by, and takes over"
    return Health(state=state, line=line, exit_status=status)


def _line(daemon: DaemonView | None, state: DaemonState, now: UnixSeconds) -> str:
    if daemon is None:
        return "NOT RUNNING: no daemon has ever run on this store"
    process = f"pid {daemon.pid} on {daemon.host}"
    ago_s = heard_s_ago(daemon, now)
    silent = f"was last heard of {duration(ago_s)} ago"
    if ago_s is None:
        silent = f"last reported at {clock(daemon.reported_at)}, which is still to come: the clock was ahead"
    match state:
        case DaemonState.UNDONE:
            return f"NOT RUNNING: `tesched undo` was the last to work on this store, at {clock(daemon.reported_at)}"
        case DaemonState.STOPPED:
            return f"NOT RUNNING: stopped at {clock(daemon.stopped_at)} (it was {process})"
        case DaemonState.DIED:
            return f"NOT RUNNING: {process} {silent}; it ended without a word"
        case DaemonState.SILENT:
            return f"TROUBLE: {process} {silent}; it cannot write to the state store, or hangs: its log says which"
        case DaemonState.BLIND:
            seen = f"last seen {duration(now - daemon.seen_at)} ago" if daemon.seen_at else "never seen yet"
            return f"TROUBLE: {process}; Slurm cannot be seen ({daemon.failure_kind}: {daemon.failure}), {seen}"
        case _:
            up = duration(max(now - daemon.started_at, 0.0))
            return f"well: {process}, up {up}, last poll {ago_s or 0.0:.1f} s ago"
