"""FIFO, AlloX and Gandiva as Gavel's authors have them, by hand and beside their runs; and no rounds at all."""

from __future__ import annotations

import numpy as np
import pytest
from tesched_papers.gavel.greedy import Allox, Gandiva, GreedyFifo
from tesched_papers.gavel.policies import Contender
from tesched_papers.gavel.rounds import Cluster, Manner, Waiting
from tesched_papers.gavel.run import Plan, perform
from tesched_papers.gavel.simulate import simulate
from tesched_papers.gavel.throughputs import measured
from tesched_papers.gavel.workload import GavelWorkload
from tesched_sim.workload import WorkloadError

from tests.unit.papers.gavel.test_rounds import equally, job


def asked(
    speeds: list[list[float]],
    capacity: tuple[int, int, int],
    *,
    names: list[int] | None = None,
    sizes: list[int] | None = None,
    steps: list[float] | None = None,
    row: list[int] | None = None,
) -> Waiting:
    count = len(speeds)
    return Waiting(
        job=np.array(names or range(count), dtype=np.int64),
        row=np.array(row or [0] * count, dtype=np.int64),
        throughput=np.array(speeds, dtype=np.float64),
        scale_factor=np.array(sizes or [1] * count, dtype=np.int64),
        weight=np.ones(count),
        steps=np.array(steps or [1.0] * count),
        steps_left=np.array(steps or [1.0] * count),
        age_s=np.zeros(count),
        capacity=np.array(capacity, dtype=np.int64),
    )


def test_greedy_fifo_gives_the_best_free_type_and_stops_at_the_first_that_does_not_fit() -> None:
    fifo = GreedyFifo(aware=True, seed=0)
    speeds: list[list[float]] = [[3, 2, 1], [3, 2, 1], [3, 2, 1], [3, 2, 1]]
    found = fifo(asked(speeds, (1, 1, 1), sizes=[1, 1, 2, 1]))
    assert found.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    # Anew at each allocation: when the first has ended, the second moves up.
    assert fifo(asked(speeds[:1], (1, 1, 1), names=[1])).tolist() == [[1, 0, 0]]


def test_greedy_fifo_that_knows_no_types_keeps_what_it_drew() -> None:
    fifo = GreedyFifo(aware=False, seed=0)
    first = fifo(asked([[3.0, 2, 1]] * 2, (1, 1, 1)))
    assert first.sum(axis=1).tolist() == [1, 1]
    assert first.sum(axis=0).max() == 1
    assert fifo(asked([[3.0, 2, 1]] * 2, (1, 1, 1))).tolist() == first.tolist()
    assert fifo(asked([[3.0, 2, 1]], (1, 1, 1), names=[1])).tolist() == first[1:].tolist()


def test_allox_by_the_worked_example_at_the_head_of_the_file() -> None:
    hours = np.array([[1.0, np.inf, 4.0], [2.0, np.inf, 2.5]])
    assert Allox()(asked((1 / hours).tolist(), (1, 0, 1))).tolist() == [[1, 0, 0], [0, 0, 1]]
    # With 4 h for b on the K80 both queue for the V100, a first; b waits.
    hours[1, 2] = 4.0
    allox = Allox()
    assert allox(asked((1 / hours).tolist(), (1, 0, 1))).tolist() == [[1, 0, 0], [0, 0, 0]]
    # What a has it keeps, though b has fewer steps now.
    assert allox(asked((1 / hours).tolist(), (1, 0, 1), steps=[1.0, 0.01]))[0].tolist() == [1, 0, 0]
    with pytest.raises(WorkloadError, match="several accelerators"):
        Allox()(asked([[1.0, 1, 1]], (2, 2, 2), sizes=[2]))


def test_gandiva_shares_only_when_jobs_want_more_than_there_is() -> None:
    apart = Gandiva(seed=0)(asked([[1.0, 1, 1]] * 2, (1, 1, 1)))
    assert len(apart.pairs.first) == 0
    assert apart.x == pytest.approx(np.full((2, 3), 1 / 3))
    table = measured()
    row = table.row[("A3C", 1)]
    shared = Gandiva(seed=0)(asked([table.alone[row].tolist()] * 4, (1, 1, 1), row=[row] * 4))
    assert sorted([*shared.pairs.first.tolist(), *shared.pairs.second.tolist()]) == [0, 1, 2, 3]
    assert shared.x.sum() == 0
    # Two combinations for three accelerators: a third of the time on each on which they get more done than one alone.
    worth = 2 * table.paired[row, row] / table.alone[row]
    assert shared.pairs_x == pytest.approx(np.tile(np.where(worth >= 1, 1 / 3, 0.0), (2, 1)))
    assert shared.pairs_x.any()


@pytest.mark.parametrize(("name", "mean_jct_h"), [("fifo-greedy", 13.374), ("allox", 14.048), ("gandiva", 14.964)])
def test_the_authors_own_runs(name: str, mean_jct_h: float) -> None:
    plan = Plan(
        contender=Contender(name=name),
        cluster=Cluster(capacity=(12, 12, 12)),
        workload=GavelWorkload(mean_gap_s=3000.0),
        window=(300, 500),
        seed=0,
    )
    assert perform(plan).mean_jct_h == pytest.approx(mean_jct_h, rel=0.005)


def test_each_job_goes_at_the_speed_of_its_fractions_without_rounds() -> None:
    ideal = Cluster(capacity=(1, 0, 0), ideal=True)
    jobs = [job(0, 400), job(1, 720), job(2, 10, at=1000.0)]
    found = simulate(iter(jobs), range(3), ideal, equally, manner=Manner(), seed=0)
    # Half each to 800; 1 alone to 1000, where 120 steps are left; half each for 20 s; 110 s alone.
    assert found.jct_s == {0: 800.0, 1: 1130.0, 2: 20.0}
    assert found.busy_s == pytest.approx(1130.0)
    with pytest.raises(WorkloadError, match="come to an end"):
        simulate(iter(jobs), range(4), ideal, equally, manner=Manner(), seed=0)


def test_what_makes_no_sense_without_rounds_is_refused() -> None:
    with pytest.raises(WorkloadError, match="without rounds"):
        Cluster(capacity=(1, 0, 0), ideal=True, fill=True)
    with pytest.raises(WorkloadError, match="neither filled nor ideal"):
        simulate(
            iter([job(0, 1)]),
            range(1),
            Cluster(capacity=(1, 0, 0), ideal=True),
            equally,
            manner=Manner(sharing=True),
            seed=0,
        )
