"""Run times that are expected of jobs, learned from the runs in the state store.

What one poll costs is bounded: a prediction is kept for `REFRESH_S`, waiting jobs of the same groups share one, and of
what is due at once a poll makes `MOST_UNITS` worth, running jobs first. Until its turn a job has its last prediction,
or none, and then its time limit counts.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

from sqlalchemy import Engine
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot, Traits
from tesched_db import finished_runs
from tesched_predict.history import JobFacts
from tesched_predict.quantiles import Prediction, RunTimes

log = logging.getLogger(__name__)

#: Seconds for which what was read of the store is believed.
AGE_S = 10.0
#: Seconds for which a prediction is kept: runs of jobs like it end now and then, and a running job has run longer.
REFRESH_S = 60.0
#: Work of one poll: a prediction costs `PREDICTION_UNITS`, to find one that a job may share costs 1 (about 7 us).
MOST_UNITS = 4000
PREDICTION_UNITS = 40


class _Kept(NamedTuple):
    """Prediction of one job, and what it was made for."""

    traits: Traits
    start_time: UnixSeconds | None
    #: None: nothing was learned that tells anything
    expected: ExpectedRun | None
    renew_at: UnixSeconds


@dataclass(kw_only=True)
class LearnedRunTimes:
    """Core's Expectations, from the state store."""

    engine: Engine
    run_times: RunTimes = field(default_factory=RunTimes)
    _cluster: str | None = field(default=None, init=False)
    _last_key: int = field(default=0, init=False)
    _read_at: UnixSeconds | None = field(default=None, init=False)
    _kept: dict[JobId, _Kept] = field(default_factory=dict, init=False)
    #: by groups and time limit: when it was made, and what is expected of a job that has not started
    _shared: dict[Hashable, tuple[UnixSeconds, ExpectedRun | None]] = field(default_factory=dict, init=False)

    def read(self, snapshot: Snapshot, *, waiting: bool) -> Mapping[JobId, ExpectedRun]:
        """Predict the run times of the jobs on nodes, and of those that wait if `waiting`. Raises StoreError."""
        now = snapshot.taken_at
        self._learn(snapshot.settings.cluster_name, now)
        before, kept, due = self._kept, {}, []
        for job_id, job in snapshot.jobs.items():
            if job.finished or (job.pending and not waiting):
                continue
            traits = snapshot.traits[job_id]
            if traits.run_time_s is not None or (job.pending and traits.job_class is JobClass.EXEMPT):
                continue
            one = before.get(job_id)
            if one is None or one.traits is not traits or one.start_time != job.start_time:
                # What was expected of it before it changed is no worse than nothing.
                one = _Kept(traits, job.start_time, one.expected if one else None, float("-inf"))
            if one.renew_at <= now:
                due.append((job.pending, one.renew_at, job_id))
            kept[job_id] = one
        self._renew(snapshot, kept, due)
        self._kept = kept
        return {job_id: one.expected for job_id, one in kept.items() if one.expected is not None}

    def _learn(self, cluster: str, now: UnixSeconds) -> None:
        """Take the runs that were written since the last time; all of them if it is another cluster's store."""
        if cluster != self._cluster:
            self.run_times, self._last_key, self._read_at = RunTimes(), 0, None
            self._cluster = cluster
            others = [name for name in finished_runs.clusters(self.engine) if name != cluster]
            if others:
                words = "finished runs of cluster %s are in the state store, and not used: this is cluster %s"
                log.warning(words, ", ".join(others), cluster)
        if self._read_at is not None and 0 <= now - self._read_at < AGE_S:
            return
        runs, self._last_key = finished_runs.load(self.engine, cluster, after=self._last_key)
        self.run_times.learned_all(runs)
        self._read_at = now

    def _renew(self, snapshot: Snapshot, kept: dict[JobId, _Kept], due: list[tuple[bool, float, JobId]]) -> None:
        """Predict again what is due, as far as one poll may."""
        now, units = snapshot.taken_at, MOST_UNITS
        for _, _, job_id in nsmallest(MOST_UNITS, due):
            if units <= 0:
                return
            job, one = snapshot.jobs[job_id], kept[job_id]
            facts = finished_runs.facts_of(job)
            if job.start_time is None or job.pending:
                expected, spent = self._of_waiting(facts, now)
                renew_at = now + REFRESH_S
            else:
                ran_s = max(now - job.start_time, 0.0)
                expected, spent = _expected(self.run_times.predict(facts, ran_s=ran_s)), PREDICTION_UNITS
                # Once it has run for longer than expected, something else is expected of it.
                outlived_at = job.start_time + expected.median_s if expected else now + REFRESH_S
                renew_at = max(min(now + REFRESH_S, outlived_at), now + 1)
            units -= spent
            kept[job_id] = one._replace(expected=expected, renew_at=renew_at)

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


def _expected(prediction: Prediction | None) -> ExpectedRun | None:
    if prediction is None:
        return None
    return ExpectedRun(low_s=prediction.at(0.1), median_s=prediction.at(0.5), high_s=prediction.at(0.8))


def learned(engine: Engine, cluster: str) -> RunTimes:
    """Learn all runs of a cluster that are in the store. Raises StoreError."""
    run_times = RunTimes()
    run_times.learned_all(finished_runs.load(engine, cluster)[0])
    return run_times
