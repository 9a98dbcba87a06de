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


def require_unforgeable(recorded: Recorded, path: Path) -> None:
    """Raise WorkloadError where a user may have forged records, with which others' run times would be learned."""
    if name := recorded.open_to_users:
        raise WorkloadError(
            f"{path}:1: with the separator | any user's {name} may forge a record; leave {name} out, or print the "
            'table with one that is drawn: sacct --delimiter="<$(openssl rand -hex 6)>" (docs/reference/run-times.md)'
        )


def finished_run(recorded: Recorded, row: int) -> FinishedRun:
    """Run of one job of a trace that has times; where the trace has no wait, the job started when it was submitted."""
    submit_s, waited_s = float(recorded.submit_s[row]), float(recorded.waited_s[row])
    run_s, limit_s = float(recorded.run_s[row]), float(recorded.limit_s[row])
    # By what was requested a run is learned from Slurm's accounting and by the daemon, and a waiting job is predicted.
    gpus, cpus = int(recorded.requested_gpus[row]), int(recorded.requested_cpus[row])
    return FinishedRun(
        user=recorded.users[row],
        account=recorded.accounts[row],
        partition=recorded.partitions[row],
        job_name=recorded.job_names[row],
        gpus=gpus if gpus >= 0 else max(int(recorded.gpus[row]), 0),
        cpus=cpus if cpus >= 0 else max(int(recorded.cpus[row]), 0),
        nodes=max(int(recorded.nodes[row]), 0),
        time_limit_s=None if isnan(limit_s) or limit_s == inf else limit_s,
        run_s=run_s,
        end_s=submit_s + (0.0 if isnan(waited_s) else waited_s) + run_s,
    )
