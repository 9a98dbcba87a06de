"""The rules of shards in the simulated Slurm, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_GPUS, _SCHEDULER = "sim/tesched_sim/shared_gpus.py", "sim/tesched_sim/slurm_scheduler.py"
_OBSERVER, _WORKLOADS = "sim/tesched_sim/observer.py", "sim/tesched_sim/workloads/shards.py"

SHARD_MUTATIONS = (
    Mutation(
        "shards: a job that wants no GPU waits for none",
        "core/tesched_core/placement/demand.py",
        "takes[:, columns], -ALONE)",
        "takes[:, columns], 0)",
    ),
    Mutation(
        "simulated shards: the first GPU with enough",
        _GPUS,
        "enumerate(left) if there >= shards",
        "[*enumerate(left)][::-1] if there >= shards",
    ),
    Mutation("simulated shards: of one GPU", _GPUS, "if there >= shards), None)", "if there), None)"),
    Mutation("simulated shards: a whole GPU is one of which none is held", _GPUS, "if there == unit]", "if there]"),
    Mutation(
        "simulated shards: free is the most of one GPU", _GPUS, "max(left, default=0) if each", "sum(left) if each"
    ),
    Mutation(
        "simulated shards: beside what is kept",
        _GPUS,
        "part_of(row, node, self._left[node]) if beside is None else beside",
        "part_of(row, node, self._left[node])",
    ),
    Mutation(
        "simulated shards: none is given before a kept job has a place", _GPUS, "return [0] * len(left)", "continue"
    ),
    Mutation(
        "simulated shards: backfill delays no start", _GPUS, "found[node] = min(then", "found[node] = True or min(then"
    ),
    Mutation(
        "simulated shards: the first one's start is foretold GPU by GPU",
        _SCHEDULER,
        "            self._count_gpus(then, there, gone[there])\n",
        "",
    ),
    Mutation(
        "simulated shards: marked jobs leave until a GPU is free",
        _SCHEDULER,
        "                self._count_gpus(free[node], node, gone[node])\n",
        "",
    ),
    Mutation(
        "simulated shards: Slurm preempts until a GPU is free",
        _SCHEDULER,
        "                    self._count_gpus(free_then, node, gone)\n",
        "",
    ),
    Mutation(
        "simulated shards: the daemon sees no GPUs one by one",
        _OBSERVER,
        "shards_each=None if each is None or not each.any() else each",
        "shards_each=None",
    ),
    Mutation(
        "simulated shards: parts of a GPU are rounded up",
        _WORKLOADS,
        "said = -(-np.maximum(milli, 0) * each // WHOLE)",
        "said = np.maximum(milli, 0) * each // WHOLE",
    ),
    Mutation("simulated shards: what a trace says counts", _WORKLOADS, "np.where(milli >= 0, said, drawn)", "drawn"),
)
