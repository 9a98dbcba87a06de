"""One run's figures, by hand-counted examples."""

from __future__ import annotations

import json
from math import nan

import numpy as np
import pytest
from tesched_sim.reports.summary import MeanAndPercentiles, summarise

from tests.unit.sim.results import Noticed, Ran, Sample, four_jobs, result


def test_percentiles_lie_between_two_values_in_proportion() -> None:
    found = MeanAndPercentiles.of(np.array([3.0, nan, 1.0, 10.0, 2.0]))
    assert (found.count, found.mean, found.p50) == (4, 4.0, 2.5)
    assert found.p95 == pytest.approx(3 + 0.85 * 7)
    assert found.p99 == pytest.approx(3 + 0.97 * 7)


def test_the_classes_of_the_four_jobs() -> None:
    summary = summarise(four_jobs())
    te, be = summary.te, summary.be
    assert (te.jobs, te.not_finished, be.jobs, be.not_finished) == (2, 0, 2, 1)
    # TE: waits of 0 and 10 s, run times of 100 and 5 s: slowdowns 1 and 3.
    assert (te.slowdown.p50, te.slowdown.mean) == (2.0, 2.0)
    assert te.slowdown.p95 == pytest.approx(2.9)
    assert te.slowdown.p99 == pytest.approx(2.98)
    assert (te.wait_s.p50, te.wait_s.p95) == (5.0, 9.5)
    assert (te.jct_s.mean, te.jct_s.p50) == (57.5, 57.5)
    # A run time of 5 s counts as 10: (10 + 5) / 10.
    assert te.bounded_slowdown.mean == pytest.approx((1 + 1.5) / 2)
    # BE: one of the two ended, after 260 s of which it worked 200.
    assert (be.slowdown.count, be.slowdown.p50, be.wait_s.p50, be.jct_s.p50) == (1, 1.3, 60.0, 260.0)
    assert (be.preempted_once_share, be.preempted_twice_share, be.preempted_more_share) == (0.5, 0.0, 0.0)
    assert be.preemptions_per_job == 0.5
    assert (summary.all_jobs.jobs, summary.all_jobs.not_finished, summary.all_jobs.preemptions_per_job) == (4, 1, 0.25)


def test_what_preemption_cost_the_four_jobs() -> None:
    summary = summarise(four_jobs())
    assert (summary.notices, summary.preemptions, summary.not_back, summary.futile) == (1, 1, 0, 0)
    assert summary.restart_interval_s.p50 == 50.0
    # 10 s on 2 nodes; used: 100 + 5 s on one, 200 + 10 s on two.
    assert (summary.lost_node_s, summary.lost_node_s_per_preemption, summary.used_node_s) == (20.0, 20.0, 525.0)
    assert summary.lost_share == pytest.approx(20 / 525)


def test_utilisation_is_the_part_that_was_held_while_there_was_work() -> None:
    summary = summarise(four_jobs())
    assert summary.busy_s == 260.0
    assert summary.utilisation_share == {"cpu": 0.25, "mem_mib": 0.0, "gpu": None}
    assert summary.makespan_s == 260.0


def test_only_those_that_left_are_preemptions() -> None:
    jobs = [Ran(te=True, end=100), *(Ran(end=500, preempted=times) for times in (2, 3, 4, 0))]
    noticed = [
        Noticed(victim=1, preemptor=0, left=20, back=50, futile=True),
        Noticed(victim=2, preemptor=0, left=20),
        Noticed(victim=4, preemptor=0, futile=True),  # it finished first: no futile preemption
    ]
    summary = summarise(result(*jobs, noticed=noticed))
    assert (summary.notices, summary.preemptions, summary.not_back, summary.futile) == (3, 2, 1, 1)
    assert (summary.restart_interval_s.count, summary.restart_interval_s.p95) == (1, 30.0)
    be = summary.be
    assert (be.preempted_once_share, be.preempted_twice_share, be.preempted_more_share) == (0.0, 0.25, 0.5)


def test_a_preempted_job_is_delayed_by_what_it_lost_and_by_its_time_away() -> None:
    jobs = [
        Ran(te=True, end=100),
        Ran(end=500, preempted=2, lost=99, nodes=2),
        Ran(end=500, preempted=1, lost=7),  # by a node that failed
        Ran(preempted=1, lost=9),  # it has not ended
        Ran(end=500, preempted=1),
    ]
    noticed = [
        Noticed(victim=1, preemptor=0, left=20, back=50, lost=20),
        Noticed(victim=1, preemptor=0, left=200, back=300, lost=10),
        Noticed(victim=2, preemptor=0),  # it was let go
        Noticed(victim=3, preemptor=0, left=20, back=90),
        Noticed(victim=4, preemptor=1, left=20, back=90),  # for the turn of another one
    ]
    be = summarise(result(*jobs, noticed=noticed)).be
    assert (be.delay_s.count, be.delay_s.mean) == (1, 30 + 30 + 100)


def test_the_numbers_own_error_is_no_time() -> None:
    # 0.1 + 0.2 is 0.30000000000000004
    summary = summarise(result(Ran(submit=0.1, start=0.1, end=0.1 + 0.2 + 0.7, run=0.9, lost=1e-12)))
    assert (summary.be.wait_s.mean, summary.be.slowdown.mean, summary.lost_node_s) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("jobs", [(), (Ran(),), (Ran(te=True, end=100),)], ids=["none", "none ended", "no BE job"])
def test_an_empty_report_has_none_and_raises_no_warning(jobs: tuple[Ran, ...]) -> None:
    summary = summarise(result(*jobs, samples=[Sample(at=0), Sample(at=10)]))
    assert summary.be.slowdown == MeanAndPercentiles(count=0, mean=None, p50=None, p95=None, p99=None)
    assert (summary.restart_interval_s.p50, summary.lost_node_s_per_preemption) == (None, None)
    assert summary.utilisation_share["cpu"] is None
    json.dumps(summary.as_json(), allow_nan=False)


def test_the_json_keys_stay() -> None:
    said = summarise(four_jobs()).as_json()
    assert list(said) == [
        "workload",
        "policy",
        "te",
        "be",
        "all_jobs",
        "notices",
        "preemptions",
        "not_back",
        "restart_interval_s",
        "futile",
        "lost_node_s",
        "lost_node_s_per_preemption",
        "used_node_s",
        "lost_share",
        "busy_s",
        "utilisation_share",
        "makespan_s",
        "took_s",
        "bound",
    ]
    assert said["restart_interval_s"] == {"count": 1, "mean": 50.0, "p50": 50.0, "p95": 50.0, "p99": 50.0}
