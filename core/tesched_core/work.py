"""What one step works on: the orders' advance is written here while it runs, then read."""

from __future__ import annotations

from dataclasses import dataclass, field

from tesched_core.actions import Action, OrderId
from tesched_core.budget import Paid
from tesched_core.decision import Bound, Past
from tesched_core.guard import Limits
from tesched_core.orders import Order, Transition
from tesched_core.overview import Overview
from tesched_core.resources import JobId, UnixSeconds
from tesched_core.snapshot import Snapshot

#: Seconds after which a command is sent again if the cluster still does not show its effect; KillWait comes on top of
#: it for a requeue.
RESEND_AFTER_S = 5.0


@dataclass
class Advance:
    """The orders after this snapshot, and what follows from it. Filled while one step runs, then read."""

    snapshot: Snapshot
    overview: Overview
    limits: Limits
    #: jobs that orders make room for: none of them has to be ahead of another
    preemptors: set[JobId] = field(default_factory=set)
    #: those under way when the step began
    orders: tuple[Order, ...] = ()
    #: nodes at which a suspended victim goes on in this very cycle
    resumed_on: set[str] = field(default_factory=set)
    #: victims that wait to run again: none of them has to be ahead of another
    returning: set[JobId] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    preemptions: dict[JobId, int] = field(default_factory=dict)
    last_preempted: dict[JobId, UnixSeconds] = field(default_factory=dict)
    paid: list[Paid] = field(default_factory=list)
    past: dict[JobId, Past] = field(default_factory=dict)
    retry_at: dict[JobId, UnixSeconds] = field(default_factory=dict)
    bound: dict[JobId, Bound] = field(default_factory=dict)

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    def moved(self, order_id: OrderId, job_id: JobId | None, before: str, after: str, text: str) -> None:
        """Record one transition."""
        self.transitions.append(
            Transition(order_id=order_id, at=self.now, job_id=job_id, before=before, after=after, text=text)
        )
