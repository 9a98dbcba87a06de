"""Much data as few points: how far a thinned curve may be from the whole one."""

from __future__ import annotations

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from tesched_sim.reports.curves import (
    EVEN_POINTS,
    MOST_STRETCHES,
    MOST_VICTIMS,
    TAIL_POINTS,
    Distribution,
    Payers,
    Series,
)
from tesched_sim.result import Use

from tests.unit.sim.results import Ran, four_jobs, result


def test_a_distribution_steps_at_each_distinct_value_and_misses_the_unfinished() -> None:
    found = Distribution.of(np.array([3.0, 1.0, 1.0, nan]))
    assert found.at.tolist() == [1.0, 3.0]
    assert found.share.tolist() == [0.5, 0.75]
    assert found.count == 4


def test_no_jobs_make_an_empty_distribution() -> None:
    for found in (Distribution.of(np.array([])), Distribution.pooled([]), Distribution.of(np.array([nan]))):
        assert (len(found.at), len(found.share)) == (0, 0)


def test_a_thinned_distribution_is_nowhere_far_from_all_values() -> None:
    values = np.random.default_rng(1).lognormal(3, 2, 50_000)
    found = Distribution.of(values)
    assert len(found.at) <= EVEN_POINTS + TAIL_POINTS
    assert found.at[-1] == values.max()
    everything = np.sort(values)
    # Just before a kept point the thinned curve is furthest below the whole one.
    whole = np.searchsorted(everything, found.at[1:], side="left") / len(values)
    assert np.all(whole - found.share[:-1] >= 0)
    assert np.max(whole - found.share[:-1]) <= 1 / (EVEN_POINTS - 1)
    # What is kept is the distribution's own.
    assert found.share == pytest.approx(np.searchsorted(everything, found.at, side="right") / len(values))


def test_pooled_seeds_count_each_job_once() -> None:
    pooled = Distribution.pooled(
        [Distribution.of(np.array([1.0, 2.0])), Distribution.of(np.array([2.0, 3.0, 4.0, nan]))]
    )
    assert pooled.at.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert pooled.share == pytest.approx([1 / 6, 3 / 6, 4 / 6, 5 / 6])
    assert pooled.count == 6


def test_a_short_series_is_left_as_it_is() -> None:
    series = Series.of(four_jobs())
    assert series.stretch_s is None
    assert series.at_s.tolist() == [0, 60, 100, 260, 300]
    assert series.be_waiting.tolist() == [0, 1, 1, 0, 0]
    assert series.held_share["cpu"].tolist() == [0.75, 0.5, 0, 0, 0]
    assert list(series.held_share) == ["cpu", "mem_mib"]  # the nodes have no GPUs


def test_a_long_series_keeps_its_area() -> None:
    at_s = np.cumsum(np.random.default_rng(2).exponential(10, 5000))
    waiting = np.random.default_rng(3).integers(0, 50, 5000)
    held = np.zeros((5000, 3), dtype=np.int64)
    use = Use(at_s=at_s, held=held, busy_s=0.0, held_s=np.zeros(3), te_waiting=waiting, be_waiting=waiting * 0)
    series = Series.of(replace(result(Ran(end=100)), use=use))
    assert len(series.at_s) == MOST_STRETCHES + 1
    assert series.stretch_s is not None
    area = float((waiting[:-1] * np.diff(at_s)).sum())
    assert float(series.te_waiting[:-1].sum()) * series.stretch_s == pytest.approx(area)


def test_the_victims_among_the_four_jobs() -> None:
    payers = Payers.of(four_jobs())
    assert payers.count == 1
    # Two nodes, a quarter of each; 10 s lost on both.
    assert (payers.run_s.tolist(), payers.size_nodes.tolist(), payers.lost_node_s.tolist()) == ([200], [0.5], [20])
    assert [(user.name, user.jobs, user.preemptions, user.lost_node_s) for user in payers.users] == [("bob", 1, 1, 20)]


def test_of_many_victims_every_nth_is_kept() -> None:
    payers = Payers.of(result(*(Ran(end=100.0 + row, run=100.0 + row, preempted=1) for row in range(2 * MOST_VICTIMS))))
    assert payers.count == 2 * MOST_VICTIMS
    assert payers.run_s.tolist() == [100.0 + row for row in range(0, 2 * MOST_VICTIMS, 2)]
