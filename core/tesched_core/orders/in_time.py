"""Time of an order: how long it lasts, and whether its job would still start in time once its victims have left.

The latter only while a victim may yet be let go: a reservation may have been made since the order was, or the order has
waited.
"""

from __future__ import annotations

from collections.abc import Iterable

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job
from tesched_core.model.order import Order, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.placement.latest_start import leaves_within_s, why_too_late


def lasts_s(preemptor: JobId, victims: Iterable[Victim], context: CycleContext) -> float:
    """Seconds within which the preemptor must have started, from the notices to its victims on."""
    settings, longest, moves_s = context.snapshot.settings, 0.0, 0.0
    for victim in victims:
        longest = max(longest, victim.grace_period_s)
        moves_s = settings.requeue_delay_s if victim.job_id == preemptor else moves_s
    return longest + settings.kill_wait_s + context.limits.order_timeout_s + moves_s


def why_not_in_time(order: Order, job: Job, context: CycleContext) -> str:
    """Reason that Slurm would not start the order's job there any more, in words; empty: it may, or all are leaving.

    One that has had its notice may leave at any time; one that has not, within its grace period and KillWait.
    """
    settings = context.snapshot.settings
    wait_s = [
        leaves_within_s(one, settings.kill_wait_s) if one.state is VictimState.PLANNED else 0.0
        for one in order.victims
        if one.state in {VictimState.PLANNED, VictimState.NOTICED} and not one.by_suspending
    ]
    if not wait_s:
        return ""
    moves_s = settings.requeue_delay_s if any(one.job_id == order.preemptor for one in order.victims) else 0
    why = why_too_late(job, order.nodes, context.now + max(wait_s) + moves_s, context.snapshot)
    return "" if why is None else why[1]
