"""Spread of a job's tasks over nodes that can't take the same number each.

Slurm fills the nodes of a job of several tasks with as many as fit on each, at least one: 8 tasks of 3 CPUs have room
on nodes of 16, 8 and 8 CPUs (5, 2 and 1), though none of the small ones takes an even share. Bound to exactly these
nodes, it starts there once each has what its tasks here need.

`spreads` makes such shares into demands of their own, for exactly those nodes, so that a search finds the victims as
for any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.cluster import Request
from tesched_core.model.columns import Running
from tesched_core.model.room import Room
from tesched_core.placement.demand import Demand, Uneven, share_of


def spreads(
    demand: Demand, room: Room, running: Running | None = None, pool: NDArray[np.bool_] | None = None
) -> Iterator[Demand]:
    """Yield demands for certain nodes, each with its own share, that can be met if those of `pool` go; few, best first.

    Without `pool`, what is free must be enough.
    """
    uneven = demand.uneven
    if uneven is None or demand.unknown_gres:
        return
    free = room.free
    if running is not None and pool is not None:
        free = room.free.copy()
        going = np.flatnonzero(pool[running.share_job])
        np.add.at(free, running.share_node[going], running.frees[going])
    seen: set[tuple[int, ...]] = set()
    for rows in _alike(np.flatnonzero(uneven.allowed), room, demand.job.request):
        if not np.isin(demand.required, rows).all():
            continue
        now = tasks_that_fit(uneven, room.free, rows)
        then = now if free is room.free else tasks_that_fit(uneven, free, rows)
        first = ~np.isin(rows, demand.required)
        # Nodes on which much is free, and nodes on which much can be.
        for order in (np.lexsort((rows, -then, -now, first)), np.lexsort((rows, -now, -then, first))):
            places = _enough(uneven, order, then, len(demand.required))
            if places is None:
                continue
            counts = _counts(uneven.tasks, now[places], then[places])
            one = _demand(demand, uneven, rows[places], counts)
            if one.required not in seen:
                seen.add(one.required)
                yield one


def _alike(rows: NDArray[np.intp], room: Room, request: Request) -> Iterator[NDArray[np.intp]]:
    """Yield the rows by their number of hardware threads a core; those on which each task fills cores, together.

    Over nodes of several numbers Slurm spreads some jobs unevenly and others not: of 3 tasks on two nodes (-N2) none
    where one has two threads a core, and the other one has one and a single CPU free (22.05 and 26.05).
    """
    if room.threads is None:
        yield rows
        return
    threads = room.threads[rows]
    if not request.threads_per_core:
        fills = max(request.cpus_per_task, 1) % threads == 0
        threads = np.where(fills & (request.cpus_per_task > 1), 0, threads)
    for number in np.unique(threads).tolist():
        yield rows[threads == number]


def large_enough(demand: Demand, room: Room) -> int:
    """Return how many nodes that the job may use are large enough for its share, if they are empty."""
    return int((demand.fits_into(room.total) & demand.allowed).sum())


def can_ever_be_met(demand: Demand, room: Room) -> bool:
    """Return whether the job fits on nodes that it may use if those are empty, evenly spread or not."""
    if demand.unknown_gres:
        return False
    return (
        large_enough(demand, room) >= demand.nodes
        or next(spreads(demand, replace(room, free=room.total)), None) is not None
    )


def fewer_may_do(demand: Demand, nodes: Sequence[int], room: Room, running: Running, victims: Sequence[int]) -> bool:
    """Return whether Slurm may start the job on fewer than these nodes once the victims have left.

    Slurm 26.05 leaves out nodes that a job was bound to and does not need, also those of --nodelist: a victim that left
    there would have left for nothing. Where shares can't be spread otherwise the model alone says that fewer nodes are
    too few, which is not enough.
    """
    if len(nodes) <= demand.fewest:
        return False
    if demand.uneven is None:
        return True
    free = room.free.copy()
    going = np.flatnonzero(np.isin(running.share_job, victims))
    np.add.at(free, running.share_node[going], running.frees[going])
    fit = tasks_that_fit(demand.uneven, free, np.asarray(nodes, dtype=np.intp))
    return bool(fit.sum() - fit.min() >= demand.uneven.tasks)


def share_on(demand: Demand, rows: Sequence[int], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what the job takes of each of `rows` if so much is free, [rows, resources]: evenly if that fits."""
    where = np.asarray(rows, dtype=np.intp)
    if demand.uneven is not None and len(rows) > 1 and not demand.fits_into(free[where], where).all():
        fit = tasks_that_fit(demand.uneven, free, where)
        if fit.all() and fit.sum() >= demand.uneven.tasks >= len(rows):
            return share_of(_demand(demand, demand.uneven, where, _counts(demand.uneven.tasks, fit, fit)), rows)
    return share_of(demand, rows)


def tasks_that_fit(uneven: Uneven, free: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return for each of `rows` how many of the job's tasks fit there."""
    found = np.zeros(len(rows), dtype=np.int64)
    for tasks in range(1, uneven.tasks + 1):
        takes, _ = uneven.takes_of(tasks)
        fits = np.all(free[rows] >= takes[rows], axis=1)
        if not fits.any():
            break
        found[fits] = tasks
    return found


def _enough(uneven: Uneven, order: NDArray[np.intp], then: NDArray[np.int64], required: int) -> NDArray[np.intp] | None:
    """Return the first places of `order` that have room for all tasks, as few as possible; None if there are none."""
    if (then[order[:required]] < 1).any():
        return None
    order = order[then[order] > 0]
    for nodes in range(max(uneven.least, required), min(uneven.most, len(order)) + 1):
        if then[order[:nodes]].sum() >= uneven.tasks >= nodes:
            return order[:nodes]
    return None


def _counts(tasks: int, now: NDArray[np.int64], then: NDArray[np.int64]) -> list[int]:
    """Return the tasks on each node: one, then what fits there now, then what can."""
    counts = [1] * len(now)
    for most in (now, then):
        for place in np.argsort(-then, kind="stable").tolist():
            left = tasks - sum(counts)
            counts[place] += max(min(int(most[place]) - counts[place], left), 0)
    return counts


def _demand(demand: Demand, uneven: Uneven, rows: NDArray[np.intp], counts: Sequence[int]) -> Demand:
    takes, holds = demand.takes.copy(), demand.takes.copy()
    for row, count in zip(rows.tolist(), counts, strict=True):
        all_takes, all_holds = uneven.takes_of(count)
        takes[row], holds[row] = all_takes[row], all_holds[row]
    allowed = np.zeros_like(demand.allowed)
    allowed[rows] = True
    return replace(
        demand,
        nodes=len(rows),
        per_node=takes[rows].max(axis=0),
        takes=takes,
        holds=holds,
        allowed=allowed,
        required=tuple(sorted(rows.tolist())),
    )
