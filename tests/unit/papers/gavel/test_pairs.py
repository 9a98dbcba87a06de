"""Two jobs on one accelerator, worked out by hand: the pairs, their speeds, and what is booked."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tesched_papers.gavel.pairs import SharingRun
from tesched_papers.gavel.policies import Contender
from tesched_papers.gavel.rounds import Allocate, Cluster, Division, Manner, Outcome, Waiting
from tesched_papers.gavel.simulate import simulate
from tesched_papers.gavel.throughputs import measured
from tesched_papers.gavel.workload import GavelJob, GavelWorkload
from tesched_policies.gavel.allocators.problem import Pairs
from tesched_policies.gavel.pair_rounds import ALONE, Claims, Placed, assign_sharing
from tesched_policies.gavel.round_scheduling import NOWHERE
from tesched_sim.workload import WorkloadError

from tests.unit.papers.gavel.test_rounds import job

ONE = Cluster(capacity=(1, 0, 0))
SHARED = Manner(sharing=True)


def claims(priority: list[list[float]], types: int = 1) -> Claims:
    made = np.array(priority, dtype=np.float64).reshape(-1, types)
    return Claims(priority=made, deficit_s=np.zeros_like(made), share=np.zeros_like(made))


def placed(
    alone: list[list[float]],
    pairs: list[list[float]],
    members: list[tuple[int, int]],
    *,
    sizes: list[int] | None = None,
    capacity: tuple[int, ...] = (1,),
) -> Placed:
    types = len(capacity)
    return assign_sharing(
        range(types),
        claims(alone, types),
        claims(pairs, types),
        np.array(members, dtype=np.int64).reshape(-1, 2),
        throughput=np.ones((len(alone), types)),
        scale_factor=np.array(sizes or [1] * len(alone), dtype=np.int64),
        capacity=np.array(capacity, dtype=np.int64),
    )


def test_a_pair_goes_by_its_own_priority_and_takes_the_place_of_one() -> None:
    found = placed([[1], [0], [0]], [[2]], [(1, 2)])
    assert (found.kind.tolist(), found.partner.tolist()) == ([NOWHERE, 0, 0], [ALONE, 2, 1])
    # Equal: the job that is alone comes first.
    assert placed([[2], [0], [0]], [[2]], [(1, 2)]).kind.tolist() == [0, NOWHERE, NOWHERE]
    found = placed([[1], [0], [0]], [[2]], [(1, 2)], sizes=[1, 2, 2], capacity=(3,))
    assert found.kind.tolist() == [0, 0, 0]


def test_a_job_is_in_one_combination_a_round() -> None:
    # The pair of 0 and 1 is first; that of 1 and 2 is not placed any more, nor is 0 alone.
    found = placed([[1], [0], [0]], [[3], [2]], [(0, 1), (1, 2)], capacity=(2,))
    assert (found.kind.tolist(), found.partner.tolist()) == ([0, 0, 0], [1, 0, ALONE])


def test_left_over_resources_are_for_jobs_alone() -> None:
    found = placed([[1], [0], [0]], [[0]], [(1, 2)], capacity=(2,))
    assert (found.kind.tolist(), found.partner.tolist()) == ([0, 0, NOWHERE], [ALONE] * 3)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.lists(st.integers(0, 3), min_size=2, max_size=2)), max_size=12),
    st.lists(st.integers(0, 8), min_size=2, max_size=2),
    st.randoms(use_true_random=False),
)
def test_no_accelerator_is_given_twice_and_no_job_is_in_two_places(
    jobs: list[tuple[int, list[int]]], capacity: list[int], draw: Random
) -> None:
    sizes = [size for size, _ in jobs]
    members = [(a, b) for b in range(len(jobs)) for a in range(b) if sizes[a] == sizes[b]]
    pairs = [[float(draw.randint(0, 3)) for _ in range(2)] for _ in members]
    alone = [[float(value) for value in row] for _, row in jobs]
    found = placed(alone, pairs, members, sizes=sizes, capacity=(capacity[0], capacity[1]))
    used = [0, 0]
    for row, (kind, other) in enumerate(zip(found.kind.tolist(), found.partner.tolist(), strict=True)):
        if other != ALONE:
            assert (found.partner[other], found.kind[other], sizes[other]) == (row, kind, sizes[row])
        if kind != NOWHERE and (other == ALONE or row < other):
            used[kind] += sizes[row]
    assert used[0] <= capacity[0]
    assert used[1] <= capacity[1]


def together(speed: float, part: float) -> Allocate:
    """Return a policy: all pairs have `part` of the time at that speed, each job alone an equal part of the rest."""

    def divide(waiting: Waiting) -> Division:
        count = len(waiting.job)
        first, second = np.triu_indices(count, k=1)
        slow = np.full((len(first), 3), speed)
        here = waiting.capacity > 0
        return Division(
            x=np.tile((1 - part) / max(count, 1) * here, (count, 1)),
            pairs=Pairs(first=first, second=second, first_throughput=slow, second_throughput=slow),
            pairs_x=np.tile(part / max(len(first), 1) * here, (len(first), 1)),
        )

    return divide


def run(*jobs: GavelJob, speed: float, part: float = 1.0, cluster: Cluster = ONE) -> Outcome:
    return simulate(iter(jobs), range(len(jobs)), cluster, together(speed, part), manner=SHARED, seed=0)


def test_two_jobs_on_one_accelerator_go_at_their_speeds_beside_each_other() -> None:
    # 0.75 steps/s each: 270 steps in a round. 90 are left of both, which take 120 s.
    found = run(job(0, 360), job(1, 360), speed=0.75)
    assert found.jct_s == {0: 480.0, 1: 480.0}
    # The accelerator was held once, not twice.
    assert found.busy_s == 480.0


def test_the_job_that_is_left_goes_at_the_pairs_speed_to_the_end_of_its_slice_and_alone_after_it() -> None:
    # 0 ends at 80. 1 has 180 steps at 360; the rest, 180, takes it 180 s alone.
    found = run(job(0, 40), job(1, 360), speed=0.5)
    assert found.jct_s == {0: 80.0, 1: 540.0}
    assert found.busy_s == 360.0 + 180.0


def test_time_alone_and_time_in_a_pair_are_kept_apart() -> None:
    # A third of the time for the pair, and for each alone. Equal: 0 alone; then 1 alone; then the pair.
    found = run(job(0, 500), job(1, 500), speed=0.5, part=1 / 3)
    # In the third round both have 140 steps left, at 0.5: they end at 720 + 280. 1 was there, 0 starts again.
    assert found.jct_s == {0: 1000.0, 1: 1000.0}
    assert found.starts == 3


def test_a_pair_that_has_no_step_in_a_round_does_not_run() -> None:
    found = run(job(0, 360), job(1, 360), speed=0.001)
    assert found.jct_s == {0: 360.0, 1: 720.0}


def test_pairs_in_rounds_that_are_filled_are_refused() -> None:
    with pytest.raises(WorkloadError, match="authors' rounds alone"):
        run(job(0, 1), speed=1, cluster=Cluster(capacity=(1, 0, 0), fill=True))


class Watched(SharingRun):
    """Observes each round."""

    def place(self) -> NDArray[np.intp]:
        found = super().place()
        row_of = {one.index: row for row, one in enumerate(self.jobs)}
        used = np.zeros(3)
        for row in np.flatnonzero(found != NOWHERE).tolist():
            other = int(self.partner[row])
            if other != ALONE:
                mate = row_of[other]
                assert self.partner[mate] == self.jobs[row].index
                assert found[mate] == found[row]
            used[found[row]] += self.scale_factor[row] * (0.5 if other != ALONE else 1.0)
        assert (used <= self.capacity).all()
        return found


def test_on_the_authors_workload_pairs_form_and_nothing_is_given_twice() -> None:
    def shared(run: SharingRun) -> Iterator[bool]:
        ended: set[int] = set()
        while len(ended) < 30:
            ended.update(run.turn())
            yield bool((run.partner != ALONE).any())

    jobs = GavelWorkload(mean_gap_s=0.0, count=30, multi=True).jobs(0, measured())
    allocate = Contender(name="las-sharing").allocate()
    assert any(shared(Watched(jobs, Cluster(capacity=(8, 8, 8)), allocate, SHARED, 0)))
