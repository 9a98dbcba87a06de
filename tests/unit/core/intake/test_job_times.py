"""Waiting and run time over restarts, by hand-counted examples."""

from __future__ import annotations

import pytest
from tesched_core.intake.job_times import (
    Run,
    StateChange,
    Suspensions,
    bounded_slowdown,
    lost_node_s,
    runs,
    slowdown,
    suspensions,
    times,
)
from tesched_core.model.cluster import JobState
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Victim, VictimState
from tesched_core.model.resources import JobId


def pending(at: float, *, restarts: int = 0, submitted: float = 0.0) -> StateChange:
    return StateChange(at=at, state=JobState.PENDING, restarts=restarts, submit_time=submitted)


def running(at: float, start: float, *, restarts: int = 0, submitted: float = 0.0) -> StateChange:
    return StateChange(
        at=at, state=JobState.RUNNING, restarts=restarts, submit_time=submitted, start_time=start, nodes=("n1",)
    )


def ended(at: float, start: float | None, end: float, *, restarts: int = 0) -> StateChange:
    return StateChange(
        at=at, state=JobState.COMPLETED, restarts=restarts, start_time=start, end_time=end, nodes=("n1",)
    )


def test_the_worked_example_of_the_module() -> None:
    seen = [
        pending(1),
        running(101, 100),
        pending(161, restarts=1, submitted=160),
        running(202, 200, restarts=1, submitted=160),
        ended(303, 200, 300, restarts=1),
    ]
    spent = times(seen, now=1000)
    assert (spent.waited_s, spent.ran_s, spent.jct_s, spent.slowdown) == (140, 160, 300, 1.875)
    assert [(run.restarts, run.start, run.end) for run in runs(seen)] == [(0, 100, 160), (1, 200, 300)]


def test_a_requeued_job_ends_its_run_when_its_processes_are_being_ended() -> None:
    seen = [
        running(10, 10),
        StateChange(at=50, state=JobState.PENDING, restarts=1, completing=True, submit_time=70, nodes=("n1",)),
    ]
    # Its new submit time lies after the poll, so it says nothing of when the run ended.
    assert runs(seen) == (Run(restarts=0, start=10, end=50, nodes=("n1",)),)


def test_a_requeued_job_that_is_seen_before_slurm_has_reset_its_submission_has_run_until_then() -> None:
    """As Slurm 22.05 shows it: the restart is counted while the run's processes end, and submitted is as before."""
    seen = [
        pending(20.5, submitted=20),
        running(21.2, 20, submitted=20),
        StateChange(
            at=41.4, state=JobState.UNKNOWN, restarts=1, completing=True, submit_time=20, start_time=41, nodes=("n1",)
        ),
        pending(42.1, restarts=1, submitted=41),
        running(58.7, 58, restarts=1, submitted=41),
    ]
    assert [(run.restarts, run.start, run.end) for run in runs(seen)] == [(0, 20, 41.4), (1, 58, None)]
    spent = times(seen, now=60)
    assert [spent.ran_s, spent.waited_s] == pytest.approx([23.4, 16.6])


def test_a_restart_between_two_polls_is_two_runs() -> None:
    seen = [running(10, 10), running(100, 90, restarts=1, submitted=40), ended(120, 90, 120, restarts=1)]
    assert [(run.start, run.end) for run in runs(seen)] == [(10, 40), (90, 120)]
    assert times(seen, now=120).waited_s == 10 + 50


def test_a_job_that_ran_between_two_polls_has_run() -> None:
    seen = [pending(1), ended(20, 5, 15)]
    assert (times(seen, now=20).ran_s, times(seen, now=20).waited_s) == (10, 5)


def test_a_job_cancelled_in_the_queue_never_ran_and_has_no_slowdown() -> None:
    seen = [pending(1), StateChange(at=30, state=JobState.CANCELLED, restarts=0, end_time=29)]
    spent = times(seen, now=30)
    assert (spent.waited_s, spent.ran_s, spent.slowdown, spent.bounded_slowdown) == (29, 0, None, 2.9)


def test_a_suspended_job_waits() -> None:
    seen = [
        running(10, 10),
        StateChange(at=30, state=JobState.SUSPENDED, restarts=0, start_time=10),
        running(70, 10),
        ended(80, 10, 80),
    ]
    spent = times(seen, now=80)
    assert (spent.ran_s, spent.waited_s) == (20 + 10, 10 + 40)


def test_a_running_job_is_counted_up_to_now() -> None:
    spent = times([running(20, 5)], now=25)
    assert (spent.ran_s, spent.waited_s, spent.ended_at, spent.jct_s) == (20, 5, None, None)


def test_a_finished_job_that_still_completes_ran_once() -> None:
    first = StateChange(at=51, state=JobState.COMPLETED, restarts=0, completing=True, start_time=10, end_time=50)
    seen = [running(10, 10), first, ended(60, 10, 50)]
    assert times(seen, now=60).ran_s == 40


def test_of_a_job_first_seen_after_a_restart_not_all_is_known() -> None:
    assert not times([running(20, 5, restarts=2)], now=25).whole


@pytest.mark.parametrize(
    ("waited_s", "ran_s", "plain", "bounded"),
    [(0, 100, 1, 1), (90, 10, 10, 10), (9, 1, 10, 1), (99, 1, 100, 10), (5, 0, None, 1)],
)
def test_slowdowns_are_as_worked_out(waited_s: float, ran_s: float, plain: float | None, bounded: float) -> None:
    assert slowdown(waited_s, ran_s) == plain
    assert bounded_slowdown(waited_s, ran_s) == bounded


@pytest.mark.parametrize(
    ("departure", "lost"),
    [
        (Departure.REQUEUED, 2 * 60),
        (Departure.REQUEUED_ITSELF, 2 * 60),
        (Departure.FINISHED, 0),
        (Departure.DIED, 0),
        (Departure.VANISHED, 0),
    ],
)
def test_only_a_requeue_loses_time(departure: Departure, lost: float) -> None:
    victim = Victim(
        job_id=JobId(1),
        state=VictimState.LEFT,
        restarts=0,
        grace_period_s=30,
        notice_signal="USR1",
        notice_target=Target.BATCH,
        score=1.0,
        nodes=("n1", "n2"),
        started_at=100,
        left_at=160,
        departure=departure,
    )
    assert lost_node_s(victim) == lost


def suspended(at: float, *, restarts: int = 0) -> StateChange:
    return StateChange(at=at, state=JobState.SUSPENDED, restarts=restarts, start_time=100)


@pytest.mark.parametrize(
    ("seen", "past_s", "since"),
    [
        ([running(101, 100)], 0, None),
        ([running(101, 100), suspended(160), suspended(165)], 0, 160),
        ([running(101, 100), suspended(160), running(200, 100), suspended(230), running(235, 100)], 45, None),
        # One that ends while it is suspended has not run since.
        ([running(101, 100), suspended(160), ended(300, 100, 290)], 130, None),
        # Of an earlier run nothing counts.
        ([running(101, 100), suspended(160), pending(170, restarts=1), running(301, 300, restarts=1)], 0, None),
    ],
)
def test_how_long_the_last_run_was_suspended(seen: list[StateChange], past_s: float, since: float | None) -> None:
    assert suspensions(seen) == Suspensions(past_s=past_s, since=since)
