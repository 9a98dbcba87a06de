"""Nodes of an order that start no jobs any more: silent for a while, out of service, or gone.

A node may be taken out of service in the very seconds between the notice to a victim and the start of the TE job: a
Prolog of another job has failed there, or an admin drains it. While a victim can be let go its order ends, and other
nodes are tried at once. Afterwards nothing is gained by that: what has left has left, and no further victim leaves for
the job for `guard.retry_after_s`. So the order goes on for `guard.order_timeout_s`: a site's health check may put the
node back in service, and until then the job is bound to none, at the head of its queue, for whatever comes free first.
Meanwhile Slurm's word is awaited for other TE jobs, as what their victims free might be its (`orders/first_look.py`).

Worked example
    Job 4 has left n1 at 09:00:00 for job 9, and at 09:00:01 a Prolog fails on n1: DRAIN. Job 9 may start anywhere. At
    09:00:20 n1 is resumed, and job 9 starts there: job 4 has not left for nothing. If n1 stays as it is, the order ends
    at 09:01:00 (node_gone).
"""

from __future__ import annotations

from tesched_core.model.capacity import Capacity
from tesched_core.model.limits import Limits
from tesched_core.model.order import Order, VictimState
from tesched_core.model.snapshot import JobClass, Snapshot

_MAY_BE_LET_GO = frozenset({VictimState.PLANNED, VictimState.NOTICED, VictimState.SUSPENDED})


def gone_nodes(order: Order, snapshot: Snapshot, capacity: Capacity) -> list[str]:
    """Return the order's nodes that start no jobs any more, but for silent ones."""
    gone = [name for name in order.nodes if name not in capacity.index or not capacity.available[capacity.index[name]]]
    return [name for name in gone if not is_silent(name, snapshot)]


def may_come_back(order: Order, snapshot: Snapshot, limits: Limits, *, awaited: bool) -> bool:
    """Check whether a TE job's order awaits its nodes: no victim can be let go any more, and the last left lately.

    With `awaited` a victim takes its time to end there. A BE job in its turn gets other nodes at once.
    """
    states = {victim.state for victim in order.victims}
    if snapshot.job_class(order.preemptor) is not JobClass.TE or not states.isdisjoint(_MAY_BE_LET_GO):
        return False
    if VictimState.REQUEUING in states:
        return awaited or snapshot.taken_at <= order.expires_at
    left_at = order.all_left_at
    return left_at is not None and snapshot.taken_at - left_at <= limits.order_timeout_s


def is_silent(name: str, snapshot: Snapshot) -> bool:
    """Check whether a node does nothing worse than not to respond, or not to have reported since slurmctld started.

    What Slurm shows of its jobs may be old then. After SlurmdTimeout it says that the node is down.
    """
    node = snapshot.nodes.get(name)
    if node is None or node.available:
        return False
    return has_not_reported(name, snapshot) or node.if_it_responds.available


def has_not_reported(name: str, snapshot: Snapshot) -> bool:
    """Check whether a node has not reported since slurmctld started, or took over; or can't be read, in this answer."""
    node = snapshot.nodes.get(name)
    return node is not None and (node.state == "UNKNOWN" or node.if_it_responds.has_not_reported)
