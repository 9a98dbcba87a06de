"""Queries of people to the store. Each call sees one instant, returns plain values, and raises StoreError."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, or_, select
from tesched_core.intake.job_times import lost_node_s, runs, seen_until, slowdown, times
from tesched_core.model.actions import ReasonCode, Status
from tesched_core.model.change import By
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Departure, Ending, Order, Purpose, Transition, Victim, VictimState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass

from tesched_db import change_rows, leave_times, policy_states
from tesched_db.change_rows import refused_of
from tesched_db.deeds import recent
from tesched_db.delays import delays, waited_of
from tesched_db.engine import reader
from tesched_db.filters import job_conditions, named, orders_query
from tesched_db.history_rows import changes_of
from tesched_db.lease import read_pause, read_standbys
from tesched_db.order_rows import order_of, victim_of, victims_of
from tesched_db.rows import row_by_key, row_of, rows_of
from tesched_db.tables import (
    ActionRow,
    CycleRow,
    DaemonRow,
    JobMemoryRow,
    JobRow,
    OrderRow,
    RefusalRow,
    TransitionRow,
    VictimRow,
)
from tesched_db.te_refused import te_refused
from tesched_db.view_builders import (
    action_views,
    cycle_views,
    daemon_view,
    job_views,
    order_views,
    refusal_views,
    transition_of,
)
from tesched_db.views import (
    DaemonView,
    JobFilter,
    JobStory,
    JobView,
    OrderFilter,
    OrderTally,
    OrderView,
    Percentiles,
    QueueView,
    Retry,
    StatusView,
)

if TYPE_CHECKING:
    from tesched_core.model.memory import Memory

#: Seconds before now from which percentiles and tallies count.
WINDOW_S = 86400.0


class _Notes(TypedDict):
    noted: int
    not_noted: int
    not_noted_why: str


#: Departures by which a victim had the chance to save its work.
_SAVED = frozenset({Departure.FINISHED, Departure.REQUEUED_ITSELF, Departure.SAVED})


def status(
    engine: Engine, *, window_s: float = WINDOW_S, cycles: int = 10, deeds: int = 3, now: UnixSeconds | None = None
) -> StatusView:
    """Return the daemon's state, `cycles` cycles, queues, open orders, tallies of `window_s` seconds, `deeds` deeds."""
    now = time.time() if now is None else now
    with reader(engine) as connection:
        daemon = row_by_key(connection, DaemonRow, 1)
        newest = select(CycleRow).order_by(CycleRow.key.desc()).limit(cycles)
        return StatusView(
            daemon=daemon_view(connection, daemon) if daemon else None,
            standbys=read_standbys(connection),
            paused=read_pause(connection, now),
            cycles=cycle_views(connection, newest),
            decisions=cycle_views(connection, newest.where(CycleRow.idle.is_(False))),
            queues=queues_of(connection, now, window_s),
            open_orders=order_views(connection, select(OrderRow).where(OrderRow.ended_at.is_(None))),
            retries=_retries(connection, now),
            deeds=recent(connection, deeds),
            tally=tally_of(connection, now - window_s),
            delays=delays(connection, since=now - window_s),
            te_refused=te_refused(connection, now - window_s),
            window_s=window_s,
        )


def daemon(engine: Engine) -> DaemonView | None:
    """Return the daemon as it last said of itself; None if none has ever written here."""
    with reader(engine) as connection:
        return daemon_view(connection, row) if (row := row_by_key(connection, DaemonRow, 1)) else None


def memory(engine: Engine, states: Mapping[str, type[Any]] = MappingProxyType({})) -> Memory:
    """Return the daemon's memory as it was last written, for a plan that shall not be carried out.

    `states` are the types of what policies remember, by the policy's name; others are left out.
    """
    from tesched_core.model.memory import Memory  # noqa: PLC0415 - needed for a plan alone

    from tesched_db.memory_rows import Remembered  # noqa: PLC0415 - as above

    with reader(engine) as connection:
        daemon = row_by_key(connection, DaemonRow, 1)
        if daemon is None:
            return Memory()
        remembered = Remembered.load(connection, states).memory(daemon.cycle, daemon.next_order)
        by_node = leave_times.load_ending_times(connection)
        return replace(
            remembered,
            leave_times=leave_times.load(connection),
            ending_times=by_node,
            refused=refused_of(daemon.refused),
        )


def jobs(engine: Engine, which: JobFilter | None = None) -> tuple[JobView, ...]:
    """Return jobs by their id; the latest of several that had the same one comes last."""
    which = which or JobFilter()
    with reader(engine) as connection:
        query = select(JobRow).where(*job_conditions(which)).order_by(JobRow.job_id, JobRow.key).limit(which.limit)
        return job_views(connection, rows_of(connection, query))


def job_story(
    engine: Engine, name: str | JobId, states: Mapping[str, type[Any]] = MappingProxyType({})
) -> JobStory | None:
    """Return all that is remembered of a job; None if it was never seen. `states` as in `memory`.

    `name` is an id or what squeue writes: `123`, `120_4`, `130+1`. Of several jobs that had it, the latest is meant.
    """
    with reader(engine) as connection:
        condition = named(str(name))
        if condition is None:
            return None
        row = row_of(connection, select(JobRow).where(condition).order_by(JobRow.key.desc()).limit(1))
        if row is None:
            return None
        changes = tuple(changes_of(connection, [row.key])[row.key])
        if not changes:
            raise ValueError(f"job {row.label} has no history")
        (job,) = job_views(connection, [row])
        as_victim = select(VictimRow.order_id).where(VictimRow.job_key == row.key)
        actions = select(ActionRow).where(ActionRow.job_key == row.key)
        return JobStory(
            job=job,
            changes=changes,
            runs=seen_until(runs(changes), row.last_seen),
            times=times(changes, now=job.last_seen),
            orders_as_preemptor=order_views(connection, select(OrderRow).where(OrderRow.preemptor_key == row.key)),
            orders_as_victim=order_views(connection, select(OrderRow).where(OrderRow.order_id.in_(as_victim))),
            refusals_as_preemptor=refusal_views(connection, RefusalRow.preemptor_key == row.key),
            refusals_as_candidate=refusal_views(
                connection, and_(RefusalRow.job_key == row.key, RefusalRow.preemptor != row.job_id)
            ),
            actions=action_views(connection, actions.order_by(ActionRow.cycle_key, ActionRow.position)),
            leave_times=leave_times.load(connection, of=(row.user, row.name)).get((row.user, row.name), ()),
            bystander=waited_of(connection, row.key, job.last_seen),
            policy_states={} if job.gone else policy_states.load(connection, states),
        )


def orders(engine: Engine, which: OrderFilter | None = None) -> tuple[OrderView, ...]:
    """Return orders with their steps, oldest first; of more than `which.limit` the newest."""
    which = which or OrderFilter()
    newest = orders_query(which).order_by(OrderRow.order_id.desc()).limit(which.limit)
    with reader(engine) as connection:
        return order_views(connection, newest)


def as_victims(engine: Engine, keys: Collection[int]) -> Mapping[int, tuple[Victim, ...]]:
    """Return of these jobs, by their keys, what became of each as a victim, oldest first; nothing of mode shadow."""
    found: dict[int, list[Victim]] = {}
    with reader(engine) as connection:
        for some in _batches(sorted(keys)):
            query = (
                select(VictimRow)
                .join(OrderRow, OrderRow.order_id == VictimRow.order_id)
                .where(VictimRow.job_key.in_(some))
                .where(or_(OrderRow.ending.is_(None), OrderRow.ending != Ending.SHADOW.value))
                .order_by(VictimRow.order_id, VictimRow.position)
            )
            for row in rows_of(connection, query):
                if row.job_key is not None:
                    found.setdefault(row.job_key, []).append(victim_of(row))
    return {key: tuple(victims) for key, victims in found.items()}


def changed_jobs(engine: Engine) -> Mapping[str, frozenset[JobId]]:
    """Jobs of which a field is to be put back in Slurm, by field."""
    found: dict[str, set[JobId]] = {}
    with reader(engine) as connection:
        for field, by_job in change_rows.load(connection).items():
            found[field] = {job_id for job_id, one in by_job.items() if not (one.restored or one.dry)}
    return {field: frozenset(jobs) for field, jobs in found.items() if jobs}


def raised_jobs(engine: Engine, by: By) -> frozenset[JobId]:
    """Jobs whose nice value is raised for one purpose."""
    with reader(engine) as connection:
        raised = change_rows.load(connection).get(Field.NICE, {})
    return frozenset(job_id for job_id, one in raised.items() if one.by is by and not (one.restored or one.dry))


def _batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield them in parts that fit into one statement."""
    for first in range(0, len(keys), 500):
        yield keys[first : first + 500]


def recent_transitions(engine: Engine, *, limit: int = 50, since: UnixSeconds | None = None) -> tuple[Transition, ...]:
    """Return the newest `limit` steps of any order, oldest first."""
    query = select(TransitionRow).order_by(TransitionRow.key.desc()).limit(limit)
    if since is not None:
        query = query.where(TransitionRow.at >= since)
    with reader(engine) as connection:
        return tuple(transition_of(row) for row in reversed(rows_of(connection, query)))


def _percentiles(values: Sequence[float]) -> Percentiles:
    if not values:
        return Percentiles(count=0, p50=None, p95=None, p99=None)
    ordered = sorted(values)
    p50, p95, p99 = (_percentile(ordered, part) for part in (0.5, 0.95, 0.99))
    return Percentiles(count=len(values), p50=p50, p95=p95, p99=p99)


def _percentile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which this part of the values lies, between two of them as NumPy has it."""
    place = part * (len(ordered) - 1)
    low = ordered[int(place)]
    return low + (ordered[min(int(place) + 1, len(ordered) - 1)] - low) * (place - int(place))


def queues_of(connection: Connection, now: UnixSeconds, window_s: float) -> tuple[QueueView, ...]:
    """Return the jobs of each class, and how those that ended in the last `window_s` seconds fared."""
    states: dict[JobClass, dict[JobState, int]] = {job_class: {} for job_class in JobClass}
    present = select(JobRow.job_class, JobRow.state, func.count()).where(JobRow.last_seen.is_(None))
    for job_class, state, count in connection.execute(present.group_by(JobRow.job_class, JobRow.state)):
        states[JobClass(job_class)][JobState(state)] = count
    waiting: dict[JobClass, list[float]] = {job_class: [] for job_class in JobClass}
    pending = select(JobRow.job_class, JobRow.first_submit_time).where(
        JobRow.last_seen.is_(None), JobRow.state == JobState.PENDING.value
    )
    for job_class, submitted in connection.execute(pending):
        waiting[JobClass(job_class)].append(max(now - submitted, 0.0))
    slowdowns: dict[JobClass, list[float]] = {job_class: [] for job_class in JobClass}
    waited: dict[JobClass, list[float]] = {job_class: [] for job_class in JobClass}
    ended = select(JobRow.job_class, JobRow.waited_s, JobRow.ran_s).where(JobRow.end_time >= now - window_s)
    for job_class, waited_s, ran_s in connection.execute(ended):
        if waited_s is None or ran_s is None:
            continue
        value = slowdown(waited_s, ran_s)
        if value is not None:
            slowdowns[JobClass(job_class)].append(value)
            waited[JobClass(job_class)].append(waited_s)
    return tuple(
        QueueView(
            job_class=job_class,
            states=states[job_class],
            waiting_s=_percentiles(waiting[job_class]),
            longest_wait_s=max(waiting[job_class], default=None),
            slowdown=_percentiles(slowdowns[job_class]),
            waited_s=_percentiles(waited[job_class]),
        )
        for job_class in JobClass
    )


def _retries(connection: Connection, now: UnixSeconds) -> tuple[Retry, ...]:
    query = (
        select(JobRow.label, JobRow.user, JobMemoryRow.retry_at)
        .join(JobRow, JobRow.job_id == JobMemoryRow.job_id)
        .where(
            JobMemoryRow.retry_at > now,
            JobRow.last_seen.is_(None),
            JobRow.state == JobState.PENDING.value,
            JobRow.job_class == JobClass.TE.value,
        )
        .order_by(JobMemoryRow.retry_at, JobRow.key)
    )
    return tuple(Retry(label=row.label, user=row.user, at=row.retry_at) for row in connection.execute(query))


def trials_among(orders: ColumnElement[bool]) -> Select[int]:
    """Return the query for those of these orders that are for TE jobs; the others are turns of BE jobs."""
    ours = select(OrderRow.order_id).join(JobRow, JobRow.key == OrderRow.preemptor_key)
    return ours.where(orders, JobRow.job_class == JobClass.TE.value)


def tally_of(connection: Connection, since: UnixSeconds) -> OrderTally:
    """Return the orders that ended since then, and what they cost."""
    ended: list[Order] = []
    # That a preemption was futile is known before its order has ended, which waits for its victims.
    lately = or_(OrderRow.ended_at >= since, OrderRow.ended_at.is_(None))
    rows = rows_of(connection, select(OrderRow).where(lately))
    victims = victims_of(connection, [row.order_id for row in rows])
    known = [order_of(row, victims.get(row.order_id, ())) for row in rows]
    every = [order for order in known if order.ended_at is not None]
    trials = set(connection.scalars(trials_among(OrderRow.ended_at >= since)))
    ended = [order for order in every if order.order_id in trials]
    # However far their orders are: a victim that has left has paid.
    gone = rows_of(connection, select(VictimRow).where(VictimRow.left_at >= since))
    departed = [victim_of(row) for row in gone]
    left = [victim for victim in departed if victim.purpose is Purpose.TE]
    gave_way = [victim for victim in departed if victim.purpose is Purpose.ROUND]
    shadow = sum(order.ending is Ending.SHADOW for order in ended)
    return OrderTally(
        orders=len(ended) - shadow,
        shadow=shadow,
        started_here=sum(order.ending is Ending.STARTED_HERE for order in ended),
        futile=sum(order.futile for order in known),
        victims_left=len(left),
        victims_saved=sum(victim.departure in _SAVED for victim in left),
        died_of_notice=sum(victim.departure is Departure.DIED_OF_NOTICE for victim in left),
        ended=sum(victim.departure is Departure.ENDED for victim in left),
        lost=sum(victim.departure is Departure.LOST for victim in departed),
        stuck=_stuck(connection),
        lost_node_s=sum(lost_node_s(victim) for victim in left),
        **_notes(connection, since),
        turns=sum(order.ending is Ending.STARTED_HERE for order in every if order.order_id not in trials),
        gave_way=len(gave_way),
        turns_lost_node_s=sum(lost_node_s(victim) for victim in gave_way),
    )


def _stuck(connection: Connection) -> tuple[str, ...]:
    query = (
        select(JobRow.label, JobRow.reason)
        .join(VictimRow, VictimRow.job_key == JobRow.key)
        .where(
            VictimRow.state == VictimState.LEFT.value,
            JobRow.last_seen.is_(None),
            JobRow.state == JobState.PENDING.value,
        )
        .distinct()
        .order_by(JobRow.label)
    )
    waiting = connection.execute(query).all()
    if not waiting:
        return ()
    from tesched_core.intake.pending_reason import starts_no_more  # noqa: PLC0415 - needed for few

    return tuple(f"job {row.label}: {row.reason}" for row in waiting if starts_no_more(row.reason))


def _notes(connection: Connection, since: UnixSeconds) -> _Notes:
    """Count the notes to users that were written, and those that were not; one without an outcome counts as not."""
    query = (
        select(ActionRow.status, ActionRow.failure)
        .where(ActionRow.reason == ReasonCode.TELLS_USER.value, ActionRow.intended_at >= since)
        .where(or_(ActionRow.status.is_(None), ActionRow.status != Status.WOULD.value))
        # In the order of its key SQLite would read each action that is kept.
        .order_by(ActionRow.intended_at, ActionRow.cycle_key, ActionRow.position)
    )
    found = connection.execute(query).all()
    failed = [row.failure or "no outcome is known" for row in found if row.status != Status.SENT.value]
    return {
        "noted": len(found) - len(failed),
        "not_noted": len(failed),
        "not_noted_why": failed[-1] if failed else "",
    }
