"""Run times that are expected of jobs, learned from the runs in the state store.

What one poll costs is bounded: a prediction is kept for `REFRESH_S`, waiting jobs of the same groups share one, and of
what is due at once a poll makes `MOST_UNITS` worth: half of it for jobs on nodes, half for those that wait, and what
one half does not need is the other's. Until its turn a job has its last prediction, or none, and then its time limit
counts.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from sqlalchemy import Engine
from tesched_core.intake.job_times import Suspensions
from tesched_core.model.cluster import Job
from tesched_core.model.other_objects import other_objects
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot, Traits
from tesched_db import finished_runs, run_time_levels
from tesched_db.history_rows import suspensions_on_nodes
from tesched_db.run_time_levels import WrittenLevels
from tesched_predict.history import JobFacts
from tesched_predict.quantiles import LEVELS, Prediction, RunTimes

log = logging.getLogger(__name__)

#: Seconds for which what was read of the store is believed.
AGE_S = 10.0
#: Seconds for which a prediction is kept: runs of jobs like it end now and then, and a running job has run longer.
REFRESH_S = 60.0
#: Work of one poll: a prediction costs `PREDICTION_UNITS`, to find one that a job may share costs 1 (about 7 us).
MOST_UNITS = 2000
PREDICTION_UNITS = 40


@dataclass(slots=True)
class _ExpectedJob:
    """Job with an expected run, or for which there could be one, and what that was worked out for."""

    job: Job
    traits: Traits
    #: inf: nothing is to be worked out
    renew_at: UnixSeconds


@dataclass(kw_only=True)
class LearnedRunTimes:
    """Core's Expectations, from the state store."""

    engine: Engine
    #: the levels learned are kept in the store, for those who have not learned all runs
    writes: bool = True
    run_times: RunTimes = field(default_factory=RunTimes)
    _cluster: str | None = field(default=None, init=False)
    _last_key: int = field(default=0, init=False)
    _read_at: UnixSeconds | None = field(default=None, init=False)
    #: of the runs under way, by job and its restarts: for how long they were suspended, as far as the store has it
    _suspended: Mapping[tuple[JobId, int], Suspensions] = field(default_factory=dict, init=False)
    #: levels that are in the store; None: not written yet
    _written: Mapping[float, float] | None = field(default=None, init=False)
    _jobs: Mapping[JobId, Job] | None = field(default=None, init=False)
    _traits: Mapping[JobId, Traits] | None = field(default=None, init=False)
    _waiting: bool = field(default=False, init=False)
    _at: UnixSeconds = field(default=0.0, init=False)
    _known: dict[JobId, _ExpectedJob] = field(default_factory=dict, init=False)
    _expected: dict[JobId, ExpectedRun] = field(default_factory=dict, init=False)
    #: heaps: when it is to be worked out again, and the job; of jobs on nodes, and of those that wait
    _due_on_nodes: list[tuple[UnixSeconds, JobId]] = field(default_factory=list, init=False)
    _due_waiting: list[tuple[UnixSeconds, JobId]] = field(default_factory=list, init=False)
    #: by groups and time limit: when it was made, and what is expected of a job that has not started
    _shared: dict[Hashable, tuple[UnixSeconds, ExpectedRun | None]] = field(default_factory=dict, init=False)
    #: jobs of which the log has said that predicting them raised
    _unpredictable: set[JobId] = field(default_factory=set, init=False)

    def read(self, snapshot: Snapshot, *, waiting: bool) -> Mapping[JobId, ExpectedRun]:
        """Predict the run times of the jobs on nodes, and of those that wait if `waiting`. Raises StoreError."""
        self._learn(snapshot.settings.cluster_name, snapshot.taken_at)
        # A clock that was set back would have everything be due much later.
        if waiting is not self._waiting or snapshot.taken_at < self._at:
            self._forget_jobs()
        self._waiting, self._at = waiting, snapshot.taken_at
        if snapshot.jobs is not self._jobs or snapshot.traits is not self._traits:
            jobs, traits = self._jobs, self._traits
            self._jobs = self._traits = None
            self._follow(snapshot, jobs, traits)
            self._jobs, self._traits = snapshot.jobs, snapshot.traits
        self._renew(snapshot)
        return dict(self._expected)

    def _follow(
        self, snapshot: Snapshot, before: Mapping[JobId, Job] | None, traits_before: Mapping[JobId, Traits] | None
    ) -> None:
        """Find the jobs that are new, gone or changed since those `before`; None: it is not known which these were."""
        known, traits_of = self._known, snapshot.traits
        perhaps: Iterable[JobId] = snapshot.jobs
        if before is not None and traits_before is not None:
            changed = dict.fromkeys(other_objects(snapshot.jobs, before))
            changed |= dict.fromkeys(other_objects(traits_of, traits_before))
            perhaps = [job_id for job_id in changed if job_id in snapshot.jobs]
        for job_id in perhaps:
            job, one, traits = snapshot.jobs[job_id], known.get(job_id), traits_of[job_id]
            # After a reload an unchanged job may be of another class.
            if one is not None and one.job is job and one.traits is traits:
                continue
            # The traits are the same for as long as all that they rest on is.
            same = one is not None and one.traits is traits and one.job.start_time == job.start_time
            if one is not None and same and one.job.state is job.state:
                one.job = job
                continue
            known[job_id] = _ExpectedJob(job, traits, self._first_due(job_id, job, traits, snapshot.taken_at))
        if len(known) > len(snapshot.jobs):
            for job_id in known.keys() - snapshot.jobs.keys():
                del known[job_id]
                self._expected.pop(job_id, None)

    def _first_due(self, job_id: JobId, job: Job, traits: Traits, now: UnixSeconds) -> UnixSeconds:
        """Enter a new or changed job among those that are due; what was expected of it stays until then."""
        exempt = job.pending and (not self._waiting or traits.job_class is JobClass.EXEMPT)
        if job.finished or traits.run_time_s is not None or exempt:
            self._expected.pop(job_id, None)
            return inf
        heappush(self._due_waiting if job.pending else self._due_on_nodes, (now, job_id))
        return now

    def _forget_jobs(self) -> None:
        self._known, self._expected, self._jobs, self._traits = {}, {}, None, None
        self._due_on_nodes, self._due_waiting = [], []

    def _learn(self, cluster: str, now: UnixSeconds) -> None:
        """Take the runs that were written since the last time; all of them if it is another cluster's store."""
        if cluster != self._cluster:
            self.run_times, self._last_key, self._read_at, self._written = RunTimes(), 0, None, None
            self._cluster = cluster
            self._shared.clear()
            self._forget_jobs()
            others = [name for name in finished_runs.clusters(self.engine) if name != cluster]
            if others:
                words = "finished runs of cluster %s are in the state store, and not used: this is cluster %s"
                log.warning(words, ", ".join(others), cluster)
        if self._read_at is not None and 0 <= now - self._read_at < AGE_S:
            return
        runs, self._last_key = finished_runs.load(self.engine, cluster, after=self._last_key)
        self.run_times.learned_all(runs)
        self._suspended = suspensions_on_nodes(self.engine)
        self._read_at = now
        # For those who have not learned all this.
        levels = dict(zip(LEVELS, self.run_times.levels(), strict=True))
        if self.writes and levels != self._written:
            run_time_levels.write(self.engine, WrittenLevels(cluster=cluster, levels=levels), now)
            self._written = levels

    def _renew(self, snapshot: Snapshot) -> None:
        """Predict again what is due, as far as one poll may; many jobs on nodes leave those that wait their half."""
        left = MOST_UNITS - self._renew_of(self._due_on_nodes, snapshot, MOST_UNITS // 2)
        left -= self._renew_of(self._due_waiting, snapshot, left)
        self._renew_of(self._due_on_nodes, snapshot, left)

    def _renew_of(self, due: list[tuple[UnixSeconds, JobId]], snapshot: Snapshot, units: int) -> int:
        """Predict again what is due of these, until the work is at least `units`; return what it was."""
        spent = 0
        while due and due[0][0] <= snapshot.taken_at and spent < units:
            renew_at, job_id = heappop(due)
            one = self._known.get(job_id)
            # It may have changed since, and be due at another time.
            if one is not None and one.renew_at == renew_at:
                spent += self._renew_one(snapshot.jobs[job_id], one, snapshot.taken_at)
        return spent

    def _renew_one(self, job: Job, one: _ExpectedJob, now: UnixSeconds) -> int:
        """Predict a job again, and return what that cost. No job's record keeps the others from their turn."""
        try:
            expected, one.renew_at, spent = self._of_job(job, now)
        except Exception:
            # One job's record fails again as long as it is the same; a change of the job has it tried again.
            if len(self._unpredictable) > MOST_UNITS:
                self._unpredictable.clear()
            if job.job_id not in self._unpredictable:
                log.exception("job %s of user %s: its run time cannot be predicted", job.label, job.user)
            self._unpredictable.add(job.job_id)
            expected, one.renew_at, spent = None, inf, PREDICTION_UNITS
        if expected is None:
            self._expected.pop(job.job_id, None)
        else:
            self._expected[job.job_id] = expected
        if one.renew_at < inf:
            heappush(self._due_waiting if job.pending else self._due_on_nodes, (one.renew_at, job.job_id))
        return spent

    def _of_job(self, job: Job, now: UnixSeconds) -> tuple[ExpectedRun | None, UnixSeconds, int]:
        """Expected run time of a job, until when that is believed, and what it cost to know."""
        facts = finished_runs.facts_of(job)
        if job.start_time is None or job.pending:
            expected, spent = self._of_waiting(facts, now)
            return expected, now + REFRESH_S, spent
        suspended_s = _suspended_s(self._suspended.get((job.job_id, job.restarts)), job.start_time, now)
        ran_s = max(now - job.start_time - suspended_s, 0.0)
        expected = _expected(self.run_times.predict(facts, ran_s=ran_s), suspended_s)
        # Once it has run for longer than expected, another run time is expected of it.
        outlived_at = job.start_time + suspended_s + expected.median_s if expected else now + REFRESH_S
        return expected, max(min(now + REFRESH_S, outlived_at), now + 1), PREDICTION_UNITS

    def _of_waiting(self, facts: JobFacts, now: UnixSeconds) -> tuple[ExpectedRun | None, int]:
        """Expected run time of a job that has not started, and what it cost to know."""
        key = self.run_times.shared_key(facts)
        found = self._shared.get(key)
        if found is not None and 0 <= now - found[0] < REFRESH_S:
            return found[1], 1
        if len(self._shared) > MOST_UNITS:
            self._shared.clear()
        expected = _expected(self.run_times.predict(facts))
        self._shared[key] = now, expected
        return expected, PREDICTION_UNITS


def _suspended_s(one: Suspensions | None, start_time: UnixSeconds, now: UnixSeconds) -> float:
    """Seconds for which a run was suspended until now."""
    if one is None:
        return 0.0
    still_s = 0.0 if one.since is None else max(now - one.since, 0.0)
    return min(one.past_s + still_s, max(now - start_time, 0.0))


def _expected(prediction: Prediction | None, suspended_s: float = 0.0) -> ExpectedRun | None:
    if prediction is None:
        return None
    low_s, median_s, high_s = (prediction.at(level) for level in (0.1, 0.5, 0.8))
    return ExpectedRun(low_s=low_s, median_s=median_s, high_s=high_s, suspended_s=suspended_s)
