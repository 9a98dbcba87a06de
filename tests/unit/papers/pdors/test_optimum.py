"""PD-ORS against the offline optimum, and the optimum's own program against trying everything."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
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
    """Return the best utility of one job, by trying every placement in every slot."""
    (job,) = instance.jobs
    rows = len(instance.machines)
    ways: list[float] = [0.0]
    for counts in product(range(job.batch + 1), repeat=2 * rows):
        w, s = np.array(counts[:rows]), np.array(counts[rows:])
        if not 0 < w.sum() <= job.batch or s.sum() * job.workers_per_server < w.sum():
            continue
        if (np.outer(w, job.worker) + np.outer(s, job.server) > instance.machines.capacity).any():
            continue
        ways.append(job.samples_per_slot(int(w.sum()), internal=bool(((w + s) > 0).sum() == 1)))
    done, best = 0.0, 0.0
    for slot in range(job.arrival, instance.horizon):
        done += max(ways)
        if done >= job.samples - 1e-9:
            best = max(best, float(job.utility.worth(np.array(slot - job.arrival))))
    return best


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


def test_the_batch_model_has_no_optimum_here() -> None:
    instance = Instance(machines=machines([4, 12]), jobs=(training(speed=Speed.BATCH),), horizon=2, seed=0)
    with pytest.raises(WorkloadError, match=r"workload\.speed: the optimum is known for linear only"):
        optimum(instance)
