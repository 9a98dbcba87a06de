"""Spread of a job's tasks over nodes that can't take the same number each.

Slurm fills the nodes of a job of several tasks with as many as fit on each, at least one: 8 tasks of 3 CPUs fit
on nodes of 16, 8 and 8 CPUs (5, 2 and 1), though none of the small ones takes an even share. Bound to exactly these
nodes, it starts there once each has what its tasks here need.

`spreads` makes such shares into demands of their own, for exactly those nodes, so that a search finds the victims as
for any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity
from tesched_core.model.columns import Running
from tesched_core.placement.demand import Demand, share_of
from tesched_core.placement.fewest_spread import Reach, fewest_victims, reach_of
from tesched_core.placement.uneven import Uneven

#: nodes of each order of which the fewest victims are worked out
MOST_FIRST = 100


def spreads(
    demand: Demand, capacity: Capacity, running: Running | None = None, pool: NDArray[np.bool_] | None = None
) -> Iterator[Demand]:
    """Yield demands for certain nodes, each with its own share, that can be met if those of `pool` go; few, best first.

    Without `pool`, what is free must be enough.
    """
    uneven = demand.uneven
    if uneven is None or demand.unknown_gres:
        return
    free = capacity.free
    if running is not None and pool is not None:
        free = capacity.free.copy()
        going = np.flatnonzero(pool[running.share_job])
        np.add.at(free, running.share_node[going], running.frees[going])
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for rows in _alike(np.flatnonzero(uneven.allowed), uneven):
        if not np.isin(demand.required, rows).all():
            continue
        now = _Fit.on(uneven, capacity.free, rows)
        then = now if free is capacity.free else _Fit.on(uneven, free, rows)
        first = ~np.isin(rows, demand.required)
        # Nodes on which much is free, and nodes on which much can be.
        orders = list(_orders(uneven, rows, now, then, first))
        fits = (_enough(uneven, order, then, len(demand.required)) for order in orders)
        ways = [(places, then.of(places)) for places in fits if places is not None]
        if not ways and not _may_suffice(uneven, then):
            continue
        some = np.unique(np.concatenate([order[: max(MOST_FIRST, len(demand.required))] for order in orders]))
        reaches = []
        if running is not None and pool is not None:
            reaches.append(reach_of(uneven, rows[some], capacity.free, running, pool))
        if not ways:  # also with more victims of a node than are weighed
            reaches.append(Reach(tasks=then.tasks[np.newaxis, some], devices=then.devices[np.newaxis, some]))
        fewest = next(filter(None, (fewest_victims(uneven, one, ~first[some]) for one in reaches)), None)
        if fewest is not None:
            places, tasks_there, devices_there = fewest
            ways.append((some[places], _Fit(tasks=tasks_there, devices=devices_there)))
        for places, most in ways:
            tasks, devices = _shares(uneven, now.of(places), most)
            share = (*sorted(zip(rows[places].tolist(), tasks, devices, strict=True)),)
            if share not in seen:
                seen.add(share)
                yield _demand(demand, uneven, rows[places], tasks, devices)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fit:
    """Tasks, and GPUs in all, that fit on some nodes, [nodes] each."""

    tasks: NDArray[np.int64]
    devices: NDArray[np.int64]

    @staticmethod
    def on(uneven: Uneven, free: NDArray[np.int64], rows: NDArray[np.intp]) -> _Fit:
        devices = np.zeros(len(rows), dtype=np.int64)
        if uneven.columns:
            devices = np.clip(free[rows][:, list(uneven.columns)].min(axis=1), 0, uneven.devices)
        return _Fit(tasks=tasks_that_fit(uneven, free, rows), devices=devices)

    def of(self, places: NDArray[np.intp]) -> _Fit:
        return _Fit(tasks=self.tasks[places], devices=self.devices[places])


def _orders(
    uneven: Uneven, rows: NDArray[np.intp], now: _Fit, then: _Fit, first: NDArray[np.bool_]
) -> Iterator[NDArray[np.intp]]:
    yield np.lexsort((rows, -then.tasks, -now.tasks, first))
    yield np.lexsort((rows, -now.tasks, -then.tasks, first))
    if uneven.devices:
        yield np.lexsort((rows, -then.tasks, -now.tasks, -then.devices, -now.devices, first))
        yield np.lexsort((rows, -now.tasks, -then.tasks, -now.devices, -then.devices, first))


def _alike(rows: NDArray[np.intp], uneven: Uneven) -> Iterator[NDArray[np.intp]]:
    """Yield the rows over which tasks may be spread together (`uneven.kinds_of`)."""
    kinds = uneven.kinds[rows]
    for number in np.unique(kinds).tolist():
        yield rows[kinds == number]


def large_enough(demand: Demand, capacity: Capacity) -> int:
    """Count the nodes that the job may use and that are large enough for its share, if they are empty."""
    return int((demand.fits_into(capacity.total) & demand.allowed).sum())


def can_ever_be_met(demand: Demand, capacity: Capacity) -> bool:
    """Check whether the job fits on nodes that it may use if those are empty, evenly spread or not."""
    if demand.unknown_gres:
        return False
    return (
        large_enough(demand, capacity) >= demand.nodes
        or next(spreads(demand, replace(capacity, free=capacity.total)), None) is not None
    )


def fewer_may_do(
    demand: Demand, nodes: Sequence[int], capacity: Capacity, running: Running, victims: Sequence[int]
) -> bool:
    """Check whether Slurm may start the job on fewer than these nodes once the victims have left.

    Slurm 26.05 leaves out nodes that a job was bound to and does not need, also those of --nodelist: a victim that left
    there would have left for nothing. Where shares can't be spread otherwise the model alone says that fewer nodes are
    too few, which is not enough.
    """
    if len(nodes) <= demand.fewest:
        return False
    if demand.uneven is None or not demand.uneven.sure:
        return True
    free = capacity.free.copy()
    going = np.flatnonzero(np.isin(running.share_job, victims))
    np.add.at(free, running.share_node[going], running.frees[going])
    fit = tasks_that_fit(demand.uneven, free, np.asarray(nodes, dtype=np.intp))
    return bool(fit.sum() - fit.min() >= demand.uneven.tasks)


def share_on(demand: Demand, rows: Sequence[int], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Resources that the job takes of each of `rows` if so much is free, [rows, resources]: evenly if that fits."""
    where = np.asarray(rows, dtype=np.intp)
    if demand.uneven is not None and len(rows) > 1 and not demand.fits_into(free[where], where).all():
        fit = _Fit.on(demand.uneven, free, where)
        if fit.tasks.all() and _suffice(demand.uneven, fit):
            return share_of(_demand(demand, demand.uneven, where, *_shares(demand.uneven, fit, fit)), rows)
    return share_of(demand, rows)


def lacks_on(demand: Demand, rows: Sequence[int], free: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return [rows, resources] where the job lacks some of its even share, whether it may run there or not.

    Nothing where it fits with its tasks spread otherwise.
    """
    where = np.asarray(rows, dtype=np.intp)
    lacks: NDArray[np.bool_] = demand.takes[where] > free[where]
    if demand.uneven is not None and len(where) > 1 and lacks.any():
        fit = _Fit.on(demand.uneven, free, where)
        if fit.tasks.all() and _suffice(demand.uneven, fit):
            return np.zeros_like(lacks)
    return lacks


def fits_on(demand: Demand, rows: Sequence[int], capacity: Capacity) -> bool:
    """Check whether the job fits on just these nodes into what is free there, evenly spread or not."""
    where, uneven = np.asarray(rows, dtype=np.intp), demand.uneven
    if demand.fits(capacity)[where].all():
        return True
    if uneven is None or demand.unknown_gres or not (uneven.least <= len(where) <= uneven.most):
        return False
    alike = bool(uneven.allowed[where].all()) and len(np.unique(uneven.kinds[where])) == 1
    return alike and _suffice(uneven, _Fit.on(uneven, capacity.free, where))


def tasks_that_fit(uneven: Uneven, free: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return for each of `rows` how many of the job's tasks fit there, beside one of its GPUs in all."""
    found = np.zeros(len(rows), dtype=np.int64)
    for tasks in range(1, uneven.tasks + 1):
        takes, _ = uneven.takes_of(tasks, min(uneven.devices, 1))
        fits = np.all(free[rows] >= takes[rows], axis=1)
        if not fits.any():
            break
        found[fits] = tasks
    return found


def _enough(uneven: Uneven, order: NDArray[np.intp], then: _Fit, required: int) -> NDArray[np.intp] | None:
    """Return the first places of `order` that have enough for all tasks, as few as possible; None if there are none."""
    if (then.tasks[order[:required]] < 1).any():
        return None
    order = order[then.tasks[order] > 0]
    for nodes in range(max(uneven.least, required), min(uneven.most, len(order)) + 1):
        if _suffice(uneven, then.of(order[:nodes])):
            return order[:nodes]
    return None


def _may_suffice(uneven: Uneven, fit: _Fit) -> bool:
    """Check whether the nodes with most tasks have enough for them, and those with most GPUs, which may be others."""
    if not uneven.devices:
        return False  # those with most tasks are found without a search
    both = fit.of(np.flatnonzero((fit.tasks > 0) & (fit.devices > 0)))
    tasks, devices = (np.sort(counts)[::-1][: uneven.most].sum() for counts in (both.tasks, both.devices))
    return bool(tasks >= uneven.tasks and devices >= uneven.devices)


def _suffice(uneven: Uneven, fit: _Fit) -> bool:
    """Check whether all tasks and GPUs fit, with one of each on every node."""
    nodes = len(fit.tasks)
    devices = not uneven.devices or fit.devices.sum() >= uneven.devices >= nodes
    return bool(devices and fit.tasks.sum() >= uneven.tasks >= nodes)


def _shares(uneven: Uneven, now: _Fit, then: _Fit) -> tuple[list[int], list[int]]:
    """Return the tasks and the GPUs on each node."""
    tasks = _counts(uneven.tasks, now.tasks, then.tasks)
    if not uneven.devices:
        return tasks, [0] * len(tasks)
    return tasks, _counts(uneven.devices, now.devices, then.devices)


def _counts(amount: int, now: NDArray[np.int64], then: NDArray[np.int64]) -> list[int]:
    """Return so many tasks (or GPUs) on each node: one, then what fits there now, then what can.

    First on nodes that a victim has to leave in any case, for the one.
    """
    counts = [1] * len(now)
    for most, order in ((now, np.argsort(-then, kind="stable")), (then, np.lexsort((-then, now > 0)))):
        for place in order.tolist():
            left = amount - sum(counts)
            counts[place] += max(min(int(most[place]) - counts[place], left), 0)
    return counts


def _demand(
    demand: Demand, uneven: Uneven, rows: NDArray[np.intp], tasks: Sequence[int], devices: Sequence[int]
) -> Demand:
    takes, holds = demand.takes.copy(), demand.takes.copy()
    # Of a thousand nodes most have the same number.
    takes_of = cache(uneven.takes_of)
    for row, count, of_devices in zip(rows.tolist(), tasks, devices, strict=True):
        all_takes, all_holds = takes_of(count, of_devices)
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
