"""Snapshot of now with a pretended job in it, and with what the daemon has recorded of the jobs that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Engine
from tesched_core.intake.classify import classified
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_db import queries as read
from tesched_db.views import JobFilter, JobView

from tesched_daemon.config import Config
from tesched_daemon.run_time_source import LearnedRunTimes

#: polls' worth of learned run times that are read at most
_MOST_READS = 100
_RUNS = frozenset({JobState.RUNNING, JobState.SUSPENDED})
_UNREAD = "its script is yet to be read"


def as_recorded(seen: Snapshot, job: Job, traits: Traits, config: Config, engine: Engine) -> Snapshot:
    """Snapshot of what was seen with the job in it, and with what the daemon has recorded of those that run."""
    with_it = replace(seen, jobs={**seen.jobs, job.job_id: job}, columns=None)
    snapshot = classified(with_it, config.classes)
    views = {one.job_id: one for one in read.jobs(engine, JobFilter(states=_RUNS))}
    recorded: dict[JobId, Traits] = {**snapshot.traits, job.job_id: traits}
    for job_id, one in seen.jobs.items():
        if one.on_nodes:
            recorded[job_id] = _recorded(one, snapshot.traits[job_id], views.get(job_id))
    snapshot = snapshot.with_traits(recorded)
    snapshot = replace(snapshot, idle_since=_idle(seen, views))
    if config.run_times.learn:
        waits = any(entry.policy.reads_run_times for entry in config.policy.entries())
        learned, known = LearnedRunTimes(engine=engine, writes=False), -1
        for _ in range(_MOST_READS):
            expected = learned.read(snapshot, waiting=waits)
            if len(expected) == known:
                break
            known, snapshot = len(expected), replace(snapshot, expected=expected)
    return snapshot


def _idle(seen: Snapshot, views: Mapping[JobId, JobView]) -> Mapping[JobId, UnixSeconds]:
    """Return the jobs that the daemon counts as idle: it checks the site's file, which stands on its own host."""
    return {
        job_id: view.idle_since
        for job_id, view in views.items()
        if view.idle_since is not None and (job := seen.jobs.get(job_id)) is not None and _is_same_run(job, view)
    }


def _is_same_run(job: Job, view: JobView) -> bool:
    return (view.user, view.restarts, view.start_time) == (job.user, job.restarts, job.start_time)


def _recorded(job: Job, traits: Traits, view: JobView | None) -> Traits:
    """Return a running job's traits as the daemon has recorded them: its class is that of its run's beginning."""
    if view is None or not _is_same_run(job, view):
        is_new = job.batch and traits.job_class is JobClass.BE
        return replace(traits, unread=True) if is_new else traits
    return replace(
        traits,
        job_class=view.job_class,
        rule=view.rule,
        grace_period_s=view.grace_period_s,
        grace_source=view.grace_source,
        notice_signal=view.notice_signal,
        notice_target=view.notice_target,
        notice_source=view.notice_source,
        exit0=view.exit0,
        most_preemptions=view.most_preemptions,
        elastic=view.elastic,
        unread=view.notice_source.startswith(_UNREAD),
    )
