"""Whether the limits on TE jobs are enforced or only measured, in words, for `tesched status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.text import Text
from tesched_core.model.enforcement import Enforced
from tesched_core.model.resources import UnixSeconds
from tesched_daemon.settings import Mode
from tesched_db.liveness import state_of
from tesched_db.views import DaemonView

#: what is said before the reason
_WORDS = {
    Enforced.PARTLY: "enforced in part",
    Enforced.NO: "measured, not enforced",
    Enforced.UNKNOWN: "whether it is enforced cannot be seen",
}


def as_of_now(daemon: DaemonView | None, now: UnixSeconds) -> DaemonView | None:
    """Return the daemon's record; where it runs no more, it enforces and puts back nothing, whatever it said last."""
    if daemon is None or state_of(daemon, now).running:
        return daemon
    known = daemon.enforced
    enforced = None if known is None else replace(known, enforced=Enforced.NO, why="no daemon runs")
    return replace(daemon, enforced=enforced, leaving="")


def enforced_lines(daemon: DaemonView | None, now: UnixSeconds) -> Iterator[Text]:
    """Yield whether the limits on TE jobs are enforced; nothing where none is set."""
    known = as_of_now(daemon, now)
    if known is None or (one := known.enforced) is None:
        return
    said = "enforced by the submission hook"
    if one.enforced is not Enforced.YES:
        said = f"{_WORDS[one.enforced]} ({one.why})"
    if known.mode == Mode.OBSERVE:
        said = said.replace(_WORDS[Enforced.NO], "neither measured nor enforced")
    style = "green" if one.enforced is Enforced.YES else "yellow"
    yield Text(f"{' and '.join(one.keys)}: {said}", style=style)
