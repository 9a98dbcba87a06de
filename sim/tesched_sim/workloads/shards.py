"""Shards of the GPUs of a workload's nodes, and jobs of one GPU that want some of them instead.

A trace that says how much of a GPU a job uses says which jobs do; of others a part of those of one GPU is drawn, each
with any number of shards below a GPU's. What is drawn has a seed of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.column_layout import SHARD

from tesched_sim.workload import Workload, WorkloadError

#: most shards of a GPU
MOST_SHARDS = 1024
#: thousandths of a GPU
WHOLE = 1000


def check_shards(shards: int, share: float) -> None:
    """Raise WorkloadError for what makes no sense."""
    if shards and not 2 <= shards <= MOST_SHARDS:
        raise WorkloadError(f"workload.shards must be 0, or from 2 to {MOST_SHARDS}; it is {shards}")
    if not 0 <= share <= 1:
        raise WorkloadError("workload.shard_share must be from 0 to 1")


def wanted_shards(
    gpus: NDArray[np.int64], milli: NDArray[np.int64], *, each: int, share: float, seed: int
) -> NDArray[np.int64]:
    """Return [jobs] the shards that each wants instead of its one GPU, 0: none, with `each` shards a GPU.

    `milli` is the part of its GPU that each uses, in thousandths; -1: not known. A job that needs all shards of a GPU
    keeps it whole. Without shards (`each` 0) none wants any.
    """
    if not each:
        return np.zeros(len(gpus), dtype=np.int64)
    rng = np.random.default_rng([seed, 0xD])
    drawn = np.where(rng.random(len(gpus)) < share, rng.integers(1, each, len(gpus)), 0)
    said = -(-np.maximum(milli, 0) * each // WHOLE)
    found = np.where(milli >= 0, said, drawn)
    return np.where((gpus == 1) & (found < each), found, 0).astype(np.int64)


def part_of(shards: NDArray[np.int64], each: int) -> NDArray[np.float64]:
    """Return [jobs] the part of its GPUs that each uses: of one that wants none of the shards all of them."""
    return np.where(shards > 0, shards / max(each, 1), 1.0)


def with_shards(workload: Workload, shards: NDArray[np.int64], each: int) -> Workload:
    """Give each GPU so many shards, and let jobs want these [jobs] of one instead of one GPU.

    Raises WorkloadError where there is no GPU.
    """
    machines = workload.machines
    if "gpu" not in machines.resources or not machines.total[:, (gpu := machines.resources.index("gpu"))].any():
        raise WorkloadError("workload.shards: the nodes have no GPUs, of which shards are parts; set workload.gpus")
    demand = np.column_stack([workload.demand, shards])
    demand[shards > 0, gpu] = 0
    found = replace(
        workload,
        machines=replace(
            machines,
            resources=(*machines.resources, SHARD),
            total=np.column_stack([machines.total, machines.total[:, gpu] * each]),
        ),
        demand=demand,
        notes=(
            *workload.notes,
            f"each GPU has {each} shards; {(shards > 0).sum()} of {len(workload)} jobs want some instead of a GPU",
        ),
    )
    found.check()
    return found


def made_with_shards(workload: Workload, *, each: int, share: float, seed: int) -> Workload:
    """Let drawn jobs of a made-up workload want shards, and as small a part of their CPUs and memory.

    They come when they would have come with whole GPUs, so that the offered load is less.
    """
    gpus = np.where(workload.nodes == 1, workload.demand[:, workload.machines.resources.index("gpu")], 0)
    shards = wanted_shards(gpus, np.full(len(workload), -1), each=each, share=share, seed=seed)
    demand = workload.demand.copy()
    mine = shards > 0
    demand[mine, :2] = np.maximum(-(-demand[mine, :2] * shards[mine, np.newaxis] // each), 1)
    return with_shards(replace(workload, demand=demand), shards, each)
