"""Turns of BE jobs that others have come before: who has taken what a round's order was to have.

A job that moves leaves its nodes, and is not started again before its begin time: `SlurmSettings.requeue_delay_s`.
Until then its new nodes are free for whatever starts by itself: a trial, or a job that has just been submitted. Its
order would last for its whole time then, with the job bound to nodes that are taken. So the order ends, and the policy
gives the job other nodes in the same cycle; unless other jobs have left for it: then it is left to Slurm until the wait
after any other order that came to nothing is over (`futility.py`).

What is free beside a turn's victims may be taken as well, while Slurm's word is awaited (`first_look.py`). Where it is
not enough any more with all of them gone, the order ends before any is notified. The jobs of other orders are counted
as there if these are older, or their victims are leaving already.

What a TE job's order loses is dealt with by `reinforce.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.intake.pending_reason import shows_no_other_hold
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job
from tesched_core.model.column_layout import SHARD
from tesched_core.model.field import Field
from tesched_core.model.order import HOLDS_RESOURCES, Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.futility import was_asked
from tesched_core.placement.alike import minds_others
from tesched_core.placement.capacity_of import freed_by, keeps_nodes
from tesched_core.placement.reserved import capacity_after_orders, demand_there
from tesched_core.placement.spread import fits_on, lacks_on

#: Slurm's times are whole seconds, and its clock may differ a little from the daemon's.
_CLOCKS_DIFFER_S = 2.0
#: stands for no job
_NO_JOB = JobId(-1)


def overtaken(order: Order, job: Job, context: CycleContext) -> str:
    """Say which jobs have taken what a waiting BE job lacks for its turn since its order was made; empty if none.

    It may not fit there for other reasons: a node that does not respond, a reservation. Then it may start yet.
    """
    in_round = context.snapshot.job_class(order.preemptor) is JobClass.BE
    leaving = any(victim.state in HOLDS_RESOURCES for victim in order.victims)
    if not in_round or not order.nodes or not job.pending or (leaving and any(map(was_asked, order.victims))):
        return ""
    before = _orders_before(order, context) if leaving else ()
    if _fits_after(before, order, job, context) if leaving else context.fits(order):
        return ""
    capacity = capacity_after_orders(before, context.snapshot, context.capacity_by_jobs)
    there = _holders_of_what_it_lacks(order, job, capacity, context)
    if any(one.completing for one in there):
        return ""  # what it gives back may be enough
    since = order.created_at - _CLOCKS_DIFFER_S
    late = [one for one in there if one.start_time is not None and one.start_time > since]
    names = ", ".join(one.label for one in late)
    return f"job {names} has started on {','.join(order.nodes)}, before job {job.label} could" if late else ""


def _orders_before(order: Order, context: CycleContext) -> tuple[Order, ...]:
    """Return the open orders as they count for one that has notified no victim yet.

    Its own job is not there, nor are those of later ones whose victims have not been notified either.
    """
    return tuple(
        one if one.order_id < order.order_id or any(map(was_asked, one.victims)) else replace(one, preemptor=_NO_JOB)
        for one in context.orders
    )


def _fits_after(before: Iterable[Order], order: Order, job: Job, context: CycleContext) -> bool:
    """Check whether the order's job fits on its nodes once the victims of these orders are gone."""
    snapshot = context.snapshot
    capacity = capacity_after_orders(before, snapshot, context.columns.capacity)
    demand = demand_there(order, job, snapshot, capacity)
    rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
    return demand is not None and fits_on(demand, rows, capacity)


def _holders_of_what_it_lacks(order: Order, job: Job, capacity: Capacity, context: CycleContext) -> list[Job]:
    """Return the jobs that hold any of what the job lacks on the order's nodes, or keep it from one.

    Those that are to leave for an order are none of them. `capacity` is by the jobs alone: nodes are read after them,
    and what a node says that it holds may be the job itself. Of a request that is not modelled it is not known what it
    lacks: any job there may hold it.
    """
    snapshot = context.snapshot
    leave = {one.job_id for other in context.orders for one in other.victims if one.state in HOLDS_RESOURCES}
    found = {one.job_id: one for name in order.nodes for one in context.there.on(name)}
    there = [one for job_id, one in found.items() if job_id not in leave]
    demand = demand_there(order, job, snapshot, capacity) if there else None
    if demand is None:
        return there
    rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
    lacks = dict(zip(rows, lacks_on(demand, rows, capacity.free), strict=True))
    devices = np.array([name.partition(":")[0] in {"gpu", SHARD} for name in capacity.resources])
    for row, columns in lacks.items():
        if _shards_of_one_gpu(row, capacity) and columns[devices].any():
            columns[devices] = True  # a shard is a part of that GPU
    lacks = {row: columns for row, columns in lacks.items() if columns.any()}
    keeps, apart = keeps_nodes(snapshot), minds_others(job, snapshot)
    return [
        one
        for one in there
        if (one.user != job.user and (apart or keeps(one))) or (lacks and _holds_any(one, lacks, capacity))
    ]


def _holds_any(job: Job, lacks: Mapping[int, NDArray[np.bool_]], capacity: Capacity) -> bool:
    """Check whether the job holds any of what is lacked, [resources] by row."""
    held = ((capacity.index.get(share.node, -1), share) for share in job.allocation)
    return any(row in lacks and bool((freed_by(job, share, capacity)[lacks[row]] > 0).any()) for row, share in held)


def _shards_of_one_gpu(row: int, capacity: Capacity) -> bool:
    """Check whether the node has one GPU, in shards: of several, what a job holds counts its shards (`of_job`)."""
    has = dict(zip(capacity.resources, capacity.total[row].tolist(), strict=True))
    return bool(has.get("gpu") == 1 and has.get(SHARD))


def is_held_by_us(job: Job, context: CycleContext) -> bool:
    """Check whether a preemptor waits for a release that is tesched's to send, and is sent as it has an order."""
    one = context.changes_of(Field.HOLD).get(job.job_id)
    return one is not None and one.by is None and not one.restored and shows_no_other_hold(job)
