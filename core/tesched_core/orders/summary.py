"""Summary: one line on what a cycle did and why, or why it did nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tesched_core.context import CycleContext
from tesched_core.model.actions import ReasonCode, SetField, kind_of
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.limits import YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import OrderState
from tesched_core.orders.out_of_service import awaits_in_words
from tesched_core.policy import AwaitRoom, Plan


def summary(
    plans: Sequence[Plan], context: CycleContext, waiting: Sequence[Job], memory: Memory, not_now: Sequence[Refusal]
) -> str:
    """Return the line; `waiting` and `not_now` are the TE jobs that would start, and the refusals of the others.

    Orders that await nodes which are out of service are named as long as they do.
    """
    return "; ".join((_done(plans, context, waiting, memory, not_now), *awaits_in_words(memory.open_orders())))


def _done(
    plans: Sequence[Plan], context: CycleContext, waiting: Sequence[Job], memory: Memory, not_now: Sequence[Refusal]
) -> str:
    tried_later = [one for one in not_now if one.code in {RefusalCode.FUTILE, RefusalCode.RETRY_LATER}]
    if plans:
        return "; ".join(_in_short(plan) for plan in plans)
    under_way = sum(order.state is OrderState.OPEN for order in memory.open_orders())
    filling = [action.job_id for action in context.actions if action.reason.code is ReasonCode.FILLS_ROOM]
    if filling:
        return f"brought forward {', '.join(str(job_id) for job_id in filling)}, for resources that are left over"
    shared = [
        action
        for action in context.actions
        if isinstance(action, SetField) and action.reason.code is ReasonCode.GETS_SHARE
    ]
    if shared:
        return f"shared workers anew: {', '.join(f'array {one.job_id} gets {one.value}' for one in shared)}"
    marked = next((action for action in context.actions if action.reason.code is ReasonCode.MARKS), None)
    if marked is not None:
        return marked.reason.text
    if context.actions:
        kinds = sorted({kind_of(action) for action in context.actions})
        return f"went on with the orders under way: {', '.join(kinds)}"
    if context.transitions:
        steps = [f"job {step.job_id}: {step.text}" if step.job_id else step.text for step in context.transitions]
        return "; ".join(steps)
    if waiting and context.limits.lever is YieldBy.PLUGIN:
        return f"did nothing, because Slurm frees resources by itself for {len(waiting)} waiting trial-and-error job(s)"
    if waiting:
        return f"did nothing, because no resources can be freed for {len(waiting)} waiting trial-and-error job(s)"
    if under_way:
        return f"did nothing, because {under_way} order(s) are under way"
    if tried_later:
        first, more = tried_later[0], len(tried_later) - 1
        others = f" (and {more} more)" if more else ""
        return f"did nothing, because trial-and-error job {first.job_id}{others} is to wait: {first.text}"
    return "did nothing, because no trial-and-error job waits for resources"


def _in_short(plan: Plan) -> str:
    if isinstance(plan, AwaitRoom) and plan.awaits_look:
        return f"job {plan.preemptor} is put at the head of the queue; Slurm considers it before a victim leaves"
    if isinstance(plan, AwaitRoom):
        return f"job {plan.preemptor} waits for resources to be released"
    victims = ", ".join(str(job_id) for job_id in plan.victim_ids)
    source = f" from {victims}" if victims else " (free)"
    return f"resources for job {plan.preemptor} on {','.join(plan.nodes)}{source}"
