"""The bound beside `guard.te`: what a TE job that waits for its own limits has to do with it.

Everywhere: a BE array has waited for 300 s of the 811 s by which any job may be delayed, so that a TE job of 600 s
would wait for it and one of 60 s would not.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import holds, releases, sets
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.resources import JobId
from tesched_core.placement.deadlines import Deadlines

from tests.builders import NOW, node, waiting
from tests.scenarios.driver import HALF, TE, Driver
from tests.scenarios.test_bound_arrays import ARRAY, FIRST, LIMITS, be_array, components, delayed, with_limit

OTHER = 10
ONE_EACH = replace(LIMITS, te=TeLimits(max_running_per_user=1))


def te(job_id: int) -> Job:
    return waiting(job_id, cpus=16, time_limit_s=600, user="ada")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Jobs that are checked for whether they wait for the bound."""
    found: list[int] = []
    known = Deadlines.why_te_waits

    def why(self: Deadlines, job: Job, **how: float) -> object:
        found.append(job.job_id)
        return known(self, job, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Deadlines, "why_te_waits", why)
    return found


@pytest.mark.parametrize("limits", [LIMITS, ONE_EACH])
def test_no_job_is_put_first_for_a_te_job_that_waits_for_its_own_limits(limits: Limits) -> None:
    first = waiting(FIRST, cpus=16, time_limit_s=600, user="ada", submit_time=NOW - 5)
    ahead = waiting(30, cpus=32, user="carl", eligible_time=NOW - 10, submit_time=NOW - 10, priority=500)
    drive = Driver(
        [node("n1")],
        [be_array(), ahead, first],
        limits=limits,
        run_times={ARRAY: 10, ahead.job_id: 100_000},
        graces={ARRAY: 0},
    )
    drive.cycle(0)
    drive.starts(FIRST, HALF, at_s=0)
    drive.cycle(1)
    drive.cycle(300)
    drive.submits(te(TE), like=FIRST)
    actions = drive.cycle(310)
    assert [one.job_id for one in actions if holds(one)] == [TE]
    assert [one.job_id for one in actions if sets(one, Field.NICE)] == ([] if limits is ONE_EACH else [ARRAY])


def test_te_jobs_that_wait_for_their_own_limits_are_not_weighed_against_the_deadlines(asked: list[int]) -> None:
    drive = delayed(seconds=300)
    drive.limits = ONE_EACH
    for job_id in range(TE, TE + 5):
        drive.submits(te(job_id), like=FIRST)
    drive.obeys(*drive.cycle(310))
    drive.cycle(320)
    assert set(asked) <= {FIRST}


def test_first_component_waits_for_one_that_waits_for_its_limits_and_the_bound() -> None:
    drive = delayed(seconds=300)
    components(drive)
    with_limit(drive, TE, 60)
    # Beside the first, this one may start and the other may not.
    drive.limits = replace(LIMITS, te=TeLimits(max_running_per_user=2))
    actions = drive.cycle(340)
    assert not any(releases(one) for one in actions)
    assert (drive.why_not(TE), drive.why_not(OTHER)) == (RefusalCode.BOUND, RefusalCode.TE_LIMIT)
    assert drive.jobs[JobId(TE)].held
