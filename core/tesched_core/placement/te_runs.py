"""Runs of TE jobs since the last poll, those that ended before this one among them.

Principle
    Slurm knows a finished job for a while (MinJobAge), with its start and its end. What it held is free now, or held by
    a job that has started since. When its nodes were free Slurm does not say: that is taken to be `EPILOG_S` after an
    end of its own, and KillWait after any other end, or at this poll, whichever is sooner. One whose end was before the
    last poll, which still saw it leaving, is taken to have left at this one.

Worked example
    Polls at 100 and 130. A TE run from 105 to 108, which ended by itself, was in the way of a job that is eligible
    since 50: 5 s of 30 count. With another one that runs since 120 it is 15 s; with one that runs since 90, all 30 s.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.in_the_way import te_held

#: seconds for which nodes are taken to be held after a run has ended by itself; Slurm's times are whole seconds
EPILOG_S = 2.0


def left_since(last: UnixSeconds, held: Container[tuple[JobId, UnixSeconds]], snapshot: Snapshot) -> tuple[Job, ...]:
    """Return the TE jobs that have left their nodes since the last poll; at that, those in `held` had not.

    `held` has ids and starts.
    """
    return tuple(
        job
        for job_id, job in snapshot.jobs.items()
        if job.ran_on
        and job.start_time is not None
        and job.end_time is not None
        and (last - 1 < job.end_time or (job_id, job.start_time) in held)
        and snapshot.job_class(job_id) is JobClass.TE
    )


def in_their_places(runs: Iterable[Job], since: UnixSeconds, snapshot: Snapshot) -> Mapping[JobId, Job]:
    """Return those of these runs that hold nodes, and each job that has started since, in another's place."""
    gone = {job.job_id: job for job in runs if job.on_nodes}
    started = (job for job in snapshot.jobs.values() if job.on_nodes and (job.start_time or 0.0) > since - 1)
    return gone | {job.job_id: job for job in started}


def free_without(gone: Mapping[JobId, Job], snapshot: Snapshot, capacity: Capacity) -> Capacity:
    """Free resources as if these jobs held nothing."""
    held = te_held([*gone.values()], snapshot, capacity)
    return capacity.changed(held.share_node, held.frees)


def covered_s(
    runs: Iterable[Job],
    job: Job,
    *,
    since: UnixSeconds,
    until: UnixSeconds,
    kill_wait_s: float,
    leaving: Container[JobId] = (),
) -> float:
    """Return for how long runs of other users' TE jobs that began since a job is eligible cover this time, seconds.

    Those that are `leaving` have left their nodes at the end of it.
    """
    eligible = job.eligible_time if job.eligible_time is not None else until
    covered_s, at = 0.0, since
    times = (
        (one.start_time or 0.0, until if one.job_id in leaving else _until(one, until, kill_wait_s))
        for one in runs
        if one.user != job.user
    )
    for start, end in sorted(times):
        if start >= eligible and min(end, until) > at:
            covered_s += min(end, until) - max(start, at)
            at = min(end, until)
    return covered_s


def _until(run: Job, until: UnixSeconds, kill_wait_s: float) -> UnixSeconds:
    if run.on_nodes or run.end_time is None:
        return until
    return run.end_time + EPILOG_S + (0.0 if run.state is JobState.COMPLETED else kill_wait_s)
