"""The rules of what a simulated run counts, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SLURM, _FOLDED = "sim/tesched_sim/slurm.py", "sim/tesched_sim/results_of_arrays.py"
_SETS = "cli/tesched_cli/simulating.py"
_SUMMARY, _ENGINE = "sim/tesched_sim/reports/summary.py", "sim/tesched_sim/engine.py"
_ACTUATOR = "sim/tesched_sim/actuator.py"

TWIN_MUTATIONS = (
    Mutation(
        "simulated node-hours: lost on the nodes that were held",
        _SLURM,
        "self.lost_node_s[row] += seconds * len(self.where[row])",
        "self.lost_node_s[row] += seconds * self.nodes_wanted[row]",
    ),
    Mutation(
        "simulated node-hours: held by each run",
        _SLURM,
        "(self.now - self.started_s[row]) * len(self.where[row])",
        "(self.now - self.started_s[row]) * self.nodes_wanted[row]",
    ),
    Mutation("simulated node-hours: a delay counts seconds", _SUMMARY, " / preemptions.nodes)", ")"),
    Mutation(
        "simulated trainings: the bound of the task that is nearest",
        _FOLDED,
        "np.maximum.at(part",
        "np.minimum.at(part",
    ),
    Mutation("simulated use: over each second", _ENGINE, "slurm.in_use() * (at - slurm.now)", "slurm.in_use()"),
    Mutation(
        "simulated use: while there is work alone",
        _ENGINE,
        "if slurm.running or slurm.te_pending or slurm.be_waiting:",
        "if True:",
    ),
    Mutation(
        "simulated use: while a job waits",
        _ENGINE,
        "if slurm.running or slurm.te_pending or slurm.be_waiting:",
        "if slurm.running:",
    ),
    Mutation(
        "simulated native preemption: what is saved before SIGKILL",
        _SLURM,
        "if self.yield_s[row] <= (wait_s if told else self.behaviour.kill_wait_s):",
        "if told:",
    ),
    Mutation(
        "simulated native preemption: KillWait is behind the grace period",
        _SLURM,
        "(wait_s if told else self.behaviour.kill_wait_s)",
        "(grace_s if told else self.behaviour.kill_wait_s)",
    ),
    Mutation(
        "simulated native preemption: SIGTERM at the grace period's end",
        _SLURM,
        "self.now if told else self.now + grace_s",
        "self.now",
    ),
    Mutation(
        "simulated native preemption: before its notice it has saved nothing",
        _SLURM,
        "noticed = self.noticed_s[row] <= self.now and",
        "noticed = isfinite(self.noticed_s[row]) and",
    ),
    Mutation("swf: parts of a job are none", "sim/tesched_sim/traces/swf.py", "_PARTS = (2, 3, 4)", "_PARTS = (2, 3)"),
    Mutation(
        "simulated trainings: a user of their own",
        "sim/tesched_sim/workloads/beyond.py",
        "users.index(own)",
        "0",
    ),
    Mutation(
        "simulated trainings: no real user's name",
        "sim/tesched_sim/workloads/beyond.py",
        "name if name not in known else",
        "name if True else",
    ),
    Mutation("simulate: a key is set once", _SETS, "if key in known:", "if False:"),
    Mutation("simulate: equal values are one", _SETS, "list(dict.fromkeys(", "list(("),
    Mutation(
        "simulate: a run's own seed", "cli/tesched_cli/simulate.py", "if seeds := _SEEDS &", "if seeds := set() &"
    ),
    Mutation("past: a key is set once", "cli/tesched_cli/recorded_past.py", "    refuse_twice(sets)\n", ""),
    Mutation("simulated throttle: few tasks are gone over", _SLURM, "break  # it is kept", "pass  # it is kept"),
    Mutation(
        "simulated throttle: one that comes back is gone over",
        _SLURM,
        "            self.arrays.open_to[array] = max(self.arrays.open_to[array], row)\n",
        "",
    ),
    Mutation(
        "simulated throttle: the edge", _SLURM, "self.arrays.open_to[array] = last", "self.arrays.open_to[array] = -1"
    ),
    Mutation(
        "simulated arrays: the record stands for what is known",
        _SLURM,
        "> (row in self.known)",
        "< (row in self.known)",
    ),
    Mutation("simulated trainings: the bound", _FOLDED, "_folded(result.bound, entry)", "result.bound"),
    Mutation("twin: nice of a held job is not sent", _ACTUATOR, "return action.field is Field.NICE", "return False"),
    Mutation(
        "twin: a hold of its user's stays",
        _ACTUATOR,
        "return row in self.slurm.held_by_user and not by_hook",
        "return False",
    ),
)
