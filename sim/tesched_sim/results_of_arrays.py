"""Results of workloads with trainings: each training counts as one job, whatever the number of its tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
    one = workload.first(len(workload))
    start_s, end_s = np.full(len(first), np.inf), np.full(len(first), -np.inf)
    np.minimum.at(start_s, entry, np.where(np.isnan(result.start_s), np.inf, result.start_s))
    # A training with a task that has not ended has not ended.
    np.maximum.at(end_s, entry, np.where(np.isnan(result.end_s), np.inf, result.end_s))
    columns = ("submit_s", "run_s", "limit_s", "nodes", "demand", "te", "grace_s", "yield_s", "saves_on_notice")
    more = ("checkpoint_s", "restart_s", "constraint", "user", "speed", "most_nodes", "expected_s", "array")
    kept = {name: values[first] for name in (*columns, *more) if (values := getattr(one, name)) is not None}
    kept["run_s"] = kept["run_s"].copy()
    for row in np.flatnonzero(kept["array"] >= 0).tolist():
        model, most = workload.trainings[kept["array"][row]], int(workload.throttle[kept["array"][row]])
        kept["run_s"][row] = model.iterations * model.worker_s / max(most, 1)
    preemptions = replace(
        result.preemptions,
        victim=entry[result.preemptions.victim],
        # -1: of no preemptor
        preemptor=np.where(result.preemptions.preemptor < 0, -1, entry[result.preemptions.preemptor]),
    )
    return replace(
        result,
        workload=replace(one, **kept),
        start_s=np.where(np.isinf(start_s), np.nan, start_s),
        end_s=np.where(np.isinf(end_s), np.nan, end_s),
        preempted=np.bincount(entry, weights=result.preempted).astype(np.int32),
        lost_s=np.bincount(entry, weights=result.lost_s).astype(np.float64),
        preemptions=preemptions,
    )


def _entries(workload: Workload) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Entry of each row [jobs]: tasks of one array have one."""
    array = np.full(len(workload), -1) if workload.array is None else workload.array
    same = (array[1:] == array[:-1]) & (array[1:] >= 0)
    return np.concatenate([[0], np.cumsum(~same)]).astype(np.int64)
