"""Changes of the TE job while resources are freed for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, nice_back, notice, one_node, requeue


def noticed() -> Driver:
    """Return a case in which the only victim has its notice, and the TE job fits elsewhere if job 2 leaves."""
    drive = Driver(
        [node("n1"), node("n2")],
        [running(BE, share("n1", 32)), running(2, share("n2", 32), batch=False), waiting(TE, cpus=16)],
    )
    assert drive.cycle(0) == (first_in_queue(-1001), notice())
    drive.obeys(*drive.decision.actions)
    drive.moves()
    return drive


def test_the_te_job_starts_elsewhere_and_the_victim_is_released() -> None:
    drive = noticed()
    drive.ends(2)
    drive.starts(TE, share("n2", 16), at_s=9)
    assert drive.cycle(10) == (nice_back(0, now=-1001),)
    assert drive.moves() == [(None, "open", "settling")]
    assert drive.order().ending is Ending.STARTED_ELSEWHERE
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(40) == ()  # the grace period is over, and nothing comes of it
    assert drive.moves() == [
        (BE, "noticed", "spared"),
        (TE, "raised", "put back"),
        (None, "settling", "ended"),
    ]
    assert not drive.order().futile
    assert by_job(drive.memory, "preemptions") == {}


def test_a_victim_that_leaves_although_it_is_no_longer_needed_has_paid_all_the_same() -> None:
    drive = noticed()
    drive.ends(2)
    drive.starts(TE, share("n2", 16), at_s=9)
    drive.obeys(*drive.cycle(10))
    drive.requeued(BE)  # it had its notice, and puts itself back
    assert drive.cycle(12) == ()
    assert drive.victim().departure is Departure.REQUEUED_ITSELF
    assert drive.order().futile
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_the_te_job_starts_on_its_nodes_before_the_victim_has_left() -> None:
    drive = noticed()
    drive.ends(2)
    drive.starts(TE, share("n1", 16), at_s=9)
    drive.cycle(10)
    assert drive.order().ending is Ending.STARTED_HERE
    assert drive.victim().state is VictimState.NOTICED  # it may be about to leave
    drive.cycle(30)
    assert drive.victim().state is VictimState.SPARED


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED, JobState.DEADLINE])
def test_the_te_job_ends_before_it_starts_and_the_victim_is_released(state: JobState) -> None:
    drive = noticed()
    drive.ends(TE, state)
    assert drive.cycle(31) == ()
    assert drive.moves() == [
        (None, "open", "settling"),
        (BE, "noticed", "spared"),
        (TE, "raised", "left"),
        (None, "settling", "ended"),
    ]
    assert drive.order().ending is Ending.PREEMPTOR_GONE


def test_the_te_job_vanishes_and_the_victim_is_released() -> None:
    drive = noticed()
    drive.forgets(TE)
    assert drive.cycle(31) == ()
    assert drive.order().state is OrderState.OPEN, "its record may be missing in one answer; no victim is pressed"
    assert drive.cycle(331) == ()
    assert drive.order().ending is Ending.PREEMPTOR_GONE
    assert drive.order().state is OrderState.ENDED


def test_the_te_job_is_cancelled_while_its_victim_is_requeued() -> None:
    drive = noticed()
    assert drive.cycle(30) == (requeue(),)
    drive.ends(TE, JobState.CANCELLED)
    assert drive.cycle(31) == ()
    assert drive.victim().state is VictimState.REQUEUING  # what was sent cannot be called back
    drive.requeued(BE)
    assert drive.cycle(33) == ()
    assert drive.victim().state is VictimState.LEFT
    assert drive.order().futile
    assert by_job(drive.memory, "preemptions") == {BE: 1}


def test_a_requeue_that_showed_no_effect_is_not_sent_again_for_no_preemptor() -> None:
    drive = noticed()
    assert drive.cycle(30) == (requeue(),)
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(31)
    drive.moves()
    assert drive.cycle(66) == ()  # 30 of KillWait and 5 are over
    assert drive.moves() == [(BE, "requeuing", "spared"), (None, "settling", "ended")]
    assert not drive.order().futile


def test_the_te_job_is_held_and_its_victim_is_released() -> None:
    drive = noticed()
    drive.change(TE, priority=0, reason="JobHeldUser")
    assert drive.cycle(31) == (nice_back(0, now=-1001),)
    assert drive.moves() == [(None, "open", "settling"), (BE, "noticed", "spared")]
    assert drive.why_not(TE) is RefusalCode.HELD


@pytest.mark.parametrize(
    "reason",
    ["Dependency", "BeginTime", "Licenses", "QOSMaxJobsPerUserLimit", "AssocGrpCpuLimit", "PartitionDown"],
)
def test_the_te_job_has_run_into_another_reason_and_its_victim_is_released(reason: str) -> None:
    drive = noticed()
    drive.change(TE, reason=reason)
    assert drive.cycle(2) == (nice_back(0, now=-1001),)
    assert drive.order().ending is Ending.BLOCKED
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(40) == ()
    assert by_job(drive.memory, "preemptions") == {}


@pytest.mark.parametrize("reason", ["Resources", "Priority", "ReqNodeNotAvail", "None", ""])
def test_a_passing_word_of_slurms_does_not_end_an_order(reason: str) -> None:
    drive = noticed()
    drive.change(TE, reason=reason)
    assert drive.cycle(2) == ()
    assert drive.open_orders() == [1]


@pytest.mark.parametrize("flags", [frozenset({"DRAIN"}), frozenset({"DRAIN", "NOT_RESPONDING"})])
def test_the_node_of_the_order_is_lost_and_its_victim_is_released(flags: frozenset[str]) -> None:
    drive = noticed()
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=flags)
    assert drive.cycle(2) == (nice_back(0, now=-1001),)
    assert drive.order().ending is Ending.NODE_GONE
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(40) == ()
    assert by_job(drive.memory, "preemptions") == {}


def test_a_te_job_that_started_and_finished_between_two_polls_has_been_served() -> None:
    drive = noticed()
    drive.requeued(BE)
    drive.starts(TE, at_s=5)
    drive.ends(TE)
    assert drive.cycle(8) == ()
    assert drive.order().ending is Ending.STARTED_HERE
    assert drive.order().started_at == NOW + 5


def test_a_start_before_the_order_is_none() -> None:
    # It ran once, long ago, and was requeued; Slurm may still show that run's start.
    drive = one_node()
    drive.change(TE, start_time=NOW - 500, restarts=1)
    drive.cycle(0)
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(2)
    assert drive.order().ending is Ending.PREEMPTOR_GONE


def test_a_te_job_that_was_requeued_at_once_makes_no_victim_leave() -> None:
    drive = noticed()
    drive.change(TE, start_time=NOW + 1, restarts=1)  # it started, and is back in the queue
    assert drive.cycle(2) == (nice_back(0, now=-1001),)
    assert (drive.order().state, drive.order().ending) == (OrderState.SETTLING, Ending.NO_RUN)
    drive.cycle(31)
    assert drive.victim().state is VictimState.SPARED


def test_a_te_job_in_a_state_that_tesched_does_not_know_is_left_alone() -> None:
    drive = one_node()
    drive.cycle(0)
    drive.change(TE, state=JobState.UNKNOWN)
    assert drive.cycle(2) == ()
    assert drive.order().state is OrderState.OPEN


@pytest.mark.parametrize("start_s", [-1.0, -2.5, -3600.0, 3600.0])
def test_a_start_is_seen_whatever_slurmctlds_clock_says(start_s: float) -> None:
    drive = noticed()
    drive.starts(TE, share("n1", 16), at_s=start_s)
    drive.cycle(2)
    assert drive.order().state is OrderState.SETTLING


def test_slurms_whole_seconds_are_no_start_before_the_order() -> None:
    drive = one_node()
    drive.cycle(0.9)
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=0)
    drive.cycle(3)
    assert drive.order().ending is Ending.STARTED_HERE


class TestExpiry:
    """The longest grace period, KillWait, and the site's patience: 30 + 30 + 60 s."""

    def test_the_order_expires_and_the_te_job_is_tried_again_later(self) -> None:
        drive = noticed()
        drive.cycle(30)
        drive.requeued(BE)
        drive.moves()
        drive.change(TE, reason="Resources")
        assert drive.cycle(31) == ()
        assert drive.moves() == [(BE, "requeuing", "left")]
        assert drive.cycle(120) == ()
        assert drive.cycle(120.5) == (nice_back(0, now=-1001),)
        assert drive.moves() == [(None, "open", "settling")]
        assert drive.order().ending is Ending.EXPIRED
        assert drive.order().futile
        drive.obeys(*drive.decision.actions)
        assert by_job(drive.memory, "retry_at") == {TE: NOW + 120.5 + 300}
        assert drive.cycle(420) == ()
        assert drive.why_not(TE) is RefusalCode.RETRY_LATER
        assert drive.cycle(421) == (first_in_queue(-1001, order=2, free=True),)
        assert by_job(drive.memory, "retry_at") == {}

    def test_a_victim_that_has_not_left_by_then_is_released(self) -> None:
        drive = noticed()
        drive.change(BE, state=JobState.SUSPENDED)  # by an admin: nothing more is done to it
        drive.cycle(121)
        assert drive.victim().state is VictimState.SPARED

    def test_the_longest_grace_period_counts(self) -> None:
        jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), waiting(TE, cpus=32)]
        drive = Driver([node("n1")], jobs, graces={1: 10, 2: 200})
        drive.cycle(0)
        assert drive.order().expires_at == NOW + 200 + 30 + 60


class TestArray:
    """A waiting job array is one record; a task that starts gets a job id of its own."""

    def drive(self) -> Driver:
        drive = one_node()
        drive.change(TE, array_job_id=JobId(TE), array_tasks="0-9")
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        return drive

    def test_a_task_starts_and_the_order_has_served_it(self) -> None:
        drive = self.drive()
        task = running(20, HALF, array_job_id=JobId(TE), array_task_id=0, nice=-1001, start_time=NOW + 5)
        drive.jobs[task.job_id] = task
        drive.cycle(6)
        assert drive.order().ending is Ending.STARTED_HERE
        assert drive.order().started_at == NOW + 5

    def test_the_next_task_is_served_when_the_priority_is_back(self) -> None:
        drive = self.drive()
        drive.jobs[JobId(20)] = running(20, HALF, array_job_id=JobId(TE), nice=-1001, start_time=NOW + 5)
        drive.obeys(*drive.cycle(6))
        assert drive.why_not(TE) is RefusalCode.ORDER_OPEN
        assert drive.cycle(8) == (first_in_queue(-1001, order=2, free=True),)  # the node's other half is free
        assert drive.open_orders() == [2]

    def test_the_last_task_takes_the_arrays_id(self) -> None:
        drive = self.drive()
        drive.change(TE, array_task_id=9, array_tasks="")
        drive.starts(TE, HALF, at_s=5)
        drive.cycle(6)
        assert drive.order().ending is Ending.STARTED_HERE

    def test_a_task_that_ran_before_the_order_has_not_been_served_by_it(self) -> None:
        drive = one_node(running(20, array_job_id=JobId(TE), start_time=NOW - 2))
        drive.change(TE, array_job_id=JobId(TE), array_tasks="1-9")
        drive.cycle(0)
        drive.cycle(6)
        assert drive.order().state is OrderState.OPEN

    @pytest.mark.parametrize("start_s", [-1.0, -2.5, -3600.0, 3600.0])
    def test_a_task_s_start_is_seen_whatever_slurmctlds_clock_says(self, start_s: float) -> None:
        drive = one_node(running(20, array_job_id=JobId(TE), start_time=NOW - 2))
        drive.change(TE, array_job_id=JobId(TE), array_tasks="1-9")
        drive.cycle(0)
        drive.jobs[JobId(21)] = running(21, HALF, array_job_id=JobId(TE), start_time=NOW + start_s)
        drive.cycle(6)
        assert drive.order().state is OrderState.SETTLING

    def test_another_arrays_task_has_not_been_served_by_it(self) -> None:
        drive = self.drive()
        drive.jobs[JobId(20)] = running(20, array_job_id=JobId(19), start_time=NOW + 5)
        drive.cycle(6)
        assert drive.order().state is OrderState.OPEN

    def test_the_array_is_cancelled_after_a_task_has_started(self) -> None:
        drive = self.drive()
        drive.jobs[JobId(20)] = running(20, HALF, array_job_id=JobId(TE), start_time=NOW + 5)
        drive.forgets(TE)
        drive.cycle(6)
        assert drive.order().ending is Ending.STARTED_HERE


def test_a_multi_node_te_job_that_starts_partly_elsewhere_started_elsewhere() -> None:
    drive = noticed()
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], allocation=(share("n1", 8), share("n2", 8)))
    drive.change(TE, state=JobState.RUNNING, start_time=NOW + 1)
    drive.cycle(2)
    assert drive.order().ending is Ending.STARTED_ELSEWHERE


def new_trial(*, victim: bool, await_first_look: bool = False) -> Driver:
    trial = replace(waiting(TE, cpus=16), reason="None", eligible_time=NOW - 1)
    jobs = [running(BE, share("n1", 32)), trial] if victim else [trial]
    return Driver([node("n1")], jobs, limits=Limits(await_first_look=await_first_look))


def test_a_new_trials_victim_is_notified_at_once_where_slurms_first_pass_is_not_awaited() -> None:
    assert notice() in new_trial(victim=True).cycle(0)
    assert new_trial(victim=True, await_first_look=True).cycle(0) == ()


def test_a_new_trial_that_finds_free_resources_is_left_to_slurm() -> None:
    drive = new_trial(victim=False)
    assert drive.cycle(0) == ()
    assert drive.open_orders() == []
    assert drive.why_not(TE) is RefusalCode.NOT_CONSIDERED_YET
