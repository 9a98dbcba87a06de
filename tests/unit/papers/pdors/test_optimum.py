"""PD-ORS against the offline optimum, and the optimum's own program against trying everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from tesched_core.model.resources import JobId
from tesched_papers.pdors.algorithm.slot import External
from tesched_papers.pdors.methods import NAMES, Planning, run
from tesched_papers.pdors.optimum import optimum
from tesched_papers.pdors.workload import Instance, PdOrsWorkload, pdors_workload
from tesched_policies.pdors.model import Sigmoid, Speed, TrainingJob
from tesched_policies.pdors.prices import PriceBounds
from tesched_sim.workload import WorkloadError

from tests.unit.policies.pdors.examples import machines, training

TINY = PdOrsWorkload(jobs=4, machines=2, slots=3, batch_max=5, machine_size=3.0, work=0.002, external_gbps_min=1.0)


def tried_out(instance: Instance) -> float:
    """Return the best utility by trying every placement of every job in every slot."""
    rows = len(instance.machines)
    nothing = np.zeros_like(instance.machines.capacity)
    each: list[list[tuple[NDArray[np.float64], float]]] = []
    for job in instance.jobs:
        ways = [(nothing, 0.0)]
        for counts in product(range(job.batch + 1), repeat=2 * rows):
            w, s = np.array(counts[:rows]), np.array(counts[rows:])
            if not 0 < w.sum() <= job.batch or s.sum() * job.workers_per_server < w.sum():
                continue
            takes = np.outer(w, job.worker) + np.outer(s, job.server)
            if (takes <= instance.machines.capacity).all():
                internal = bool(((w + s) > 0).sum() == 1)
                ways.append((takes, job.samples_per_slot(int(w.sum()), internal=internal)))
        each.append(ways)
    # What all jobs together can do in one slot, each pair of samples once.
    in_a_slot = {
        tuple(done for _, done in ways)
        for ways in product(*each)
        if (sum((takes for takes, _ in ways), nothing) <= instance.machines.capacity).all()
    }
    done_by: dict[tuple[float, ...], float] = {(0.0,) * len(instance.jobs): 0.0}
    for slot in range(instance.horizon):
        after: dict[tuple[float, ...], float] = {}
        for (so_far, worth), more in product(done_by.items(), in_a_slot):
            if any(one > 0 and slot < job.arrival for one, job in zip(more, instance.jobs, strict=True)):
                continue
            ended = worth
            for job, before, now in zip(instance.jobs, so_far, more, strict=True):
                if before < job.samples - 1e-9 <= before + now:
                    ended += float(job.utility.worth(np.array(slot - job.arrival)))
            state = tuple(before + now for before, now in zip(so_far, more, strict=True))
            after[state] = max(after.get(state, 0.0), ended)
        done_by = after
    return max(done_by.values())


@pytest.mark.parametrize("seed", range(12))
def test_of_one_job_the_optimum_is_its_earliest_end(seed: int) -> None:
    random = np.random.default_rng(seed)
    job = training(
        arrival=int(random.integers(0, 2)),
        samples=float(random.uniform(1, 12)),
        batch=3,
        external_mb_per_slot=float(random.uniform(0.3, 2.0)),
        utility=Sigmoid(height=20.0, steepness=1.0, patience=2.0),
    )
    cluster = machines(*np.column_stack([random.integers(1, 4, 2), random.integers(2, 9, 2)]))
    instance = Instance(machines=cluster, jobs=(job,), horizon=4, seed=seed)
    assert optimum(instance).utility == pytest.approx(tried_out(instance), rel=1e-4)


@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("seed", range(6))
def test_of_two_jobs_the_optimum_is_the_best_of_all_schedules(seed: int, speed: Speed) -> None:
    random = np.random.default_rng(seed)

    def drawn(number: int) -> TrainingJob:
        return training(
            job_id=JobId(number),
            arrival=int(random.integers(0, 2)),
            samples=float(random.uniform(1, 8)),
            batch=2,
            external_mb_per_slot=float(random.uniform(0.3, 2.0)),
            utility=Sigmoid(height=float(random.uniform(5, 20)), steepness=1.0, patience=1.0),
            speed=speed,
        )

    # Of different sizes, so that what is left on one machine matters.
    cluster = machines([2, 5], [1, 4])
    instance = Instance(machines=cluster, jobs=(drawn(1), drawn(2)), horizon=3, seed=seed)
    found = optimum(instance)
    assert found.utility == pytest.approx(tried_out(instance), rel=1e-4)
    assert found.bound == pytest.approx(found.utility, rel=1e-4)


def test_two_jobs_that_cannot_both_be_in_time() -> None:
    # Each needs the machine for a slot; after the first slot an end is worth next to nothing.
    def hasty(number: int, height: float) -> TrainingJob:
        utility = Sigmoid(height=height, steepness=50.0, patience=0.5)
        return training(job_id=JobId(number), samples=4.0, utility=utility)

    instance = Instance(machines=machines([4, 12]), jobs=(hasty(1, 3.0), hasty(2, 5.0)), horizon=2, seed=0)
    assert optimum(instance).utility == pytest.approx(5.0, rel=1e-6)


def test_no_scheduler_has_more_than_the_optimum_and_pdors_keeps_to_its_ratio() -> None:
    # Without a floor and with exact slots; that steps are large here, against the theorem's condition, does no harm.
    planning = Planning(floor=0.0, external=External.EXACT)
    for seed in range(6):
        instance = pdors_workload(TINY, seed)
        best = optimum(instance)
        assert best.bound >= best.utility * (1 - 1e-6)
        for name in NAMES:
            assert run(name, instance, planning).utility <= best.bound * (1 + 1e-6)
        prices = PriceBounds.of(instance.jobs, instance.machines, horizon=instance.horizon, floor=0.0)
        assert run("pd-ors", instance, planning).utility * prices.ratio >= best.utility


def test_what_is_too_large_is_said_before_it_is_tried() -> None:
    many = machines(*([20, 60] for _ in range(6)))
    instance = Instance(machines=many, jobs=(training(batch=20),), horizon=2, seed=3)
    with pytest.raises(
        WorkloadError, match=r"job 1 of seed 3 can be placed in more than 5000 ways .* \(workload\.machines\)"
    ):
        optimum(instance)
