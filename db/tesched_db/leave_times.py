"""Times that past victims took to leave: read from the orders, so that nothing else need be stored."""

from __future__ import annotations

from sqlalchemy import Connection, select
from tesched_core.intake.leave_times import (
    MOST_PAIRS,
    MOST_TIMES,
    ending_s,
    leave_time_s,
    with_ending_times,
    with_leave_times,
)
from tesched_core.model.order import Departure
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import EndingTimes, LeaveTimes

from tesched_db.order_rows import victim_of
from tesched_db.rows import rows_of
from tesched_db.tables import JobRow, VictimRow

#: victims that are read at a daemon's start, the latest; and those among which they are searched for
MOST_VICTIMS = MOST_PAIRS
MOST_SEARCHED = 4 * MOST_VICTIMS


def load(connection: Connection, *, of: tuple[str, str] | None = None) -> LeaveTimes:
    """Return the leave times of the latest victims, by user and job name; `of` asks for one pair alone.

    A job that the store has forgotten has no name any more, and does not count.
    """
    query = (
        select(VictimRow, JobRow.user.label("owner"), JobRow.name.label("job_name"))
        .join(JobRow, JobRow.key == VictimRow.job_key)
        .where(
            VictimRow.left_at >= _searched_since(connection),
            VictimRow.notice_signal == "",
            VictimRow.departure == Departure.REQUEUED.value,
            VictimRow.by_suspending.is_(False),
        )
    )
    if of is not None:
        query = query.where(JobRow.user == of[0], JobRow.name == of[1])
    newest = query.order_by(VictimRow.left_at.desc(), VictimRow.order_id.desc(), VictimRow.position.desc())
    seen = [
        ((row.owner, row.job_name), took_s)
        for row in connection.execute(newest.limit(MOST_VICTIMS if of is None else MOST_TIMES))
        if (took_s := leave_time_s(victim_of(row))) is not None
    ]
    return with_leave_times({}, reversed(seen))


def load_ending_times(connection: Connection) -> EndingTimes:
    """Return for how long the latest victims were ending on each node."""
    newest = (
        select(VictimRow)
        .where(VictimRow.ending_since.is_not(None), VictimRow.left_at >= _searched_since(connection))
        .order_by(VictimRow.left_at.desc(), VictimRow.order_id.desc(), VictimRow.position.desc())
        .limit(MOST_VICTIMS)
    )
    victims = [victim_of(row) for row in rows_of(connection, newest)]
    seen = [(one.nodes, took_s) for one in victims if (took_s := ending_s(one)) is not None]
    return with_ending_times({}, reversed(seen))


def _searched_since(connection: Connection) -> UnixSeconds:
    """Time of the first of the latest `MOST_SEARCHED` victims to leave: where few teach anything, no more are read."""
    newest = select(VictimRow.left_at).where(VictimRow.left_at >= 0.0).order_by(VictimRow.left_at.desc())
    return connection.scalar(newest.offset(MOST_SEARCHED - 1).limit(1)) or 0.0
