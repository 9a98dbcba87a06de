"""PD-ORS's model: how fast workers are, what an end is worth, and what is no job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tesched_policies.pdors.model import Machines, ModelError, Sigmoid, Speed

from tests.unit.policies.pdors.examples import machines, training


def test_a_sample_takes_a_worker_its_computing_and_its_exchange() -> None:
    job = training()
    # 2 g gamma / (b F) = 2 * 1 * 2 / (2 * 4) = 0.5 and, at a third of the bandwidth, 1.5
    assert job.samples_per_slot(4, internal=True) == pytest.approx(4 / (0.5 + 0.5))
    assert job.samples_per_slot(4, internal=False) == pytest.approx(4 / (0.5 + 1.5))


def test_under_the_batch_model_each_worker_exchanges_as_much_however_little_it_computes() -> None:
    job = training(speed=Speed.BATCH)
    assert job.samples_per_slot(1, internal=True) == pytest.approx(1.0)
    assert job.samples_per_slot(4, internal=True) == pytest.approx(4 / (0.5 + 4 * 0.5))


@pytest.mark.parametrize("speed", Speed)
@pytest.mark.parametrize("internal", [True, False])
def test_what_workers_do_in_a_slot_needs_that_many_workers_and_the_least_more_needs_one_more(
    speed: Speed, internal: bool
) -> None:
    job = training(speed=speed, batch=50)
    done = np.array([job.samples_per_slot(count, internal=internal) for count in range(1, 50)])
    assert list(job.workers_for(done, internal=internal)) == list(range(1, 50))
    assert list(job.workers_for(done * 1.0001, internal=internal)) == list(range(2, 51))


@pytest.mark.parametrize("speed", Speed)
def test_more_than_all_workers_do_is_answered_with_one_worker_too_many(speed: Speed) -> None:
    job = training(speed=speed)
    most = job.samples_per_slot(4, internal=True)
    assert list(job.workers_for(np.array([most, most * 1.1, 1e30]), internal=True)) == [4, 5, 5]


def test_a_server_for_each_so_many_workers_begun() -> None:
    assert list(training(workers_per_server=3).servers_for(np.array([1, 3, 4, 6, 7]))) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(("samples", "delay"), [(4.0, 0), (4.1, 1), (8.0, 1), (8.1, 2), (0.1, 0)])
def test_the_shortest_delay_is_one_less_than_the_slots_that_are_needed(samples: float, delay: int) -> None:
    assert training(samples=samples).shortest == delay


def test_an_end_at_the_patience_is_worth_half_and_never_more_later() -> None:
    worth = Sigmoid(height=6.0, steepness=5.0, patience=3.0).worth(np.arange(1000))
    assert worth[3] == pytest.approx(3.0)
    assert (np.diff(worth) <= 0).all()
    assert np.isfinite(worth).all()
    assert (worth > 0).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"samples": 0.0}, "job 1: samples must be above 0, not 0.0"),
        ({"sample_slots": float("nan")}, "job 1: sample_slots must be above 0, not nan"),
        ({"batch": 0}, "job 1: batch must be at least 1, not 0"),
        ({"arrival": -1}, "job 1: arrival must be at least 0, not -1"),
        ({"worker": np.array([0.0, 0.0])}, "job 1: worker must take at least one resource"),
        ({"server": np.array([-1.0, 2.0])}, "job 1: server must take at least one resource"),
        ({"server": np.array([1.0])}, "job 1: worker and server must name the same resources"),
        ({"external_mb_per_slot": 3.0}, "external_mb_per_slot must not be above internal"),
    ],
)
def test_an_invalid_job_is_reported(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says.replace("(", r"\(")):
        training(**changes)


@pytest.mark.parametrize("changes", [{"height": 0.0}, {"steepness": -1.0}, {"patience": float("inf")}])
def test_a_worth_that_is_nothing_or_rises_is_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ModelError, match="utility: "):
        Sigmoid(**{"height": 1.0, "steepness": 1.0, "patience": 1.0, **changes})


def test_machines_of_another_shape_or_below_nothing_are_refused() -> None:
    with pytest.raises(ModelError, match="a column for each of gpu, cpu"):
        machines([1.0, 2.0, 3.0])
    with pytest.raises(ModelError, match="below 0"):
        machines([1.0, -2.0])
    with pytest.raises(ModelError, match="must be above 0"):
        machines([0.0, 0.0])
    with pytest.raises(ModelError, match="a row for each machine"):
        Machines(
            resources=("gpu",),
            capacity=np.ones((2, 1)),
            takes_workers=np.ones(1, dtype=np.bool_),
            takes_servers=np.ones(2, dtype=np.bool_),
        )
