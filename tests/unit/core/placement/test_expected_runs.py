"""Learned run times in the columns: a low quantile for the bound, the median for ends, a high one for what must fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.eligibility import slowdowns
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_policies.baselines import LongestRemaining

from tests.builders import NOW, cluster, node, running, share, view_of, waiting

LEARNED = ExpectedRun(low_s=200.0, median_s=600.0, high_s=1200.0)


def seen(*jobs: Job, said: float | None = None, **expected: ExpectedRun) -> Snapshot:
    """Return these jobs, best effort; `j2=LEARNED` is learned of job 2, and `said` is job 1's owner's word."""
    snapshot = cluster([node("n1"), node("n2")], jobs)
    traits = {
        job_id: replace(one, job_class=JobClass.BE, run_time_s=said if job_id == 1 else None)
        for job_id, one in snapshot.traits.items()
    }
    learned = {JobId(int(name[1:])): one for name, one in expected.items()}
    return replace(snapshot.with_traits(traits), expected=learned)


def holder(job_id: int = 1, *, ran_s: float = 100.0, limit_s: int | None = 3600, waited_s: float = 0.0) -> Job:
    start = NOW - ran_s
    return running(
        job_id, share("n1", 1), start_time=start, submit_time=start - waited_s, time_limit_s=limit_s, name=f"j{job_id}"
    )


@pytest.mark.parametrize(
    ("said", "ran_s", "limit_s", "ends_in_s", "may_end_in_s"),
    [
        (None, 100, 3600, 500, 100),
        # It has run for longer than 1 in 10, and may end now.
        (None, 300, 3600, 300, 0),
        # It has outlived all three, and no newer prediction is there: by its limit.
        (None, 700, 3600, 2900, 0),
        (None, 100, 300, 200, 100),
        (50_000.0, 100, 3600, 3500, 3500),
        (300.0, 100, 3600, 200, 200),
        (90.0, 100, 3600, 3500, 3500),
    ],
)
def test_running_jobs_end_by_the_median_and_may_end_by_the_low_quantile(
    said: float | None, ran_s: float, limit_s: int, ends_in_s: float, may_end_in_s: float
) -> None:
    columns = columns_of(seen(holder(ran_s=ran_s, limit_s=limit_s), said=said, j1=LEARNED))
    running_jobs = columns.running
    assert (running_jobs.ends_at - NOW).tolist() == [ends_in_s]
    assert (running_jobs.may_end_at - NOW).tolist() == [may_end_in_s]
    assert (columns.ends.at - NOW).tolist() == [ends_in_s]


def test_waiting_jobs_run_for_the_median_and_may_run_for_the_high_quantile() -> None:
    jobs = [waiting(1), waiting(2), waiting(3, time_limit_s=900), waiting(4, time_limit_s=900)]
    found = columns_of(seen(*jobs, said=60.0, j1=LEARNED, j2=LEARNED, j3=LEARNED)).waiting
    by_job = dict(
        zip(found.job_id.tolist(), zip(found.run_s.tolist(), found.may_run_s.tolist(), strict=True), strict=True)
    )
    assert by_job == {1: (60.0, 60.0), 2: (600.0, 1200.0), 3: (600.0, 900.0), 4: (900.0, 900.0)}


def test_the_bound_counts_by_the_low_quantile() -> None:
    # It waited for 400 s: 1 + 400 / 200 by what is learned, 1 + 400 / 3600 by its limit.
    jobs = (holder(1, waited_s=400.0), holder(2, waited_s=400.0))
    found = slowdowns(columns_of(seen(*jobs, j1=LEARNED)).running, Memory())
    assert found.tolist() == pytest.approx([3.0, 1 + 1 / 9])


def test_the_longest_remaining_run_is_so_by_the_median() -> None:
    # By its limit job 1 would have 3,500 s left, job 2 900 s.
    view = view_of(seen(holder(1), holder(2, limit_s=1000), j1=LEARNED))
    scores = LongestRemaining().rank(view, None)
    assert view.running.job_id[scores.argmin()] == 2
