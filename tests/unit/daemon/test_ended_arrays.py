"""Raises of job arrays that have ended: all jobs are gone through once for all of them, not once for each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tesched_core.fields.nice_rule import NICE_RULE
from tesched_core.model.change import By, first_change
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import in_turn
from tesched_daemon.rest import all_is_due
from tesched_daemon.settings import Mode
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, waiting

ARRAYS = range(100, 140, 2)


class CountedJobs(dict[JobId, Job]):
    """Jobs that count how often all of them are gone through."""

    scans = 0

    def values(self) -> Any:
        """Return the jobs."""
        self.scans += 1
        return super().values()


def site() -> tuple[Memory, Snapshot, CountedJobs]:
    """Return arrays of which one task each is left, which has ended, and whose raises stay for that reason."""
    jobs, raises = CountedJobs(), {}
    for one in ARRAYS:
        ended = replace(waiting(one), array_job_id=JobId(one), array_task_id=0, state=JobState.COMPLETED, nice=-5)
        jobs[ended.job_id] = ended
        change = first_change(ended.job_id, Field.NICE, 0, -5, NOW, by=By.PREEMPTOR)
        raises[ended.job_id] = replace(change, since=None)
    return Memory(changes={Field.NICE: raises}), replace(Snapshot.of(NOW), jobs=jobs), jobs


def test_when_those_that_are_to_be_put_back_are_counted() -> None:
    memory, snapshot, jobs = site()
    assert NICE_RULE.outstanding(memory, snapshot) == 0
    assert jobs.scans == 1
    # One is requeued: its raise is put back.
    jobs[JobId(100)] = replace(jobs[JobId(100)], state=JobState.PENDING)
    assert NICE_RULE.outstanding(memory, snapshot) == 1


def test_at_rest() -> None:
    memory, snapshot, jobs = site()
    assert not all_is_due(memory, snapshot, in_turn(FitGpp()), Limits(), Mode.ENFORCE)
    assert jobs.scans <= 1
