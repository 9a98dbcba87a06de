"""How long a job without a signal is expected to take to leave: what jobs of its user and name took, at most KillWait.

Everywhere: job 1 holds the only node, job 9 wants half of it, as in `test_victim`; KillWait is 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.leave_times import MOST_PAIRS, MOST_TIMES, expected_leave_s, with_leave_times
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import LeaveTimes
from tesched_core.placement.columns_of import columns_of
from tesched_policies.fitgpp import FitGpp

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, Driver, one_node

ADAS = ("ada", "train")


def silent(drive: Driver) -> Driver:
    """Return the case in which no job has declared a signal."""
    traits = {job_id: replace(one, notice_signal="", grace_period_s=0.0) for job_id, one in drive.start.traits.items()}
    drive.start = drive.start.with_traits(traits)
    return drive


def named(drive: Driver, job_id: int) -> tuple[str, str]:
    job = drive.jobs[JobId(job_id)]
    return job.user, job.name


def test_what_a_victim_took_to_leave_is_remembered_by_its_user_and_name() -> None:
    drive = silent(one_node())
    actions = drive.cycle(0)
    drive.cycle(1)  # it is still there
    drive.obeys(*actions)
    drive.cycle(3)
    assert drive.memory.leave_times == {named(drive, BE): (3.0,)}


def test_a_victim_that_had_a_notice_teaches_nothing() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    drive.cycle(32)
    assert drive.victim().left_at is not None
    assert drive.memory.leave_times == {}


@pytest.mark.parametrize(
    ("times", "expected_s"),
    [
        ({}, 30.0),
        ({ADAS: (2.0,)}, 2.0),
        ({ADAS: (2.0, 2.5, 31.0)}, 2.5),
        ({ADAS: (1.0, 2.0)}, 1.5),
        ({ADAS: (31.0,)}, 30.0),
        ({("ada", "eval"): (2.0,), ("eve", "train"): (2.0,)}, 30.0),
    ],
)
def test_the_median_counts_and_at_most_killwait(times: LeaveTimes, expected_s: float) -> None:
    assert expected_leave_s(times, ADAS, 30.0) == expected_s


def test_the_score_and_the_forecasts_go_by_it() -> None:
    drive = silent(one_node())
    snapshot = replace(drive.snapshot(0), leave_times={named(drive, BE): (2.0,)})
    assert columns_of(snapshot).running.grace_s.tolist() == [2.0]


def test_of_two_equal_jobs_the_one_yields_that_is_known_to_leave_sooner() -> None:
    jobs = [running(1, share("n1", 32), name="slow"), running(2, share("n2", 32), name="quick"), waiting(9, cpus=32)]
    drive = silent(Driver([node("n1"), node("n2")], jobs, policy=FitGpp(s=4.0)))
    drive.memory = replace(drive.memory, leave_times={named(drive, 1): (20.0,), named(drive, 2): (1.0,)})
    drive.cycle(0)
    assert [victim.job_id for victim in drive.order().victims] == [2]


def test_no_more_is_remembered_than_counts() -> None:
    times = with_leave_times({}, ((ADAS, float(number)) for number in range(MOST_TIMES + 5)))
    assert times[ADAS] == tuple(float(number) for number in range(5, MOST_TIMES + 5))
    crowd = with_leave_times(times, ((("eve", str(number)), 1.0) for number in range(MOST_PAIRS)))
    assert len(crowd) == MOST_PAIRS
    assert ADAS not in crowd  # the one that was seen longest ago
