"""Cost of recent preemptions, by job, user, account and node: for the limits by hour and the day's budget.

Each purpose has a budget of its own: what rounds (gavel, pdors) move is not taken from what TE jobs may cause.

A preemption counts from the moment at which its victim is notified, however the victim ends; it is not counted if the
victim is let go. It counts for the victim's user and account, and for the TE job's, which causes it. One for a TE job
of the victim's own user counts for that TE job and its user alone: by own jobs no user uses up a limit that protects
others, nor closes nodes to others' TE jobs. Its cost is the node-seconds that it may lose (`lost_s`): of a job that was
given no notice all of its run, as tesched does not know what it has saved; of one that was sent the signal that it
declared, what it ran after that, unless it dies of it. A victim that is suspended counts as well, and costs nothing:
its run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum, auto

from tesched_core.model.order import HOLDS_RESOURCES, Departure, Order, Purpose, Victim, VictimState
from tesched_core.model.payment import DAY_S, HOUR_S, Paid, lost_s
from tesched_core.model.resources import JobId, UnixSeconds


def lately(paid: Iterable[Paid], now: UnixSeconds) -> tuple[Paid, ...]:
    """Return the payments of the last day: older ones count for nothing."""
    return tuple(one for one in paid if now - one.at < DAY_S)


#: Departures of runs that came to an end of their own: nothing of them is lost by the notice.
_BY_ITSELF = frozenset({Departure.FINISHED, Departure.DIED})


def paying(victim: Victim, now: UnixSeconds, preemptor: JobId | None = None, *, withdrawn: bool = False) -> Paid:
    """Cost of a victim that leaves at this moment, or has just left; nothing if `withdrawn`: it stays."""
    free = withdrawn or victim.state is VictimState.SUSPENDED or victim.departure in _BY_ITSELF
    since = now if victim.noticed_at is None else victim.noticed_at
    # Once it has left its time is known; until then it may be all of its grace period, or is more already.
    after_s = max(now - since, victim.grace_period_s if victim.departure is None else 0.0)
    lost = lost_s(since - victim.started_at, after_s, saves=not victim.loses_run)
    return Paid(
        at=now,
        job_id=victim.job_id,
        user=victim.user,
        account=victim.account,
        nodes=victim.nodes,
        node_s=0.0 if free else len(victim.nodes) * float(lost),
        preemptor=preemptor,
        for_user=victim.for_user,
        for_account=victim.for_account,
        purpose=victim.purpose,
        withdrawn=withdrawn,
    )


class CountedBy(StrEnum):
    """What a limit counts by."""

    ALL = auto()
    USER = auto()
    ACCOUNT = auto()
    NODE = auto()
    VICTIM = auto()
    #: what caused it: the TE job, its user, its account
    TE_JOB = auto()
    TE_USER = auto()
    TE_ACCOUNT = auto()


#: One count: of all (with ""), of a user, an account, a node by its name, of a job by its id.
Counted = tuple[CountedBy, str | JobId]


def counted(one: Paid) -> Iterator[Counted]:
    """Counts to which a payment adds one: of a user or an account only if there is one.

    Without accounting no job has an account, and a limit of each account's is none of all jobs together.
    """
    if one.withdrawn:
        return
    if not one.of_own_user:
        yield CountedBy.ALL, ""
        if one.user:
            yield CountedBy.USER, one.user
        if one.account:
            yield CountedBy.ACCOUNT, one.account
        yield CountedBy.VICTIM, one.job_id
        for node in one.nodes:
            yield CountedBy.NODE, node
    if one.preemptor is None:
        return
    yield CountedBy.TE_JOB, one.preemptor
    if one.for_user:
        yield CountedBy.TE_USER, one.for_user
    if one.for_account and not one.of_own_user:
        yield CountedBy.TE_ACCOUNT, one.for_account


def cost(one: Paid) -> float:
    """Node-seconds that a payment takes from the day's budget."""
    return 0.0 if one.withdrawn or one.of_own_user else one.node_s


@dataclass(slots=True)
class Tally:
    """Payments of one purpose: the counts of the last hour, and the node-seconds of the last day."""

    counts: Counter[Counted] = field(default_factory=Counter)
    node_s: float = 0.0

    @staticmethod
    def of(paid: Iterable[Paid], orders: Iterable[Order], now: UnixSeconds, purpose: Purpose = Purpose.TE) -> Tally:
        """Tally of what was paid for this purpose, and of what victims under notice pay."""
        tally = Tally()
        for one in (*paid, *under_way(orders, now)):
            if one.purpose is purpose:
                tally.add(one, now)
        return tally

    def add(self, one: Paid, now: UnixSeconds) -> None:
        """Count one more."""
        if now - one.at < DAY_S:
            self.node_s += cost(one)
        if now - one.at < HOUR_S:
            self.counts.update(counted(one))


def under_way(orders: Iterable[Order], now: UnixSeconds) -> Iterator[Paid]:
    """Yield what victims that are yet to leave pay."""
    for order in orders:
        for victim in order.victims:
            # Once it is seen suspended it has paid.
            asked = victim.state is VictimState.SUSPENDED and victim.suspended_at is None
            if victim.state in HOLDS_RESOURCES or asked:
                yield paying(victim, now, order.preemptor)
