"""The best run on fixed nodes, against trying all of them; and what a workload says of one."""

from __future__ import annotations

from itertools import combinations
from math import ceil, inf

import numpy as np
import pytest
from tesched_core.model.cluster import Request
from tesched_core.model.snapshot import JobClass, Traits
from tesched_policies.pdors.best_run import Slots, best_runs, slots_of
from tesched_policies.pdors.workload import Servers, Training, TrainingKind, Urgency, training_of

from tests.builders import waiting

NET = TrainingKind(
    name="net", samples=1000, sample_s=0.1, batch=10, gradient_mb=100, rack_mb_per_s=1000, far_mb_per_s=100
)
SHARE = np.array([1.0, 2.0])


def said(**more: object) -> Traits:
    return Traits(job_class=JobClass.BE, rule="test", grace_period_s=0, grace_source="test", **more)  # type: ignore[arg-type]


def training(
    fewest: int = 2, most: int = 4, workload: TrainingKind | None = NET, slot_s: float = 1.0, **traits: object
) -> Training:
    job = waiting(1, Request(min_nodes=fewest, max_nodes=most), time_limit_s=None)
    return training_of(job, said(**traits), workload, SHARE, slot_s)


def test_the_worked_example_of_a_workload() -> None:
    one = training()
    assert [one.run_slots(nodes, one_rack=near) for nodes in (2, 4) for near in (True, False)] == pytest.approx(
        [70, 250, 45, 225]
    )
    assert training(slot_s=10.0).run_slots(2, one_rack=True, rest=0.5) == pytest.approx(3.5)
    assert training(samples=2000.0).run_slots(2, one_rack=True) == pytest.approx(140)


def test_without_a_workload_its_expected_time_is_that_of_its_fewest_nodes() -> None:
    one = training(workload=None, run_time_s=600.0)
    assert [one.run_slots(nodes, one_rack=False) for nodes in (2, 3, 4)] == pytest.approx([600, 400, 300])
    limited = training_of(waiting(1, Request(min_nodes=2, max_nodes=4), time_limit_s=60), said(), NET, SHARE, 1.0)
    assert limited.run_slots(2, one_rack=True) == 60, "Slurm ends it then"


def test_servers_on_nodes_of_their_own_are_no_workers() -> None:
    apart = TrainingKind(name="ps", samples=100, sample_s=1, batch=100, servers=Servers.APART, workers_per_server=3)
    one = training(1, 8, apart)
    assert [one.workers(nodes) for nodes in (1, 2, 4, 5, 8)] == [1, 1, 3, 3, 6]
    # What a worker and a server take is a node each: together two shares.
    assert one.model.worker.tolist() == one.model.server.tolist() == SHARE.tolist()
    beside = training().model
    assert (beside.worker + beside.server).tolist() == SHARE.tolist()


def test_how_much_time_matters() -> None:
    at = np.array([0, 134, 135, 400], dtype=np.int64)
    # Three times the 45 s of its shortest run.
    worth = {each: training(utility=each.value).model.utility.worth(at) for each in Urgency}
    assert worth[Urgency.INSENSITIVE].tolist() == [50, 50, 50, 50]
    assert worth[Urgency.SENSITIVE][0] == pytest.approx(100 / (1 + np.exp(-4)))
    for each in Urgency:
        assert worth[each][2] == pytest.approx(50)
    assert worth[Urgency.CRITICAL][0] > 99.99
    assert worth[Urgency.CRITICAL][3] < 0.01


@pytest.mark.parametrize("seed", range(40))
def test_no_other_run_on_fixed_nodes_has_a_larger_payoff(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slots, nodes = 6, 5
    rack = np.array([0, 0, 1, 1, 1])
    seen = Slots(
        fits=rng.random((slots, nodes)) < 0.8,
        price=rng.uniform(0.1, 8.0, (slots, nodes)),
        idle=np.full(nodes, 0.1),
        rack=rack,
        names=("a", "b"),
    )
    one = training(1, 4, slot_s=float(rng.uniform(10, 90)), utility=str(rng.choice(list(Urgency))))
    waited, rest = float(rng.uniform(0, 5)), float(rng.uniform(0.1, 1))

    def payoff(chosen: tuple[int, ...], start: int) -> float:
        length = one.run_slots(len(chosen), one_rack=len({int(rack[each]) for each in chosen}) == 1, rest=rest)
        window = range(start, start + slots_of(length))
        if not all(seen.fits[slot, each] for slot in window if slot < slots for each in chosen):
            return -inf
        price = sum(float(seen.price[slot, each] if slot < slots else 0.1) for slot in window for each in chosen)
        delay = max(ceil((waited + start + length) * (1 - 1e-9)) - 1, 0)
        return float(one.model.utility.worth(np.array(delay))) - price

    best = max(
        payoff(chosen, start)
        for count in range(1, 5)
        for chosen in combinations(range(nodes), count)
        for start in range(slots)
    )
    runs = best_runs(one, seen, waited=waited, rest=rest)
    if best == -inf:
        assert runs == []
        return
    found = runs[0]
    assert found.option.payoff == pytest.approx(best)
    assert payoff(tuple(found.nodes.tolist()), found.option.wait_slots) == pytest.approx(best)


def test_of_equal_runs_the_fuller_rack_is_taken() -> None:
    fits = np.array([[True, True, True, False, True]])
    seen = Slots(fits=fits, price=np.ones((1, 5)), idle=np.ones(5), rack=np.array([0, 0, 0, 1, 1]), names=("a", "b"))
    runs = best_runs(training(1, 1, slot_s=1000.0), seen, waited=0.0)
    assert [run.option.rack for run in runs] == ["b", "a"]


def test_the_worked_example_of_a_run() -> None:
    # Worth 10 - (end's slot), nearly: what is compared is two racks, one of them taken in slot 0.
    fits = np.array([[False, False, True, True], [True] * 4, [True] * 4])
    seen = Slots(fits=fits, price=np.ones((3, 4)), idle=np.ones(4), rack=np.array([0, 0, 1, 1]), names=("a", "b"))
    # 70 s in a rack are one slot; 250 s with the slower exchange are two and a half, also where both are in rack b.
    runs = best_runs(training(2, 2, slot_s=100.0), seen, waited=0.0)
    found = [(run.option.rack, run.option.wait_slots, run.option.slots, run.option.price) for run in runs]
    assert found == [("b", 0, 1, 2.0), ("a", 1, 1, 2.0), ("", 0, 3, 6.0)]


def test_a_job_that_says_it_lasts_for_ever_is_worth_nothing_and_not_everything() -> None:
    fits = np.ones((3, 2), dtype=np.bool_)
    seen = Slots(fits=fits, price=np.ones((3, 2)), idle=np.ones(2), rack=np.array([0, 0]), names=("a",))
    endless = training(2, 2, TrainingKind(name="x", samples=1e200, sample_s=1.0, batch=8, patience_s=100.0))
    (run,) = best_runs(endless, seen, waited=0.0)
    assert run.option.worth < 1e-9
    assert run.option.payoff < 0
