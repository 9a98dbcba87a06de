"""A victim that its requeue left held: released, it is like any other that waits to run again."""

from __future__ import annotations

from tesched_core.model.actions import Release, SetNice

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver


def test_once_released_it_goes_ahead_of_the_other_best_effort_jobs() -> None:
    rival = waiting(5, cpus=32, priority=120)
    drive = Driver(
        [node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16), rival], graces={BE: 30}, run_times={5: 60}
    )
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    drive.change(BE, priority=0, reason="JobHeldUser")
    assert [type(action) for action in drive.cycle(31)] == [Release]
    drive.starts(TE, HALF, at_s=32)
    drive.change(BE, priority=100, reason="Resources")
    (ahead,) = [action for action in drive.cycle(33) if action.job_id == BE]
    assert isinstance(ahead, SetNice)
    assert ahead.nice < -20, "it is ahead of the rival"
