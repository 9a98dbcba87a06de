"""Number of nodes of a TE job that leaves it open: what it may be told when it is bound to its victims' nodes.

Definitions
    open        -n without -N, or -N MIN-MAX: Slurm takes the fewest nodes on which the tasks have room when it looks
    told        NumNodes of the pending job is set to one number, with the list of nodes (`levers/node_binding.py`)

Principle
    A victim leaves a certain node. If the number of nodes is open, Slurm may do with fewer than those that the job is
    bound to, or add others to them, as soon as any of that fits: then the victim has left for nothing. Told the number,
    it gets exactly these nodes. So any number that the job allows may be planned for, and the one for which fewest
    victims leave is.

    A job that has nodes of its own, one of an array and one of a heterogeneous job are bound to nothing, and none is
    where `guard.bind_for_s` is 0. These are told nothing.

Source
    scontrol(1), NumNodes and ReqNodeList of a pending job; tried on 22.05 and 26.05 (`python -m benchmarks.placement`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tesched_core.model.cluster import Job
from tesched_core.model.room import Room
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demands_of
from tesched_core.placement.spread import can_ever_be_spread

#: numbers of nodes that are planned for, from the fewest on that the job's nodes allow at all
MOST_NUMBERS = 4


def is_open(job: Job) -> bool:
    """Check whether the job leaves its number of nodes to Slurm."""
    return job.request.min_nodes != job.request.max_nodes


def may_be_bound(job: Job) -> bool:
    """Check whether the job can be bound: of an array, the record that waits stands for all its tasks."""
    return not job.array_tasks and job.array_job_id is None and job.het_job_id is None


def demands_if_told(job: Job, snapshot: Snapshot, room: Room) -> Iterator[Demand]:
    """Yield what the job wants of its nodes if it is told how many it gets, for a few numbers, fewest nodes first.

    Raises UnsupportedRequestError if none of them is modelled.
    """
    request, tried, why = job.request, 0, ""
    for nodes in range(max(request.min_nodes, 1), request.max_nodes + 1):
        told = replace(job, request=replace(request, min_nodes=nodes, max_nodes=nodes))
        try:
            demands = [one for one in demands_of(told, snapshot, room) if _is_ever_met(one, room)]
        except UnsupportedRequestError as error:
            why = why or str(error)
            if nodes > request.min_nodes + MOST_NUMBERS:
                break
            continue
        yield from (replace(one, job=job) for one in demands)
        tried += bool(demands)
        if tried == MOST_NUMBERS:
            break
    if not tried and why:
        raise UnsupportedRequestError(why)


def _is_ever_met(demand: Demand, room: Room) -> bool:
    if demand.unknown_gres:
        return False
    large_enough = int((demand.fits_into(room.total) & demand.allowed).sum())
    return large_enough >= demand.nodes or can_ever_be_spread(demand, room)
