"""The slotted cluster, worked out by hand, and what it does not let a scheduler do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tesched_core.model.resources import JobId
from tesched_papers.pdors.baseline_placement import BaselinePlacement, FreeResources
from tesched_papers.pdors.engine import PlacementError, simulate
from tesched_papers.pdors.methods import NAMES, Planning, run
from tesched_papers.pdors.shared import Drf, Fifo, dorm_workers, fair_workers
from tesched_papers.pdors.workload import Instance, PdOrsWorkload, pdors_workload
from tesched_policies.pdors.model import Placement, Sigmoid, TrainingJob
from tesched_sim.workload import WorkloadError

from tests.unit.policies.pdors.examples import machines, training

#: worth 10 at once, 9, 8, ... would not be a sigmoid; this one is worth about 10, 5 and 0 in slots 0, 1 and 2
FALLING = Sigmoid(height=10.0, steepness=20.0, patience=1.0)


class Scripted:
    """Says what it was given: (slot, job) -> (machines, workers, servers)."""

    def __init__(self, script: Mapping[tuple[int, int], tuple[list[int], list[int], list[int]]]) -> None:
        self.script = script

    def place(self, slot: int, active: Sequence[TrainingJob]) -> Mapping[JobId, Placement]:
        """Return this slot's lines, also of jobs that are not active."""
        return {
            JobId(job_id): Placement(
                slot=slot,
                machines=np.array(rows),
                workers=np.array(workers),
                servers=np.array(servers),
                internal=len(rows) == 1,
            )
            for (when, job_id), (rows, workers, servers) in self.script.items()
            if when == slot
        }


def instance(
    *jobs: TrainingJob, horizon: int = 4, capacity: Sequence[Sequence[float]] = ((4, 16), (4, 16))
) -> Instance:
    return Instance(machines=machines(*capacity), jobs=jobs, horizon=horizon, seed=0)


def numbered(job_id: int, **changes: Any) -> TrainingJob:
    return training(job_id=JobId(job_id), **changes)


def test_one_machine_does_two_slots_what_two_machines_do_in_four() -> None:
    # 8 samples: 4 workers do 4 a slot on one machine, and 2 a slot on two.
    together = ([0], [4], [2])
    apart = ([0, 1], [2, 2], [1, 1])
    near = simulate(instance(numbered(1)), Scripted({(0, 1): together, (1, 1): together}))
    far = simulate(instance(numbered(1)), Scripted({(slot, 1): apart for slot in range(4)}))
    assert [near.jobs[0].end, far.jobs[0].end] == [1, 3]
    assert [near.internal, far.internal] == [1.0, 0.0]
    # GPUs: 4 of 8 in 2 of 4 slots. CPUs: 12 of 32 in 2 of 4.
    assert near.used == pytest.approx(4 * 2 / (8 * 4))


def test_an_end_is_worth_what_its_delay_says_and_no_end_is_worth_nothing() -> None:
    done = simulate(
        instance(
            numbered(1, samples=4.0, arrival=1, utility=FALLING),
            numbered(2, samples=4.0, arrival=1, utility=FALLING),
            numbered(3, samples=4.1, arrival=1, utility=FALLING),
            capacity=((4, 16), (4, 16), (4, 16)),
        ),
        Scripted({(1, 1): ([0], [4], [2]), (2, 2): ([1], [4], [2]), (3, 3): ([2], [4], [2])}),
    )
    assert [job.utility for job in done.jobs] == pytest.approx([10.0, 5.0, 0.0], abs=1e-6)
    assert [job.training_slots for job in done.jobs] == [0, 1, 4]
    assert (done.finished, done.started, done.median_training) == (2, 3, 1.0)


@pytest.mark.parametrize(
    ("placed", "says"),
    [
        (([0], [4], [1]), "job 1, slot 0: 4 workers and 1 servers cannot be"),
        (([0], [5], [3]), "job 1, slot 0: 5 workers and 3 servers cannot be"),
        (([0], [4], [5]), "slot 0: machine 0 has too little cpu"),
    ],
)
def test_what_cannot_be_is_no_placement(placed: tuple[list[int], list[int], list[int]], says: str) -> None:
    with pytest.raises(PlacementError, match=says):
        simulate(instance(numbered(1)), Scripted({(0, 1): placed}))


def test_no_job_runs_before_its_arrival() -> None:
    with pytest.raises(PlacementError, match="job 1, slot 0"):
        simulate(instance(numbered(1, arrival=1)), Scripted({(0, 1): ([0], [1], [1])}))


def test_spread_goes_on_where_it_ended_and_packed_keeps_together() -> None:
    job = numbered(1, batch=9, worker=np.array([1.0, 1.0]), server=np.array([0.0, 1.0]), workers_per_server=9)
    spread, packed = (
        FreeResources(machines([4, 9], [4, 9], [4, 9]), manner)
        for manner in (BaselinePlacement.SPREAD, BaselinePlacement.PACKED)
    )
    apart = spread.take(job, 3, 0)
    assert apart is not None
    assert [sorted(apart.workers), apart.servers.sum()] == [[1, 1, 1], 1]
    first, second, third = (packed.take(job, count, 0) for count in (2, 3, 7))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [list(one.machines) for one in (first, second)] == [[0], [1]]
    assert third.workers.sum() == 7
    assert packed.take(job, 1, 0) is None
    assert packed.free[:, 0].sum() == 0


def test_a_job_that_does_not_fit_takes_nothing() -> None:
    free = FreeResources(machines([4, 9]), BaselinePlacement.SPREAD)
    assert free.take(numbered(1, batch=9), 5, 0) is None
    assert (free.free == [[4, 9]]).all()


def test_fifo_lets_no_job_overtake() -> None:
    # 2 wants 4 GPUs while 1 holds 2 of 4; 3 would fit, and waits.
    jobs = (numbered(1, samples=100.0), numbered(2), numbered(3))
    fifo = Fifo(instance(*jobs, capacity=((4, 99),)), BaselinePlacement.SPREAD)
    fifo.workers = {JobId(1): 2, JobId(2): 4, JobId(3): 1}
    assert list(fifo.place(0, jobs)) == [1]
    assert list(fifo.place(1, jobs[1:])) == [2]


def test_drf_equalises_dominant_shares() -> None:
    # The example of its paper: 9 CPUs and 18 GB; tasks of (1, 4) and (3, 1): three and two of them.
    free_servers = {"server": np.array([0.0, 1e-9]), "workers_per_server": 9, "batch": 9}
    jobs = [
        numbered(1, worker=np.array([1.0, 4.0]), **free_servers),
        numbered(2, worker=np.array([3.0, 1.0]), **free_servers),
    ]
    assert fair_workers(jobs, np.array([9.0, 18.1])) == {1: 3, 2: 2}


def test_drf_shares_anew_when_a_job_comes() -> None:
    jobs = (numbered(1, batch=8), numbered(2, batch=8))
    drf = Drf(instance(*jobs, capacity=((8, 99),)), BaselinePlacement.PACKED)
    assert {job: int(one.workers.sum()) for job, one in drf.place(0, jobs[:1]).items()} == {1: 8}
    assert {job: int(one.workers.sum()) for job, one in drf.place(1, jobs).items()} == {1: 4, 2: 4}


def test_dorm_uses_all_and_adjusts_few() -> None:
    jobs = [numbered(number, batch=4, worker=np.array([1.0, 0.0])) for number in (1, 2, 3)]
    capacity = np.array([9.0, 99.0])
    fresh = dorm_workers(jobs, capacity, {})
    assert sum(fresh.values()) == 9
    # One of those that run may be adjusted, so the one that came gets what is free and one other's.
    later = dorm_workers(jobs, capacity, {JobId(1): 4, JobId(2): 4})
    assert (later[JobId(1)] == 4) + (later[JobId(2)] == 4) >= 1
    assert sum(later.values()) == 9


def test_a_seed_gives_the_same_workload_and_another_another() -> None:
    one, again, other = (pdors_workload(PdOrsWorkload(jobs=9), seed) for seed in (3, 3, 4))
    assert [job.samples for job in one.jobs] == [job.samples for job in again.jobs]
    assert [job.samples for job in one.jobs] != [job.samples for job in other.jobs]


def test_the_workload_is_as_it_was_set() -> None:
    made = pdors_workload(PdOrsWorkload(jobs=400, slots=40, insensitive=0.2, critical=0.5, link_ratio=4.0), 0)
    steepness = np.array([job.utility.steepness for job in made.jobs])
    assert (steepness == 0).mean() == pytest.approx(0.2, abs=0.06)
    assert (steepness >= 4).mean() == pytest.approx(0.5, abs=0.08)
    assert [job.internal_mb_per_slot / job.external_mb_per_slot for job in made.jobs] == pytest.approx([4.0] * 400)
    assert max(job.shortest for job in made.jobs) <= 0.25 * 40
    assert max(job.arrival for job in made.jobs) < 30
    even = np.mean([job.arrival % 2 == 0 for job in made.jobs])
    assert even == pytest.approx(2 / 3, abs=0.08)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"jobs": 0}, "workload.jobs must be at least 1"),
        ({"work": 0.0}, "workload.work must be above 0"),
        ({"longest": 1.5}, "workload.longest must be above 0, and 1 at most"),
        ({"external_gbps_min": 9.0}, "workload.external_gbps_max must not be below"),
        ({"critical": 0.95}, "must be parts of 1"),
        ({"link_ratio": 0.5}, "workload.link_ratio must be at least 1, or 0"),
    ],
)
def test_impossible_parameters_are_reported(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        PdOrsWorkload(**settings)


@pytest.mark.parametrize("name", NAMES)
def test_every_scheduler_keeps_within_the_machines_and_finishes_some_job(name: str) -> None:
    # The cluster itself refuses what does not fit, so it is enough that this ends.
    small = pdors_workload(PdOrsWorkload(jobs=12, machines=6, slots=10, batch_max=30, work=0.02), 1)
    assert 0 < run(name, small, Planning()).finished <= 12


def test_the_same_seed_gives_the_same_result() -> None:
    small = pdors_workload(PdOrsWorkload(jobs=12, machines=4, slots=10, batch_max=60, work=0.05), 2)
    first, again = (run("pd-ors", small, Planning()).jobs for _ in range(2))
    assert first == again


def test_where_one_machine_is_no_faster_to_be_blind_to_it_changes_nothing() -> None:
    alike = pdors_workload(PdOrsWorkload(jobs=12, machines=4, slots=10, batch_max=60, work=0.05, link_ratio=1.0), 2)
    assert run("blind", alike, Planning()).jobs == run("pd-ors", alike, Planning()).jobs
