"""Results of workloads with trainings: each training counts as one job, whatever the number of its tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tesched_sim.bound_use import BoundUse
from tesched_sim.result import Result
from tesched_sim.workload import Workload


def with_trainings_as_jobs(result: Result) -> Result:
    """Return the result with one entry for each training, in the place of its first task.

    It starts with its first task and ends with its last one. What it would take undisturbed is what it takes with all
    the workers that it may have. It was put back in the queue as often as its tasks were.
    """
    workload, array = result.workload, result.workload.array
    if array is None:
        return result
    entry = _entries(workload)
    first = np.flatnonzero(np.concatenate([[True], entry[1:] != entry[:-1]]))
    one = workload.part(first)
    run_s = one.run_s.copy()
    start_s, end_s = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(start_s, entry, np.where(np.isnan(result.start_s), np.inf, result.start_s))
    # A training with a task that has not ended has not ended.
    np.maximum.at(end_s, entry, np.where(np.isnan(result.end_s), np.inf, result.end_s))
    for row in np.flatnonzero(array[first] >= 0).tolist():
        model, most = workload.trainings[array[first[row]]], int(workload.throttle[array[first[row]]])
        run_s[row] = model.iterations * model.worker_s / max(most, 1)
    preemptions = replace(
        result.preemptions,
        victim=entry[result.preemptions.victim],
        # -1: of no preemptor
        preemptor=np.where(result.preemptions.preemptor < 0, -1, entry[result.preemptions.preemptor]),
    )
    return replace(
        result,
        workload=replace(one, run_s=run_s),
        start_s=np.where(np.isinf(start_s), np.nan, start_s),
        end_s=np.where(np.isinf(end_s), np.nan, end_s),
        preempted=np.bincount(entry, weights=result.preempted).astype(np.int32),
        held_node_s=np.bincount(entry, weights=result.held_node_s).astype(np.float64),
        lost_node_s=np.bincount(entry, weights=result.lost_node_s).astype(np.float64),
        preemptions=preemptions,
        bound=None if result.bound is None else _folded(result.bound, entry),
    )


def _folded(bound: BoundUse, entry: NDArray[np.int64]) -> BoundUse:
    """The bound is each task's own, so that a training is as near to it as the one that is nearest."""
    count = int(entry[-1]) + 1 if len(entry) else 0
    waited_s, part, held = np.zeros(count), np.full(count, -np.inf), np.zeros(count, dtype=np.bool_)
    np.maximum.at(waited_s, entry, bound.bystander_s)
    np.maximum.at(part, entry, bound.part)
    np.logical_or.at(held, entry, bound.held)
    return replace(bound, bystander_s=waited_s, part=part, held=held)


def _entries(workload: Workload) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Entry of each row [jobs]: tasks of one array have one."""
    array = np.full(len(workload), -1) if workload.array is None else workload.array
    same = (array[1:] == array[:-1]) & (array[1:] >= 0)
    return np.concatenate([[0], np.cumsum(~same)]).astype(np.int64)
