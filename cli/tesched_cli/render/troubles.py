"""Lines of `tesched status` that an admin should act on, which `tesched top` shows, too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.text import Text
from tesched_core.model.limits import Limits
from tesched_core.model.order import Victim
from tesched_daemon.wakeup_shares import LEFT, SERVED
from tesched_db.liveness import state_of
from tesched_db.views import DaemonView, StatusView

from tesched_cli.common import duration, unread
from tesched_cli.render.refused import refusals
from tesched_cli.render.unread_limits import unread_limits

#: Jobs named for unreadable records, at most; --json has more.
SHOWN_DOUBTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A victim that has waited too long to run again."""

    job: str
    order_id: int
    waited_s: float
    #: it holds its resources but for its CPUs, which others have
    suspended: bool


def trouble_lines(view: StatusView, limits: Limits, now: float) -> Iterator[Text]:
    """Yield what an admin should know and act on, each with its word in front."""
    if view.daemon:
        if view.daemon.leaving and state_of(view.daemon, now).running:
            yield Text(f"LEAVING  {view.daemon.leaving}", style="bold yellow")
        yield from _doubts(view.daemon)
        yield from (Text(f"REFUSED  {said}", style="bold yellow") for said in refusals(view.daemon.refused, now))
        yield from (Text(f"LIMITS   {said}", style="bold yellow") for said in unread_limits(view.daemon.limits_unread))
        if view.daemon.marks_trouble:
            yield Text(f"MARKS    {view.daemon.marks_trouble}", style="bold red")
        if view.daemon.admission_trouble:
            yield Text(f"HOOK     {view.daemon.admission_trouble}", style="bold red")
        if view.daemon.metrics_trouble:
            yield Text(f"METRICS  {view.daemon.metrics_trouble}", style="bold red")
        if view.daemon.idle_trouble:
            yield Text(f"IDLE     {view.daemon.idle_trouble}", style="bold red")
        if pokes := _pokes(view.daemon):
            yield Text(f"pokes    {pokes}", style="yellow")
    if view.paused:
        yield Text(f"PAUSED   {view.paused}; `tesched unpause` ends it", style="bold yellow")
    for late in overdue(view, now, limits):
        yield Text(f"ALARM    {overdue_line(late)}", style="bold red")


def overdue_line(late: Overdue) -> str:
    """Say how long a victim has been away."""
    waits = f"has waited {duration(late.waited_s)} to run again"
    if late.suspended:
        waits = f"is suspended for {duration(late.waited_s)}: it goes on when no other job has its CPUs"
    return f"job {late.job} made way (order {late.order_id}) and {waits}"


def overdue(view: StatusView, now: float, limits: Limits) -> list[Overdue]:
    """Return the victims that left longer ago than guard.return_within_s, or are suspended for guard.suspend_for_s."""
    found: list[Overdue] = []
    for each in view.open_orders:
        for victim, label in zip(each.order.victims, each.victim_labels, strict=True):
            if victim.awaited and victim.left_at is not None and now - victim.left_at > limits.return_within_s:
                waited_s, suspended = now - victim.left_at, False
            elif victim.suspended_at is not None and _goes_on_late(victim, now, limits):
                waited_s, suspended = now - victim.suspended_at, True
            else:
                continue
            found.append(Overdue(job=label, order_id=each.order.order_id, waited_s=waited_s, suspended=suspended))
    return found


def _goes_on_late(victim: Victim, now: float, limits: Limits) -> bool:
    from tesched_core.orders.suspend import overdue_since  # noqa: PLC0415 - levers bring NumPy

    due = overdue_since(victim, limits.suspend_for_s)
    return due is not None and now > due


def _doubts(daemon: DaemonView) -> Iterator[Text]:
    """Yield what has a record that could not be read whole: it is left alone, a job as last known."""
    if daemon.doubtful:
        yield Text(f"UNREAD   {daemon.doubtful} record(s) could not be read whole; left alone:", style="bold red")
    for label, user, why in daemon.doubts[:SHOWN_DOUBTS]:
        yield Text(f"         {unread(label, user)}: {why}", style="red")


def _pokes(daemon: DaemonView) -> str:
    """Count the pokes that came, in words; empty where none was left to the poll."""
    left = daemon.calls.get(LEFT, 0.0)
    if not left:
        return ""
    return f"{daemon.calls.get(SERVED, 0.0):.0f}/min, and {left:.0f}/min above a user's share, left to the next poll"
