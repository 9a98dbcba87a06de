"""A raise is in force when Priority shows it, and what undoing one left behind is mended when it is put back.

With bf_continue Slurm's backfill writes back the priority that it read before: Nice stays, Priority is the old one. All
jobs have priority 100, so the TE job is raised by 1001, to 1101.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tesched_core.fields.nice import BASIC, MOST_AGAIN
from tesched_core.model.actions import Action, Status, kind_of, sets
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo
from tesched_policies.baselines import NoPreemption
from tesched_policies.fill import Fill

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import (
    BE,
    HALF,
    TE,
    Driver,
    brought_forward,
    first_in_queue,
    nice_back,
    notice,
    one_node,
)

MULTIFACTOR = "priority/multifactor"


def drive_on(priority_type: str, grace_s: float = 30.0) -> Driver:
    """Return the smallest case on a Slurm with this PriorityType."""
    drive = one_node(grace_s=grace_s)
    drive.priority_type = priority_type
    return drive


def done(drive: Driver, actions: Iterable[Action]) -> None:
    """Let Slurm take the actions, and tesched know that."""
    drive.obeys(*actions)
    drive.says(Status.SENT, *actions)


def texts(drive: Driver) -> list[str]:
    """Return what the last cycle recorded, in words."""
    return [one.text for one in drive.decision.transitions]


def undone_once(priority_type: str) -> Driver:
    """Return the case in which backfill has undone the raise, and it was made again."""
    drive = drive_on(priority_type)
    done(drive, drive.cycle(0))
    drive.change(TE, priority=100)
    assert drive.cycle(2) == (first_in_queue(-2002, previous=-1001),)
    done(drive, drive.decision.actions)
    assert drive.jobs[JobId(TE)].priority == 1101
    return drive


@pytest.mark.parametrize("priority_type", [BASIC, MULTIFACTOR])
def test_an_undone_raise_is_made_again_at_the_next_poll_and_explained(priority_type: str) -> None:
    drive = undone_once(priority_type)
    assert texts(drive) == ["its priority is 100 again though its nice value stays -1001; it is raised again"]
    assert drive.cycle(4) == ()


def test_the_raise_and_the_notice_go_out_together_as_backfill_may_undo_it_at_any_time() -> None:
    assert drive_on(BASIC).cycle(0) == (first_in_queue(-1001), notice())


class TestItsOwnPriority:
    """With priority/basic Slurm adds what nice changes by to the priority that there is: 1101 - 2002 now."""

    def test_is_set_explicitly_where_nice_would_not_give_it_back(self) -> None:
        drive = undone_once(BASIC)
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        (back,) = drive.cycle(6)
        assert sets(back, Field.PRIORITY)
        assert (back.value, back.previous) == (100, 1101)
        done(drive, [back])
        assert drive.cycle(8) == ()
        assert (drive.jobs[JobId(TE)].nice, drive.jobs[JobId(TE)].priority) == (0, 100)
        assert drive.memory.changes_of(Field.NICE) == {}

    def test_also_where_it_was_undone_right_before_it_started(self) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.requeued(BE)
        drive.change(TE, priority=100)
        drive.starts(TE, HALF, at_s=5)
        (back,) = drive.cycle(6)
        assert sets(back, Field.PRIORITY)
        assert back.value == 100

    def test_also_where_it_was_undone_right_before_it_was_put_back(self) -> None:
        drive = drive_on(BASIC)
        drive.change(TE, priority=5000)
        drive.change(BE, priority=6000)
        done(drive, drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        actions = drive.cycle(6)
        assert [kind_of(one) for one in actions] == ["setnice"]
        drive.change(TE, priority=5000)
        done(drive, actions)
        assert drive.jobs[JobId(TE)].priority == 5000 - 2001
        (back,) = drive.cycle(8)
        assert sets(back, Field.PRIORITY)
        assert back.value == 5000

    def test_also_where_putting_it_back_was_undone(self) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.ends(BE)
        drive.cycle(31)
        assert drive.cycle(1000) == (nice_back(0, now=-1001),), "it has not started in the order's time"
        drive.obeys(*drive.decision.actions)
        drive.change(TE, priority=1101)
        (back,) = drive.cycle(1002)
        assert sets(back, Field.PRIORITY)
        assert back.value == 100

    def test_is_left_to_slurm_where_that_works_it_out_anew(self) -> None:
        drive = undone_once(MULTIFACTOR)
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        assert drive.cycle(6) == (nice_back(0, now=-2002),)

    def test_is_not_touched_where_others_have_given_it_another(self) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        drive.change(TE, nice=0, priority=77)
        assert drive.cycle(6) == ()
        assert drive.memory.changes_of(Field.NICE) == {}

    @pytest.mark.parametrize("priority", [50, 500, 1000, 1100])
    def test_is_not_touched_where_an_admin_has_set_one_below_the_raise(self, priority: int) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        drive.change(TE, nice=0, priority=priority)
        assert drive.cycle(6) == ()
        assert drive.memory.changes_of(Field.NICE) == {}

    @pytest.mark.parametrize("raised_again", [False, True])
    def test_is_the_new_one_of_a_job_that_was_held_and_released(self, raised_again: bool) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.change(TE, priority=50 + 1001)
        if raised_again:
            drive.change(BE, priority=1500)
            done(drive, drive.cycle(2))
            assert drive.jobs[JobId(TE)].priority > 1500
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        done(drive, drive.cycle(6))
        assert (drive.jobs[JobId(TE)].nice, drive.jobs[JobId(TE)].priority) == (0, 50)

    def test_is_given_back_so_often_and_then_left(self) -> None:
        drive = undone_once(BASIC)
        drive.starts(TE, HALF, at_s=5)
        for at_s in range(6, 6 + 5 * MOST_AGAIN + 1):  # a poll a second: commands in quick succession are one try
            (back,) = drive.cycle(at_s)
            drive.says(Status.SENT, back)
        assert drive.cycle(30) == ()
        assert "its nice is left: it was put back 4 times, and it did not stay so" in texts(drive)

    def test_is_given_back_more_often_than_backfill_may_undo_that_in_all_its_partitions(self) -> None:
        drive = drive_on(BASIC)
        drive.change(TE, partitions=("p", "night", "large"))
        done(drive, drive.cycle(0))
        drive.ends(BE)
        drive.cycle(31)
        for turn in range(3 * MOST_AGAIN):
            done(drive, drive.cycle(1000 + 10 * turn))
            assert drive.jobs[JobId(TE)].priority == 100, turn
            drive.change(TE, priority=1101)
        done(drive, drive.cycle(1200))
        assert drive.jobs[JobId(TE)].priority == 100
        assert drive.cycle(1210) == ()
        assert drive.memory.changes_of(Field.NICE) == {}


class TestAdmin:
    """Tesched does not fight an admin for ever."""

    def test_a_raise_that_is_undone_again_and_again_is_left_and_no_victim_is_notified_for_it(self) -> None:
        drive = drive_on(BASIC, grace_s=60)
        done(drive, drive.cycle(0))
        for turn in range(MOST_AGAIN):
            drive.change(TE, priority=100)
            raised = drive.cycle(2 + turn)
            assert [kind_of(one) for one in raised] == ["setnice"], turn
            done(drive, raised)
        drive.change(TE, priority=100)
        (back,) = drive.cycle(10)
        assert sets(back, Field.PRIORITY), "its own, as before"
        assert (drive.order().ending, drive.order().state) == (Ending.OVERRULED, OrderState.SETTLING)
        assert any("it was raised again 3 times, and is left" in text for text in texts(drive))
        done(drive, [back])
        assert drive.cycle(61) == ()
        assert drive.victim().state is VictimState.SPARED
        assert drive.open_orders() == []

    def test_the_order_goes_on_where_the_job_is_first_without_the_raise(self) -> None:
        drive = drive_on(BASIC, grace_s=60)
        drive.jobs[JobId(5)] = waiting(5, cpus=32, priority=500)
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): drive.start.traits[JobId(BE)]})
        drive.change(TE, priority=150)
        done(drive, drive.cycle(0))
        for turn in range(MOST_AGAIN):
            drive.change(TE, priority=150)
            done(drive, drive.cycle(2 + turn))
        drive.change(TE, priority=150)
        drive.ends(5, JobState.CANCELLED)
        assert drive.cycle(10) == ()
        assert drive.order().state is OrderState.OPEN

    def test_an_explicit_priority_of_an_admin_is_overtaken_three_times_and_is_what_the_job_has_then(self) -> None:
        drive = drive_on(BASIC, grace_s=3000)
        done(drive, drive.cycle(0))
        at_s = 0.0
        while drive.open_orders() and at_s < 100:
            if drive.jobs[JobId(TE)].priority != 50:
                drive.change(TE, nice=0, priority=50)
            at_s += 6
            actions = drive.cycle(at_s)
            drive.obeys(*(one for one in actions if sets(one, Field.PRIORITY)))  # nice is ignored
            drive.says(Status.SENT, *actions)
        assert drive.order().ending is Ending.OVERRULED
        drive.cycle(at_s + 6)
        assert (drive.jobs[JobId(TE)].nice, drive.jobs[JobId(TE)].priority) == (0, 50)
        assert drive.memory.changes_of(Field.NICE) == {}

    def test_a_hold_is_not_lifted_by_putting_nice_back(self) -> None:
        """With priority/basic a change of nice gives a held job priority 2, and it may start."""
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.change(TE, priority=0, reason="JobHeldUser")
        assert drive.cycle(2) == ()
        assert drive.order().ending is Ending.PREEMPTOR_GONE
        drive.cycle(100)
        assert drive.order().state is OrderState.ENDED, "the change alone waits for the release"
        drive.change(TE, priority=50 + 1001, reason="Priority")  # released: a new priority
        assert drive.cycle(104) == (nice_back(0, now=-1001),)
        done(drive, drive.decision.actions)
        assert drive.cycle(106) == ()
        assert drive.jobs[JobId(TE)].priority == 50
        assert drive.memory.changes_of(Field.NICE) == {}

    @pytest.mark.parametrize("priority", [0, 50 + 1001])
    def test_of_a_job_that_is_completing_it_is_put_back_when_it_is_in_the_queue(self, priority: int) -> None:
        """Slurm refuses it then; or the job is to be held, and with priority/basic its hold would be lifted."""
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.starts(TE, HALF)
        drive.completing(TE, JobState.UNKNOWN)
        drive.change(TE, priority=priority, reason="launch_failed_requeued_held", restarts=1)
        assert [one for one in drive.cycle(2) if one.job_id == TE] == []
        drive.requeued(TE)
        assert bool([one for one in drive.cycle(4) if one.job_id == TE]) is (priority != 0)
        drive.change(TE, priority=50 + 1001, nice=-1001, reason="Priority")
        done(drive, drive.cycle(10))
        drive.cycle(12)
        assert (drive.jobs[JobId(TE)].nice, drive.jobs[JobId(TE)].priority) == (0, 50)

    def test_undo_lifts_no_hold_either_and_says_that_a_change_is_left(self) -> None:
        drive = drive_on(BASIC)
        done(drive, drive.cycle(0))
        drive.change(TE, priority=0, reason="JobHeldUser")
        drive.memory, decision = undo(drive.memory, drive.snapshot(2), drive.limits)
        assert [one for one in decision.actions if one.job_id == TE] == []
        assert changed_still(drive.memory, drive.snapshot(2)) > 0
        drive.change(TE, priority=50 + 1001, reason="Priority")
        drive.memory, decision = undo(drive.memory, drive.snapshot(4), drive.limits)
        drive.obeys(*decision.actions)
        assert (drive.jobs[JobId(TE)].nice, drive.jobs[JobId(TE)].priority) == (0, 50)


def brought_forward_on(priority_type: str) -> Driver:
    """Return the case in which the victim waits to run again, ahead of another best-effort job, since 6 s."""
    drive = drive_on(priority_type)
    drive.jobs[JobId(5)] = waiting(5, cpus=1, priority=900)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): drive.start.traits[JobId(BE)]})
    done(drive, drive.cycle(0))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    done(drive, drive.cycle(6))
    return drive


class TestOtherRaises:
    """A victim that waits again, and a BE job that is next, are raised by nice as well."""

    def test_a_victim_s_is_made_again_and_its_own_priority_put_back(self) -> None:
        drive = brought_forward_on(BASIC)
        assert drive.jobs[JobId(BE)].nice == -1301
        drive.change(BE, priority=100)
        assert drive.cycle(8) == (brought_forward(-2602, previous=-1301),)
        done(drive, drive.decision.actions)
        drive.starts(BE, share("n1", 16), at_s=20)
        (back,) = drive.cycle(21)
        assert sets(back, Field.PRIORITY)
        assert (back.job_id, back.value) == (BE, 100)
        done(drive, [back])
        drive.cycle(23)
        assert drive.memory.changes_of(Field.NICE) == {}

    def test_a_victim_s_is_left_when_it_was_undone_so_often(self) -> None:
        drive = brought_forward_on(BASIC)
        for turn in range(MOST_AGAIN):
            drive.change(BE, priority=100)
            done(drive, drive.cycle(8 + turn))
        drive.change(BE, priority=100)
        assert drive.cycle(20) == ()

    def test_a_be_job_s_is_made_again_and_its_own_priority_put_back(self) -> None:
        """Job 3 has priority 98 and fits where job 2, with 99, does not: 2 and the margin of 250."""
        jobs = [running(1, share("n1", 16), start_time=NOW - 100, time_limit_s=700)]
        jobs += [waiting(2, cpus=32, priority=99), waiting(3, cpus=16, priority=98)]
        drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=Fill(), run_times={1: 700, 2: 60, 3: 60})
        drive.priority_type = BASIC
        done(drive, drive.cycle(0))
        assert (drive.jobs[JobId(3)].nice, drive.jobs[JobId(3)].priority) == (-252, 350)
        drive.change(3, priority=98)
        (again,) = drive.cycle(2)
        assert sets(again, Field.NICE)
        assert again.value == -252 - 252
        done(drive, [again])
        drive.starts(3, share("n1", 16), at_s=3)
        (back,) = drive.cycle(4)
        assert sets(back, Field.PRIORITY)
        assert back.value == 98
        done(drive, [back])
        assert drive.cycle(6) == ()
        assert drive.memory.changes_of(Field.NICE) == {}
