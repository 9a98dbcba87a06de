"""Cost of recent preemptions, by job, user, account and node: for the limits by hour and the day's budget.

Each purpose has a budget of its own: what rounds (gavel, pdors) move is not taken from what TE jobs may cause.

A preemption counts from the moment at which its victim is asked, however the victim ends; it is not counted if the
victim is let go. It counts for the victim's user and account, and for the TE job's, which causes it. One for a TE job
of the victim's own user counts for that TE job and its user alone: by own jobs no user uses up a limit that protects
others, nor closes nodes to others' TE jobs. Its cost is
the node-seconds of the run that it ends, as if nothing of it had been saved: tesched does not know what a job saves.
A victim that is suspended counts as well, and costs nothing: its run goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tesched_core.model.order import HOLDS_ROOM, Departure, Order, Purpose, Victim, VictimState
from tesched_core.model.payment import DAY_S, HOUR_S, Paid
from tesched_core.model.resources import JobId, UnixSeconds


def lately(paid: Iterable[Paid], now: UnixSeconds) -> tuple[Paid, ...]:
    """Return the payments of the last day: older ones count for nothing."""
    return tuple(one for one in paid if now - one.at < DAY_S)


#: Departures of runs that came to an end of their own: nothing of them is lost by the notice.
_BY_ITSELF = frozenset({Departure.FINISHED, Departure.DIED})


def paying(victim: Victim, now: UnixSeconds, preemptor: JobId | None = None, *, withdrawn: bool = False) -> Paid:
    """Return what a victim that leaves at this moment, or has just left, pays; with `withdrawn`, that it stays."""
    free = withdrawn or victim.state is VictimState.SUSPENDED or victim.departure in _BY_ITSELF
    return Paid(
        at=now,
        job_id=victim.job_id,
        user=victim.user,
        account=victim.account,
        nodes=victim.nodes,
        node_s=0.0 if free else len(victim.nodes) * max(now - victim.started_at, 0.0),
        preemptor=preemptor,
        for_user=victim.for_user,
        for_account=victim.for_account,
        purpose=victim.purpose,
        withdrawn=withdrawn,
    )


@dataclass(slots=True)
class Tally:
    """Payments of one purpose: the last hour's by job, user, account and node, and the last day's node-seconds."""

    count: int
    by_user: Counter[str]
    by_account: Counter[str]
    by_node: Counter[str]
    node_s: float
    #: what caused it: the TE job, its user, its account
    by_preemptor: Counter[JobId] = field(default_factory=Counter)
    by_te_user: Counter[str] = field(default_factory=Counter)
    by_te_account: Counter[str] = field(default_factory=Counter)
    by_job: Counter[JobId] = field(default_factory=Counter)

    @staticmethod
    def of(paid: Iterable[Paid], orders: Iterable[Order], now: UnixSeconds, purpose: Purpose = Purpose.TE) -> Tally:
        """Return the tally of what was paid for this purpose, and of what victims under notice pay."""
        tally = Tally(count=0, by_user=Counter(), by_account=Counter(), by_node=Counter(), node_s=0.0)
        for one in (*paid, *under_way(orders, now)):
            if one.purpose is purpose:
                tally.add(one, now)
        return tally

    def copy(self) -> Tally:
        """Return the same, to be counted on by itself."""
        return replace(
            self,
            by_user=self.by_user.copy(),
            by_account=self.by_account.copy(),
            by_node=self.by_node.copy(),
            by_preemptor=self.by_preemptor.copy(),
            by_te_user=self.by_te_user.copy(),
            by_te_account=self.by_te_account.copy(),
            by_job=self.by_job.copy(),
        )

    def add(self, one: Paid, now: UnixSeconds) -> None:
        """Count one more."""
        if one.withdrawn:
            return
        if one.of_own_user:
            if now - one.at < HOUR_S and one.preemptor is not None:
                self.by_preemptor[one.preemptor] += 1
                self.by_te_user[one.for_user] += 1
            return
        if now - one.at < DAY_S:
            self.node_s += one.node_s
        if now - one.at < HOUR_S:
            self.count += 1
            self.by_user[one.user] += 1
            self.by_account[one.account] += 1
            self.by_node.update(one.nodes)
            self.by_job[one.job_id] += 1
            if one.preemptor is not None and one.for_user:
                self.by_preemptor[one.preemptor] += 1
                self.by_te_user[one.for_user] += 1
                self.by_te_account[one.for_account] += 1


def under_way(orders: Iterable[Order], now: UnixSeconds) -> Iterator[Paid]:
    """Yield what victims that are yet to leave pay."""
    for order in orders:
        for victim in order.victims:
            # Once it is seen suspended it has paid.
            asked = victim.state is VictimState.SUSPENDED and victim.suspended_at is None
            if victim.state in HOLDS_ROOM or asked:
                yield paying(victim, now, order.preemptor)
