"""The slot problem against counting out every way to place workers and servers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tesched_papers.pdors.algorithm.slot import (
    External,
    SlotProblem,
    SlotSettings,
    SlotView,
    Spread,
    on_one_machine,
)
from tesched_policies.pdors.model import TrainingJob

from tests import collected
from tests.unit.policies.pdors.examples import Drawn, training

INF = float("inf")


def view(free: list[list[float]], worker_price: list[float], server_price: list[float]) -> SlotView:
    return SlotView(
        slot=3, free=np.array(free), worker_price=np.array(worker_price), server_price=np.array(server_price)
    )


def counted_out(job: TrainingJob, seen: SlotView, workers: int, servers: int) -> float:
    """Return the least cost over every way, by trying them all."""
    machines = len(seen.free)
    best = INF
    for w in product(range(workers + 1), repeat=machines):
        if sum(w) != workers:
            continue
        for s in product(range(servers + 1), repeat=machines):
            if sum(s) != servers:
                continue
            fits = all(
                w[h] * job.worker[r] + s[h] * job.server[r] <= seen.free[h, r]
                for h in range(machines)
                for r in range(len(job.worker))
            )
            if fits:
                cost = sum(w[h] * seen.worker_price[h] for h in range(machines) if w[h])
                best = min(best, cost + sum(s[h] * seen.server_price[h] for h in range(machines) if s[h]))
    return best


def random_view(seed: int) -> SlotView:
    random = np.random.default_rng(seed)
    prices = random.choice([0.001, 0.5, 1.0, 1.0, 2.0, 7.0], size=(2, 3))
    free = np.column_stack([random.integers(0, 5, 3), random.integers(0, 10, 3)]).astype(np.float64)
    return SlotView(slot=0, free=free, worker_price=prices[0], server_price=prices[1])


def check_holds(job: TrainingJob, seen: SlotView, spread: Spread, workers: int, servers: int) -> None:
    assert workers <= spread.workers.sum() <= job.batch
    assert spread.servers.sum() >= servers
    taken = np.outer(spread.workers, job.worker) + np.outer(spread.servers, job.server)
    assert (taken <= seen.free[spread.machines]).all()
    assert len(set(spread.machines)) == len(spread.machines)
    paid = spread.workers @ seen.worker_price[spread.machines] + spread.servers @ seen.server_price[spread.machines]
    assert spread.cost == pytest.approx(float(paid))


def test_worked_example_is_reproduced() -> None:
    job = training(worker=np.array([1.0, 0.0]), server=np.array([0.0, 1.0]))
    seen = view([[2, 9], [2, 9]], [1.0, 4.0], [0.5, 0.1])
    spread = SlotProblem(seen, job, SlotSettings()).solve(3, 1, Drawn(0))
    assert spread is not None
    assert spread.cost == pytest.approx(6.1)
    assert [list(spread.machines), list(spread.workers), list(spread.servers)] == [[0, 1], [2, 1], [0, 1]]


def test_the_cheapest_machine_that_holds_all() -> None:
    seen = view([[1, 9], [4, 9], [4, 9]], [1.0, 3.0, 2.0], [1.0, 1.0, 1.5])
    workers, servers = np.array([1, 2, 5]), np.array([1, 1, 3])
    cost, machine = on_one_machine(seen, training(), workers, servers)
    assert list(cost) == [2.0, 5.5, INF]
    assert list(machine[:2]) == [0, 2]


def test_servers_take_the_last_of_equal_machines_so_that_the_bound_is_the_answer() -> None:
    problem = SlotProblem(view([[2, 4], [2, 4]], [1.0, 1.0], [1.0, 1.0]), training(), SlotSettings())
    bound = problem.bound(np.array([2]), np.array([1]))
    assert (bound.cost[0], bound.fits[0]) == (3.0, True)


def test_the_exact_way_is_exact_and_the_bound_never_above_it() -> None:
    collected.each(range(150), check_exact, lambda seed: f"seed {seed}")


def check_exact(seed: int) -> None:
    job, seen = training(batch=9), random_view(seed)
    problem = SlotProblem(seen, job, SlotSettings(external=External.EXACT))
    for workers, servers in ((1, 1), (3, 2), (5, 3)):
        best = counted_out(job, seen, workers, servers)
        bound = problem.bound(np.array([workers]), np.array([servers]))
        assert bound.cost[0] <= best + 1e-9
        if bound.fits[0]:
            assert bound.cost[0] == pytest.approx(best)
        spread = problem.solve(workers, servers, Drawn(seed))
        assert (INF if spread is None else spread.cost) == pytest.approx(best)
        if spread is not None:
            check_holds(job, seen, spread, workers, servers)


@pytest.mark.parametrize("gain", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("repair", [True, False])
def test_what_rounding_answers_holds_and_costs_no_less_than_the_best(gain: float, repair: bool) -> None:
    job = training(batch=9)
    answered = 0
    for seed in range(150):
        seen = random_view(seed)
        settings = SlotSettings(gain=gain, repair=repair, bound=False)
        for workers, servers in ((1, 1), (3, 2), (5, 3)):
            spread = SlotProblem(seen, job, settings).solve(workers, servers, Drawn(seed))
            if spread is not None:
                answered += 1
                check_holds(job, seen, spread, workers, servers)
                assert spread.cost >= counted_out(job, seen, workers, servers) - 1e-9
    assert answered > 10


def test_with_repair_an_answer_is_nearly_always_found_and_seldom_dearer() -> None:
    job = training(batch=9)
    there = found = at_best = 0
    for seed in range(600):
        seen = random_view(seed)
        best = counted_out(job, seen, 5, 3)
        if best < INF:
            there += 1
            spread = SlotProblem(seen, job, SlotSettings()).solve(5, 3, Drawn(seed))
            if spread is not None:
                found += 1
                at_best += spread.cost <= best * (1 + 1e-9)
    assert there > 50
    assert found >= 0.95 * there
    assert at_best >= 0.8 * there


def test_the_linear_program_over_the_cheapest_machines_costs_as_much_as_over_all() -> None:
    # Many machines, prices in steps, all CPUs contended: the choice has to be widened to be right.
    random = np.random.default_rng(1)
    free = np.column_stack([random.integers(1, 4, 60), random.integers(2, 7, 60)]).astype(np.float64)
    seen = SlotView(
        slot=0, free=free, worker_price=random.uniform(1, 9, 60) * 1e-6, server_price=random.uniform(1, 9, 60) * 1e-6
    )
    job = training(batch=40)
    exact = SlotProblem(seen, job, SlotSettings(external=External.EXACT)).solve(24, 12, Drawn(0))
    near = SlotProblem(seen, job, SlotSettings()).solve(24, 12, Drawn(0))
    assert exact is not None
    assert near is not None
    assert exact.cost - 1e-18 <= near.cost <= exact.cost * 1.02


def test_machines_that_take_no_workers_get_none() -> None:
    seen = view([[4, 9], [4, 9]], [INF, 1.0], [1.0, INF])
    spread = SlotProblem(seen, training(), SlotSettings()).solve(4, 2, Drawn(0))
    assert spread is not None
    assert [list(spread.workers), list(spread.servers)] == [[0, 4], [2, 0]]
    assert on_one_machine(seen, training(), np.array([1]), np.array([1]))[0][0] == INF


def test_no_free_resources_are_no_answer() -> None:
    # Each alone fits: four workers want 8 of 9 CPUs, two servers 4; together they don't.
    seen = view([[4, 9]], [1.0], [1.0])
    assert SlotProblem(seen, training(), SlotSettings()).solve(4, 2, Drawn(0)) is None
    assert SlotProblem(seen, training(), SlotSettings()).solve(5, 1, Drawn(0)) is None
