"""Policies go by learned run times where owners say nothing: as they would by the owner's word for the median."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import ExpectedRun
from tesched_policies.gavel.policy import Gavel

from tests.builders import node, waiting
from tests.scenarios import pdors_site
from tests.scenarios.driver import Driver
from tests.scenarios.test_fill import brought, drive, holder, queued
from tests.scenarios.test_gavel_rounds import GPU, LIMITS


def expecting(driver: Driver, **runs: tuple[float, float, float]) -> Driver:
    """Have low quantile, median and high one learned: `j2=(60, 120, 240)` says so of job 2."""
    learned = {JobId(int(name[1:])): ExpectedRun(low_s=a, median_s=b, high_s=c) for name, (a, b, c) in runs.items()}
    silent = {job_id: replace(one, run_time_s=None) for job_id, one in driver.start.traits.items() if job_id in learned}
    driver.start = replace(driver.start.with_traits({**driver.start.traits, **silent}), expected=learned)
    return driver


@pytest.mark.parametrize(("high_s", "fits"), [(600, True), (601, False)])
def test_fill_brings_forward_what_four_in_five_such_runs_end_in_time_for(high_s: float, fits: bool) -> None:
    # The first job's turn comes in 600 s.
    driver = expecting(drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j2=60, j3=60), j3=(10, 300, high_s))
    assert brought(driver) == ([3] if fits else [])


def test_fill_expects_a_running_job_to_end_by_the_median() -> None:
    # It ran for 100 s: it ends in 300 s, and not in 600 s by its limit, so that 500 s would delay the first job.
    driver = expecting(
        drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j1=1, j2=60, j3=500), j1=(200, 400, 800)
    )
    assert brought(driver) == []
    driver = expecting(
        drive(holder(ends_in=600), queued(2, 32), queued(3, 16), j1=1, j2=60, j3=500), j1=(200, 600, 800)
    )
    assert brought(driver) == [3]


def gavel(**run_times: float) -> Driver:
    """Return one GPU, which another job holds for others' round, and two jobs that wait for it."""
    jobs = [waiting(1, GPU), waiting(2, GPU)]
    known = {int(name[1:]): run_s for name, run_s in run_times.items()}
    policy = Gavel(allocator="sjf", types=("v100",))
    site = Driver([node("v", gres={"gpu:v100": 1})], jobs, limits=LIMITS, best_effort=policy, run_times=known)
    site.start = replace(site.start, speeds={JobId(1): {"v100": 1.0}, JobId(2): {"v100": 1.0}})
    return site


def held(site: Driver) -> set[int]:
    site.cycle(0)
    return set(site.memory.changes_of(Field.HOLD))


def test_gavel_lets_the_job_with_fewest_steps_left_go_first() -> None:
    assert held(gavel(j1=600, j2=60)) == {1}
    assert held(expecting(gavel(j1=600, j2=600), j2=(1, 60, 9000))) == {1}
    assert held(expecting(gavel(j1=600, j2=600), j1=(1, 60, 9000))) == {2}


def plan_of(site: pdors_site.Site) -> tuple[Any, ...]:
    site.cycle(0)
    plan = site.plan(pdors_site.B)
    return plan.nodes, plan.start_at, plan.run_s


def test_pdors_plans_by_the_median_as_by_the_owners_word() -> None:
    def site(run_s: float) -> pdors_site.Site:
        names = ("a1", "a2", "b1", "b2")
        return pdors_site.Site(
            pdors_site.filler(pdors_site.A, *names), pdors_site.wide(pdors_site.B), run_times={pdors_site.A: run_s}
        )

    def learned(median_s: float) -> pdors_site.Site:
        known = site(1.0)
        expecting(known, j1=(1.0, median_s, 9000.0))
        return known

    assert plan_of(learned(100.0)) == plan_of(site(100.0)) != plan_of(site(200.0))
    assert plan_of(learned(200.0)) == plan_of(site(200.0))
