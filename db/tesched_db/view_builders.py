"""From rows to views."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, func, select
from tesched_core.intake.job_times import Suspensions
from tesched_core.model.actions import FailureKind, OrderId, ReasonCode, Status
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import BoundNow, RefusalCode
from tesched_core.model.enforcement import Enforcement
from tesched_core.model.not_followed import NotFollowed
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.order import PREEMPTED, Transition
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.slurm_limits import UnreadLimits
from tesched_core.model.snapshot import JobClass

from tesched_db.change_rows import refused_of
from tesched_db.clock_skew import DIFFER_S, now_of
from tesched_db.history_rows import suspensions_of
from tesched_db.lease import LATE_S
from tesched_db.lease_watch import LEASE_S, of_another_clock
from tesched_db.order_rows import order_of, victims_of
from tesched_db.rows import CHUNK, row_by_key, rows_of
from tesched_db.tables import ActionRow, CycleRow, DaemonRow, JobRow, OrderRow, RefusalRow, TransitionRow, VictimRow
from tesched_db.views import ActionView, CycleView, DaemonView, JobView, OrderView, RefusalView

_NEVER = Suspensions()


def daemon_view(connection: Connection, row: DaemonRow) -> DaemonView:
    """Return the daemon's row, which was read on this connection."""
    late_at, here, store = row.next_at + LATE_S, time.time(), now_of(connection)
    if row.stopped_at is None:
        # One that runs has a lease, by the store's clock, which another host's need not agree with. One that writes
        # soon renews a lease of another clock; until then nothing says that it still does.
        late_at = 0.0 if of_another_clock(row, store) else here + row.lease_until - store + LATE_S - LEASE_S
    # With SQLite there is one clock; and two that are read one after the other differ a little.
    ahead_s = row.clock_ahead_s + store - here if connection.dialect.name == "postgresql" else 0.0
    if abs(ahead_s) <= DIFFER_S:
        ahead_s = 0.0
    return DaemonView(
        role=row.role,
        mode=row.mode,
        pid=row.pid,
        pid_ticks=row.pid_ticks,
        place=row.lease_place,
        host=row.host,
        version=row.version,
        client=row.client,
        started_at=row.started_at,
        reported_at=row.reported_at,
        ahead_s=ahead_s,
        next_at=row.next_at,
        late_at=late_at,
        stopped_at=row.stopped_at,
        seen_at=row.seen_at,
        failure_kind=FailureKind(row.failure_kind) if row.failure_kind is not None else None,
        failure=row.failure or "",
        summary=row.summary,
        cycle=row.cycle,
        leads_since=row.lease_since,
        calls=dict(row.calls),
        told=dict(row.told) if row.told else {},
        doubtful=row.doubts["count"] if row.doubts else 0,
        doubts=tuple((label, user, why) for label, user, why in row.doubts["first"]) if row.doubts else (),
        marks_trouble=row.marks_trouble,
        admission_trouble=row.admission_trouble,
        metrics_trouble=row.metrics_trouble,
        idle_trouble=row.idle_trouble,
        new_jobs=row.new_jobs,
        leaving=row.leaving,
        enforced=msgspec.convert(row.enforced, Enforcement, strict=False) if row.enforced else None,
        limits_unread=msgspec.convert(row.limits_unread, tuple[UnreadLimits, ...], strict=False),
        refused=refused_of(row.refused),
        held=dict(row.held),
        bound=msgspec.convert(row.bound, BoundNow, strict=False) if row.bound else None,
    )


def cycle_views(connection: Connection, query: Select[CycleRow]) -> tuple[CycleView, ...]:
    """Return the cycles, in the query's order, with their actions."""
    rows = rows_of(connection, query)
    by_cycle: dict[int, list[ActionView]] = {}
    acted = select(ActionRow).where(ActionRow.cycle_key.in_([row.key for row in rows]))
    found = rows_of(connection, acted.order_by(ActionRow.cycle_key, ActionRow.position))
    for row, view in zip(found, _views_of_actions(connection, found), strict=True):
        by_cycle.setdefault(row.cycle_key, []).append(view)
    return tuple(
        CycleView(
            first_cycle=row.first_cycle,
            last_cycle=row.last_cycle,
            first_at=row.first_at,
            last_at=row.last_at,
            count=row.count,
            idle=row.idle,
            mode=row.mode,
            client=row.client,
            policy=row.policy,
            summary=row.summary,
            failure_kind=FailureKind(row.failure_kind) if row.failure_kind is not None else None,
            failure=row.failure or "",
            observe_s=row.observe_s / row.count,
            observe_max_s=row.observe_max_s,
            step_s=row.step_s / row.count,
            step_max_s=row.step_max_s,
            act_s=row.act_s,
            counts={
                JobClass(name): {JobState(state): number for state, number in states.items()}
                for name, states in row.counts.items()
            },
            actions=tuple(by_cycle.get(row.key, ())),
        )
        for row in rows
    )


def action_views(connection: Connection, query: Select[ActionRow]) -> tuple[ActionView, ...]:
    """Return the actions, in the query's order."""
    return _views_of_actions(connection, rows_of(connection, query))


def _views_of_actions(connection: Connection, rows: Sequence[ActionRow]) -> tuple[ActionView, ...]:
    names = _names(connection, [row.job_key for row in rows])
    return tuple(
        ActionView(
            intended_at=row.intended_at,
            kind=row.kind,
            job_id=JobId(row.job_id),
            label=names.get(row.job_key, (str(row.job_id), ""))[0],
            reason=ReasonCode(row.reason),
            text=row.text,
            preemptor=JobId(row.preemptor) if row.preemptor is not None else None,
            order_id=OrderId(row.order_id) if row.order_id is not None else None,
            signal=row.signal,
            value=row.value,
            previous=row.previous,
            status=Status(row.status) if row.status is not None else None,
            at=row.at,
            took_s=row.took_s,
            failure_kind=FailureKind(row.failure_kind) if row.failure_kind is not None else None,
            failure=row.failure or "",
        )
        for row in rows
    )


def job_views(connection: Connection, rows: Sequence[JobRow]) -> tuple[JobView, ...]:
    """Return these jobs."""
    looked = _looked_at(connection)
    counts: dict[int | None, int] = {}
    ran = [row.key for row in rows if row.start_time is not None and row.state != JobState.PENDING.value]
    suspended: dict[int, Suspensions] = {}
    for start in range(0, len(ran), CHUNK):
        suspended |= suspensions_of(connection, ran[start : start + CHUNK])
    for start in range(0, len(rows), CHUNK):
        went = select(VictimRow.job_key, func.count()).where(
            VictimRow.job_key.in_([row.key for row in rows[start : start + CHUNK]]),
            VictimRow.departure.in_([departure.value for departure in PREEMPTED]),
        )
        counts |= dict(connection.execute(went.group_by(VictimRow.job_key)).all())
    return tuple(
        JobView(
            key=row.key,
            job_id=JobId(row.job_id),
            label=row.label,
            name=row.name,
            user=row.user,
            account=row.account,
            partition=row.partition,
            qos=row.qos,
            job_class=JobClass(row.job_class),
            rule=row.rule,
            grace_period_s=row.grace_period_s,
            grace_source=row.grace_source,
            notice_signal=row.notice_signal,
            notice_target=Target(row.notice_target),
            notice_source=row.notice_source,
            exit0=ExitZero(row.exit0),
            elastic=row.elastic,
            ends=row.ends,
            most_preemptions=row.most_preemptions,
            not_followed=tuple(msgspec.convert(one, NotFollowed) for one in row.not_followed),
            cpus=row.cpus,
            mem_mib=row.mem_mib,
            gpus=row.gpus,
            min_nodes=row.min_nodes,
            state=JobState(row.state),
            flags=frozenset(flag for flag in row.flags.split(",") if flag),
            reason=row.reason,
            priority=row.priority,
            nice=row.nice,
            restarts=row.restarts,
            first_submit_time=row.first_submit_time,
            start_time=row.start_time,
            end_time=row.end_time,
            suspended_s=suspended.get(row.key, _NEVER).past_s,
            suspended_since=suspended.get(row.key, _NEVER).since,
            time_limit_s=row.time_limit_s,
            run_time_s=row.run_time_s,
            patience_s=row.patience_s,
            patience_until=row.patience_until,
            idle_since=row.idle_since if row.last_seen is None else None,
            nodes=tuple(row.nodes),
            first_seen=row.first_seen,
            last_seen=row.last_seen if row.last_seen is not None else looked,
            gone=row.last_seen is not None,
            preemptions=counts.get(row.key, 0),
            waited_s=row.waited_s,
            ran_s=row.ran_s,
        )
        for row in rows
    )


def order_views(connection: Connection, query: Select[OrderRow]) -> tuple[OrderView, ...]:
    """Return the orders by their id, oldest first."""
    rows = sorted(rows_of(connection, query), key=lambda row: row.order_id)
    ids = [row.order_id for row in rows]
    victims = victims_of(connection, ids)
    keys: dict[int, list[int | None]] = {}
    transitions: dict[int, list[Transition]] = {}
    for start in range(0, len(ids), CHUNK):
        some = ids[start : start + CHUNK]
        paid = select(VictimRow.order_id, VictimRow.job_key).where(VictimRow.order_id.in_(some))
        for order_id, key in connection.execute(paid.order_by(VictimRow.order_id, VictimRow.position)):
            keys.setdefault(order_id, []).append(key)
        steps = select(TransitionRow).where(TransitionRow.order_id.in_(some)).order_by(TransitionRow.key)
        for step in rows_of(connection, steps):
            transitions.setdefault(step.order_id, []).append(transition_of(step))
    names = _names(connection, [*(row.preemptor_key for row in rows), *(key for some in keys.values() for key in some)])
    views: list[OrderView] = []
    for row in rows:
        order = order_of(row, victims.get(row.order_id, ()))
        paying = [
            names.get(key, (str(victim.job_id), ""))
            for victim, key in zip(order.victims, keys.get(row.order_id, ()), strict=True)
        ]
        label, user = names.get(row.preemptor_key, (str(row.preemptor), ""))
        views.append(
            OrderView(
                order=order,
                preemptor_label=label,
                preemptor_user=user,
                victim_labels=tuple(name for name, _ in paying),
                victim_users=tuple(name for _, name in paying),
                transitions=tuple(transitions.get(row.order_id, ())),
            )
        )
    return tuple(views)


def refusal_views(connection: Connection, about: ColumnElement[bool]) -> tuple[RefusalView, ...]:
    """Return the refusals that stand; if there are none, those that were the last to stand."""
    last = connection.scalar(select(func.max(RefusalRow.last_seen)).where(about))
    stand = select(RefusalRow).where(about, RefusalRow.last_seen.is_(None)).order_by(RefusalRow.key)
    rows = rows_of(connection, stand)
    if not rows and last is not None:
        ended = select(RefusalRow).where(about, RefusalRow.last_seen == last).order_by(RefusalRow.key)
        rows = rows_of(connection, ended)
    names = _names(connection, [key for row in rows for key in (row.job_key, row.preemptor_key)])
    looked = _looked_at(connection)
    return tuple(
        RefusalView(
            job_id=JobId(row.job_id),
            job_label=names.get(row.job_key, (str(row.job_id), ""))[0],
            preemptor=JobId(row.preemptor),
            preemptor_label=names.get(row.preemptor_key, (str(row.preemptor), ""))[0],
            code=RefusalCode(row.code),
            text=row.text,
            score=row.score,
            behind=row.behind,
            more=row.more,
            first_seen=row.first_seen,
            last_seen=row.last_seen if row.last_seen is not None else looked,
            stands=row.last_seen is None,
        )
        for row in rows
    )


def _looked_at(connection: Connection) -> UnixSeconds:
    """Time of the last good poll: up to then holds what has no end. 0 if there was none."""
    daemon = row_by_key(connection, DaemonRow, 1)
    return daemon.seen_at if daemon and daemon.seen_at is not None else 0.0


def _names(connection: Connection, keys: Iterable[int | None]) -> dict[int | None, tuple[str, str]]:
    """Return label and user of these jobs, by key."""
    wanted = sorted({key for key in keys if key is not None})
    found: dict[int | None, tuple[str, str]] = {}
    for start in range(0, len(wanted), CHUNK):
        query = select(JobRow.key, JobRow.label, JobRow.user).where(JobRow.key.in_(wanted[start : start + CHUNK]))
        found.update({key: (label, user) for key, label, user in connection.execute(query)})
    return found


def transition_of(row: TransitionRow) -> Transition:
    """Return the step that a row holds."""
    return Transition(
        order_id=OrderId(row.order_id),
        at=row.at,
        job_id=JobId(row.job_id) if row.job_id is not None else None,
        before=row.before,
        after=row.after,
        text=row.text,
    )
