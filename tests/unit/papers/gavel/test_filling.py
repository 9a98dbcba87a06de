"""Gavel's simulation with free resources filled in mid-round, as the daemon does, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tesched_papers.gavel.filling import FillingRun
from tesched_papers.gavel.rounds import Cluster, Manner, Outcome, Waiting
from tesched_papers.gavel.simulate import simulate
from tesched_papers.gavel.workload import GavelJob
from tesched_sim.workload import WorkloadError

from tests.unit.papers.gavel.test_rounds import equally, job

ONE = Cluster(capacity=(1, 0, 0), fill=True, recompute_s=0)


def run(*jobs: GavelJob, cluster: Cluster = ONE) -> Outcome:
    return simulate(iter(jobs), range(len(jobs)), cluster, equally, manner=Manner(), seed=0)


def test_a_job_that_comes_in_mid_round_starts_at_once_where_resources_are_free() -> None:
    two = Cluster(capacity=(2, 0, 0), fill=True, recompute_s=0)
    assert run(job(0, 500), job(1, 500, at=100.0), cluster=two).jct_s == {0: 500.0, 1: 500.0}


def test_resources_that_come_free_in_mid_round_go_to_the_next_job() -> None:
    # 0 has the first round and ends at 100 in it; 1 follows at once and has not to leave before the end of its.
    found = run(job(0, 100), job(1, 500))
    assert found.jct_s == {0: 100.0, 1: 600.0}
    assert found.starts == 2


def test_no_job_is_moved_before_the_round_is_over() -> None:
    # 1 comes at 10. At 360 the time is divided again; no job is behind, and 0 is the older one. 1 follows it at 400, in
    # mid-round, and ends at 1120.
    found = run(job(0, 400), job(1, 720, at=10.0))
    assert found.jct_s == {0: 400.0, 1: 1110.0}


def test_a_round_has_its_full_length_and_a_step_may_be_interrupted() -> None:
    # A step of job 0 takes 100 s: 3.6 of them are done when it leaves at 360, the rest takes 40 s from 720.
    found = run(job(0, 4, speed=(0.01, 0, 0)), job(1, 360))
    assert found.jct_s == {0: 760.0, 1: 720.0}


def test_a_step_may_take_longer_than_a_round() -> None:
    assert run(job(0, 2, speed=(0.001, 0, 0))).jct_s == {0: 2000.0}


def test_a_start_costs_its_time_once_and_no_more_than_there_was_of_it() -> None:
    found = run(job(0, 500), cluster=Cluster(capacity=(1, 0, 0), fill=True, restart_cost_s=60.0))
    assert found.jct_s == {0: 560.0}
    assert (found.restarting_s, found.busy_s, found.starts) == (60.0, 560.0, 1)
    # 1 starts at 340 and has paid 20 s when it leaves at 360 for 2, which pays 60 s and ends at 820. Then 1 starts
    # again, pays 60 s, and works from 880 to 980.
    cluster = Cluster(capacity=(1, 0, 0), fill=True, restart_cost_s=60.0, recompute_s=0)
    jobs = iter([job(0, 280), job(1, 100, at=10.0), job(2, 400, at=350.0)])
    found = simulate(jobs, range(3), cluster, _last_first, manner=Manner(), seed=0)
    assert found.jct_s == {0: 340.0, 1: 970.0, 2: 470.0}
    assert found.restarting_s == 60.0 + 20.0 + 60.0 + 60.0


def _last_first(waiting: Waiting) -> NDArray[np.float64]:
    """Give all the time to the job that came last."""
    share = np.zeros_like(waiting.throughput)
    share[-1] = waiting.capacity > 0
    return share


def test_an_empty_cluster_waits_for_the_next_job_and_begins_a_round_with_it() -> None:
    found = run(job(0, 100), job(1, 50, at=1000.0))
    assert found.jct_s == {0: 100.0, 1: 50.0}
    with pytest.raises(WorkloadError, match="come to an end"):
        simulate(iter([job(0, 10)]), range(2), ONE, equally, manner=Manner(), seed=0)


def test_jobs_that_are_as_fast_everywhere_are_moved_less_often_than_in_the_papers_rounds() -> None:
    jobs = [job(index, 3000.0 + index) for index in range(3)]
    moves = [
        simulate(
            iter(jobs), range(3), Cluster(capacity=(1, 1, 1), fill=fill), equally, manner=Manner(shuffled=True), seed=0
        ).starts
        for fill in (False, True)
    ]
    assert moves[0] > 3
    assert moves[1] == 3


class Watched(FillingRun):
    """Observes each event."""

    def turn(self) -> list[int]:
        ended = super().turn()
        used = np.zeros(3, dtype=np.int64)
        runs = self.on >= 0
        np.add.at(used, self.on[runs], self.scale_factor[runs])
        assert (used <= self.capacity).all()
        assert (self.steps_left > -1e-6).all()
        return ended


@given(
    st.lists(
        st.tuples(
            st.floats(1, 3000),
            st.floats(0, 2000),
            st.sampled_from([1, 2]),
            st.lists(st.floats(0.1, 4), min_size=3, max_size=3),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_every_job_does_its_steps_and_no_accelerator_is_held_twice(
    drawn: list[tuple[float, float, int, list[float]]],
) -> None:
    jobs = [
        job(index, steps, at=at, size=size, speed=speed)
        for index, (steps, at, size, speed) in enumerate(sorted(drawn, key=lambda one: one[1]))
    ]
    watched = Watched(iter(jobs), Cluster(capacity=(2, 1, 1), fill=True, recompute_s=0), equally, Manner(), 0)
    ended: set[int] = set()
    while len(ended) < len(jobs):
        ended.update(watched.turn())
    for one in jobs:
        assert watched.outcome.jct_s[one.index] >= one.steps / one.throughput.max() - 1e-6
