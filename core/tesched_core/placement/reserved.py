"""Resources that orders under way have reserved: for their preemptors, and for the victims that they have suspended.

A suspended victim's CPUs are free for Slurm, and others run there. They are reserved for it all the same: what
counts on them would keep it from going on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import HOLDS_RESOURCES, Order, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import freed_by
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand
from tesched_core.placement.node_count import by_itself, demand_on
from tesched_core.placement.spread import fits_on, share_on

#: a node's row, and by how much it changes, [resources]
Change = tuple[int, NDArray[np.int64]]


def capacity_after_orders(orders: Iterable[Order], snapshot: Snapshot, capacity: Capacity) -> Capacity:
    """Return the free resources as they will be when these orders are done; they may be below zero.

    Their preemptors are there, their victims are gone, and the suspended ones go on.
    """
    orders = tuple(orders)
    changes: list[Change] = []
    for order in orders:
        for victim in order.victims:
            changes += _going(victim, order, snapshot, capacity)
            changes += _going_on(victim, snapshot, capacity)
    capacity = _changed(capacity, changes)
    for order in orders:
        capacity = _changed(capacity, list(_coming(order, snapshot, capacity)))
    return capacity


def unreserved_capacity(orders: Iterable[Order], snapshot: Snapshot, capacity: Capacity) -> Capacity:
    """Return the resources that are free now, less what these orders have reserved; they may be below zero."""
    changes: list[Change] = []
    for order in orders:
        for victim in order.victims:
            changes += _going_on(victim, snapshot, capacity)
        changes += _coming(order, snapshot, capacity)
    return _changed(capacity, changes)


def beside_preemptors(orders: Iterable[Order], snapshot: Snapshot, capacity: Capacity) -> Capacity:
    """Return the resources that are free now, less what these orders free for their preemptors; maybe below zero."""
    return _changed(capacity, [change for order in orders for change in _coming(order, snapshot, capacity)])


def demand_there(order: Order, preemptor: Job, snapshot: Snapshot, capacity: Capacity) -> Demand | None:
    """Demand of the preemptor on the order's nodes; None if that is not modelled.

    Without victims it is bound to none of them: where it fits as Slurm alone places it, it wants that.
    """
    rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
    demand: Demand | None = None
    try:
        demand = demand_on(preemptor, len(rows), snapshot, capacity)
    except UnsupportedRequestError:
        if order.victims:
            return None
    if order.victims or not rows or (demand is not None and fits_on(demand, rows, capacity)):
        return demand
    return next((one for one in by_itself(preemptor, snapshot, capacity) if fits_on(one, rows, capacity)), demand)


def fits_without_free(
    preemptor: Job, nodes: Iterable[str], victims: Iterable[JobId], snapshot: Snapshot, capacity: Capacity
) -> bool:
    """Check whether the job fits on these nodes once the victims have left, whatever starts there on what is free now.

    On a node without a free CPU no job starts, so that its free memory and GRES count. The CPU is resource 0.
    """
    rows = [capacity.index[name] for name in nodes if name in capacity.index]
    try:
        demand = demand_on(preemptor, len(rows), snapshot, capacity)
    except UnsupportedRequestError:
        return False
    emptied: list[Change] = [(row, -capacity.free[row]) for row in rows if capacity.free[row, 0] > 0]
    jobs = (snapshot.jobs[job_id] for job_id in victims if job_id in snapshot.jobs)
    left = [(capacity.index[share.node], freed_by(job, share, capacity)) for job in jobs for share in job.allocation]
    return fits_on(demand, rows, _changed(capacity, [*emptied, *left]))


def _changed(capacity: Capacity, changes: list[Change]) -> Capacity:
    return capacity.changed([row for row, _ in changes], np.array([by for _, by in changes])) if changes else capacity


def _going(victim: Victim, order: Order, snapshot: Snapshot, capacity: Capacity) -> Iterator[Change]:
    """Yield what becomes free for good when the victim leaves."""
    job = snapshot.jobs.get(victim.job_id)
    stays = order.state is not OrderState.OPEN and victim.state is not VictimState.REQUEUING
    if victim.state not in HOLDS_RESOURCES or victim.by_suspending or stays or job is None:
        return
    for share in job.allocation:
        if share.node in capacity.index:
            yield capacity.index[share.node], freed_by(job, share, capacity)


def _going_on(victim: Victim, snapshot: Snapshot, capacity: Capacity) -> Iterator[Change]:
    """Yield what a suspended victim takes when it goes on."""
    job = snapshot.jobs.get(victim.job_id)
    if victim.state is not VictimState.SUSPENDED or job is None or job.state is not JobState.SUSPENDED:
        return
    for share in job.allocation:
        if share.node in capacity.index:
            taken = np.zeros(len(capacity.resources), dtype=np.int64)
            taken[0] = -share.tres.cpus
            yield capacity.index[share.node], taken


def _coming(order: Order, snapshot: Snapshot, capacity: Capacity) -> Iterator[Change]:
    """Yield what the preemptor takes where resources are freed for it."""
    preemptor = snapshot.jobs.get(order.preemptor)
    if order.state is not OrderState.OPEN or preemptor is None or not _will_be_there(order, preemptor):
        return
    there = [capacity.index[node] for node in order.nodes if node in capacity.index]
    demand = demand_there(order, preemptor, snapshot, capacity) if there else None
    if demand is None:
        return
    yield from zip(there, -share_on(demand, there, capacity.free), strict=True)


def _will_be_there(order: Order, preemptor: Job) -> bool:
    """Check whether it waits, or is to move there."""
    return preemptor.pending or (preemptor.on_nodes and any(v.job_id == order.preemptor for v in order.victims))
