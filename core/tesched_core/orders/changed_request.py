"""Preemptors that ask for other nodes, or for less, than when their order was made.

A waiting job is its user's to change (scontrol(1), update). What an order frees serves the job as it was: once it may
not start on the order's nodes, by its own word, the order's victims would leave for nothing; and once it asks for so
little that it fits without one of them, that one would. So the order ends, and the victims that are still there stay,
as with a job that asks for more (`model/size.py`).

    other nodes    it excludes one of the order's, must have another one, or names features, partitions or a reservation
                   that one of them is not of
    less           fewer nodes, less of a resource, or no whole nodes, and it fits on the order's nodes though one of
                   the victims stays, while none has left or is leaving: else the order goes on as it is, since without
                   it others would take what is freed, and the victim would have left for nothing

The nodes to which tesched has bound a job are none of its own. A node's state has a rule of its own: one that is out of
service may come back (`placement/lost_nodes.py`), and of one that is silent nothing is concluded. Nor is it of a job
that is read in part, or of features that no node has now: nodes may get them by a reboot.

Worked example
    Job 9 wants two nodes. Job 1 on n1 and job 2 on n2 have 60 s to save their work. After 5 s job 9's user sets one
    node: without job 2 it fits on n1. The order ends, both stay, and one of them or another job is selected anew.

Source
    tesched's own. What Slurm lets a user change of a pending job is in scontrol(1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job, Request
from tesched_core.model.field import Field
from tesched_core.model.order import Order, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.size import is_less, size_of
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.departures import departure_of
from tesched_core.placement.constraint import UnsupportedRequestError, features_named, has_features
from tesched_core.placement.demand import demands_of
from tesched_core.placement.lost_nodes import has_not_reported, is_silent
from tesched_core.placement.reserved import capacity_after_orders
from tesched_core.placement.spread import fits_on

_MAY_STAY = frozenset({VictimState.PLANNED, VictimState.NOTICED})
#: stands for no job
_NO_JOB = JobId(-1)


def changed(order: Order, job: Job, context: CycleContext) -> str:
    """Say why an order does not serve a waiting preemptor as it is now; empty if it does."""
    if not order.nodes or not job.pending or job.doubt or job.partly_read:
        return ""
    if why := next(_why_not_there(order, job, context), ""):
        return f"other nodes than when the order was made: {why}"
    spare = _not_needed(order, job, context)
    return "" if spare is None else f"less than when the order was made: job {spare.job_id} need not leave for it"


def _not_needed(order: Order, job: Job, context: CycleContext) -> Victim | None:
    """Find a victim that need not leave, as the preemptor asks for less than when its order was made.

    None is in a round, where a policy gives a job fewer nodes or more.
    """
    own = context.own_request(job)
    in_round = context.snapshot.job_class(order.preemptor) is not JobClass.TE
    if order.size is None or in_round or not is_less(order.size, size_of(job, own)):
        return None
    if any(_leaves(victim, context) for victim in order.victims):
        return None
    may_stay = (victim for victim in order.victims if victim.state in _MAY_STAY and not victim.by_suspending)
    return next((one for one in may_stay if _fits_beside(one, order, replace(job, request=own), context)), None)


def _leaves(victim: Victim, context: CycleContext) -> bool:
    """Check whether a victim has left or is leaving, or may have: what it frees is for the order's job."""
    if victim.state not in _MAY_STAY:
        return victim.state is not VictimState.SPARED
    job, nodes = context.snapshot.jobs.get(victim.job_id), victim.nodes
    if job is None or job.completing or any(has_not_reported(name, context.snapshot) for name in nodes):
        return True
    return departure_of(victim, job, context.now, context.release) is not None


def _why_not_there(order: Order, job: Job, context: CycleContext) -> Iterator[str]:
    request, snapshot = context.own_request(job), context.snapshot
    if barred := [name for name in order.nodes if name in request.excluded_nodes]:
        yield f"it excludes {','.join(barred)}"
    others = sorted(set(request.required_nodes) - set(order.nodes))
    if others and not _may_be_ours(job, context):
        yield f"it must have {','.join(others)}"
    if request.features and (lacking := _without_features(order, request, context)):
        yield f"{','.join(lacking)} has not the features that it names"
    partitions = [snapshot.partitions.get(name) for name in job.partitions]
    if partitions and not any(one is None or one.nodes.issuperset(order.nodes) for one in partitions):
        yield f"{','.join(order.nodes)} is in none of its partitions"
    reservation = snapshot.reservations.get(job.reservation)
    if reservation is not None and not reservation.doubt and not reservation.nodes.issuperset(order.nodes):
        yield f"{','.join(order.nodes)} is not in its reservation"


def _may_be_ours(job: Job, context: CycleContext) -> bool:
    """Check whether the nodes that a job must have may be tesched's: a slurmctld that restarts may show what it forgot.

    Those of a binding that is not put back are none of the job's own request.
    """
    one = context.changes_of(Field.NODES).get(job.job_id)
    return one is not None and one.restored and tuple(sorted(job.request.required_nodes)) == one.value.names


def _without_features(order: Order, request: Request, context: CycleContext) -> list[str]:
    """Find the order's nodes that have not the features that the job names; none where that can't be known."""
    seen = {name: context.snapshot.nodes.get(name) for name in order.nodes}
    try:
        lacking = [
            name
            for name, one in seen.items()
            if one is not None
            and not (one.doubt or is_silent(name, context.snapshot))
            and not has_features(request.features, one.features)
        ]
    except UnsupportedRequestError:
        return []
    if not lacking:
        return []
    nowhere = features_named(request.features).difference(*(one.features for one in context.snapshot.nodes.values()))
    nodes = context.snapshot.nodes
    return [name for name in lacking if not has_features(request.features, nodes[name].features | nowhere)]


def _fits_beside(victim: Victim, order: Order, job: Job, context: CycleContext) -> bool:
    """Check whether the job fits on the order's nodes once all its other victims have left."""
    snapshot, capacity = context.snapshot, context.columns.capacity
    rows = [capacity.index[name] for name in order.nodes if name in capacity.index]
    others = tuple(one for one in order.victims if one is not victim)
    # The order's own job is not there yet.
    orders = [replace(order, victims=others, preemptor=_NO_JOB)]
    orders += [one for one in context.orders if one.order_id != order.order_id]
    after = capacity_after_orders(orders, snapshot, capacity)
    try:
        demands = demands_of(job, snapshot, after)
    except UnsupportedRequestError:
        return False
    return any(int(one.fits(after)[rows].sum()) >= one.nodes or fits_on(one, rows, after) for one in demands)
