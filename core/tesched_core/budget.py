"""What preemptions have cost lately, and of whom: for limits by hour, user, account and node, and for the day's budget.

A preemption counts from the moment at which its victim is asked; it is not counted if the victim is let go. Its cost is
the node-seconds of the run that it ends, as if nothing of it had been saved: tesched does not know what a job saves.
A victim that is suspended counts as well, and costs nothing: its run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tesched_core.orders import HOLDS_ROOM, Order, Victim, VictimState
from tesched_core.resources import JobId, UnixSeconds

HOUR_S = 3600.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """One victim's payment."""

    at: UnixSeconds
    job_id: JobId
    user: str
    account: str
    nodes: tuple[str, ...]
    #: node-seconds of the run that ended
    node_s: float


def lately(paid: Iterable[Paid], now: UnixSeconds) -> tuple[Paid, ...]:
    """Return the payments of the last day: older ones count for nothing."""
    return tuple(one for one in paid if now - one.at < DAY_S)


def paying(victim: Victim, now: UnixSeconds) -> Paid:
    """Return what a victim that leaves at this moment pays."""
    return Paid(
        at=now,
        job_id=victim.job_id,
        user=victim.user,
        account=victim.account,
        nodes=victim.nodes,
        node_s=0.0 if victim.state is VictimState.SUSPENDED else len(victim.nodes) * max(now - victim.started_at, 0.0),
    )


@dataclass(slots=True)
class Tally:
    """Payments of the last hour by whom and where, and the node-seconds of the last day."""

    count: int
    by_user: Counter[str]
    by_account: Counter[str]
    by_node: Counter[str]
    node_s: float

    @staticmethod
    def of(paid: Iterable[Paid], orders: Iterable[Order], now: UnixSeconds) -> Tally:
        """Return the tally of what was paid, and of what those pay who are asked now."""
        tally = Tally(count=0, by_user=Counter(), by_account=Counter(), by_node=Counter(), node_s=0.0)
        for one in (*paid, *_under_way(orders, now)):
            tally.add(one, now)
        return tally

    def add(self, one: Paid, now: UnixSeconds) -> None:
        """Count one more."""
        if now - one.at < DAY_S:
            self.node_s += one.node_s
        if now - one.at < HOUR_S:
            self.count += 1
            self.by_user[one.user] += 1
            self.by_account[one.account] += 1
            self.by_node.update(one.nodes)


def _under_way(orders: Iterable[Order], now: UnixSeconds) -> Iterator[Paid]:
    for order in orders:
        for victim in order.victims:
            # Once it is seen suspended it has paid.
            asked = victim.state is VictimState.SUSPENDED and victim.suspended_at is None
            if victim.state in HOLDS_ROOM or asked:
                yield paying(victim, now)
