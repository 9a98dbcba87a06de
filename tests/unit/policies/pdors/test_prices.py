"""PD-ORS's prices: idle turns no job away, full is paid by no job, and what lies between pays for the bound."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_policies.pdors.model import ModelError, Sigmoid, TrainingJob
from tesched_policies.pdors.prices import PriceBounds

from tests.unit.policies.pdors.examples import machines, training

HORIZON = 6
CLUSTER = machines([4.0, 16.0], [8.0, 8.0], [0.0, 32.0])


def population() -> list[TrainingJob]:
    return [
        training(utility=Sigmoid(height=50.0, steepness=0.7, patience=3.0)),
        training(samples=2.0, arrival=2, utility=Sigmoid(height=5.0, steepness=0.1, patience=9.0)),
        training(samples=11.0, worker=np.array([0.0, 3.0]), arrival=1),
    ]


def bounds_without_floor() -> PriceBounds:
    return PriceBounds.of(population(), CLUSTER, horizon=HORIZON, floor=0.0)


def test_the_price_rises_from_low_to_high_by_equal_factors() -> None:
    bounds = PriceBounds(low=np.array([0.5]), high=np.array([8.0]))
    prices = bounds.price(np.arange(5.0)[:, np.newaxis], np.array([4.0]))
    assert prices[:, 0] == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0])


def test_what_a_machine_has_none_of_costs_as_if_it_were_full() -> None:
    bounds = bounds_without_floor()
    assert bounds.price(np.zeros((3, 2)), CLUSTER.capacity)[2, 0] == pytest.approx(bounds.high[0])


def test_an_idle_cluster_turns_no_job_away() -> None:
    # The most that a job can take: all its worker-slots external, with a server for each worker.
    bounds = bounds_without_floor()
    for job in population():
        worker_slots = np.ceil(job.samples / job.samples_per_slot(1, internal=False))
        dearest = worker_slots * float(bounds.low @ (job.worker + job.server))
        assert dearest < float(job.utility.worth(np.array(HORIZON - job.arrival)))


def test_no_job_pays_the_price_of_a_full_machine() -> None:
    bounds = bounds_without_floor()
    for job in population():
        best = float(job.utility.worth(np.array(job.shortest)))
        for resource, amount in enumerate(job.worker + job.server):
            if amount > 0:
                assert bounds.high[resource] * amount >= best * (1 - 1e-9)


def test_what_the_empty_cluster_is_worth_at_the_lowest_price_is_half_of_any_jobs_worst_end_at_most() -> None:
    # The dual's start: half of the optimum at most, whichever job the optimum holds.
    bounds = bounds_without_floor()
    start = HORIZON * float((CLUSTER.capacity * bounds.low).sum())
    for job in population():
        assert start <= float(job.utility.worth(np.array(HORIZON - job.arrival))) / 2 * (1 + 1e-9)


def test_a_small_step_raises_the_sum_of_all_prices_by_the_logarithm_times_what_is_paid() -> None:
    bounds = bounds_without_floor()
    capacity = CLUSTER.capacity[:2]
    used, step = capacity * np.array([[0.2], [0.7]]), capacity * 1e-7
    rise = capacity * (bounds.price(used + step, capacity) - bounds.price(used, capacity))
    paid = bounds.price(used, capacity) * step
    assert rise / paid == pytest.approx(np.tile(np.log(bounds.high / bounds.low), (2, 1)), rel=1e-4)


@pytest.mark.parametrize("largest", [1e-9, 0.1, 1.0])
def test_no_step_up_to_the_largest_raises_it_by_more_than_the_ratio_of_steps(largest: float) -> None:
    bounds = bounds_without_floor()
    capacity = CLUSTER.capacity[0]
    for part in np.linspace(largest / 50, largest, 50):
        for used in np.linspace(0, 1 - part, 7):
            rise = capacity * (
                bounds.price((used + part) * capacity, capacity) - bounds.price(used * capacity, capacity)
            )
            paid = bounds.price(used * capacity, capacity) * part * capacity
            # Differences of nearly equal prices lose digits where the step is tiny.
            assert (
                rise <= bounds.ratio_of_steps(largest) / 2 * paid * (1 + 1e-5) + 1e-15 * capacity * bounds.high
            ).all()


def test_the_ratio_of_steps_is_the_ratio_for_tiny_ones_and_larger_for_others() -> None:
    bounds = bounds_without_floor()
    assert bounds.ratio_of_steps(1e-9) == pytest.approx(bounds.ratio, rel=1e-6)
    assert bounds.ratio_of_steps(0.5) > bounds.ratio


def test_prices_do_not_depend_on_units() -> None:
    jobs = population()
    in_mib = np.array([1.0, 1024.0])
    scaled = [
        training(
            samples=j.samples, arrival=j.arrival, utility=j.utility, worker=j.worker * in_mib, server=j.server * in_mib
        )
        for j in jobs
    ]
    cluster = machines(*(CLUSTER.capacity * in_mib))
    plain, other = bounds_without_floor(), PriceBounds.of(scaled, cluster, horizon=HORIZON, floor=0.0)
    assert other.low * in_mib == pytest.approx(plain.low)
    assert other.high * in_mib == pytest.approx(plain.high)


def test_jobs_for_which_time_is_everything_do_not_push_prices_below_the_floor() -> None:
    hasty = training(utility=Sigmoid(height=10.0, steepness=200.0, patience=2.0))
    floored = PriceBounds.of([hasty], CLUSTER, horizon=HORIZON, floor=1e-3)
    assert (floored.low / floored.high).min() == pytest.approx(1e-3)
    assert np.isfinite(PriceBounds.of([hasty], CLUSTER, horizon=HORIZON, floor=0.0).ratio)


def test_no_jobs_and_jobs_after_the_horizon_are_refused() -> None:
    with pytest.raises(ModelError, match="at least one job"):
        PriceBounds.of([], CLUSTER, horizon=HORIZON)
    with pytest.raises(ModelError, match="job 1: it arrives in slot 6, the horizon is 6"):
        PriceBounds.of([training(arrival=6)], CLUSTER, horizon=HORIZON)
    with pytest.raises(ModelError, match="0 < low < high"):
        PriceBounds(low=np.array([1.0]), high=np.array([1.0]))
