"""Lever interface: one of Slurm's levers, how a change by it is followed, and how it is put back.

A lever that sets a field of jobs keeps a `Change` for each, in `context.changes`, until the job is seen to be as it was
before, or to have ended (`reconcile.py`); the others let victims leave and come back (`orders/`). `step`, `undo`,
the outcomes, clock jumps and `tesched status` go over all levers (`orders/levers.py`) and know none of them by name.
docs/howto/add-a-lever.md adds one.

Rules that each lever keeps:

- A change is believed when it is seen, and so is its end: a command that got no answer may have arrived.
- What others have set since is theirs, and is left.
- A job that the snapshot does not show (`context.absent`) is left until it is shown again, or believed to be gone.
- In shadow mode nothing was changed, so nothing is put back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

from tesched_core.context import CycleContext
from tesched_core.model.actions import Action, FailureKind, OrderId, Outcome, Status
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

#: The orders by their ids, those that ended in this cycle among them; levers write what becomes of their victims.
Orders: TypeAlias = dict[OrderId, Order]

#: Failures after which it is not known whether the command arrived.
MAY_HAVE_ARRIVED = frozenset({FailureKind.UNREACHABLE, FailureKind.UNKNOWN})


class Lever(ABC):
    """Lever of Slurm. It holds no state: that is in the changes, and in the orders' victims."""

    #: under which its changes are kept: the field that it sets
    name: ClassVar[str]
    #: the intents of policies that it carries out; empty: orders alone move it
    intents: ClassVar[tuple[type[Any], ...]] = ()

    def follow(self, context: CycleContext) -> None:
        """Drop or correct the changes by what the snapshot shows, before a policy proposes."""

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Carry the intents of this cycle out, and put back what neither an intent nor an order wants any more."""

    @abstractmethod
    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put back all that it has changed, or ask for that once more; forget each change once that is seen."""

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in what became of the actions; what certainly did not reach the job is taken back."""

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count its changes that are to be put back, and can be."""
        return sum(not change.restored for change in memory.changes_of(self.name).values())


def certainly_failed(outcome: Outcome) -> bool:
    """Check whether the action did not reach the job for certain."""
    kind = outcome.failure.kind if outcome.failure else None
    refused = outcome.status is Status.FAILED and kind not in MAY_HAVE_ARRIVED
    return refused or outcome.status is Status.SKIPPED


def under_way(orders: Mapping[OrderId, Order]) -> Iterator[Order]:
    """Yield the orders that have not ended, oldest first."""
    return (order for _, order in sorted(orders.items()) if order.ended_at is None)


def open_now(orders: Mapping[OrderId, Order]) -> Iterator[Order]:
    """Yield the orders whose preemptors wait for resources, oldest first."""
    return (order for order in under_way(orders) if order.state is OrderState.OPEN)


def of_failed(
    outcome: Outcome,
    kind: type[Action] | tuple[type[Action], ...],
    orders: Mapping[OrderId, Order],
    *,
    or_recorded: bool = False,
) -> Order | None:
    """Return the order under way whose action of this kind failed, or was skipped; None for any other outcome."""
    order_id = outcome.action.reason.order_id
    not_sent = {Status.SKIPPED, Status.WOULD} if or_recorded else {Status.SKIPPED}
    failed = isinstance(outcome.action, kind) and outcome.status in {Status.FAILED, *not_sent}
    order = orders.get(order_id) if failed and order_id is not None else None
    return order if order is not None and order.state is not OrderState.ENDED else None


def with_victim(order: Order, job_id: JobId, changed: Callable[[Victim], Victim]) -> Order:
    """Return the order after one victim of it has changed."""
    return replace(order, victims=tuple(changed(one) if one.job_id == job_id else one for one in order.victims))


def final(outcome: Outcome) -> bool:
    """Check whether Slurm will say no again."""
    kind = outcome.failure.kind if outcome.failure else None
    return kind in {FailureKind.DENIED, FailureKind.REFUSED}


def said(outcome: Outcome) -> str:
    """Answer of Slurm, one line."""
    return outcome.failure.message if outcome.failure else "skipped"
