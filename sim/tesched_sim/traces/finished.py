"""Runs of a trace, as a predictor learns them."""

from __future__ import annotations

from math import inf, isnan
from pathlib import Path

from tesched_predict.history import FinishedRun

from tesched_sim.traces.recorded import Recorded
from tesched_sim.workload import WorkloadError


def require_times(recorded: Recorded, path: Path) -> None:
    """Raise WorkloadError unless the trace has the times of submission, without which no run has an end."""
    if not recorded.has_times:
        raise WorkloadError(f"{path}:1: this format has no time of submission; a trace with such times is needed")


def finished_run(recorded: Recorded, row: int) -> FinishedRun:
    """Run of one job of a trace that has times; where the trace has no wait, the job started when it was submitted."""
    submit_s, waited_s = float(recorded.submit_s[row]), float(recorded.waited_s[row])
    run_s, limit_s = float(recorded.run_s[row]), float(recorded.limit_s[row])
    return FinishedRun(
        user=recorded.users[row],
        account=recorded.accounts[row],
        partition=recorded.partitions[row],
        job_name=recorded.job_names[row],
        gpus=max(int(recorded.gpus[row]), 0),
        cpus=max(int(recorded.cpus[row]), 0),
        nodes=max(int(recorded.nodes[row]), 0),
        time_limit_s=None if isnan(limit_s) or limit_s == inf else limit_s,
        run_s=run_s,
        end_s=submit_s + (0.0 if isnan(waited_s) else waited_s) + run_s,
    )
