"""Content of the live page, from the state store: values of `tesched status --json` in the words of `tesched status`.

One read of the store stands for all requests of a page in a second, and no two requests read at once: a flood of them
costs one at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine
from tesched_core.model.order import Order, OrderState, VictimState
from tesched_daemon.config import Config
from tesched_db import queries as read
from tesched_db.timeline import Timeline, WaitingTe, timeline
from tesched_db.views import OrderView, StatusView

from tesched_cli.common import clock, duration, hostlist
from tesched_cli.health import Health, health
from tesched_cli.render.delays import left
from tesched_cli.render.status_page import Content, content_of
from tesched_cli.render.troubles import overdue, overdue_line
from tesched_cli.status import grace_left, would_have
from tesched_cli.web.charts import Chart, charts
from tesched_cli.web.drawing import Drawing, draw

#: what the timeline may show, by its word in the address, seconds
SPANS: Mapping[str, float] = {"15m": 900.0, "1h": 3600.0, "6h": 21600.0, "1d": 86400.0}
USUAL_SPAN = "1h"
#: For how long what was read stands, seconds.
STANDS_S = 1.0
#: BE jobs of which it is shown what is left of their bounds
_BOUND_JOBS = 10
_PHASES = {
    OrderState.OPEN: "frees resources",
    OrderState.SETTLING: "its TE job no longer waits; victims come back",
    OrderState.ENDED: "ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of the page's head."""

    key: str
    label: str
    value: int
    #: its goal is 0, and it is not
    bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRow:
    """A TE job that waits."""

    job: str
    name: str
    user: str
    since: str
    waits: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderLine:
    """An order under way."""

    order_id: int
    job: str
    user: str
    state: str
    phase: str
    where: str
    #: label, and how far each victim is
    victims: tuple[tuple[str, str], ...]
    #: where there is no victim
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundRow:
    """A BE job with a bound, and what is left of it."""

    job: str
    user: str
    words: str
    used: float
    near: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All that the page says."""

    at: float
    health: Health
    cycle: int | None
    mode: str
    figures: tuple[Figure, ...]
    status: Content
    alarms: tuple[str, ...]
    waiting: tuple[WaitingRow, ...]
    #: waiting TE jobs that have no row
    more_waiting: int
    orders: tuple[OrderLine, ...]
    bound: tuple[BoundRow, ...]
    #: when, what
    decisions: tuple[tuple[str, str], ...]
    span: str
    drawing: Drawing
    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What has to change for a page to be out of date."""

    cycle: int | None
    state: str


class StoreSource:
    """Reads the store for all requests."""

    def __init__(self, engine: Engine, config: Config) -> None:
        """Take the store, open for reading."""
        self.engine, self.config = engine, config
        #: held by whatever reads
        self.lock = threading.Lock()
        #: by span: when it was begun to be read, by the monotonic clock, and the page
        self._pages: dict[str, tuple[float, Page]] = {}
        self._pulse: tuple[float, Pulse] | None = None

    def page(self, span: str = USUAL_SPAN) -> Page:
        """Return the page of this span, a key of `SPANS`. Raises StoreError."""
        with self.lock:
            at, known = self._pages.get(span) or (0.0, None)
            began = time.monotonic()
            if known is not None and began - at < STANDS_S and self._is_new(known, at):
                return known
            now = time.time()
            view = read.status(self.engine, now=now)
            found = timeline(self.engine, now - SPANS[span], ended_since=now - SPANS["1d"])
            page = _page(view, found, self.config, now, span)
            self._pages[span] = began, page
            return page

    def _is_new(self, page: Page, at: float) -> bool:
        """Check whether a page that was read then has what an event after that is about."""
        pulse = self._pulse
        return pulse is None or pulse[0] <= at or (pulse[1].cycle, pulse[1].state) == (page.cycle, page.health.state)

    def pulse(self) -> Pulse:
        """State of the daemon whose change makes a page out of date. Raises StoreError."""
        with self.lock:
            now = time.monotonic()
            if self._pulse is None or now - self._pulse[0] >= STANDS_S / 2:
                daemon = read.daemon(self.engine)
                state = health(daemon, time.time()).state
                self._pulse = now, Pulse(cycle=None if daemon is None else daemon.cycle, state=state)
            return self._pulse[1]


def _page(view: StatusView, found: Timeline, config: Config, now: float, span: str) -> Page:
    how = health(view.daemon, now, view.standbys)
    bound = view.daemon.bound if view.daemon else None
    orders = {view.order.preemptor: view.order for view in view.open_orders}
    return Page(
        at=now,
        health=how,
        cycle=view.daemon.cycle if view.daemon else None,
        mode=view.daemon.mode if view.daemon else "",
        figures=tuple(_figures(view)),
        status=content_of(how.line, view, now),
        alarms=tuple(map(overdue_line, overdue(view, now, config.guard))),
        waiting=tuple(_waiting(one, orders.get(one.job_id), now) for one in found.waiting),
        more_waiting=found.waiting_count - len(found.waiting),
        orders=tuple(_order(each, now) for each in view.open_orders),
        bound=tuple(
            BoundRow(
                job=one.job,
                user=one.user,
                words=left(one),
                used=min(one.delayed_s / one.bound_s, 1.0) if one.bound_s > 0 else 1.0,
                near=bool(one.near),
            )
            for one in (bound.jobs[:_BOUND_JOBS] if bound else ())
        ),
        decisions=tuple((clock(one.last_at), would_have(one.mode, one.summary)) for one in view.decisions[:5]),
        span=span,
        drawing=draw(found, now - SPANS[span], now),
        charts=tuple(charts(found.ended, now - SPANS["1d"], now)),
    )


def _figures(view: StatusView) -> Iterator[Figure]:
    counts = {queue.job_class.value: queue.states for queue in view.queues}
    for key, label, job_class, state in (
        ("te-pending", "TE jobs waiting", "te", "PENDING"),
        ("te-running", "TE jobs running", "te", "RUNNING"),
        ("be-running", "BE jobs running", "be", "RUNNING"),
        ("be-pending", "BE jobs waiting", "be", "PENDING"),
    ):
        found = {one.value: count for one, count in counts.get(job_class, {}).items()}
        yield Figure(key=key, label=label, value=found.get(state, 0))
    tally = view.tally
    yield Figure(key="orders", label="orders under way", value=len(view.open_orders))
    yield Figure(key="futile", label="futile preemptions", value=tally.futile, bad=bool(tally.futile))
    yield Figure(key="lost", label="jobs lost", value=tally.lost, bad=bool(tally.lost))


def _waiting(job: WaitingTe, order: Order | None, now: float) -> WaitingRow:
    if order is not None:
        gone = sum(victim.state in {VictimState.LEFT, VictimState.BACK} for victim in order.victims)
        victims = f"{gone} of {len(order.victims)} victim(s) have left" if order.victims else "it is first in the queue"
        why = f"order {order.order_id} frees resources for it: {victims}"
    else:
        why = job.why or (f"Slurm says: {job.reason}" if job.reason else "not decided yet")
    return WaitingRow(
        job=job.label,
        name=job.name,
        user=job.user,
        since=clock(job.submitted_at),
        waits=duration(now - job.submitted_at),
        why=why,
    )


def _order(each: OrderView, now: float) -> OrderLine:
    order = each.order
    victims = zip(order.victims, each.victim_labels, strict=True)
    phase = "waits for resources to be released" if order.waits else _PHASES[order.state]
    return OrderLine(
        order_id=order.order_id,
        job=each.preemptor_label,
        user=each.preemptor_user,
        state=order.state.value,
        phase=phase,
        where=hostlist(order.nodes) or "anywhere",
        victims=tuple((label, grace_left(victim, now)) for victim, label in victims),
        instead="no victim: resources are free" if not order.waits else "no victim yet",
    )
