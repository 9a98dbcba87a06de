"""Plans that Slurm does not carry out are given up: no job waits for ever for nodes that it does not get."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.order import Ending, Order

from tesched_policies.pdors.state import JobPlan

#: So many orders for a job come to nothing, of whatever cause, before it is left to Slurm.
MOST_FAILURES = 3
#: Of these one is enough: Slurm has had its time, or has said no.
_FINAL = frozenset({Ending.EXPIRED, Ending.REFUSED})
#: These are nothing that another try would not mend, or no failure.
_HARMLESS = frozenset(
    {Ending.STARTED_HERE, Ending.STARTED_ELSEWHERE, Ending.NODE_GONE, Ending.BLOCKED, Ending.WITHDRAWN, Ending.SHADOW}
)


def after_order(plan: JobPlan, order: Order | None) -> JobPlan:
    """Return the plan after its last order; one that Slurm does not hold is dropped, so that none waits for ever."""
    ending = order.ending if order is not None else None
    if order is None or ending is None or ending in _HARMLESS or order.order_id == plan.failed_order:
        return plan
    if ending is Ending.OVERTAKEN and order.victims and all(victim.noticed_at is None for victim in order.victims):
        return plan  # no job has left for it, and it may have other nodes at once
    plan = replace(plan, failures=plan.failures + 1, failed_order=order.order_id)
    if ending not in _FINAL and plan.failures < MOST_FAILURES:
        return plan
    note = "Slurm did not start it on the nodes that it was bound to; it is left to Slurm, like any other"
    return replace(plan, dropped=True, promised=False, note=note)
