"""A wait that a job's own user has let it have makes it immune to no preemption; one that a preemption gave it does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.own_waits import eligible_since
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver
from tests.unit.core.guard.test_guard import FREE, ONE, code

HOUR_S = 3600
#: slowdown above which a job is no victim
MOST = replace(FREE, max_slowdown=10.0)


def chained(eligible_for_s: float | None = 60) -> Job:
    """Return a job of an hour at most that came 20 h before its start, and could start for so long before it."""
    at = NOW - 50
    job = running(1, ONE, start_time=at, submit_time=at - 20 * HOUR_S, time_limit_s=HOUR_S)
    return replace(job, eligible_time=None if eligible_for_s is None else at - eligible_for_s)


def test_a_job_that_could_not_start_for_its_own_reasons_has_not_waited() -> None:
    # A dependency, a begin time, a hold, its array's own limit: 20 h; and then a minute in the queue.
    assert code(chained(None), MOST) is RefusalCode.SLOWDOWN
    assert code(chained(), MOST) is None


def test_what_it_has_waited_since_it_could_start_counts() -> None:
    # 1 + 9 h / 1 h = 10
    assert code(chained(9 * HOUR_S), MOST) is None
    assert code(chained(9 * HOUR_S + 1), MOST) is RefusalCode.SLOWDOWN


@pytest.mark.parametrize(
    ("eligible_s", "start_s", "restarts", "since_s"),
    [
        (50.0, 100.0, 0, 50.0),
        (-50.0, 100.0, 0, 0.0),  # Slurm's clock is no reason for a wait before it came
        (150.0, 100.0, 0, 100.0),
        (50.0, None, 0, 50.0),
        (None, 100.0, 0, 0.0),
        (121.0, 200.0, 1, 0.0),  # Slurm's delay after a requeue
    ],
)
def test_it_could_start_no_sooner_than_it_came_and_no_later_than_it_did(
    eligible_s: float | None, start_s: float | None, restarts: int, since_s: float
) -> None:
    job = running(1, ONE, submit_time=0.0, start_time=start_s)
    assert eligible_since(replace(job, eligible_time=eligible_s, restarts=restarts)) == since_s


def test_where_a_policy_holds_jobs_the_whole_wait_counts() -> None:
    # gavel's holds, and slaq's throttles, set the eligible time as a user's do.
    assert code(chained(), MOST, Memory(policy_states={"gavel": object()})) is RefusalCode.SLOWDOWN


def test_what_is_known_of_its_first_run_counts_over_all_its_runs() -> None:
    # 1 + (10,000 s - 50 s of this run) / 1 h < 10, from what its past says; not from its eligible time.
    past = Memory(jobs={JobId(1): JobMemory(past=Past(submitted_at=NOW - 10_000, ran_s=0.0))})
    assert code(chained(), replace(FREE, max_slowdown=3.7), past) is RefusalCode.SLOWDOWN
    assert code(chained(), replace(FREE, max_slowdown=3.8), past) is None


def test_the_wait_that_a_preemption_has_given_it_counts() -> None:
    # It leaves at 10 s for a TE job, and runs again at 10,000 s: 1 + 9,990 s / 1 h and more, of which 20 h are no part.
    first = replace(chained(), allocation=(share("n1", 32),))
    limits = Limits(
        max_preemptions_per_job=9, max_lost_runs_per_job=9, min_run_time_s=0, cool_down_s=0, max_slowdown=3.7
    )
    drive = Driver([node("n1")], [first, waiting(TE, cpus=16)], graces={BE: 0.0}, limits=limits)
    drive.obeys(*drive.cycle(0))
    drive.change(BE, submit_time=NOW + 10)
    drive.starts(TE, share("n1", 16, 1), at_s=10)
    drive.cycle(10)
    drive.ends(TE)
    drive.change(BE, eligible_time=NOW + 9_990)
    drive.cycle(9_990)
    drive.starts(BE, share("n1", 32), at_s=10_000)
    drive.cycle(10_000)
    drive.submits(waiting(TE + 1, cpus=16), like=TE)
    assert drive.cycle(10_060) == ()
    codes = {one.job_id: one.code for one in drive.decision.refusals}
    assert codes[JobId(BE)] is RefusalCode.SLOWDOWN
    drive.limits = replace(drive.limits, max_slowdown=4.0)
    assert drive.cycle(10_070) != ()
