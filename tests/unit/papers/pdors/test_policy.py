"""PD-ORS's arrivals: what is reserved for each job, and why others are left to the queue."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_core.model.resources import JobId
from tesched_papers.pdors.algorithm.policy import Ledger, PdOrs
from tesched_papers.pdors.algorithm.schedule import NoSchedule, Schedule, Settings
from tesched_policies.pdors.model import ModelError, Sigmoid
from tesched_policies.pdors.prices import PriceBounds

from tests.unit.policies.pdors.examples import Drawn, machines, samples_done, taken, training


def policy(*capacity: tuple[float, float], low: float = 1e-3, high: float = 100.0) -> PdOrs:
    bounds = PriceBounds(low=np.full(2, low), high=np.full(2, high))
    return PdOrs(machines=machines(*capacity), bounds=bounds, settings=Settings(units=8))


def test_worked_example_is_reproduced() -> None:
    one = PdOrs(
        machines=machines([4.0, 1e9]), bounds=PriceBounds(low=np.array([0.5, 1e-15]), high=np.array([8.0, 1e-14]))
    )

    # One slot, two workers of one GPU; servers take CPUs, which cost nothing to speak of.
    def arriving(job_id: int) -> tuple[Ledger, Schedule | NoSchedule]:
        job = training(
            job_id=JobId(job_id), samples=2.0, batch=2, model_mb=0.5, utility=Sigmoid(height=6, steepness=0, patience=1)
        )
        after, answer = one.arrive(ledger, job, Drawn(0))
        return after, answer.outcome

    ledger = Ledger.empty(one.machines, 1)
    ledger, first = arriving(1)
    assert isinstance(first, Schedule)
    assert (first.cost, first.worth) == pytest.approx((1.0, 3.0))
    assert list(ledger.used[0, 0]) == [2.0, 6.0]
    assert arriving(2)[1] is NoSchedule.PRICE


def test_a_job_that_fits_on_one_machine_is_put_there_and_done() -> None:
    one = policy((4.0, 16.0), (4.0, 16.0))
    _, answer = one.arrive(Ledger.empty(one.machines, 2), training(), Drawn(0))
    assert answer.schedule is not None
    assert [placement.internal for placement in answer.schedule.placements] == [True, True]
    assert sum(samples_done(training(), placement) for placement in answer.schedule.placements) >= 8.0


def test_a_job_is_not_put_before_its_arrival_nor_on_what_was_reserved() -> None:
    one = policy((4.0, 12.0))
    job = training(samples=4.0, arrival=1)
    ledger, answers = one.arrive_all(Ledger.empty(one.machines, 4), [job] * 4, Drawn(0))
    assert [answer.schedule.end if answer.schedule else answer.outcome for answer in answers] == [
        1,
        2,
        3,
        NoSchedule.RESOURCES,
    ]
    held = [placement for answer in answers if answer.schedule for placement in answer.schedule.placements]
    assert (ledger.used == taken(job, held, (4, 1, 2))).all()
    assert (ledger.used[0] == 0).all()


def test_what_is_too_dear_now_is_refused_for_its_price_and_changes_nothing() -> None:
    one = policy((4.0, 16.0), low=50.0)
    before = Ledger.empty(one.machines, 2)
    after, answer = one.arrive(before, training(), Drawn(0))
    assert answer.outcome is NoSchedule.PRICE
    assert after is before


def test_a_ledger_is_not_changed_by_a_plan() -> None:
    one = policy((4.0, 16.0))
    before = Ledger.empty(one.machines, 2)
    after, _ = one.arrive(before, training(), Drawn(0))
    assert (before.used == 0).all()
    assert (after.used > 0).any()


def test_a_machine_is_not_reserved_twice() -> None:
    one = policy((4.0, 12.0))
    ledger, answer = one.arrive(Ledger.empty(one.machines, 2), training(), Drawn(0))
    assert answer.schedule is not None
    with pytest.raises(ModelError, match="job 1: slot 0 does not hold its schedule"):
        ledger.with_schedule(training(), answer.schedule, one.machines)


def test_late_arrivals_and_other_resources_are_refused() -> None:
    one = policy((4.0, 16.0))
    with pytest.raises(ModelError, match="job 1: it arrives in slot 2, the last slot is 1"):
        one.arrive(Ledger.empty(one.machines, 2), training(arrival=2), Drawn(0))
    other = training(worker=np.ones(3), server=np.ones(3))
    with pytest.raises(ModelError, match="job 1: worker and server must say how much they take of gpu, cpu"):
        one.arrive(Ledger.empty(one.machines, 2), other, Drawn(0))
