"""Nodes, and tasks on each, for which the fewest victims have to leave, where tasks may be spread unevenly.

Definitions
    level       number of victims on one node, 0 to `MOST_VICTIMS`
    reach       most tasks, and GPUs in all (`Uneven.devices`), that fit on a node at a level

Principle
    Nodes that are filled one after the other, those with most free or most to be freed first, may cost a victim more
    than needed: what a victim is worth on one node depends on what the others hold. So the sum of the levels is made
    smallest over all nodes together (a knapsack), each of which has as many tasks as its reach allows. A node's reach
    is that of its best set of jobs; where these sets are too many, the largest amounts of each resource are added up,
    which may be too much. A victim on several nodes counts on each. The search for victims has the last word.

    With GPUs in all it also finds nodes, of which none has most of the tasks and most of the GPUs, that have enough of
    both together; with one level, that of what is free or may be, also where no victim leaves, or more of a node.

Worked example
    8 tasks on 2 nodes. 5 fit on n1 now, and 6 if a job leaves; on n2 none, and 2, 4 and 6 if one, two and three leave;
    on n3 none, and 3 if one leaves. Beside n1, n2 costs two victims (5 and 3, or 6 and 2), n3 one (5 and 3).

Bound
    At most `MOST_ROWS` nodes are weighed, those with the largest reach at any level. No such spread is made of more
    than `MOST_NODES` nodes, nor of a job for which nodes, tasks and GPUs make more than `MOST_STATES` cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.columns import Running
from tesched_core.placement.uneven import Uneven

#: victims on one node, and sets of one node's jobs that are compared at a level
MOST_VICTIMS, MOST_SETS = 6, 128
#: nodes that are weighed, nodes of a spread, and jobs of one node that are weighed, those with most CPUs
MOST_ROWS, MOST_NODES, MOST_JOBS = 48, 16, 32
#: numbers of nodes times those of tasks times those of GPUs
MOST_STATES = 4096
_NEVER = 10**6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """Tasks, and GPUs in all, that fit on some nodes: [levels, nodes] each."""

    tasks: NDArray[np.int64]
    devices: NDArray[np.int64]


def fewest_victims(
    uneven: Uneven, reach: Reach, required: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]] | None:
    """Places on which the job fits once the fewest jobs have left; most tasks and GPUs that then fit on each of them.

    `required` says which places must be among them. None where it does not fit so, or that is not weighed.
    """
    least = max(uneven.least, int(required.sum()), 1)
    most = min(uneven.most, uneven.tasks, uneven.devices or uneven.tasks, len(required), MOST_NODES)
    if least > most or most * (uneven.tasks + 1) * (uneven.devices + 1) > MOST_STATES:
        return None
    places = _worth_weighing(reach, most, required)
    weighed = Reach(tasks=reach.tasks[:, places], devices=reach.devices[:, places])
    levels = _levels(uneven, (least, most), weighed, required[places])
    if levels is None:
        return None
    in_order = np.argsort(places)
    in_order = in_order[levels[in_order] >= 0]
    places, levels = places[in_order], levels[in_order]
    return places, reach.tasks[levels, places], reach.devices[levels, places]


def reach_of(
    uneven: Uneven, rows: NDArray[np.intp], free: NDArray[np.int64], running: Running, pool: NDArray[np.bool_]
) -> Reach:
    """Tasks and GPUs that fit on each of `rows` once 0, 1, ... `MOST_VICTIMS` of its jobs of `pool` have left.

    `free` is [nodes, resources], `pool` [running].
    """
    frees, takes_of = _frees_on(rows, len(free), running, pool), cache(uneven.takes_of)
    tasks, devices = [], []
    for level in range(MOST_VICTIMS + 1):
        after = free[rows][:, np.newaxis] + _freed_by(level, frees)
        tasks.append(_tasks_in(after, rows, uneven, takes_of).max(axis=1))
        of_each = (
            after[:, :, list(uneven.columns)].min(axis=2) if uneven.columns else np.zeros(after.shape[:2], np.int64)
        )
        devices.append(np.clip(of_each, 0, uneven.devices).max(axis=1))
    # Where a node has fewer jobs, no more can leave.
    return Reach(tasks=np.maximum.accumulate(tasks), devices=np.maximum.accumulate(devices))


def _frees_on(rows: NDArray[np.intp], nodes: int, running: Running, pool: NDArray[np.bool_]) -> NDArray[np.int64]:
    """What each job of `pool` frees on each of `rows`, [rows, jobs, resources], those with most CPUs first."""
    place = np.full(nodes, -1, dtype=np.intp)
    place[rows] = np.arange(len(rows))
    shares = np.flatnonzero(pool[running.share_job] & (place[running.share_node] >= 0))
    where = place[running.share_node[shares]]
    order = np.lexsort((-running.frees[shares, 0], where))
    shares, where = shares[order], where[order]
    number = np.arange(len(where)) - np.searchsorted(where, where)
    kept = number < MOST_JOBS
    found = np.zeros((len(rows), int(number[kept].max(initial=-1)) + 1, running.frees.shape[1]), dtype=np.int64)
    found[where[kept], number[kept]] = running.frees[shares[kept]]
    return found


def _freed_by(level: int, frees: NDArray[np.int64]) -> NDArray[np.int64]:
    """What sets of so many of a node's jobs free, or of all of them if they are fewer: [rows, sets, resources]."""
    jobs = frees.shape[1]
    level = min(level, jobs)
    if level == 0:
        return np.zeros_like(frees, shape=(len(frees), 1, frees.shape[2]))
    if comb(jobs, level) > MOST_SETS:
        largest: NDArray[np.int64] = np.sort(frees, axis=1)[:, -level:].sum(axis=1, keepdims=True)
        return largest
    sets = np.array(list(combinations(range(jobs), level)), dtype=np.intp)
    freed: NDArray[np.int64] = frees[:, sets].sum(axis=2)
    return freed


def _tasks_in(
    free: NDArray[np.int64],
    rows: NDArray[np.intp],
    uneven: Uneven,
    takes_of: Callable[[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> NDArray[np.int64]:
    """How many tasks fit into `free` [rows, sets, resources], beside one GPU of those in all: [rows, sets]."""
    found = np.zeros(free.shape[:2], dtype=np.int64)
    for tasks in range(1, uneven.tasks + 1):
        takes, _ = takes_of(tasks, min(uneven.devices, 1))
        fits = np.all(free >= takes[rows][:, np.newaxis], axis=2)
        if not fits.any():
            break
        found[fits] = tasks
    return found


def _worth_weighing(reach: Reach, most: int, required: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The places of which a spread of at most `most` nodes is made: the required ones, and the best at each level."""
    kept = dict.fromkeys(np.flatnonzero(required).tolist())
    by_level = [
        np.lexsort((-second[level], -first[level]))[:most].tolist()
        for level in range(len(reach.tasks))
        for first, second in ((reach.tasks, reach.devices), (reach.devices, reach.tasks))
    ]
    # The best of each first.
    kept |= dict.fromkeys(place for some in zip(*by_level, strict=True) for place in some)
    return np.array(list(kept)[:MOST_ROWS], dtype=np.intp)


def _levels(
    uneven: Uneven, nodes: tuple[int, int], reach: Reach, required: NDArray[np.bool_]
) -> NDArray[np.intp] | None:
    """The level of each place, -1 where the job is not; None if it fits on no number of `nodes`, fewest and most.

    `costs[count, tasks, devices]` are the fewest victims on `count` of the places from one on, with so many tasks and
    GPUs on them or more.
    """
    least, most = nodes
    tasks, devices = np.arange(uneven.tasks + 1), np.arange(uneven.devices + 1)
    costs = np.full((most + 1, len(tasks), len(devices)), _NEVER, dtype=np.int64)
    costs[0, 0, 0] = 0
    choices = np.full((len(required), *costs.shape), -1, dtype=np.int8)
    for place in range(len(required) - 1, -1, -1):
        best = np.full_like(costs, _NEVER) if required[place] else costs.copy()
        for level in _useful(reach, place, uneven.devices > 0):
            left = np.ix_(
                np.arange(most),
                np.maximum(tasks - reach.tasks[level, place], 0),
                np.maximum(devices - reach.devices[level, place], 0),
            )
            cost = costs[left] + level
            better = cost < best[1:]
            best[1:][better] = cost[better]
            choices[place, 1:][better] = level
        costs = best
    count = least + int(np.argmin(costs[least : most + 1, -1, -1]))
    if costs[count, -1, -1] >= _NEVER:
        return None
    found, of_tasks, of_devices = np.full(len(required), -1, dtype=np.intp), uneven.tasks, uneven.devices
    for place in range(len(required)):
        level = int(choices[place, count, of_tasks, of_devices])
        if level >= 0:
            found[place] = level
            count -= 1
            of_tasks = max(of_tasks - int(reach.tasks[level, place]), 0)
            of_devices = max(of_devices - int(reach.devices[level, place]), 0)
    return found


def _useful(reach: Reach, place: int, devices: bool) -> list[int]:
    """The levels at which at least one task fits on the place, and more than at the level before."""
    found = []
    before = (0, 0)
    for level in range(len(reach.tasks)):
        here = int(reach.tasks[level, place]), int(reach.devices[level, place])
        if here[0] > 0 and (here[1] > 0 or not devices) and here != before:
            found.append(level)
            before = here
    return found
