"""Delays of best-effort jobs by TE jobs, from what the store remembers: nothing is counted twice or lost.

Those of victims are worked out when they are read, from the times that the orders keep (`intake/delays.py`): a daemon
that is killed, a standby that takes over and a clock that is set change nothing but what those times are. Those of
bystanders are kept as sums (`orders/bystanders.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy import Connection, and_, or_, select
from tesched_core.intake.delays import Delay, delay_by, ran_again
from tesched_core.intake.job_times import StateChange
from tesched_core.model.bystander import Bystander, ended
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending, Purpose, Victim, VictimState
from tesched_core.model.resources import JobId, UnixSeconds

from tesched_db.bystander_rows import bystanders_of, te_labels
from tesched_db.delay_views import GROUPS, Cause, Delays, GroupDelay, JobDelay, Waited
from tesched_db.history_rows import changes_of
from tesched_db.order_rows import victim_of
from tesched_db.rows import CHUNK, row_by_key
from tesched_db.tables import BystanderRow, DaemonRow, JobRow, OrderRow, VictimRow
from tesched_db.views import JobStory

#: jobs of which `delays` names the causes, the most delayed ones
MOST_LISTED = 1000
_JOB_COLUMNS = select(
    JobRow.key,
    JobRow.label,
    JobRow.user,
    JobRow.account,
    JobRow.partition,
    JobRow.qos,
    JobRow.state,
    JobRow.last_seen,
)


def delay_of(story: JobStory) -> JobDelay:
    """Return the delay of this job so far."""
    job = story.job
    found = [
        (_followed(victim, view.order.ended_at, story.changes), view.preemptor_label, victim.for_user)
        for view in story.orders_as_victim
        if view.order.ending is not Ending.SHADOW
        for victim in view.order.victims
        if victim.job_id == job.job_id
    ]
    return _delay(
        job=job.label,
        user=job.user,
        account=job.account,
        partition=job.partition,
        qos=job.qos,
        state=job.state,
        found=found,
        bystander=story.bystander,
        now=job.last_seen,
    )


def delays(connection: Connection, *, since: UnixSeconds) -> Delays:
    """Return the delays of the jobs that were preempted, came back or waited since then, and of those that are away."""
    daemon = row_by_key(connection, DaemonRow, 1)
    seen_at = daemon.seen_at if daemon and daemon.seen_at is not None else 0.0
    return _of_jobs(connection, _keys(connection, since), seen_at)


def _keys(connection: Connection, since: UnixSeconds) -> Sequence[int]:
    """Return the keys of the jobs that were delayed since then, or are away."""
    of_te_jobs = select(VictimRow.job_key).where(VictimRow.purpose == Purpose.TE.value)
    found: set[int | None] = set()
    # Each time by its own index: of conditions in one query SQLite uses none, and reads each victim that is kept.
    for at in (VictimRow.left_at, VictimRow.suspended_at, VictimRow.back_at):
        found.update(connection.scalars(of_te_jobs.where(at >= since)))
    there = VictimRow.state.in_([VictimState.LEFT.value, VictimState.SUSPENDED.value])
    away = of_te_jobs.join(OrderRow, OrderRow.order_id == VictimRow.order_id).where(
        OrderRow.ended_at.is_(None), there, VictimRow.given_up_at.is_(None)
    )
    found.update(connection.scalars(away))
    waited = or_(BystanderRow.until >= since, and_(BystanderRow.since.is_not(None), BystanderRow.in_memory.is_(True)))
    found.update(connection.scalars(select(BystanderRow.job_key).where(waited)))
    return sorted(key for key in found if key is not None)


def _of_jobs(connection: Connection, keys: Sequence[int], seen_at: UnixSeconds) -> Delays:
    """Return the delays of these jobs, all that waited in a day, and the causes of few."""
    found: list[tuple[JobDelay, int]] = []
    victims: dict[int, list[tuple[Victim, str, str]]] = {}
    for start in range(0, len(keys), CHUNK):
        some = keys[start : start + CHUNK]
        victims |= _victims(connection, some)
        bystanders = bystanders_of(connection, some, sums_alone=True)
        # The bystanders of jobs that are gone have ended.
        waited = {key: _waited(one, {}, seen_at) for key, one in bystanders.items()}
        found += _delays_of(connection, some, victims, waited, seen_at)
    found.sort(key=lambda pair: (-pair[0].delay.total_s, pair[0].job))
    most = [key for _, key in found[:MOST_LISTED]]
    named: list[tuple[JobDelay, int]] = []
    for start in range(0, len(most), CHUNK):
        some = most[start : start + CHUNK]
        bystanders = bystanders_of(connection, some)
        labels = te_labels(connection, bystanders.values())
        waited = {key: _waited(one, labels, seen_at) for key, one in bystanders.items()}
        named += _delays_of(connection, some, victims, waited, seen_at)
    named.sort(key=lambda pair: (-pair[0].delay.total_s, pair[0].job))
    return Delays(
        jobs=tuple(job for job, _ in named),
        groups=tuple(_groups([job for job, _ in found])),
        count=len(found),
        waiting=sum(job.waits_since is not None for job, _ in found),
        mean_s=sum(job.delay.total_s for job, _ in found) / len(found) if found else 0.0,
    )


def _delays_of(
    connection: Connection,
    keys: Sequence[int],
    victims: Mapping[int, Sequence[tuple[Victim, str, str]]],
    waited: Mapping[int, Waited],
    seen_at: UnixSeconds,
) -> Iterator[tuple[JobDelay, int]]:
    """Yield the delays of those of these jobs that are delayed by other users, each with the job's key."""
    for row in connection.execute(_JOB_COLUMNS.where(JobRow.key.in_(keys))):
        now = seen_at if row.last_seen is None else row.last_seen
        one = _delay(
            job=row.label,
            user=row.user,
            account=row.account,
            partition=row.partition,
            qos=row.qos,
            state=JobState(row.state),
            found=victims.get(row.key, ()),
            bystander=waited.get(row.key, Waited()),
            now=now,
        )
        if one.delay.total_s > 0:
            yield one, row.key


def _victims(connection: Connection, keys: Sequence[int]) -> dict[int, list[tuple[Victim, str, str]]]:
    """Return these jobs as victims, each with its TE job and the user of that, by the jobs' keys."""
    query = (
        select(VictimRow, OrderRow.preemptor, OrderRow.ended_at, JobRow.label)
        .join(OrderRow, OrderRow.order_id == VictimRow.order_id)
        .outerjoin(JobRow, JobRow.key == OrderRow.preemptor_key)
        .where(VictimRow.job_key.in_(keys))
        .where(or_(OrderRow.ending.is_(None), OrderRow.ending != Ending.SHADOW.value))
        .order_by(VictimRow.order_id, VictimRow.position)
    )
    found: dict[int, list[tuple[Victim, str, str]]] = defaultdict(list)
    rows = connection.execute(query).all()
    withdrawn = {row.job_key for row in rows if row.ended_at is not None and row.back_at is None}
    changes = changes_of(connection, [key for key in withdrawn if key is not None])
    for row in rows:
        key = row.job_key
        victim = _followed(victim_of(row), row.ended_at, changes.get(key, ()))
        found[key].append((victim, row.label or str(row.preemptor), victim.for_user))
    return found


def waited_of(connection: Connection, key: int, now: UnixSeconds) -> Waited:
    """Return the delay of one job as a bystander, until now."""
    found = bystanders_of(connection, [key]).get(key)
    return Waited() if found is None else _waited(found, te_labels(connection, [found]), now)


def _waited(one: Bystander, labels: Mapping[JobId, str], now: UnixSeconds) -> Waited:
    sums = ended(one, now)
    return Waited(
        delay_s=sums.delayed_s,
        by_own_user_s=sums.by_own_user_s,
        parts=tuple((labels.get(part.job_id, str(part.job_id)), part.user, part.seconds) for part in sums.shares),
        since=one.since,
        by=tuple(labels.get(te.job_id, str(te.job_id)) for te in one.by),
    )


def _followed(victim: Victim, ended_at: UnixSeconds | None, changes: Iterable[StateChange]) -> Victim:
    """Return the victim; of an order that has ended, as its job's changes show it."""
    return victim if ended_at is None else ran_again(victim, changes)


def _delay(
    *,
    job: str,
    user: str,
    account: str,
    partition: str,
    qos: str,
    state: JobState,
    found: Iterable[tuple[Victim, str, str]],
    bystander: Waited,
    now: UnixSeconds,
) -> JobDelay:
    by_job: dict[tuple[str, str], Delay] = defaultdict(Delay)
    both = {True: Delay(bystander_s=bystander.by_own_user_s), False: Delay(bystander_s=bystander.delay_s)}
    for label, name, seconds in bystander.parts:
        by_job[label, name] += Delay(bystander_s=seconds)
    for victim, preemptor, for_user in found:
        delay = delay_by(victim, now)
        if delay.total_s > 0:
            by_job[preemptor, for_user] += delay
            both[victim.of_own_user] += delay
    causes = [Cause(job=label, user=name, delay=delay) for (label, name), delay in by_job.items()]
    return JobDelay(
        job=job,
        user=user,
        account=account,
        partition=partition,
        qos=qos,
        state=state,
        delay=both[False],
        by_own_user=both[True],
        waits_since=bystander.since,
        waits_for=bystander.by,
        causes=tuple(sorted(causes, key=lambda one: (-one.delay.total_s, one.job))),
    )


def _groups(jobs: Sequence[JobDelay]) -> Iterable[GroupDelay]:
    for by in GROUPS:
        totals: dict[str, list[float]] = defaultdict(list)
        for job in jobs:
            totals[getattr(job, by)].append(job.delay.total_s)
        found = [
            GroupDelay(by=by, name=name, jobs=len(values), mean_s=sum(values) / len(values), most_s=max(values))
            for name, values in totals.items()
        ]
        yield from sorted(found, key=lambda one: (-one.mean_s, one.name))
