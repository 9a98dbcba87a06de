"""The best schedule against trying all of them, and the lazy order against solving everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tesched_papers.pdors.algorithm.schedule import (
    NoSchedule,
    Schedule,
    Settings,
    best_schedule,
    units_of,
    workers_on_one,
)
from tesched_papers.pdors.algorithm.slot import External, SlotSettings, SlotView
from tesched_policies.pdors.model import Sigmoid, Speed, TrainingJob

from tests import collected
from tests.unit.policies.pdors.examples import Drawn, samples_done, taken, training

INF = float("inf")
EXACT = Settings(slot=SlotSettings(external=External.EXACT), units=4)


def cheapest_by_units(job: TrainingJob, seen: SlotView, unit: float, most: int) -> list[float]:
    """Return theta(0), theta(1), ... of one slot, by trying every number of workers and servers on each machine."""
    theta = [0.0] + [INF] * most
    machines = range(len(seen.free))
    for counts in product(range(job.batch + 1), repeat=2 * len(seen.free)):
        w, s = np.array(counts[: len(seen.free)]), np.array(counts[len(seen.free) :])
        workers, servers = int(w.sum()), int(s.sum())
        if not 0 < workers <= job.batch or servers * job.workers_per_server < workers:
            continue
        if (np.outer(w, job.worker) + np.outer(s, job.server) > seen.free).any():
            continue
        internal = sum(bool(w[h] or s[h]) for h in machines) == 1
        exchange = job.exchange_slots(internal=internal) * (workers if job.speed is Speed.BATCH else 1)
        done = int(workers / (job.sample_slots + exchange) / unit + 1e-9)
        cost = float(w @ seen.worker_price + s @ seen.server_price)
        for units in range(1, min(done, most) + 1):
            theta[units] = min(theta[units], cost)
    return theta


def best_payoff(job: TrainingJob, views: list[SlotView], settings: Settings) -> float:
    """Return the largest payoff over every way to divide the job's units among the slots."""
    unit, units = units_of(job, max(workers_on_one(job, seen.free) for seen in views), settings)
    theta = [cheapest_by_units(job, seen, unit, units) for seen in views]
    best = -INF
    for shares in product(range(units + 1), repeat=len(views)):
        if sum(shares) == units:
            end = max(place for place, share in enumerate(shares) if share)
            worth = float(job.utility.worth(np.array(views[end].slot - job.arrival)))
            best = max(best, worth - sum(theta[place][share] for place, share in enumerate(shares)))
    return best


def random_case(seed: int) -> tuple[TrainingJob, list[SlotView]]:
    random = np.random.default_rng(seed)
    job = training(
        arrival=2,
        samples=float(random.uniform(1, 9)),
        batch=3,
        speed=list(Speed)[int(random.integers(2))],
        utility=Sigmoid(height=float(random.uniform(1, 40)), steepness=float(random.uniform(0, 2)), patience=1.5),
    )
    views = [
        SlotView(
            slot=2 + place,
            free=np.column_stack([random.integers(0, 4, 2), random.integers(0, 11, 2)]).astype(np.float64),
            worker_price=random.choice([0.1, 0.5, 1.0, 2.0], 2),
            server_price=random.choice([0.1, 0.5, 1.0, 2.0], 2),
        )
        for place in range(3)
    ]
    return job, views


def test_no_schedule_pays_more_than_the_one_that_is_found() -> None:
    outcomes: list[Schedule | NoSchedule] = []
    collected.each(range(60), lambda seed: check_best(seed, outcomes), lambda seed: f"seed {seed}")
    # Schedules, prices too high and too few free resources are all among them.
    schedules = [one for one in outcomes if isinstance(one, Schedule)]
    assert NoSchedule.RESOURCES in outcomes
    assert NoSchedule.PRICE in outcomes
    assert {placement.internal for one in schedules for placement in one.placements} == {True, False}
    assert max(len(one.placements) for one in schedules) == 3


def check_best(seed: int, outcomes: list[Schedule | NoSchedule]) -> None:
    job, views = random_case(seed)
    best = best_payoff(job, views, EXACT)
    found = best_schedule(job, views, Drawn(seed), EXACT)
    outcomes.append(found)
    if isinstance(found, Schedule):
        assert found.payoff == pytest.approx(best)
        done = sum(samples_done(job, placement) for placement in found.placements)
        assert done >= job.samples * (1 - 1e-9)
        total = taken(job, found.placements, (5, 2, 2))
        assert all((total[seen.slot] <= seen.free).all() for seen in views)
        assert found.worth == pytest.approx(float(job.utility.worth(np.array(found.end - job.arrival))))
    else:
        assert found is (NoSchedule.RESOURCES if best == -INF else NoSchedule.PRICE)
        assert best <= 1e-9


@pytest.mark.parametrize("external", External)
def test_solving_only_what_the_path_needs_changes_nothing(external: External) -> None:
    collected.each(range(20), lambda seed: check_lazy(seed, external), lambda seed: f"seed {seed}")


def check_lazy(seed: int, external: External) -> None:
    random = np.random.default_rng(seed)
    job = training(samples=30.0, batch=12, utility=Sigmoid(height=300.0, steepness=0.3, patience=4.0))
    views = [
        SlotView(
            slot=place,
            free=np.column_stack([random.integers(0, 4, 5), random.integers(1, 10, 5)]).astype(np.float64),
            worker_price=random.uniform(0.1, 3.0, 5),
            server_price=random.uniform(0.1, 3.0, 5),
        )
        for place in range(8)
    ]
    slot = SlotSettings(external=external)
    lazy = best_schedule(job, views, Drawn(seed), Settings(slot=slot, units=20))
    eager = best_schedule(job, views, Drawn(seed), Settings(slot=slot, units=20, lazy=False))
    if isinstance(lazy, Schedule) and isinstance(eager, Schedule):
        assert lazy.payoff == pytest.approx(eager.payoff)
        assert lazy.end == eager.end
    else:
        assert lazy is eager


def test_worked_example_is_reproduced() -> None:
    # 2 units of 4 samples: internal 4 workers and 2 servers, one machine a slot, which cost 1, 5, 1.5, 3.
    def seen(slot: int, one: float, two: float) -> SlotView:
        # A machine for one unit (2 workers, 1 server) and one for two (4 workers, 2 servers).
        free = np.array([[2.0, 6.0], [4.0, 12.0]])
        return SlotView(slot=slot, free=free, worker_price=np.array([one / 2, two / 4]), server_price=np.zeros(2))

    # External ways are not worth it: with this link they get nothing done.
    job = training(samples=4.0, external_mb_per_slot=1e-6)
    settings = Settings(units=2)
    assert units_of(job, 4, settings) == (2.0, 2)

    def paid(first: float, second: float) -> tuple[float, int]:
        steep = np.log(first / second)
        # 1 / (1 + exp(x)) is nearly exp(-x) for large x: the worth falls from `first` to `second` in one slot.
        utility = Sigmoid(height=first * np.exp(steep * 40) + first, steepness=float(steep), patience=-40.0)
        found = best_schedule(
            training(samples=4.0, external_mb_per_slot=1e-6, utility=utility),
            [seen(0, 1.0, 5.0), seen(1, 1.5, 3.0)],
            Drawn(0),
            settings,
        )
        assert isinstance(found, Schedule)
        return found.cost, found.end

    assert paid(9.0, 6.0) == (5.0, 0)
    assert paid(9.0, 8.0) == (2.5, 1)


@pytest.mark.parametrize(
    ("samples", "units"),
    [(4.0, 60), (8.0, 60), (240.0, 60), (1200.0, 300), (4000.0, 1000), (0.01, 40)],
)
def test_long_jobs_have_more_units_and_no_unit_is_more_than_a_slot(samples: float, units: int) -> None:
    job = training(samples=samples, external_mb_per_slot=2.0)
    unit, count = units_of(job, 4, Settings(units=60, most_parts=600))
    assert (count - 1) * unit < samples <= count * unit * (1 + 1e-9)
    assert unit <= job.samples_per_slot(4, internal=True)
    assert count == pytest.approx(units, abs=60 if samples == 0.01 else 0)


def test_a_unit_is_small_enough_for_a_slow_link_but_for_one_that_does_nothing() -> None:
    job = training(samples=4000.0)
    unit, _ = units_of(job, 4, Settings(units=10, most_units=4000))
    assert unit <= job.samples_per_slot(4, internal=False)
    dead = training(samples=4000.0, external_mb_per_slot=1e-9)
    assert units_of(dead, 4, Settings(units=10, most_units=4000)) == (4.0, 1000)


def test_a_unit_is_small_enough_for_the_largest_machine() -> None:
    job = training(samples=400.0, batch=100)
    unit, _ = units_of(job, 4, Settings(units=10))
    assert unit <= job.samples_per_slot(4, internal=True)


def test_free_resources_on_one_machine_count_whole_servers() -> None:
    # 3 workers and 2 servers take 10 CPUs, 4 and 2 take 12; a server for each two workers begun.
    assert workers_on_one(training(batch=9), np.array([[9.0, 10.0], [2.0, 99.0]])) == 3
    assert workers_on_one(training(batch=9), np.array([[9.0, 12.0]])) == 4
    assert workers_on_one(training(batch=2), np.array([[9.0, 12.0]])) == 2
    assert workers_on_one(training(), np.array([[9.0, 3.0]])) == 0
