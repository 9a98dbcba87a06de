"""Finished runs of which run times are learned, and how long they ran."""

from __future__ import annotations

import pytest
from tesched_core.intake.finished_runs import ended_by_itself
from tesched_core.intake.job_times import StateChange, last_run_s
from tesched_core.model.cluster import FINISHED, JobState
from tesched_core.model.memory import Memory
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId
from tesched_testcluster.harness.store_examples import job, order, remembering, victim


def test_runs_that_ended_by_themselves_or_at_their_limit_are_learned() -> None:
    learned = {state for state in FINISHED if ended_by_itself(job(1, state, start_time=1.0), Memory())}
    assert learned == {JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT, JobState.OUT_OF_MEMORY}
    assert not ended_by_itself(job(1, JobState.COMPLETED), Memory())


@pytest.mark.parametrize(("restarts", "noticed_at", "learned"), [(0, 200.0, False), (0, None, True), (1, 200.0, True)])
def test_a_run_that_ended_after_its_notice_is_not_learned(
    restarts: int, noticed_at: float | None, learned: bool
) -> None:
    memory = remembering(order(1, 7, victim(3, noticed_at=noticed_at)))
    ended = job(3, JobState.COMPLETED, start_time=100.0, restarts=restarts)
    assert ended_by_itself(ended, memory) is learned


@pytest.mark.parametrize(("at", "learned"), [(150.0, False), (99.0, True)])
def test_a_run_with_a_withdrawn_notice_is_not_learned_when_its_order_is_over(at: float, learned: bool) -> None:
    paid = Paid(at=at, job_id=JobId(3), user="ada", account="", nodes=("n1",), node_s=0.0, withdrawn=True)
    assert ended_by_itself(job(3, JobState.COMPLETED, start_time=100.0), Memory(paid=(paid,))) is learned


def change(at: float, state: JobState, restarts: int = 0, **more: float) -> StateChange:
    return StateChange(at=at, state=state, restarts=restarts, **more)  # type: ignore[arg-type]


def test_the_last_run_counts_without_the_time_for_which_it_was_suspended() -> None:
    changes = [
        change(0, JobState.RUNNING, start_time=0),
        change(50, JobState.PENDING, 1, submit_time=50),
        change(100, JobState.RUNNING, 1, start_time=100),
        change(130, JobState.SUSPENDED, 1, start_time=100),
        change(190, JobState.RUNNING, 1, start_time=100),
        change(200, JobState.COMPLETED, 1, start_time=100, end_time=200),
    ]
    assert last_run_s(changes) == 30 + 10
