"""A victim's possible answers to its notice. Each has one right answer, and none runs a finished job again.

Everywhere: job 1 holds the only node and has 30 s of grace, job 9 wants half of it, both have priority 100. So job 9
must have 101; one is missing, and with the margin of 1000 its nice value becomes -1001.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import ReasonCode, SetField, kind_of
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field, HoldState
from tesched_core.model.job_memory import Past
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, share
from tests.scenarios.driver import (
    BE,
    HALF,
    TE,
    Driver,
    first_in_queue,
    nice_back,
    notice,
    one_node,
    requeue,
    requeue_at_once,
)


def noticed() -> Driver:
    """Return the case after the notice was given at 0 s."""
    drive = one_node()
    assert drive.cycle(0) == (first_in_queue(-1001), notice())
    assert drive.moves() == [(None, "", "open"), (BE, "planned", "noticed")]
    drive.obeys(*drive.decision.actions)
    assert drive.jobs[drive.order().preemptor].priority == 1101
    return drive


def test_a_victim_requeues_itself_and_the_te_job_starts_on_its_resources() -> None:
    drive = noticed()
    assert drive.cycle(2) == ()
    drive.requeued(BE)
    assert drive.cycle(8) == ()
    assert drive.moves() == [(BE, "noticed", "left")]
    assert drive.victim().departure is Departure.REQUEUED_ITSELF
    assert by_job(drive.memory, "preemptions") == {BE: 1}
    assert by_job(drive.memory, "last_preempted") == {BE: NOW + 8}
    assert drive.decision.transitions[0].text == "put itself back in the queue, 8.0 s after its notice"
    assert drive.victim().started_at == 0.0  # the lost time is reckoned from there
    # The day's budget counts what it ran after its notice.
    assert [(one.job_id, one.nodes, one.node_s) for one in drive.memory.paid] == [(BE, ("n1",), 8.0)]
    assert by_job(drive.memory, "past") == {BE: Past(submitted_at=0.0, ran_s=NOW + 8, longest_run_s=NOW)}

    drive.starts(TE, HALF, at_s=8)
    assert drive.cycle(10) == (nice_back(0, now=-1001),)
    assert drive.moves() == [(None, "open", "settling")]
    assert drive.order().ending is Ending.STARTED_HERE
    assert drive.order().started_at == NOW + 8
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(12) == ()
    assert drive.moves() == [(TE, "raised", "put back")]
    assert drive.order().state is OrderState.SETTLING  # its victim still waits to run again

    drive.starts(BE, share("n1", 16), at_s=130)
    assert drive.cycle(131) == ()
    assert drive.moves() == [(BE, "left", "back"), (None, "settling", "ended")]
    assert drive.victim().state is VictimState.BACK
    assert drive.victim().back_at == NOW + 130
    assert drive.decision.transitions[0].text == "runs again, 122 s after it left"
    assert not drive.order().futile
    assert drive.cycle(133) == ()
    assert drive.memory.orders == {}
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_a_victim_sits_out_its_grace_period_and_is_requeued() -> None:
    drive = noticed()
    assert drive.cycle(29) == ()
    assert drive.cycle(30) == (requeue(),)
    assert drive.moves() == [(BE, "noticed", "requeuing")]
    drive.completing(BE, JobState.PENDING)  # SIGTERM came, SIGKILL comes after KillWait
    assert drive.cycle(31) == ()
    assert drive.cycle(100) == ()
    assert drive.moves() == []
    drive.requeued(BE)
    assert drive.cycle(101) == ()
    assert drive.moves() == [(BE, "requeuing", "left")]
    assert drive.victim().departure is Departure.REQUEUED
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_a_victim_finishes_in_its_grace_period_and_is_never_requeued() -> None:
    drive = noticed()
    drive.completing(BE, JobState.COMPLETED)
    assert drive.cycle(31) == ()  # its grace period is over, and it is on its way out
    assert drive.moves() == []
    drive.ends(BE)
    for at_s in (33, 35, 70):
        assert drive.cycle(at_s) == ()
    assert drive.moves() == [(BE, "noticed", "left")]
    assert drive.victim().departure is Departure.FINISHED
    assert by_job(drive.memory, "preemptions") == {}  # nothing of it was lost


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL])
def test_a_victim_that_dies_is_not_requeued(state: JobState) -> None:
    drive = noticed()
    drive.ends(BE, state)
    assert drive.cycle(31) == ()
    assert drive.moves() == [(BE, "noticed", "left")]
    assert drive.victim().departure is Departure.DIED
    assert by_job(drive.memory, "preemptions") == {}


def test_a_victim_that_vanishes_is_not_requeued() -> None:
    drive = noticed()
    drive.forgets(BE)
    assert drive.cycle(31) == ()
    assert drive.moves() == [], "its record may be missing in one answer"
    drive.change(TE, reason="Resources")
    drive.memory = replace(drive.memory, orders={drive.order().order_id: replace(drive.order(), expires_at=NOW + 1000)})
    assert drive.cycle(331) == ()
    assert drive.moves() == [(BE, "noticed", "left")]
    assert drive.victim().departure is Departure.VANISHED
    drive.starts(TE, HALF)
    drive.obeys(*drive.cycle(33))
    assert drive.cycle(35) == ()
    assert drive.order().state is OrderState.ENDED


def test_a_victim_that_requeued_itself_and_runs_again_is_not_notified_again() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.starts(BE, share("n1", 32), at_s=20)  # on its old nodes, between two polls
    assert drive.cycle(31) == ()
    assert drive.moves() == [(BE, "noticed", "left"), (BE, "left", "back")]
    assert drive.cycle(62) == ()
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_a_victim_without_a_grace_period_is_requeued_at_once() -> None:
    drive = one_node(grace_s=0)
    assert drive.cycle(0) == (first_in_queue(-1001), requeue_at_once())
    assert drive.moves() == [(None, "", "open"), (BE, "planned", "requeuing")]
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(2) == ()
    assert drive.victim().departure is Departure.REQUEUED
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_the_shortest_grace_period_is_one() -> None:
    drive = one_node(grace_s=0.5)
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "notify"]
    assert [kind_of(action) for action in drive.cycle(1)] == ["setnice", "requeue"]


def test_a_victim_that_is_cancelled_before_it_runs_again_is_not_waited_for() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    drive.obeys(*drive.cycle(6))
    drive.cycle(8)
    drive.moves()
    drive.ends(BE, JobState.CANCELLED)
    drive.change(BE, start_time=NOW + 8)  # Slurm gives a job that never ran its end as its start
    assert drive.cycle(10) == ()
    assert drive.moves() == [(BE, "left", "left"), (None, "settling", "ended")]
    assert drive.victim().departure is Departure.DIED


def test_a_victim_that_ran_again_and_finished_between_two_polls_was_back() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    drive.obeys(*drive.cycle(6))
    drive.starts(BE, at_s=20)
    drive.at_s = 25
    drive.ends(BE)
    drive.cycle(27)
    assert drive.victim().state is VictimState.BACK
    assert drive.victim().back_at == NOW + 20


def test_a_victim_that_slurm_forgets_before_it_runs_again_is_not_waited_for() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    drive.obeys(*drive.cycle(6))
    drive.cycle(8)
    drive.forgets(BE)
    drive.moves()
    assert drive.cycle(400) == ()
    assert (drive.moves(), by_job(drive.memory, "preemptions")) == ([], {BE: 1}), "one answer without it says nothing"
    assert drive.cycle(699) == ()
    assert drive.cycle(700) == ()
    assert drive.moves()[0] == (BE, "left", "left")
    assert drive.victim().departure is Departure.VANISHED
    assert drive.order().state is OrderState.ENDED
    assert by_job(drive.memory, "preemptions") == {}  # nor is its count kept for ever


def test_a_victim_that_a_user_suspends_is_not_requeued() -> None:
    # A requeue of a suspended job leaves it held.
    drive = noticed()
    drive.change(BE, state=JobState.SUSPENDED)
    assert drive.cycle(31) == ()
    drive.change(BE, state=JobState.RUNNING)
    assert drive.cycle(33) == (requeue(),)


def test_a_victim_in_a_state_that_tesched_does_not_know_is_left_alone() -> None:
    drive = noticed()
    drive.change(BE, state=JobState.UNKNOWN)
    assert drive.cycle(31) == ()
    drive.ends(BE, JobState.UNKNOWN)  # and shows no nodes
    assert drive.cycle(33) == ()
    assert drive.victim().state is VictimState.NOTICED


@pytest.mark.parametrize("at_s", [65.0, 65.1])
def test_a_requeue_that_shows_no_effect_is_sent_again_after_killwait_and_five_seconds(at_s: float) -> None:
    drive = noticed()
    drive.cycle(30)
    drive.moves()
    # 30 + 30 of KillWait + 5
    assert drive.cycle(at_s) == (() if at_s <= 65 else (requeue(),))
    texts = [one.text for one in drive.decision.transitions]
    assert drive.moves() == ([] if at_s <= 65 else [(BE, "requeuing", "requeuing")])
    assert all(text.startswith("requeue (again): its grace period of 30 s is over") for text in texts)


def test_a_restarted_daemon_repeats_nothing() -> None:
    # The same memory, and the next snapshot: nothing of what has been sent is sent again.
    drive = noticed()
    before = drive.memory
    assert drive.cycle(2) == ()
    drive.memory = before
    assert drive.cycle(3) == ()
    assert drive.cycle(30) == (requeue(),)
    before = drive.memory
    assert drive.cycle(32) == ()
    drive.memory = before
    assert drive.cycle(33) == ()


class TestLeftHeld:
    """Slurm leaves a job held that was suspended when it was requeued."""

    def left_held(self) -> Driver:
        """Return the case in which the victim was suspended in the moment of its requeue."""
        drive = noticed()
        drive.obeys(*drive.cycle(30))
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        return drive

    def release(self) -> SetField:
        """Return what lets it run again."""
        text = "its requeue left it held, and no user or admin had held it"
        reason = replace(notice().reason, code=ReasonCode.LEFT_HELD, text=text)
        return SetField(
            job_id=JobId(BE),
            reason=replace(reason, text="its requeue left it held, and no user or admin had held it"),
            field=Field.HOLD,
            value=HoldState.RELEASED,
            previous=HoldState.HELD,
        )

    def test_held_victim_is_released(self) -> None:
        drive = self.left_held()
        assert drive.cycle(31) == (self.release(),)
        drive.change(BE, priority=100, reason="BeginTime")
        assert drive.cycle(33) == ()

    def test_again_until_it_is_seen_however_long_that_takes(self) -> None:
        drive = self.left_held()
        assert drive.cycle(31) == drive.cycle(33) == drive.cycle(45) == (self.release(),)
        drive.change(BE, priority=100, reason="Resources")
        assert drive.cycle(47) == ()
        drive.change(BE, priority=0, reason="JobHeldUser")
        assert drive.cycle(49) == (), "this hold is somebody else's"

    def test_a_hold_that_comes_later_is_another_users(self) -> None:
        drive = noticed()
        drive.obeys(*drive.cycle(30))
        assert drive.cycle(31) == ()
        drive.change(BE, priority=0, reason="JobHeldUser")
        assert drive.cycle(37) == ()

    def test_a_hold_that_was_set_on_its_run_stays(self) -> None:
        drive = noticed()
        drive.change(BE, priority=0)
        drive.obeys(*drive.cycle(30))
        drive.change(BE, priority=0, reason="JobHeldUser")
        assert drive.cycle(31) == ()

    def test_a_hold_that_its_exit_code_requested_stays(self) -> None:
        drive = self.left_held()
        drive.change(BE, flags=frozenset({"SPECIAL_EXIT"}))
        assert drive.cycle(31) == ()


def test_a_victim_that_passes_its_deadline_in_the_queue_is_lost() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.cycle(8)
    drive.ends(BE, JobState.DEADLINE)
    drive.cycle(9)
    assert drive.victim().departure is Departure.LOST
    assert "LOST: its deadline has passed in the queue" in drive.decision.transitions[-1].text
