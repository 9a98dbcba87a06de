"""A victim that has failed of its notice is put back in the queue before its nodes have ended their part.

Everywhere: job 1 holds the only node and has 30 s of grace, job 9 wants half of it. Job 1 had its notice at 0 s, and at
2 s it is in its Epilog, as Slurm shows it: COMPLETING, and a reason.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, FailureKind, Rerun, Status, kind_of
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Departure, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Traits
from tesched_core.orders.undo import undo

from tests.builders import by_job
from tests.scenarios.driver import BE, TE, Driver, one_node

BY_CODE, BY_SIGNAL = "NonZeroExitCode", "JobLaunchFailure"
#: the same on Slurm 26.05
BY_SIGNAL_26 = "RaisedSignal:10(User_defined_signal_1)"


def ending(reason: str, *, exit_status: int = 0, **traits: object) -> Driver:
    """Return the case in which the victim's run has ended; Slurm gives this reason, and hides the state."""
    drive = one_node()
    known: dict[JobId, Traits] = dict(drive.start.traits)
    known[JobId(BE)] = replace(known[JobId(BE)], **traits)  # type: ignore[arg-type]
    drive.start = drive.start.with_traits(known)
    drive.obeys(*drive.cycle(0))
    drive.completing(BE, JobState.UNKNOWN)
    drive.change(BE, reason=reason, exit_status=exit_status)
    return drive


def reruns(actions: tuple[Action, ...]) -> list[int]:
    return [action.job_id for action in actions if isinstance(action, Rerun)]


def is_back_on_its_nodes(drive: Driver) -> None:
    """Let Slurm take the rerun: the job waits, and its Epilog runs still."""
    drive.change(BE, restarts=1)


@pytest.mark.parametrize("reason", [BY_CODE, BY_SIGNAL, BY_SIGNAL_26])
def test_it_is_put_back_while_its_epilog_runs_and_once(reason: str) -> None:
    drive = ending(reason)
    assert reruns(drive.cycle(2)) == [BE]
    assert drive.victim().state is VictimState.NOTICED, "it holds its nodes still"
    is_back_on_its_nodes(drive)
    for at_s in (3, 20, 40, 400):
        assert reruns(drive.cycle(at_s)) == [], at_s
        assert drive.victim().state is VictimState.NOTICED, at_s
    drive.requeued(BE)
    assert reruns(drive.cycle(401)) == []
    assert (drive.victim().state, drive.victim().departure) == (VictimState.LEFT, Departure.DIED_OF_NOTICE)
    assert by_job(drive.memory, "preemptions") == {BE: 1}
    assert drive.order().state is not OrderState.ENDED, "it is to run again"


@pytest.mark.parametrize("reason", ["", "TimeLimit", "OutOfMemory"])
def test_a_run_that_was_ended_by_others_is_left(reason: str) -> None:
    """Of a cancelled run Slurm gives no reason; a trap of its own may have ended it with a code."""
    drive = ending(reason, exit_status=1)
    assert reruns(drive.cycle(2)) == []
    drive.ends(BE, JobState.CANCELLED)
    assert reruns(drive.cycle(3)) == []
    assert drive.victim().departure is Departure.DIED


@pytest.mark.parametrize(("code", "again"), [(85, []), (99, []), (1, [BE])])
def test_a_code_that_the_site_has_named_is_left_to_slurm(code: int, again: list[int]) -> None:
    drive = ending(BY_CODE, exit_status=code)
    drive.requeue_exit, drive.requeue_exit_hold = frozenset({85}), frozenset({99})
    assert reruns(drive.cycle(2)) == again


def test_one_that_had_no_notice_has_failed_by_itself() -> None:
    assert reruns(ending(BY_CODE, notice_signal="", grace_period_s=0.0).cycle(2)) == []
    assert reruns(ending(BY_CODE, grace_period_s=0.0).cycle(2)) == []


def test_the_end_of_the_next_run_is_not_taken_for_it() -> None:
    """It was back at once, and failed again, between two polls."""
    drive = ending(BY_CODE)
    drive.change(BE, restarts=1)
    assert reruns(drive.cycle(2)) == []


@pytest.mark.parametrize("kind", list(FailureKind))
def test_one_that_slurm_does_not_take_is_not_lost_yet(kind: FailureKind) -> None:
    """It is requested again after 5 s; and after its end, as ever."""
    drive = ending(BY_CODE)
    drive.says(Status.FAILED, *(action for action in drive.cycle(2) if isinstance(action, Rerun)), kind=kind)
    assert (drive.victim().state, drive.victim().departure) == (VictimState.NOTICED, None)
    assert [len(reruns(drive.cycle(at_s))) for at_s in (4, 8, 9)] == [0, 1, 0]
    drive.ends(BE, JobState.FAILED)
    assert reruns(drive.cycle(10)) == [BE]
    assert drive.victim().departure is Departure.DIED_OF_NOTICE


def test_an_expedited_one_that_slurm_held_before_the_rerun_came_is_released() -> None:
    """Its nodes had ended their part between the poll and the command, which found a job that waits."""
    drive = ending(BY_CODE, exit_status=1)
    drive.holds_expedited = True
    drive.says(
        Status.FAILED,
        *(action for action in drive.cycle(2) if isinstance(action, Rerun)),
        kind=FailureKind.ALREADY_DONE,
    )
    drive.requeued(BE)
    drive.change(BE, priority=0, reason="job_requeued_in_held_state", flags=frozenset({"REQUEUE_HOLD"}))
    assert "release" in map(kind_of, drive.cycle(3))


def test_a_skipped_job_is_requested_in_the_next_poll() -> None:
    """An earlier action of its order has failed."""
    drive = ending(BY_CODE)
    drive.says(Status.SKIPPED, *(action for action in drive.cycle(2) if isinstance(action, Rerun)))
    assert reruns(drive.cycle(3)) == [BE]


def test_it_is_put_back_though_its_te_job_is_gone() -> None:
    drive = ending(BY_SIGNAL)
    drive.ends(TE, JobState.CANCELLED)
    assert reruns(drive.cycle(2)) == [BE]


def test_undo_puts_it_back_as_well() -> None:
    drive = ending(BY_SIGNAL)
    for at_s, again in ((2, [BE]), (3, [])):
        drive.memory, decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        assert reruns(decision.actions) == again
