"""The ledger of `benchmarks.bound_hour`: what a real cluster did, counted by the definitions of docs/the-bound.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from tesched_core.model.resources import JobId
from tesched_testcluster.harness.bound.jobs import ModelJob
from tesched_testcluster.harness.bound.ledger import Ledger, Terms
from tesched_testcluster.harness.bound.replay import Change, Replay, What, never_launched

CPUS = 8
BE, TE, OTHER_BE = JobId(1), JobId(2), JobId(3)
#: T is 60 s, and 6 s for the requeue delay
TERMS = Terms(
    slowdown=2.0,
    te_time_limit_s=60.0,
    min_run_time_s=0.0,
    poll_s=0.0,
    kill_wait_s=0.0,
    requeue_delay_s=6.0,
    late_s=0.0,
)


def job(job_id: JobId, *, te: bool = False, nodes: int = 1, cpus: int = CPUS) -> ModelJob:
    """Return a job."""
    user = "trials" if te else "works"
    return ModelJob(job_id=job_id, te=te, user=user, nodes=nodes, cpus=cpus, limit_s=None, run_s=0.0)


def replayed(jobs: Sequence[ModelJob], changes: Sequence[Change], nodes: int = 1) -> Replay:
    """Return a replay that is over."""
    by_id = {one.job_id: one for one in jobs}
    replay = Replay(ledger=Ledger(TERMS), nodes=nodes, cpus=CPUS, all_jobs=by_id, requeue_delay_s=6.0)
    replay.run(changes)
    return replay


def with_cancels(jobs: Sequence[ModelJob], changes: Sequence[Change], cancelled: Mapping[JobId, float]) -> Replay:
    """Return a replay that is over; `cancelled`: when the cancels returned that came in slurmctld's prolog."""
    unlaunched = never_launched(changes, cancelled)
    replay = Replay(
        ledger=Ledger(TERMS),
        nodes=2,
        cpus=CPUS,
        all_jobs={one.job_id: one for one in jobs},
        requeue_delay_s=6.0,
        unlaunched=frozenset(one.job_id for one in unlaunched),
    )
    replay.run([*changes, *unlaunched])
    return replay


def ran(job_id: JobId, since: float, until: float, *rows: int, done: bool = True) -> list[Change]:
    """Return the changes of one run."""
    ended = [Change(until, What.DONE, job_id)] if done else []
    left = [Change(until + 0.25, What.LEFT, job_id, (row,)) for row in rows]
    return [Change(since, What.STARTED, job_id, rows), *ended, *left]


def test_a_victim_has_lost_its_run_and_is_away_until_it_runs_again() -> None:
    replay = replayed(
        [job(BE), job(TE, te=True)],
        [
            Change(0.0, What.SUBMITTED, BE),
            Change(9.0, What.SUBMITTED, TE),
            *ran(BE, 0.0, 10.0, 0, done=False),
            *ran(TE, 10.5, 100.0, 0),
            *ran(BE, 100.25, 150.0, 0),
        ],
    )
    (one,) = replay.ledger.verdicts
    assert (one.lost_s, one.away_s, one.bystander_s) == (10.25, 90.0, 0.0)
    assert (one.run_s, one.bound_s) == (50.0, 66.0)
    assert one.violated
    assert replay.ledger.te_waits_s == [1.5]
    assert not replay.doubts


def test_a_victim_is_not_away_for_te_jobs_when_a_be_job_has_its_place() -> None:
    replay = replayed(
        [job(BE), job(TE, te=True), job(OTHER_BE)],
        [
            Change(0.0, What.SUBMITTED, BE),
            Change(9.0, What.SUBMITTED, TE),
            Change(9.0, What.SUBMITTED, OTHER_BE),
            *ran(BE, 0.0, 9.75, 0, done=False),
            *ran(TE, 10.0, 11.75, 0),
            *ran(OTHER_BE, 12.0, 99.75, 0),
            *ran(BE, 100.0, 110.0, 0),
        ],
    )
    of_be = next(one for one in replay.ledger.verdicts if one.job_id == BE)
    # Of the 90 s it was not eligible for 6.
    assert (of_be.lost_s, of_be.away_s, of_be.behind_be_s) == (10.0, 6.0, 84.0)
    assert not of_be.violated


@pytest.mark.parametrize(("te_since", "delay_s"), [(10.0, 40.25), (4.0, 0.0)], ids=["after it came", "before"])
def test_a_job_that_would_fit_but_for_te_jobs_that_started_since_is_a_bystander(
    te_since: float, delay_s: float
) -> None:
    replay = replayed(
        [job(BE), job(TE, te=True)],
        [
            Change(0.0, What.SUBMITTED, TE),
            Change(5.0, What.SUBMITTED, BE),
            *ran(TE, te_since, 50.0, 0),
            *ran(BE, 51.0, 60.0, 0),
        ],
    )
    (one,) = replay.ledger.verdicts
    assert one.delay_s == delay_s


def test_a_node_that_is_yet_to_be_left_is_not_free() -> None:
    both = [Change(0.0, What.SUBMITTED, TE), Change(1.0, What.SUBMITTED, BE)]
    te = [
        Change(2.0, What.STARTED, TE, (0, 1)),
        Change(10.0, What.DONE, TE),
        Change(10.0, What.LEFT, TE, (0,)),
        # The other node's Epilog takes longer.
        Change(30.0, What.LEFT, TE, (1,)),
    ]
    replay = replayed([job(BE, nodes=2), job(TE, te=True, nodes=2)], [*both, *te, *ran(BE, 30.0, 35.0, 0, 1)], 2)
    (one,) = replay.ledger.verdicts
    assert one.bystander_s == 28.0


def test_what_cannot_be_is_said() -> None:
    submitted = [Change(0.0, What.SUBMITTED, BE), Change(0.0, What.SUBMITTED, TE)]
    both = [
        Change(1.0, What.STARTED, BE, (0,)),
        Change(2.0, What.STARTED, TE, (0,)),
        Change(3.0, What.STARTED, BE, (0,)),
    ]
    doubts = replayed([job(BE), job(TE, te=True)], [*submitted, *both]).doubts
    assert [line for line in doubts if "node 0 has more jobs" in line]
    assert "job 1 started at 3.000 and had not left" in doubts


def test_a_job_cancelled_in_slurmctlds_prolog_leaves_when_another_job_has_its_place() -> None:
    replay = with_cancels(
        [job(TE, te=True, nodes=2), job(BE)],
        [
            Change(0.0, What.SUBMITTED, TE),
            Change(0.0, What.SUBMITTED, BE),
            Change(10.0, What.STARTED, TE, (0, 1)),
            *ran(BE, 14.0, 20.0, 1),
        ],
        {TE: 17.0},
    )
    assert replay.doubts == []
    assert replay.free == [CPUS, CPUS]
    (one,) = replay.ledger.verdicts
    assert one.bystander_s == 4.0


def test_a_job_cancelled_in_slurmctlds_prolog_leaves_when_its_cancel_has_returned() -> None:
    replay = with_cancels(
        [job(TE, te=True, nodes=2), job(BE, nodes=2)],
        [
            Change(0.0, What.SUBMITTED, TE),
            Change(0.0, What.SUBMITTED, BE),
            Change(10.0, What.STARTED, TE, (0, 1)),
            *ran(BE, 30.0, 40.0, 0, 1),
        ],
        {TE: 17.0},
    )
    assert replay.doubts == []
    (one,) = replay.ledger.verdicts
    assert one.bystander_s == 7.0


def test_a_missing_epilog_of_a_run_that_was_not_cancelled_is_a_doubt() -> None:
    replay = with_cancels(
        [job(TE, te=True), job(BE)],
        [
            Change(0.0, What.SUBMITTED, TE),
            Change(0.0, What.SUBMITTED, BE),
            Change(10.0, What.STARTED, TE, (0,)),
            *ran(BE, 14.0, 20.0, 0),
        ],
        {},
    )
    assert replay.doubts == ["node 0 has more jobs at 14.000 than fit on it"]
