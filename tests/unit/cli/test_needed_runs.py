"""What a recorded job would have run undisturbed: 12 h, of which 10 h had been run in vain, unless said otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tesched_cli.needed_runs import needed_s
from tesched_core.model.cluster import JobState
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Purpose, Victim, VictimState
from tesched_core.model.resources import JobId

H = 3600.0
DAY_S = 24 * H


def victim(departure: Departure | None, *, signal: str = "", saved_at: float | None = None) -> Victim:
    """A victim that had its notice 10 h after its start, and left a minute later."""
    return Victim(
        job_id=JobId(1),
        state=VictimState.BACK,
        restarts=0,
        grace_period_s=60,
        notice_signal=signal,
        notice_target=Target.STEPS,
        score=0.0,
        nodes=("n1",),
        started_at=0.0,
        noticed_at=10 * H,
        left_at=10 * H + 60,
        back_at=11 * H,
        saved_at=saved_at,
        departure=departure,
        purpose=Purpose.TE,
    )


def needed(
    ran_s: float,
    victims: Sequence[Victim],
    *,
    restarts: int = 1,
    limit_s: float = DAY_S,
    state: JobState = JobState.COMPLETED,
) -> float:
    job = SimpleNamespace(ran_s=ran_s, restarts=restarts, time_limit_s=int(limit_s), last_seen=30 * H, state=state)
    return needed_s(cast("Any", job), victims)


@pytest.mark.parametrize(
    ("one", "left_s"),
    [
        (victim(Departure.REQUEUED), 12 * H),
        (victim(Departure.REQUEUED, saved_at=9 * H), 21 * H),
        (victim(Departure.REQUEUED, signal="USR1"), 22 * H - 60),
        (victim(Departure.SAVED, signal="USR1"), 22 * H - 60),
        (victim(Departure.DIED_OF_NOTICE, signal="USR1"), 12 * H),
        (replace(victim(Departure.REQUEUED, signal="USR1"), grace_period_s=0.0), 12 * H),
        (victim(Departure.FINISHED), 22 * H),
        (victim(None), 22 * H),
    ],
)
def test_what_a_preemption_threw_away_is_no_work_of_the_job(one: Victim, left_s: float) -> None:
    assert needed(22 * H, [one]) == left_s


def test_a_job_that_was_put_back_needs_no_longer_than_its_time_limit() -> None:
    assert needed(22 * H, [], limit_s=13 * H) == 13 * H
    assert needed(22 * H, [], limit_s=13 * H, restarts=0) == 22 * H, "it outran its limit"
    assert needed(22 * H, [victim(Departure.REQUEUED)], limit_s=13 * H) == 12 * H


def test_of_a_job_that_runs_the_present_run_has_lost_none_of_those_before() -> None:
    assert needed(2 * H, [victim(Departure.REQUEUED)], state=JobState.RUNNING) == 2 * H


def test_what_is_left_is_a_run() -> None:
    assert needed(9 * H, [victim(Departure.REQUEUED)]) == 1.0
    assert needed(0.5, [victim(Departure.REQUEUED)]) == 0.5
