"""Any jobs, any machines: nothing is reserved twice, each reservation suffices, idle machines turn no job away."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.resources import JobId
from tesched_papers.pdors.algorithm.policy import Ledger, PdOrs
from tesched_papers.pdors.algorithm.schedule import NoSchedule, Settings
from tesched_papers.pdors.algorithm.slot import SlotSettings
from tesched_policies.pdors.model import Machines, Sigmoid, Speed, TrainingJob
from tesched_policies.pdors.prices import PriceBounds

from tests.examples import examples
from tests.unit.policies.pdors.examples import Drawn, machines, samples_done, taken, training

HORIZON = 6
amounts = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda pair: np.array(pair, dtype=np.float64))


@st.composite
def jobs(draw: st.DrawFn, job_id: int) -> TrainingJob:
    """Draw a job."""
    return training(
        job_id=JobId(job_id),
        arrival=draw(st.integers(0, HORIZON - 1)),
        samples=draw(st.floats(0.5, 40.0)),
        batch=draw(st.integers(1, 12)),
        workers_per_server=draw(st.integers(1, 4)),
        external_mb_per_slot=draw(st.sampled_from([2.0, 1.0, 0.1])),
        worker=draw(amounts),
        server=draw(amounts),
        utility=Sigmoid(
            height=draw(st.floats(1.0, 100.0)),
            steepness=draw(st.sampled_from([0.0, 0.5, 5.0])),
            patience=draw(st.floats(0.0, 6.0)),
        ),
        speed=draw(st.sampled_from(Speed)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Machines:
    """Draw one to five machines, some of which take no workers or no servers."""
    rows = draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 16)), min_size=1, max_size=5))
    rows[0] = (max(rows[0][0], 1), max(rows[0][1], 1))
    flags = st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)).map(lambda some: np.array(some, np.bool_))
    roles = draw(st.booleans())
    capacity = np.array(rows, dtype=np.float64)
    if not roles:
        return machines(*rows)
    return Machines(resources=("gpu", "cpu"), capacity=capacity, takes_workers=draw(flags), takes_servers=draw(flags))


@given(data=st.data(), cluster=clusters(), count=st.integers(1, 6), gain=st.sampled_from([0.8, 1.0, 1.3]))
@settings(max_examples=examples(150))
def test_no_machine_is_reserved_twice_and_each_reservation_suffices(
    data: st.DataObject, cluster: Machines, count: int, gain: float
) -> None:
    arriving = [data.draw(jobs(number)) for number in range(count)]
    policy = PdOrs(
        machines=cluster,
        bounds=PriceBounds.of(arriving, cluster, horizon=HORIZON),
        settings=Settings(slot=SlotSettings(gain=gain, repair=data.draw(st.booleans())), units=12),
    )
    ledger, answers = policy.arrive_all(Ledger.empty(cluster, HORIZON), arriving, Drawn(0))
    total = np.zeros_like(ledger.used)
    for job, answer in zip(arriving, answers, strict=True):
        if answer.schedule is None:
            continue
        placements = answer.schedule.placements
        total += taken(job, placements, total.shape)
        assert job.arrival <= placements[0].slot
        assert len({placement.slot for placement in placements}) == len(placements)
        assert sum(samples_done(job, placement) for placement in placements) >= job.samples * (1 - 1e-6)
        assert answer.schedule.payoff > 0
        for placement in placements:
            assert cluster.takes_workers[placement.machines[placement.workers > 0]].all()
            assert cluster.takes_servers[placement.machines[placement.servers > 0]].all()
    assert (total <= cluster.capacity * (1 + 1e-6)).all()
    assert np.allclose(total, ledger.used)


@given(job=jobs(1), cluster=clusters())
@settings(max_examples=examples(150))
def test_an_idle_cluster_refuses_no_job_for_the_price(job: TrainingJob, cluster: Machines) -> None:
    bounds = PriceBounds.of([job], cluster, horizon=HORIZON, floor=0.0)
    _, answer = PdOrs(machines=cluster, bounds=bounds, settings=Settings(units=12)).arrive(
        Ledger.empty(cluster, HORIZON), job, Drawn(0)
    )
    assert answer.outcome is not NoSchedule.PRICE
