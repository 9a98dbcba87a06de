"""Slurm's possible answers, and what follows. Nothing that may have arrived is given twice; nothing is left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, FailureKind, OrderId, Status
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import (
    BE,
    TE,
    Driver,
    explicitly_first,
    first_in_queue,
    nice_back,
    notice,
    one_node,
    requeue,
    requeue_at_once,
)

FINAL = [FailureKind.DENIED, FailureKind.REFUSED]
UNCERTAIN = [FailureKind.UNREACHABLE, FailureKind.UNKNOWN]


def raised_and_noticed(grace_s: float = 30) -> tuple[Driver, Action, Action]:
    """Return the case as its first two actions have been decided, and they are still to be sent."""
    drive = one_node(grace_s=grace_s)
    raised, told = drive.cycle(0)
    drive.moves()
    return drive, raised, told


class TestRaise:
    """The first action fails, so that the others of its order are not tried."""

    @pytest.mark.parametrize("kind", [FailureKind.BUSY, FailureKind.UNKNOWN, FailureKind.UNREACHABLE])
    def test_slurm_is_too_busy_so_the_notice_waits_and_the_raise_comes_first_again(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.FAILED, raised, kind=kind)
        drive.says(Status.SKIPPED, told)
        assert drive.moves() == [(BE, "sent", "not sent")]
        assert drive.victim().state is VictimState.PLANNED
        assert drive.victim().noticed_at is None
        assert drive.cycle(2) == (first_in_queue(-1001), notice())
        assert drive.victim().noticed_at == NOW + 2

    def test_one_that_arrives_late_is_put_back_though_its_repetition_was_not_sent(self) -> None:
        """Its first command had no answer; when it was to be sent again, Slurm had failed to answer another one."""
        drive, raised, told = raised_and_noticed()
        drive.says(Status.FAILED, raised, kind=FailureKind.UNREACHABLE)
        drive.says(Status.SKIPPED, told)
        drive.says(Status.SKIPPED, *drive.cycle(2))
        drive.obeys(raised)
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(4), drive.limits)
        assert drive.decision.actions == (nice_back(0, now=-1001),)

    def test_without_a_grace_period_the_requeue_waits_as_well(self) -> None:
        drive, raised, told = raised_and_noticed(grace_s=0)
        assert told == requeue_at_once()
        drive.says(Status.FAILED, raised, kind=FailureKind.BUSY)
        drive.says(Status.SKIPPED, told)
        again = drive.cycle(2)
        assert again == (first_in_queue(-1001), requeue(0))

    @pytest.mark.parametrize("kind", FINAL)
    def test_slurm_says_no_and_the_next_poll_does_it_by_other_means(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.SKIPPED, told)
        drive.says(Status.FAILED, raised, kind=kind)
        assert drive.moves() == [(BE, "sent", "not sent"), (None, "open", "open")]
        assert drive.cycle(2) == (explicitly_first(1101, previous=100), notice())

    def test_a_raise_that_never_arrived_is_not_put_back(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.FAILED, raised, kind=FailureKind.BUSY)
        drive.says(Status.SKIPPED, told)
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(2) == ()
        assert drive.order().state is OrderState.ENDED

    @pytest.mark.parametrize("kind", UNCERTAIN)
    def test_a_raise_that_may_have_arrived_is_put_back_if_it_did(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.FAILED, raised, kind=kind)
        drive.says(Status.SKIPPED, told)
        drive.obeys(raised)
        drive.starts(TE, share("n1", 1), at_s=1)
        assert drive.cycle(2) == (nice_back(0, now=-1001),)

    @pytest.mark.parametrize("kind", [FailureKind.BUSY, FailureKind.UNREACHABLE])
    def test_a_second_raise_that_fails_does_not_make_the_first_forgotten(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.SENT, raised, told)
        drive.obeys(raised)
        drive.change(BE, priority=1101)
        again = drive.cycle(2)
        assert again == (first_in_queue(-2002, previous=-1001),)
        drive.says(Status.FAILED, *again, kind=kind)
        drive.requeued(BE)
        drive.starts(TE, share("n1", 16), at_s=3)
        if kind is FailureKind.UNREACHABLE:
            drive.obeys(*again)
        assert drive.cycle(4) == (nice_back(0, now=-1001 if kind is FailureKind.BUSY else -2002),)

    def test_a_second_raise_that_came_to_nothing_leaves_the_first_to_be_put_back(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.SENT, raised, told)
        drive.obeys(raised)
        drive.change(BE, priority=1101)
        drive.says(Status.FAILED, *drive.cycle(2), kind=FailureKind.UNREACHABLE)
        drive.ends(BE)
        drive.starts(TE, share("n1", 16), at_s=3)
        assert drive.cycle(4) == (nice_back(0, now=-1001),)

    def test_a_second_raise_that_fails_is_tried_again_and_the_first_value_is_remembered(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.SENT, raised, told)
        drive.obeys(raised)
        drive.change(BE, priority=1101)
        drive.says(Status.FAILED, *drive.cycle(2), kind=FailureKind.BUSY)
        drive.obeys(*drive.cycle(4))
        drive.ends(BE)
        drive.starts(TE, share("n1", 16), at_s=5)
        assert drive.cycle(6) == (nice_back(0, now=-2002),)


class TestNotice:
    """A notice is given once; one that certainly did not arrive is given later."""

    def test_slurm_is_too_busy_so_it_is_given_in_the_next_cycle(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.obeys(raised)
        drive.says(Status.SENT, raised)
        drive.says(Status.FAILED, told, kind=FailureKind.BUSY)
        assert drive.cycle(2) == (notice(),)
        assert drive.cycle(31) == ()  # its 30 s began at 2 s
        assert drive.cycle(32) == (requeue(),)

    @pytest.mark.parametrize(
        "kind", [FailureKind.UNREACHABLE, FailureKind.UNKNOWN, FailureKind.NOT_FOUND, FailureKind.ALREADY_DONE]
    )
    def test_one_that_may_have_arrived_is_never_given_again(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.obeys(raised)
        drive.says(Status.FAILED, told, kind=kind)
        assert drive.cycle(2) == ()
        assert drive.cycle(30) == (requeue(),)

    @pytest.mark.parametrize("kind", FINAL)
    def test_slurm_refuses_the_notice_so_the_victim_is_released_and_the_order_ends(self, kind: FailureKind) -> None:
        drive, raised, told = raised_and_noticed()
        drive.obeys(raised)
        drive.says(Status.FAILED, told, kind=kind)
        assert drive.victim().state is VictimState.SPARED
        assert drive.order().ending is Ending.REFUSED
        assert drive.cycle(2) == (nice_back(0, now=-1001),)

    def test_a_victim_that_ends_before_its_late_notice_gets_none(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.obeys(raised)
        drive.says(Status.FAILED, told, kind=FailureKind.BUSY)
        drive.completing(BE, JobState.COMPLETED)
        assert drive.cycle(2) == ()

    def test_a_victim_without_grace_that_finishes_before_its_late_requeue_gets_none(self) -> None:
        # Slurm would run it a second time.
        drive, raised, told = raised_and_noticed(grace_s=0)
        drive.obeys(raised)
        drive.says(Status.FAILED, told, kind=FailureKind.BUSY)
        drive.completing(BE, JobState.COMPLETED)
        assert drive.cycle(2) == ()
        drive.ends(BE)
        assert drive.cycle(4) == ()

    def test_without_an_answer_tesched_takes_it_for_given(self) -> None:
        # It died between the intent and the outcome: the notice may have been sent, so it is not sent again.
        drive, raised, _ = raised_and_noticed()
        drive.obeys(raised)
        assert drive.cycle(2) == ()
        assert drive.cycle(30) == (requeue(),)


class TestRequeue:
    """A requeue is sent again only while the very same run is seen on its nodes."""

    def sent(self) -> tuple[Driver, Action]:
        drive, raised, _ = raised_and_noticed()
        drive.obeys(raised)
        (action,) = drive.cycle(30)
        assert action == requeue()
        drive.moves()
        return drive, action

    def test_slurm_is_too_busy_so_it_is_sent_in_the_next_cycle(self) -> None:
        drive, action = self.sent()
        drive.says(Status.FAILED, action, kind=FailureKind.BUSY)
        assert drive.moves() == [(BE, "sent", "not sent")]
        assert (drive.victim().state, drive.victim().requeue_sent_at) == (VictimState.NOTICED, None)
        assert drive.cycle(32) == (action,)

    @pytest.mark.parametrize("kind", UNCERTAIN)
    def test_one_that_may_have_arrived_is_sent_again_after_killwait_and_five_seconds(self, kind: FailureKind) -> None:
        drive, action = self.sent()
        drive.says(Status.FAILED, action, kind=kind)
        assert drive.cycle(32) == ()
        assert drive.cycle(65) == ()
        assert drive.cycle(66) == (action,)

    @pytest.mark.parametrize("kind", UNCERTAIN)
    def test_one_that_did_arrive_is_not_sent_again(self, kind: FailureKind) -> None:
        drive, action = self.sent()
        drive.says(Status.FAILED, action, kind=kind)
        drive.requeued(BE)
        drive.starts(BE, share("n1", 32), at_s=50)
        assert drive.cycle(66) == ()
        assert drive.victim().state is VictimState.BACK

    @pytest.mark.parametrize("kind", [FailureKind.NOT_FOUND, FailureKind.ALREADY_DONE])
    def test_where_there_is_nothing_to_do_the_next_poll_shows_it(self, kind: FailureKind) -> None:
        drive, action = self.sent()
        drive.says(Status.FAILED, action, kind=kind)
        drive.ends(BE)
        assert drive.cycle(32) == ()
        assert drive.moves() == [(BE, "requeuing", "left")]

    @pytest.mark.parametrize("kind", FINAL)
    def test_slurm_refuses_the_requeue_so_the_victim_is_released_and_the_order_ends(self, kind: FailureKind) -> None:
        drive, action = self.sent()
        drive.says(Status.FAILED, action, kind=kind)
        assert drive.order().ending is Ending.REFUSED
        assert drive.victim().state is VictimState.SPARED
        assert BE in by_job(drive.memory, "last_preempted"), "it has had its notice, and is let go by no user"
        assert drive.cycle(32) == (nice_back(0, now=-1001),)
        assert by_job(drive.memory, "retry_at") == {TE: NOW + 330}

    def test_one_that_was_skipped_is_sent_in_the_next_cycle(self) -> None:
        drive, action = self.sent()
        drive.says(Status.SKIPPED, action)
        assert drive.cycle(32) == (action,)


class TestShadow:
    """Shadow mode: decided, recorded, and nothing of it done."""

    def test_the_order_ends_at_once_and_is_tried_again_later(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.WOULD, raised, told)
        assert drive.moves() == [(None, "open", "settling"), (None, "settling", "ended")]
        order = drive.order()
        assert (order.state, order.ending, order.ended_at) == (OrderState.ENDED, Ending.SHADOW, NOW)
        assert drive.memory.changes == {}
        assert drive.victim().state is VictimState.SPARED
        assert not order.futile
        assert drive.cycle(2) == ()
        assert drive.memory.orders == {}
        assert drive.why_not(TE) is RefusalCode.RETRY_LATER
        assert drive.cycle(300) == (first_in_queue(-1001, order=2), notice(order=2))

    def test_an_order_that_was_settling_when_the_mode_changed_goes_on_settling(self) -> None:
        drive, raised, _ = raised_and_noticed()
        drive.obeys(raised)
        drive.requeued(BE)
        drive.starts(TE, share("n1", 16), at_s=1)
        back = drive.cycle(2)
        drive.says(Status.WOULD, *back)
        assert (drive.order().state, drive.order().ending) == (OrderState.SETTLING, Ending.STARTED_HERE)
        assert drive.cycle(4) == back

    def test_its_victim_may_be_another_order_s(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.WOULD, raised, told)
        drive.jobs[JobId(7)] = waiting(7, cpus=1)
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(7): drive.start.traits[JobId(TE)]})
        assert drive.cycle(2) == (first_in_queue(-1001, job=7, order=2), notice(preemptor=7, order=2))


class TestSeveral:
    """One failure is one order's own affair."""

    def test_one_of_two_victims_is_refused_and_the_other_is_released(self) -> None:
        jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(TE, cpus=32)]
        drive = Driver([node("n1")], jobs)
        _, first, second = drive.cycle(0)
        assert (first, second) == (notice(job=1), notice(job=2))
        drive.says(Status.SENT, first)
        drive.says(Status.FAILED, second, kind=FailureKind.REFUSED)
        drive.cycle(30)  # the first one's grace period is over
        assert [victim.state for victim in drive.order().victims] == [VictimState.SPARED, VictimState.SPARED]

    def test_only_the_victim_that_was_meant_is_taken_back(self) -> None:
        jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(TE, cpus=32, priority=101)]
        drive = Driver([node("n1")], jobs)
        first, second = drive.cycle(0)
        drive.says(Status.SENT, first)
        drive.says(Status.FAILED, second, kind=FailureKind.BUSY)
        assert drive.cycle(2) == (notice(job=2),)

    def test_another_order_goes_on(self) -> None:
        jobs = [running(1, share("n1", 32)), running(2, share("n2", 32)), waiting(8, cpus=32), waiting(9, cpus=32)]
        drive = Driver([node("n1"), node("n2")], jobs)
        actions = drive.cycle(0)
        drive.says(Status.SKIPPED, actions[1])
        drive.says(Status.FAILED, actions[0], kind=FailureKind.DENIED)
        drive.obeys(*actions[2:])
        assert drive.cycle(2) == (explicitly_first(2102, job=8, previous=100), notice(job=1, preemptor=8))
        assert drive.open_orders() == [1, 2]

    def test_an_outcome_of_an_unknown_action_changes_nothing(self) -> None:
        drive, raised, _ = raised_and_noticed()
        before = drive.memory
        for order_id in (None, OrderId(77)):
            stray = replace(raised, reason=replace(raised.reason, order_id=order_id))
            drive.says(Status.FAILED, stray, kind=FailureKind.DENIED)
        assert replace(drive.memory, refused={}) == before

    def test_what_became_of_an_ended_order_s_action_changes_nothing(self) -> None:
        drive, raised, told = raised_and_noticed()
        drive.says(Status.WOULD, raised, told)
        before = drive.memory
        drive.says(Status.FAILED, told, kind=FailureKind.DENIED)
        assert drive.memory == before
