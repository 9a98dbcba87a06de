"""Reinforcement of orders after others have taken resources that were being freed for them.

What is free on a node counts towards a plan, and until the victims have left, Slurm's backfill may give it to a
job that it expects to be gone before the trial can start there: the trial is bound to that node and first in the queue,
but backfill goes by time limits, and knows nothing of an order. Then the victims would leave for nothing.

So while the trial is bound to its nodes, the policy proposes once more, for that trial and those nodes alone. A job
that came after the order was made may be a victim, though it has not run for guard.min_run_time_s yet: it has lost next
to nothing, and it sits on what was reserved. All other limits hold.

Nodes that are free elsewhere by then come first: the trial is bound to those instead, and no other job pays. So it is
where no job on its nodes may be a victim and its victims have left, as when another trial was backfilled there: then
the policy proposes nodes anywhere.

An order without victims, as its nodes were free, goes back to waiting if these are taken (`reopened`).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.of_orders import carry_out
from tesched_core.guard.admission import admitted
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.decision import Refusal, Refusals
from tesched_core.model.field import Field, Nodes
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, Order, OrderState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.advance import give_notice
from tesched_core.orders.ask import ask
from tesched_core.orders.open import victim_of
from tesched_core.placement.reserved import capacity_after_orders
from tesched_core.policy import ChosenVictim, MakeRoom, Policy, View

#: stands for no job
_NOBODY = JobId(-1)


def add_victims(
    memory: Memory, context: CycleContext, policy: Policy[Any], state: object, limits: Limits
) -> tuple[Memory, Refusals, int]:
    """Return the memory in which robbed orders have more victims, the refusals of the others, and the number added.

    The notices go to `context`. An order without a new victim stays as it is: the job that took its resources may end.
    """
    refusals = Refusals()
    asked = 0
    for order in memory.open_orders():
        trial = context.snapshot.jobs.get(order.preemptor)
        if trial is None or not _robbed(order, trial, memory, context):
            continue
        others = [one if one is not order else replace(one, preemptor=_NOBODY) for one in memory.open_orders()]
        newcomers = _newcomers(order, memory, context.columns)
        running, nodes = context.columns.running, context.columns.capacity.index
        eligible = eligible_victims(
            running,
            memory,
            limits,
            context.now,
            nodes,
            newcomers=newcomers,
            deadlines=context.deadlines,
            snapshot=context.snapshot,
        )
        view = View(
            snapshot=context.snapshot,
            memory=memory,
            columns=context.columns,
            # The order is open already, and takes no place of another one; its victims are to leave for good.
            limits=replace(limits, max_open_orders=limits.max_open_orders + 1, lever=YieldBy.REQUEUE),
            waiting=(trial,),
            reserving=tuple(others),
            deadlines=context.deadlines,
            find_eligible=lambda: eligible,  # noqa: B023 - it is read in this turn of the loop
        )
        unbound = replace(trial, request=memory.own_request(trial))
        anywhere, _ = _asked(replace(view, waiting=(unbound,)), policy, state, asked)
        elsewhere = next(iter(anywhere), None)
        if elsewhere is not None and not elsewhere.victims and not _in_the_way(elsewhere, trial, context):
            memory = _moved(order, elsewhere, memory, context)
            continue
        plans, why_not = _asked(view, policy, state, asked)
        plan = next((one for one in plans if one.victims and set(one.nodes) == set(order.nodes)), None)
        leaving = any(victim.state in HOLDS_RESOURCES for victim in order.victims)
        if plan is not None:
            asked += len(plan.victims)
            memory = _with_more(order, plan.victims, memory, context)
        elif elsewhere is not None and elsewhere.victims and not leaving:
            asked += len(elsewhere.victims)
            memory = _moved(order, elsewhere, memory, context)
        else:
            refusals += why_not
    return memory, refusals, asked


def _in_the_way(plan: MakeRoom, trial: Job, context: CycleContext) -> bool:
    """Check whether the trial would keep a best-effort job there waiting for longer than it may be delayed."""
    return context.deadlines is not None and context.deadlines.why_te_waits(trial, on=plan.nodes) is not None


def reopened(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory in which orders without victims wait again if their nodes are taken."""
    orders = dict(memory.orders)
    capacity = context.columns.capacity
    for order in memory.open_orders():
        trial = context.snapshot.jobs.get(order.preemptor)
        rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
        mine = order.frees_resources and not order.victims and trial is not None and trial.pending
        if not mine or not rows or context.snapshot.job_class(order.preemptor) is not JobClass.TE:
            continue
        if _is_short(order, rows, memory, context):
            text = f"other jobs have taken the resources that were free on {','.join(order.nodes)}; others are searched"
            waits = replace(order, nodes=(), waits_until=context.now)
            orders[order.order_id] = context.order_step(order, waits, text)
    return memory if orders == memory.orders else replace(memory, orders=orders)


def _asked(view: View, policy: Policy[Any], state: object, asked: int) -> tuple[list[MakeRoom], Refusals]:
    """Return the plans that the guard admits, and the refusals of the others."""
    proposal, _ = ask(policy, view, state)  # what went wrong is said when it proposes for all
    dropped: list[Refusal] = []
    admissible = admitted(proposal.plans, view, view.limits, dropped.append, asked=asked)
    plans = [plan for plan in admissible if isinstance(plan, MakeRoom) and not plan.by_suspending]
    return plans, proposal.refusals + Refusals(dropped)


def _robbed(order: Order, trial: Job, memory: Memory, context: CycleContext) -> bool:
    """Check whether the trial waits bound to these nodes, and will not fit there when its victims have left."""
    bound: Change[Nodes] | None = memory.changes_of(Field.NODES).get(order.preemptor)
    waits_here = (
        order.state is OrderState.OPEN
        and bool(order.victims)
        and not any(victim.by_suspending for victim in order.victims)
        and trial.pending
        and context.snapshot.job_class(order.preemptor) is JobClass.TE
        and bound is not None
        and not bound.restored
        and bound.order_id == order.order_id
        and tuple(sorted(trial.request.required_nodes)) == bound.value.names
        and (context.now - _first_asked(order, context.now) <= context.limits.bind_for_s or context.is_awaited(order))
    )
    capacity = context.columns.capacity
    rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
    if not waits_here or len(rows) < len(order.nodes):
        return False
    if not _is_short(order, rows, memory, context):
        return False
    # A job that is just leaving gives its resources back by itself.
    ours = {victim.job_id for victim in order.victims if victim.state in HOLDS_RESOURCES}
    here = set(order.nodes)
    return not any(
        job.completing and job.job_id not in ours and not here.isdisjoint(job.nodes)
        for job in context.snapshot.jobs.values()
    )


def _is_short(order: Order, rows: list[int], memory: Memory, context: CycleContext) -> bool:
    """Check whether these nodes will lack resources for the preemptors of orders.

    Nodes are read after the jobs: what they hold above their jobs may be the order's own TE job, which has just started
    there. Any more than that is of jobs that are not seen.
    """
    orders, snapshot, capacity = memory.open_orders(), context.snapshot, context.columns.capacity
    if not (capacity_after_orders(orders, snapshot, capacity).free[rows] < 0).any():
        return False
    by_jobs = context.capacity_by_jobs
    unseen = (by_jobs.free - capacity.free)[rows]
    # Its tasks were spread over what was free before it: its nodes' records have nothing left for them.
    before = capacity_after_orders([replace(order, preemptor=_NOBODY)], snapshot, by_jobs)
    own = (before.free - capacity_after_orders([order], snapshot, by_jobs).free)[rows]
    return bool((unseen > own).any() or (capacity_after_orders(orders, snapshot, by_jobs).free[rows] < 0).any())


def _first_asked(order: Order, now: UnixSeconds) -> UnixSeconds:
    return min((victim.noticed_at for victim in order.victims if victim.noticed_at is not None), default=now)


def _newcomers(order: Order, memory: Memory, columns: ClusterColumns) -> frozenset[JobId]:
    """Return the jobs that have started on the order's nodes since it was bound to them, by whole seconds."""
    bound: Change[Nodes] | None = memory.changes_of(Field.NODES).get(order.preemptor)
    # With a slow Slurm the first notice is sent some seconds after the poll at which the nodes were chosen.
    since = min(_first_asked(order, inf), inf if bound is None else bound.at) - 1
    capacity, running = columns.capacity, columns.running
    rows = {capacity.index[name] for name in order.nodes if name in capacity.index}
    here = {int(job) for job, node in zip(running.share_job, running.share_node, strict=True) if int(node) in rows}
    return frozenset(JobId(int(running.job_id[row])) for row in here if float(running.started[row]) > since)


def _moved(order: Order, plan: MakeRoom, memory: Memory, context: CycleContext) -> Memory:
    """Return the memory in which the order's job is bound to the nodes of this plan; notices go to `context`."""
    there = ",".join(plan.nodes)
    text = f"other jobs have taken resources that were free on {','.join(order.nodes)}; it is bound to {there} instead"
    order = context.order_step(order, replace(order, nodes=plan.nodes), text)
    carry_out(order, context)
    if not plan.victims:
        return replace(memory, orders={**memory.orders, order.order_id: order})
    return _with_more(order, plan.victims, memory, context)


def _with_more(order: Order, victims: tuple[ChosenVictim, ...], memory: Memory, context: CycleContext) -> Memory:
    """Return the memory in which the order has these victims, too; their notices go to `context`."""
    snapshot = context.snapshot
    more = tuple(victim_of(one, snapshot, memory) for one in victims)
    longest = max(victim.grace_period_s for victim in more)
    asked = ", ".join(str(job_id) for job_id in (one.job_id for one in victims))
    text = f"other jobs have taken resources that were free for it; further victims on {','.join(order.nodes)}: {asked}"
    lasts_s = longest + snapshot.settings.kill_wait_s + context.limits.order_timeout_s
    before = order.victims
    # Each is notified beside the others: they are to leave together.
    larger = replace(order, expires_at=max(order.expires_at, context.now + lasts_s), victims=(*before, *more))
    order = context.order_step(order, larger, text)
    noticed = (give_notice(victim, snapshot.jobs[victim.job_id], order, context) for victim in more)
    order = replace(order, victims=(*before, *noticed))
    return replace(memory, orders={**memory.orders, order.order_id: order})
