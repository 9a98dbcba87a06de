"""Gavel's simulator, worked out by hand: when jobs start, what they get done, when an allocation is made."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from tesched_papers.gavel.rounds import Cluster, Manner, Outcome, Waiting
from tesched_papers.gavel.simulate import OverloadError, simulate
from tesched_papers.gavel.workload import GavelJob
from tesched_sim.workload import WorkloadError

ONE = Cluster(capacity=(1, 0, 0))


def job(index: int, steps: float, *, at: float = 0.0, speed: Sequence[float] = (1, 1, 1), size: int = 1) -> GavelJob:
    return GavelJob(
        index=index,
        model="A3C",
        scale_factor=size,
        row=0,
        steps=steps,
        arrival_s=at,
        weight=1.0,
        throughput=np.array(speed, dtype=np.float64),
    )


def equally(waiting: Waiting) -> NDArray[np.float64]:
    """Give each job the same part of each type."""
    return np.tile(waiting.capacity / max(len(waiting.job), int(waiting.capacity.sum())), (len(waiting.job), 1))


def run(*jobs: GavelJob, cluster: Cluster = ONE, manner: Manner | None = None, seed: int = 0) -> Outcome:
    return simulate(iter(jobs), range(len(jobs)), cluster, equally, manner=manner or Manner(), seed=seed)


def test_a_job_alone_runs_round_after_round_and_ends_within_one() -> None:
    found = run(job(0, 1000))
    assert found.jct_s == {0: 1000.0}
    assert (found.rounds, found.starts, found.could_renew, found.renewed) == (3, 1, 2, 2)
    assert found.busy_s == 1000.0


def test_two_jobs_take_turns_on_one_accelerator() -> None:
    # Rounds: 0, 1, 0 (40 steps are left: it ends at 760), 1.
    found = run(job(0, 400), job(1, 720))
    assert found.jct_s == {0: 760.0, 1: 1120.0}
    # At 760 there is a new allocation; 1 starts there for the second time.
    assert found.starts == 4


def test_a_slice_has_whole_steps_so_that_a_round_is_a_little_shorter() -> None:
    # 3 steps take 300 s, a fourth would end after the round.
    assert run(job(0, 7, speed=(0.01, 0, 0))).jct_s == {0: 700.0}
    found = run(job(0, 3, speed=(0.01, 0, 0)), job(1, 100, at=50.0))
    assert found.jct_s == {0: 300.0, 1: 300.0 + 100.0 - 50.0}


def test_a_job_that_comes_between_two_allocations_waits_for_the_next() -> None:
    three = Cluster(capacity=(3, 0, 0))
    found = run(job(0, 9000), job(1, 9000, at=100.0), job(2, 360, at=400.0), cluster=three)
    # The second is there at 360 and starts: the first allocation was made at 0, after which any other may follow. The
    # third waits until 1920 s have passed since 360, at the end of a round: 2520.
    assert found.jct_s[1] == 360.0 + 9000 - 100
    assert found.jct_s[2] == 2520.0 + 360 - 400


def test_a_shorter_wait_between_two_allocations_lets_it_start_sooner() -> None:
    three = Cluster(capacity=(3, 0, 0), recompute_s=0.0)
    found = run(job(0, 9000), job(1, 9000, at=100.0), job(2, 360, at=400.0), cluster=three)
    assert found.jct_s[2] == 720.0 + 360 - 400


def test_it_waits_until_another_job_comes_even_in_an_empty_cluster() -> None:
    # Job 1 ends at 600; 2 has no fraction yet, and time passes on to the arrival of 3.
    found = run(job(0, 100), job(1, 500, at=50.0), job(2, 10, at=200.0), job(3, 10, at=5000.0))
    assert found.jct_s == {0: 100.0, 1: 550.0, 2: 4810.0, 3: 20.0}


def test_a_job_on_several_accelerators_takes_them_all_at_once() -> None:
    found = run(job(0, 360, size=2), job(1, 360), cluster=Cluster(capacity=(2, 0, 0)))
    assert found.jct_s == {0: 360.0, 1: 720.0}
    assert found.busy_s == 2 * 360.0 + 360.0


def test_a_restart_costs_the_head_of_a_slice_and_a_renewed_lease_nothing() -> None:
    found = run(job(0, 660), cluster=Cluster(capacity=(1, 0, 0), restart_cost_s=60.0))
    assert found.jct_s == {0: 720.0}
    assert (found.restarting_s, found.busy_s) == (60.0, 720.0)


def test_jobs_that_take_turns_pay_at_each() -> None:
    cluster = Cluster(capacity=(1, 0, 0), restart_cost_s=60.0)
    found = run(job(0, 600), job(1, 600), cluster=cluster)
    assert found.jct_s == {0: 1080.0, 1: 1440.0}
    assert (found.starts, found.restarting_s) == (4, 240.0)


def test_twice_the_round_halves_the_turns() -> None:
    cluster = Cluster(capacity=(1, 0, 0), restart_cost_s=60.0, round_s=720.0)
    found = run(job(0, 600), job(1, 600), cluster=cluster)
    assert found.jct_s == {0: 660.0, 1: 1320.0}
    assert found.restarting_s == 120.0


@pytest.mark.parametrize("seed", range(6))
def test_types_choose_in_an_order_that_the_seed_shuffles_if_the_policy_is_blind(seed: int) -> None:
    order = [0, 1, 2]
    Random(seed + 5).shuffle(order)  # noqa: S311 - the authors' order
    three, speed = Cluster(capacity=(1, 1, 1)), (1.0, 2.0, 4.0)
    found = run(job(0, 100, speed=speed), cluster=three, manner=Manner(shuffled=True), seed=seed)
    assert found.jct_s == {0: 100 / speed[order[0]]}
    assert run(job(0, 100, speed=speed), cluster=three, seed=seed).jct_s == {0: 100.0}


def test_a_policy_gets_what_is_left_and_how_old_jobs_are() -> None:
    seen: list[Waiting] = []

    def look(waiting: Waiting) -> NDArray[np.float64]:
        seen.append(waiting)
        return equally(waiting)

    jobs = [job(0, 1000), job(1, 10, at=100.0)]
    simulate(iter(jobs), range(2), ONE, look, manner=Manner(), seed=0)
    assert seen[1].job.tolist() == [0, 1]
    assert seen[1].steps_left.tolist() == [640.0, 10.0]
    assert seen[1].age_s.tolist() == [360.0, 260.0]


def test_a_job_that_can_never_run_is_refused_and_not_waited_for() -> None:
    with pytest.raises(WorkloadError, match=r"job 0 \(A3C on 2\) can never run on 1:0:0"):
        run(job(0, 10, size=2))
    with pytest.raises(WorkloadError, match="can never run"):
        run(job(0, 10, speed=(0, 1, 1)))
    with pytest.raises(WorkloadError, match="in rounds of 360 s"):
        run(job(0, 10, speed=(0.001, 0, 0)))


def test_a_cluster_that_does_not_keep_up_is_reported_and_not_run_for_ever() -> None:
    jobs = (job(index, 10_000, at=100.0 * index) for index in range(1000))
    with pytest.raises(OverloadError, match=r"5\d jobs are there after 1 hours"):
        simulate(jobs, range(1000), ONE, equally, manner=Manner(), seed=0, most_jobs=50)


def test_a_window_beyond_the_last_job_is_refused() -> None:
    with pytest.raises(WorkloadError, match="come to an end"):
        simulate(iter([job(0, 10)]), range(2), ONE, equally, manner=Manner(), seed=0)


@pytest.mark.parametrize(
    ("capacity", "round_s", "cost_s", "said"),
    [
        ((0, 0, 0), 360.0, 0.0, "at least 1"),
        ((1, 1), 360.0, 0.0, "v100:p100:k80"),
        ((1, -1, 1), 360.0, 0.0, "at least 1"),
        ((1, 1, 1), 0.0, 0.0, "a round of 0 s"),
        ((1, 1, 1), 360.0, 360.0, "leaves nothing"),
        ((1, 1, 1), 360.0, -1.0, "a restart that costs"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(
    capacity: tuple[int, ...], round_s: float, cost_s: float, said: str
) -> None:
    with pytest.raises(WorkloadError, match=said):
        Cluster(capacity=capacity, round_s=round_s, restart_cost_s=cost_s)
