"""A victim that its requeue left held: released, it is like any other that waits to run again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Requeue, kind_of, releases, sets
from tesched_core.model.field import Field
from tesched_core.model.order import Departure
from tesched_core.model.resources import JobId

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver


def test_once_released_it_goes_ahead_of_the_other_best_effort_jobs() -> None:
    rival = waiting(5, cpus=32, priority=120)
    drive = Driver(
        [node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16), rival], graces={BE: 30}, run_times={5: 60}
    )
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    drive.change(BE, priority=0, reason="JobHeldAdmin")
    assert [kind_of(action) for action in drive.cycle(31)] == ["release"]
    drive.starts(TE, HALF, at_s=32)
    drive.change(BE, priority=100, reason="Resources")
    (ahead,) = [action for action in drive.cycle(33) if action.job_id == BE]
    assert sets(ahead, Field.NICE)
    assert isinstance(ahead.value, int)
    assert ahead.value < -20, "it is ahead of the rival"


@pytest.mark.parametrize("noted_first", [True, False])
def test_one_that_its_user_holds_between_two_polls_stays_held(noted_first: bool) -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 30})
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    if noted_first:
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        assert [kind_of(action) for action in drive.cycle(31)] == ["release"]
    drive.change(BE, priority=0, reason="JobHeldUser")
    for at_s in (32, 34, 100):
        assert not any(releases(action) for action in drive.cycle(at_s))
    assert not any(drive.memory.changes_of(Field.HOLD).values())


@pytest.mark.parametrize(
    ("expedited", "noticed", "flag", "released"),
    [
        (True, True, "REQUEUE_HOLD", True),
        (False, True, "REQUEUE_HOLD", False),
        (True, True, "", False),  # its trap has called scontrol requeuehold
        (True, False, "REQUEUE_HOLD", False),
        (True, True, "SPECIAL_EXIT", False),  # RequeueExitHold
    ],
)
def test_an_expedited_one_that_failed_of_its_notice_is_released(
    expedited: bool, noticed: bool, flag: str, released: bool
) -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 30})
    drive.holds_expedited = expedited
    if not noticed:
        known = drive.start.traits[JobId(BE)]
        drive.start = drive.start.with_traits(
            {**drive.start.traits, JobId(BE): replace(known, notice_signal="", grace_period_s=0.0)}
        )
    drive.obeys(*(action for action in drive.cycle(0) if not isinstance(action, Requeue)))
    drive.requeued(BE)
    drive.change(BE, priority=0, reason="job_requeued_in_held_state", flags=frozenset({flag} - {""}))
    assert ("release" in map(kind_of, drive.cycle(5))) is released


@pytest.mark.parametrize(
    ("reason", "is_lost"),
    [("JobHeldMaxPreemptRequeue", True), ("JobHoldMaxRequeue", True), ("JobHeldAdmin", False), ("BeginTime", False)],
)
def test_one_that_slurm_holds_since_it_was_put_back_too_often_is_lost(reason: str, is_lost: bool) -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 30})
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    held = reason != "BeginTime"
    drive.change(BE, priority=0 if held else 100, reason=reason, flags=frozenset({"REQUEUE_HOLD"} if is_lost else ()))
    drive.starts(TE, HALF, at_s=31)
    actions = [*drive.cycle(32), *drive.cycle(33)]
    (victim,) = drive.order().victims
    assert (victim.departure is Departure.LOST) is is_lost
    # An admin's and a user's hold is theirs; so is Slurm's own.
    if is_lost or not held:
        assert not any(releases(action) for action in actions)
