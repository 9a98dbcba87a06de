"""The rules of recorded jobs that run again, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SACCT, _RECORDED = (f"sim/tesched_sim/traces/{name}.py" for name in ("sacct", "recorded"))
_FILLED = "sim/tesched_sim/workloads/fill.py"
_ENGINE, _STILL = "sim/tesched_sim/engine.py", "sim/tesched_sim/stillness.py"
_PAST, _LEFT_OUT = (f"cli/tesched_cli/{name}.py" for name in ("recorded_past", "left_out"))

TRACE_MUTATIONS = (
    Mutation("rests: it has seen what happened", _ENGINE, "return seen and not waits", "return not waits"),
    Mutation(
        "rests: while a TE job waits, until then",
        _ENGINE,
        "self._still_until_s if self.slurm.te_pending",
        "inf if True",
    ),
    Mutation("rests: until what is known", _ENGINE, "min(at, until_s, self.daemon.rests_until_s)", "min(at, until_s)"),
    Mutation(
        "rests: until something happens", _ENGINE, "                self.daemon.happens()\n", "                pass\n"
    ),
    Mutation("rests: not while a run is on trial", _ENGINE, " or is_on_trial(slurm, self.memory)", ""),
    Mutation(
        "still: while TE jobs have no victim", _ENGINE, "if self._may_be_still and slurm.te_pending:", "if False:"
    ),
    Mutation("still: not while its memory changes", _STILL, "replace(after, cycle=before.cycle) != before", "False"),
    Mutation("still: each TE job is weighed", _STILL, " and refused.issuperset(slurm.te_pending)", ""),
    Mutation("still: each TE job has no victim", _STILL, "one.code in _UNTIL_THEN", "True"),
    Mutation("still: until a cool-down is over", _STILL, "one.last_preempted + limits.cool_down_s", "inf"),
    Mutation("still: for an hour after a payment", _STILL, "paid.at + HOUR_S, ", ""),
    Mutation("still: for a day after a payment", _STILL, ", paid.at + DAY_S)", ",)"),
    Mutation("still: until a run is long enough", _STILL, "(running.started + limits.min_run_time_s).tolist()", "()"),
    Mutation("still: until more is expected", _STILL, "(at for at in running.ends_at.tolist() if isfinite(at))", "()"),
    Mutation("still: not where slowdowns lessen", _STILL, "if _lessens(slurm) and ", "if False and "),
    Mutation(
        "rests: samples as before",
        _ENGINE,
        "            if self._next_sample <= self._next_poll:",
        "            if False:",
    ),
    Mutation("not run: only of those that waited", _SACCT, "if state in _WAITED:", "if True:"),
    Mutation("not run: cancelled at once", _SACCT, "if at_once or line", "if line"),
    Mutation("not run: since it was eligible", _SACCT, '"Eligible" if line.text("Eligible") else "Submit"', '"Submit"'),
    Mutation("not run: one that was not eligible", _SACCT, "waited_s if waited_s >= 0 else np.nan", "waited_s"),
    Mutation("not run: until the latest time", _SACCT, "np.nanmax([at_s, *ends, *others])", "at_s"),
    Mutation("not run: too large for TE", _FILLED, "    if wanted > most:\n        return False\n", ""),
    Mutation("not run: TE by its time limit", _FILLED, "one.limit_s <= p.te_run_max * MINUTE_S and ", ""),
    Mutation("not run: classes that are drawn", _FILLED, " and p.te_share == 1 else None", " else None"),
    Mutation("not run: one that was held", _LEFT_OUT, "if job.reason not in _FOR_RESOURCES:", "if False:"),
    Mutation("not run: many waited unseen", _LEFT_OUT, "return 20 * sum", "return 0 * sum"),
    Mutation("not run: few do not hide the rest", _LEFT_OUT, "return 20 * sum", "return 10**9 * sum"),
    Mutation("not run: of how long a wait", _LEFT_OUT, "waited_s > AT_ONCE_S", "True"),
    Mutation("not run: cancelled jobs of the store", _LEFT_OUT, "elif job.state in ENDED_FIRST:", "elif False:"),
    Mutation("not run: waiting jobs of the store", _PAST, "states=_RUNNING | {JobState.PENDING}", "states=_RUNNING"),
    Mutation(
        "left out: requeued, and waits again", _LEFT_OUT, "            if job.restarts:\n", "            if False:\n"
    ),
    Mutation("left out: of these days", _LEFT_OUT, "elif job.last_seen >= since:", "else:"),
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
    Mutation("past: jobs that run", _PAST, "(*jobs.ran, *jobs.running), victims", "jobs.ran, victims"),
    Mutation(
        "past: jobs that run, of sacct", "slurm/tesched_slurm/sacct_history.py", "OOM,DL,BF,R,S,PD", "OOM,DL,BF,PD"
    ),
    Mutation(
        "needed: what a preemption threw away",
        "cli/tesched_cli/needed_runs.py",
        "ran_s - sum(_lost_s(victim, job) for victim in counted)",
        "ran_s",
    ),
    Mutation(
        "needed: one that has saved its work lost its grace period alone",
        "cli/tesched_cli/needed_runs.py",
        "if not victim.loses_run and victim.noticed_at",
        "if False and victim.noticed_at",
    ),
    Mutation(
        "needed: of a job that runs",
        "cli/tesched_cli/needed_runs.py",
        " if job.state in FINISHED or one.restarts >= job.restarts",
        "",
    ),
    Mutation(
        "needed: no longer than the time limit",
        "cli/tesched_cli/needed_runs.py",
        "if job.restarts and job.time_limit_s is not None:",
        "if False:",
    ),
    Mutation("site: KillWait", "cli/tesched_cli/this_site.py", "kill_wait_s=float(slurm.kill_wait_s),", ""),
)
