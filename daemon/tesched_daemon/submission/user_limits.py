"""Limits on the TE jobs of one user (`guard.te`, `guard.bound`), and what counts against them now, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.guard.misuse import barred_users
from tesched_core.guard.te_limits import submitted_by_user
from tesched_core.intake.job_times import most_run_s
from tesched_core.model.cluster import Job
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import JobClass, Snapshot


def limits_of_user(job: Job, snapshot: Snapshot, limits: Limits, memory: Memory) -> Iterator[str]:
    """Yield the limits on TE jobs of this pending job's user; the job itself is in the snapshot."""
    te, user = limits.te, job.user
    running = [
        one
        for one in snapshot.jobs.values()
        if one.user == user and one.on_nodes and snapshot.job_class(one.job_id) is JobClass.TE
    ]
    if te.max_running_per_user:
        yield (
            f"{len(running)} TE jobs of {user} run, of at most {te.max_running_per_user} "
            "(guard.te.max_running_per_user)"
        )
    if te.max_submitted_per_user:
        yield (
            f"with it {submitted_by_user(snapshot).get(user, 0)} TE jobs of {user} wait or run, of at most "
            f"{te.max_submitted_per_user} (guard.te.max_submitted_per_user)"
        )
    if te.max_node_minutes_per_user:
        minutes = sum(len(one.nodes) * most_run_s(one) / 60 for one in running)
        yield (
            f"running TE jobs of {user} have {minutes:g} node-minutes, of at most {te.max_node_minutes_per_user:g} "
            "(guard.te.max_node_minutes_per_user)"
        )
    if te.max_cluster_share < 1:
        yield f"all TE jobs hold at most {te.max_cluster_share:g} of the cluster (guard.te.max_cluster_share)"
    outlived = barred_users(memory.outlived, te, snapshot.taken_at).get(user)
    if outlived is not None:
        yield f"{outlived.said} (guard.te.max_outlived_per_user_day)"
    if limits.bound.is_set:
        yield (
            f"TE jobs have a time limit of {limits.bound.te_time_limit_s:g} s at most, and delay no BE job by more "
            "than its bound (guard.bound)"
        )
