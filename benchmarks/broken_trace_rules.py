"""The rules of recorded jobs that run again, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SACCT, _RECORDED = (f"sim/tesched_sim/traces/{name}.py" for name in ("sacct", "recorded"))
_FILLED = "sim/tesched_sim/workloads/fill.py"
_PAST = "cli/tesched_cli/recorded_past.py"

TRACE_MUTATIONS = (
    Mutation(
        "trace: a limit above ten years is none",
        _SACCT,
        "return limit_s if limit_s <= LONGEST_S else float(np.inf)",
        "return _within(limit_s, 0, LONGEST_S, word)",
    ),
    Mutation("trace: no cluster has as many", _RECORDED, "if cpus > _MOST_CPUS or gpus > _MOST_GPUS:", "if False:"),
    Mutation("trace: a run of ten years", _RECORDED, "if run_s > LONGEST_S:", "if False:"),
    Mutation(
        "trace: memory beyond all bounds is not known",
        _RECORDED,
        "int(mem_mib) if 0 < mem_mib < _MOST_MIB else -1",
        "int(mem_mib)",
    ),
    Mutation("trace: more nodes than Slurm allows", _FILLED, " & (nodes <= MOST_NODES)", " & (nodes <= 2**32)"),
    Mutation(
        "trace: few jobs of another time",
        _FILLED,
        "        together = _together(submit_s)\n",
        "        together = np.ones(len(submit_s), dtype=np.bool_)\n",
    ),
    Mutation("trace: few alone are of another time", _FILLED, " or (~left).sum() > _FEW * len(submit_s)", ""),
    Mutation(
        "trace: times of Philly have a zone",
        "sim/tesched_sim/traces/gpu_clusters.py",
        "found if found.tzinfo is not None else found.replace(tzinfo=UTC)",
        "found",
    ),
    Mutation(
        "advice: parts of few jobs are passed over",
        "sim/tesched_sim/advice.py",
        "(part for part in parts if part.sum() >= least)",
        "parts",
    ),
    Mutation(
        "past: an exempt job is no victim",
        "sim/tesched_sim/slurm.py",
        "            if self.be[row]:\n                self.running_be[row] = None\n",
        "            self.running_be[row] = None\n",
    ),
    Mutation(
        "past: an exempt job counts to no class",
        "sim/tesched_sim/reports/summary.py",
        "be=_of_class(result, workload.be)",
        "be=_of_class(result, ~workload.te)",
    ),
    Mutation("past: exempt jobs of the store", _PAST, "exempt=exempt if any(exempt) else None", "exempt=None"),
    Mutation("past: jobs that run", _PAST, "_workload((*ended, *running), look", "_workload(ended, look"),
    Mutation("past: jobs that run, of sacct", "slurm/tesched_slurm/sacct_history.py", "OOM,DL,BF,R,S", "OOM,DL,BF"),
)
