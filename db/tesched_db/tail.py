"""What is new in the store since it was last read: steps of orders, runs, refusals and polls, for counters.

A counter that was added up from the whole store would fall when `tesched db prune` forgets a part of it, which
Prometheus takes for a restart: then all that is left would count again. So counts begin when metrics are served, and
rise by the rows that the store gets. Nothing is counted that the store does not hold.

Each table is read from the last key on, so much at a time and no more (`MOST_ROWS`); the rest comes with the next read.
A key may be used again once the newest rows of all are deleted: what was written before that is noticed is not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Column, Connection, Engine, and_, exists, func, not_, or_, select
from tesched_core.intake.job_times import lost_node_s, slowdown
from tesched_core.model.cluster import FINISHED, JobState
from tesched_core.model.order import Departure, Ending, Order, OrderState, Purpose
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.engine import reader
from tesched_db.lease import read_pause, read_standbys
from tesched_db.order_rows import order_of, victims_of
from tesched_db.queries import WINDOW_S, queues_of, tally_of, trials_among
from tesched_db.rows import CHUNK, row_by_key, row_of, rows_of
from tesched_db.tables import CycleRow, DaemonRow, HistoryRow, JobRow, OrderRow, RefusalRow, TransitionRow
from tesched_db.view_builders import daemon_view
from tesched_db.views import DaemonView, OrderTally, QueueView

#: Rows of one table that one read takes.
MOST_ROWS = 5000
#: States in which a job has not run in this turn of its own.
_NOT_RUN = frozenset({JobState.PENDING, JobState.CANCELLED, JobState.DEADLINE, JobState.UNKNOWN})
_RAN = [state.value for state in JobState if state not in _NOT_RUN]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Start of one run."""

    job_class: str
    partition: str
    #: from its submission, or its requeue, seconds
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Times of one order with a preemptor that has started, seconds; None: it had no such phase."""

    #: from the decision to the first notice, or to the request to go
    notice_s: float | None
    #: from there until the last victim has left
    leave_s: float | None
    #: from there, or from the decision where no victim left, until the preemptor was seen to have started
    start_s: float
    #: from the decision until then
    whole_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Departure of one victim; of one that is lost after it had left, one more."""

    departure: Departure
    purpose: Purpose
    lost_node_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """Polls of one kind: how many, and seconds of their stages."""

    #: empty: Slurm was seen
    failure: str
    count: int
    observe_s: float
    decide_s: float
    act_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is new since the read before."""

    started: tuple[Started, ...] = ()
    #: slowdown of jobs that ended, with their classes
    slowdowns: tuple[tuple[str, float], ...] = ()
    #: of orders for TE jobs
    phases: tuple[Phases, ...] = ()
    #: of orders for TE jobs, and of turns of BE jobs
    endings: tuple[tuple[Ending, Purpose], ...] = ()
    #: of each order that is known to be futile now, what it was for
    futile: tuple[Purpose, ...] = ()
    left: tuple[Left, ...] = ()
    #: by code, and whether it is about the preemptor itself
    refusals: Mapping[tuple[str, bool], int] = field(default_factory=dict)
    polls: tuple[Polls, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """What `tesched status` says as well, and what is new."""

    #: None: no daemon has ever written here
    daemon: DaemonView | None
    queues: tuple[QueueView, ...]
    tally: OrderTally
    open_orders: int
    paused: bool
    standbys: int
    news: News


@dataclass(slots=True)
class _CountedOrder:
    """What was counted of one order."""

    departures: dict[tuple[JobId, int], Departure | None]
    lost_node_s: dict[tuple[JobId, int], float]
    futile: bool
    ended: bool


@dataclass(slots=True, kw_only=True)
class Tail:
    """Reads the store, and knows how far it was read. For one thread at a time."""

    engine: Engine
    #: runs that began before are not counted: another process, or none, saw them begin
    began_at: UnixSeconds
    #: by table; empty: nothing was read yet
    _last: dict[str, int] = field(default_factory=dict)
    #: count and stages of the newest row of polls, which grows
    _cycle: tuple[int, float, float, float] = (0, 0.0, 0.0, 0.0)
    _orders: dict[int, _CountedOrder] = field(default_factory=dict)

    def skip(self) -> None:
        """Take all that is there as counted. Raises StoreError."""
        with reader(self.engine) as connection:
            self._skip(connection)

    def read(self, now: UnixSeconds) -> Now:
        """Read what is so and what is new. Raises StoreError; then all that is new comes with the next read."""
        before = dict(self._last), self._cycle, dict(self._orders)
        try:
            with reader(self.engine) as connection:
                return self._read(connection, now)
        except BaseException:
            self._last, self._cycle, self._orders = before
            raise

    def _skip(self, connection: Connection) -> None:
        for column in _KEYS:
            self._last[column.table.name] = connection.scalar(select(func.max(column))) or 0
        newest = row_of(connection, select(CycleRow).order_by(CycleRow.key.desc()).limit(1))
        self._cycle = _stages(newest) if newest is not None else (0, 0.0, 0.0, 0.0)
        rows = rows_of(connection, select(OrderRow).where(OrderRow.ended_at.is_(None)))
        self._orders = {order.order_id: _known(order) for order in _orders(connection, rows)}

    def _read(self, connection: Connection, now: UnixSeconds) -> Now:
        if not self._last:
            self._skip(connection)
        daemon = row_by_key(connection, DaemonRow, 1)
        started, slowdowns = self._jobs(connection)
        refusals, polls = self._refusals(connection), self._polls(connection)
        news = self._steps(connection, News(started=started, slowdowns=slowdowns, refusals=refusals, polls=polls))
        return Now(
            daemon=daemon_view(connection, daemon) if daemon else None,
            queues=queues_of(connection, now, WINDOW_S),
            tally=tally_of(connection, now - WINDOW_S),
            open_orders=connection.scalar(select(func.count()).where(OrderRow.ended_at.is_(None))) or 0,
            paused=read_pause(connection, now) is not None,
            standbys=len(read_standbys(connection)),
            news=news,
        )

    def _from(self, connection: Connection, column: Column[int]) -> int:
        """Return the key after which rows are new."""
        table = column.table.name
        # They have been deleted, with those that were counted.
        last = min(self._last.get(table, 0), connection.scalar(select(func.max(column))) or 0)
        self._last[table] = last
        return last

    def _jobs(self, connection: Connection) -> tuple[tuple[Started, ...], tuple[tuple[str, float], ...]]:
        row, before = HistoryRow, HistoryRow.__table__.alias().c
        last = self._from(connection, row.key)
        top = connection.scalar(select(func.max(row.key)).where(row.key > last, row.key <= last + MOST_ROWS))
        if top is None:  # a gap in the keys, longer than what one read takes
            top = connection.scalar(select(func.min(row.key)).where(row.key > last))
        if top is None:
            return (), ()
        self._last[row.__tablename__] = top
        earlier = exists().where(
            before.job_key == row.job_key,
            before.key < row.key,
            before.restarts == row.restarts,
            before.state.in_(_RAN),
        )
        begins = and_(row.state.in_(_RAN), row.start_time >= self.began_at, not_(earlier))
        # Slurm shows finished jobs for some minutes: the first poll of a process sees those that ended before it.
        ends = and_(row.state.in_([state.value for state in FINISHED]), JobRow.end_time >= self.began_at)
        columns = (row.submit_time, row.start_time, JobRow.job_class, JobRow.partition, JobRow.waited_s, JobRow.ran_s)
        query = select(*columns, begins.label("begins"), ends.label("ends")).join(JobRow, JobRow.key == row.job_key)
        query = query.where(row.key > last, row.key <= top, or_(begins, ends)).order_by(row.key)
        found = connection.execute(query).all()
        started = tuple(
            Started(
                job_class=one.job_class, partition=one.partition, waited_s=max(one.start_time - one.submit_time, 0.0)
            )
            for one in found
            if one.begins
        )
        ended = [(one.job_class, _slowdown(one.waited_s, one.ran_s)) for one in found if one.ends]
        return started, tuple((job_class, value) for job_class, value in ended if value is not None)

    def _steps(self, connection: Connection, news: News) -> News:
        """Return the news with what is new of orders."""
        row = TransitionRow
        last = self._from(connection, row.key)
        columns = (row.key, row.order_id, row.at, row.job_id, row.before, row.after)
        steps = connection.execute(select(*columns).where(row.key > last).order_by(row.key).limit(MOST_ROWS)).all()
        if not steps:
            return news
        self._last[row.__tablename__] = steps[-1].key
        ids = sorted({step.order_id for step in steps})
        rows: list[OrderRow] = []
        trials: set[int] = set()
        for start in range(0, len(ids), CHUNK):
            some = OrderRow.order_id.in_(ids[start : start + CHUNK])
            rows += rows_of(connection, select(OrderRow).where(some))
            trials |= set(connection.scalars(trials_among(some)))
        orders = {order.order_id: order for order in _orders(connection, rows)}
        left: list[Left] = []
        futile: list[Purpose] = []
        for order in orders.values():
            known = self._orders.get(order.order_id, _CountedOrder({}, {}, futile=False, ended=False))
            now = _known(order)
            left += _left(order, known, now)
            if now.futile and not known.futile:
                futile.append(_purpose(order, trials))
            self._orders[order.order_id] = now
        phases: list[Phases] = []
        endings: list[tuple[Ending, Purpose]] = []
        for step in steps:
            one = orders.get(step.order_id)
            if one is None or step.job_id is not None:
                continue
            starts = step.before == OrderState.OPEN and step.after == OrderState.SETTLING and _has_started(one)
            if starts and _purpose(one, trials) is Purpose.TE:
                phases.append(_phases(one, step.at))
            if step.after == OrderState.ENDED:
                endings.append((one.ending or Ending.WITHDRAWN, _purpose(one, trials)))
        if len(steps) < MOST_ROWS:
            # Of an order that has ended another step may follow as long as not all are read.
            self._orders = {order_id: known for order_id, known in self._orders.items() if not known.ended}
        return replace(news, phases=tuple(phases), endings=tuple(endings), futile=tuple(futile), left=tuple(left))

    def _refusals(self, connection: Connection) -> Mapping[tuple[str, bool], int]:
        row = RefusalRow
        last = self._from(connection, row.key)
        top = connection.scalar(select(func.max(row.key))) or 0
        self._last[row.__tablename__] = top
        of_itself = (row.job_id == row.preemptor).label("of_itself")
        query = select(row.code, of_itself, func.count()).where(row.key > last, row.key <= top)
        counted = connection.execute(query.group_by(row.code, of_itself))
        return {(code, bool(own)): count for code, own, count in counted}

    def _polls(self, connection: Connection) -> tuple[Polls, ...]:
        row = CycleRow
        last = self._from(connection, row.key)
        columns = (row.key, row.count, row.observe_s, row.step_s, row.act_s, row.failure_kind)
        rows = connection.execute(select(*columns).where(row.key >= last).order_by(row.key).limit(MOST_ROWS)).all()
        found: list[Polls] = []
        for one in rows:
            was = self._cycle if one.key == last else (0, 0.0, 0.0, 0.0)
            count, observe_s, decide_s, act_s = (max(a - b, 0) for a, b in zip(_stages(one), was, strict=True))
            failure = one.failure_kind or ""
            found.append(Polls(failure=failure, count=int(count), observe_s=observe_s, decide_s=decide_s, act_s=act_s))
        if rows:
            self._last[row.__tablename__], self._cycle = rows[-1].key, _stages(rows[-1])
        return tuple(found)


_KEYS: tuple[Column[int], ...] = (HistoryRow.key, TransitionRow.key, RefusalRow.key, CycleRow.key)


def _stages(row: Any) -> tuple[int, float, float, float]:
    """Return the count and the seconds of a row of `CycleRow`, or of its columns."""
    return int(row.count), float(row.observe_s), float(row.step_s), float(row.act_s)


def _orders(connection: Connection, rows: Sequence[OrderRow]) -> list[Order]:
    victims = victims_of(connection, [row.order_id for row in rows])
    return [order_of(row, victims.get(row.order_id, ())) for row in rows]


def _known(order: Order) -> _CountedOrder:
    keys = [(victim.job_id, victim.restarts) for victim in order.victims]
    departures = {key: victim.departure for key, victim in zip(keys, order.victims, strict=True)}
    lost = {key: lost_node_s(victim) for key, victim in zip(keys, order.victims, strict=True)}
    return _CountedOrder(departures, lost, futile=order.futile, ended=order.ended_at is not None)


def _left(order: Order, before: _CountedOrder, now: _CountedOrder) -> list[Left]:
    return [
        Left(
            departure=victim.departure,
            purpose=victim.purpose,
            lost_node_s=max(now.lost_node_s[key] - before.lost_node_s.get(key, 0.0), 0.0),
        )
        for victim in order.victims
        if victim.departure is not None
        and before.departures.get(key := (victim.job_id, victim.restarts)) is not victim.departure
    ]


def _purpose(order: Order, trials: Collection[int]) -> Purpose:
    """Purpose of an order."""
    return Purpose.TE if order.order_id in trials else Purpose.ROUND


def _has_started(order: Order) -> bool:
    """Check whether its preemptor started where resources were freed for it, however short that run was."""
    return order.ending in {Ending.STARTED_HERE, Ending.NO_RUN}


def _phases(order: Order, at: UnixSeconds) -> Phases:
    """Return the phases of an order with a preemptor that was first seen to run then."""
    noticed = min((victim.noticed_at for victim in order.victims if victim.noticed_at is not None), default=None)
    left = max((victim.left_at for victim in order.victims if victim.left_at is not None), default=None)
    # Another poll may see a victim leave after the start that its departure made possible.
    left = None if left is None else min(left, at)
    return Phases(
        notice_s=None if noticed is None else max(noticed - order.created_at, 0.0),
        leave_s=None if noticed is None or left is None else max(left - noticed, 0.0),
        start_s=max(at - (order.created_at if left is None else left), 0.0),
        whole_s=max(at - order.created_at, 0.0),
    )


def _slowdown(waited_s: float | None, ran_s: float | None) -> float | None:
    return None if waited_s is None or ran_s is None else slowdown(waited_s, ran_s)
