"""The TE job is first in the queue before a victim leaves for it, and in its old place afterwards.

Where nothing else is said: all have priority 100, so 101 is needed, 1 is missing, and the margin is 1000.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.nice import MAX_PRIORITY
from tesched_core.model.actions import FailureKind, Status, sets
from tesched_core.model.change import By
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

from tests.builders import NOW, by_job, node, running, share, traits, waiting
from tests.scenarios.driver import (
    BE,
    HALF,
    TE,
    Driver,
    brought_forward,
    explicitly_first,
    first_in_queue,
    nice_back,
    notice,
    one_node,
    priority_back,
)


def others(drive: Driver, *job_ids: int) -> Driver:
    """Make these best-effort jobs, so that tesched frees nothing for them."""
    best_effort = {JobId(job_id): traits(JobClass.BE) for job_id in job_ids}
    drive.start = drive.start.with_traits({**drive.start.traits, **best_effort})
    return drive


class TestHowHigh:
    """Ahead of every job that could take the resources, by the margin of 1000, and of no other."""

    def test_ahead_of_the_first_in_the_queue(self) -> None:
        # 701 are needed, 601 are missing
        drive = others(one_node(waiting(5, cpus=1, priority=700)), 5)
        assert drive.cycle(0) == (first_in_queue(-1601), notice())

    def test_ahead_of_its_victim_which_comes_back_with_the_priority_that_it_had(self) -> None:
        drive = one_node()
        drive.change(BE, priority=500)
        assert drive.cycle(0) == (first_in_queue(-1401), notice())

    def test_from_the_nice_value_that_it_has(self) -> None:
        drive = one_node()
        drive.change(TE, nice=70)
        assert drive.cycle(0) == (first_in_queue(70 - 1001, previous=70), notice())

    def test_not_of_a_job_that_waits_elsewhere_nor_of_one_that_runs(self) -> None:
        elsewhere = waiting(5, priority=700, partitions=("q",))
        drive = others(one_node(elsewhere, running(6, priority=800)), 5)
        assert drive.cycle(0) == (first_in_queue(-1001), notice())

    def test_a_job_that_is_first_already_is_left_where_it_is(self) -> None:
        drive = one_node()
        drive.change(TE, priority=101)
        assert drive.cycle(0) == (notice(),)
        assert drive.memory.changes_of(Field.NICE) == {}
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        assert drive.cycle(6) == ()  # nothing to put back

    def test_a_job_that_overtakes_it_later_is_overtaken_again(self) -> None:
        drive = others(one_node(waiting(5, cpus=1)), 5)
        drive.obeys(*drive.cycle(0))
        drive.change(5, priority=1101)
        # 1102 are needed of 1101: 1 and the margin below -1001
        assert drive.cycle(2) == (first_in_queue(-2002, previous=-1001),)
        drive.obeys(*drive.decision.actions)
        drive.ends(BE)
        drive.starts(TE, HALF, at_s=5)
        assert drive.cycle(6) == (nice_back(0, now=-2002),)


class TestTheVictimsPlace:
    """Back in the queue, a victim is next among the best-effort jobs, and as it was once it runs again."""

    def left(self, *, rival: int = 900) -> Driver:
        """Return the case in which the TE job has its nodes, and the victim a new, lower priority (100)."""
        drive = others(one_node(waiting(5, cpus=1, priority=rival)), 5)
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        drive.obeys(*drive.cycle(6))
        return drive

    def test_ahead_of_the_first_best_effort_job_by_half_the_margin(self) -> None:
        drive = self.left()
        # 901 are needed, 801 are missing; the TE job's own is put back in the same cycle
        assert brought_forward(-801 - 500) in drive.decision.actions
        assert drive.jobs[JobId(BE)].priority == 100 + 1301
        assert drive.cycle(8) == ()

    def test_its_nice_value_is_put_back_when_it_runs_again(self) -> None:
        drive = self.left()
        drive.starts(BE, share("n1", 16), at_s=20)
        assert drive.cycle(21) == (nice_back(0, job=BE, preemptor=TE, now=-1301),)
        assert drive.open_orders() == []
        assert drive.order().state is OrderState.SETTLING
        drive.obeys(*drive.decision.actions)
        assert drive.cycle(23) == ()
        assert drive.order().state is OrderState.ENDED

    def test_it_stays_where_it_is_when_it_is_first_already(self) -> None:
        drive = self.left(rival=99)
        assert [action.job_id for action in drive.decision.actions] == [TE]  # put back
        assert drive.memory.raised(By.VICTIM) == {}

    def test_not_before_the_preemptor_has_its_resources(self) -> None:
        drive = others(one_node(waiting(5, cpus=1, priority=900)), 5)
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        assert drive.cycle(6) == ()

    def test_not_ahead_of_a_trial_and_error_job(self) -> None:
        drive = one_node(waiting(5, cpus=64, priority=5000))  # too large for any node: it waits for ever
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        drive.obeys(*drive.cycle(6))
        assert drive.jobs[JobId(BE)].nice == 0

    def test_a_held_one_is_left_to_the_user_that_held_it(self) -> None:
        drive = others(one_node(waiting(5, cpus=1, priority=900)), 5)
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.change(BE, priority=0)
        drive.starts(TE, HALF, at_s=5)
        drive.obeys(*drive.cycle(6))
        assert drive.jobs[JobId(BE)].nice == 0

    def test_it_is_not_tried_again_where_slurm_refuses(self) -> None:
        drive = others(one_node(waiting(5, cpus=1, priority=900)), 5)
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        actions = drive.cycle(6)
        drive.obeys(nice_back(0, now=drive.jobs[JobId(TE)].nice))
        drive.says(Status.FAILED, next(one for one in actions if one.job_id == BE), kind=FailureKind.DENIED)
        assert drive.cycle(8) == ()
        drive.starts(BE, share("n1", 16), at_s=20)
        assert drive.cycle(21) == ()
        assert drive.order().state is OrderState.ENDED

    def test_a_victim_that_is_cancelled_in_the_queue_leaves_nothing_to_put_back(self) -> None:
        drive = self.left()
        drive.ends(BE, JobState.CANCELLED)
        assert drive.cycle(8) == ()
        assert drive.order().state is OrderState.ENDED


class TestNiceIsIgnored:
    """Slurm ignores nice, with exit status 0, for a job with an explicitly set priority."""

    def given_up_on_nice(self) -> Driver:
        drive = one_node()
        drive.says(Status.SENT, *drive.cycle(0))
        assert drive.cycle(5) == (first_in_queue(-1001),)  # give it five seconds
        assert drive.cycle(6) == (explicitly_first(1101, previous=100),)
        drive.obeys(*drive.decision.actions)
        return drive

    def test_it_gets_another_explicit_priority_and_its_own_back(self) -> None:
        drive = self.given_up_on_nice()
        assert drive.cycle(8) == ()
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=9)
        assert drive.cycle(10) == (priority_back(100, now=1101),)
        drive.obeys(*drive.decision.actions)
        assert drive.cycle(12) == ()
        assert drive.memory.changes_of(Field.NICE) == {}

    def test_a_job_that_overtakes_it_later_is_overtaken_again(self) -> None:
        drive = self.given_up_on_nice()
        drive.change(BE, priority=1101)
        # 1102 are needed, and the margin
        assert drive.cycle(8) == (explicitly_first(2102, previous=1101),)
        drive.obeys(*drive.decision.actions)
        drive.ends(TE, JobState.CANCELLED)
        assert drive.cycle(10) == ()
        drive.requeued(TE)
        (back,) = drive.cycle(12)
        assert (back.job_id, sets(back, Field.PRIORITY) and back.value) == (TE, 100)

    def test_one_that_does_not_arrive_was_not_undone_by_others(self) -> None:
        drive = self.given_up_on_nice()
        drive.says(Status.SENT, *drive.decision.actions)
        drive.change(BE, priority=1101)
        for at_s in (8, 10, 12, 14, 16):
            assert drive.cycle(at_s) == (explicitly_first(2102, previous=1101),)
            assert [one.text for one in drive.decision.transitions] == []
            drive.says(Status.FAILED, *drive.decision.actions, kind=FailureKind.BUSY)
        assert drive.order().state is OrderState.OPEN

    def test_it_does_not_depend_on_which_number_the_nice_value_is(self) -> None:
        drive = one_node()
        drive.change(TE, nice=100)  # the same number as its priority
        drive.says(Status.SENT, *drive.cycle(0))
        drive.says(Status.SENT, *drive.cycle(5))
        drive.obeys(*drive.cycle(6))
        drive.change(BE, priority=1101)
        drive.obeys(*drive.cycle(8))
        drive.starts(TE, HALF)
        assert drive.cycle(10) == (priority_back(100, now=2102),)

    def test_an_explicit_priority_that_failed_is_given_later_and_put_back_all_the_same(self) -> None:
        drive = one_node()
        drive.says(Status.SENT, *drive.cycle(0))
        drive.says(Status.SENT, *drive.cycle(5))
        drive.says(Status.FAILED, *drive.cycle(6), kind=FailureKind.BUSY)
        for at_s in (8, 13):
            assert drive.cycle(at_s) == (first_in_queue(-1001),)
            drive.says(Status.SENT, *drive.decision.actions)
        assert drive.cycle(14) == (explicitly_first(1101, previous=100),)
        drive.obeys(*drive.decision.actions)
        drive.starts(TE, HALF)
        assert drive.cycle(16) == (priority_back(100, now=1101),)

    def test_no_priority_is_requested_that_slurm_does_not_take(self) -> None:
        drive = self.given_up_on_nice()
        drive.change(BE, priority=MAX_PRIORITY - 500)
        assert drive.cycle(8) == (explicitly_first(MAX_PRIORITY, previous=1101),)

    def test_a_second_raise_that_did_not_arrive_is_no_sign_of_it(self) -> None:
        drive = others(one_node(waiting(5, cpus=1)), 5)
        drive.obeys(*drive.cycle(0))
        drive.change(5, priority=1101)
        again = drive.cycle(20)
        assert again == (first_in_queue(-2002, previous=-1001),)
        drive.says(Status.FAILED, *again, kind=FailureKind.UNREACHABLE)
        assert drive.cycle(22) == again


class TestPutBack:
    """When the preemptor no longer waits; believed when seen; and what a user has set since is left."""

    def started(self) -> Driver:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        assert drive.cycle(6) == (nice_back(0, now=-1001),)
        return drive

    def test_it_is_sent_again_until_it_is_seen(self) -> None:
        drive = self.started()
        assert drive.cycle(8) == (nice_back(0, now=-1001),)
        drive.says(Status.FAILED, *drive.decision.actions, kind=FailureKind.BUSY)
        assert drive.cycle(10) == (nice_back(0, now=-1001),)
        drive.says(Status.FAILED, *drive.decision.actions, kind=FailureKind.DENIED)
        assert drive.order().ending is Ending.STARTED_HERE
        assert by_job(drive.memory, "retry_at") == {}
        assert drive.cycle(12) == ()
        assert drive.cycle(71) == (nice_back(0, now=-1001),)
        drive.obeys(*drive.decision.actions)
        assert drive.cycle(73) == ()

    @pytest.mark.parametrize("nice", [33, 1, -1002])
    def test_a_value_that_another_user_has_set_is_left(self, nice: int) -> None:
        drive = self.started()
        drive.change(TE, nice=nice)
        assert drive.cycle(8) == ()
        assert drive.memory.changes_of(Field.NICE) == {}

    @pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.CANCELLED])
    def test_a_job_that_has_ended_has_nothing_to_be_put_back(self, state: JobState) -> None:
        drive = self.started()
        drive.ends(TE, state)
        assert drive.cycle(8) == ()

    @pytest.mark.parametrize("priority", [99, 100, 1102])
    def test_an_explicit_priority_that_another_user_has_set_is_left(self, priority: int) -> None:
        drive = one_node()
        drive.says(Status.SENT, *drive.cycle(0))
        drive.says(Status.SENT, *drive.cycle(5))
        drive.obeys(*drive.cycle(6))
        drive.change(TE, priority=priority)
        drive.starts(TE, HALF)
        assert drive.cycle(8) == ()

    def test_the_order_does_not_end_before_it(self) -> None:
        drive = self.started()
        drive.starts(BE, share("n1", 16), at_s=7)
        drive.cycle(8)
        assert drive.order().state is OrderState.SETTLING
        drive.obeys(*drive.decision.actions)
        drive.cycle(10)
        assert drive.order().state is OrderState.ENDED

    def test_an_array_s_waiting_tasks_are_put_back_too(self) -> None:
        drive = one_node()
        drive.change(TE, array_job_id=JobId(TE), array_tasks="0-9")
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        drive.jobs[JobId(20)] = running(
            20, HALF, array_job_id=JobId(TE), array_task_id=0, nice=-1001, start_time=NOW + 5
        )
        waiting_tasks = nice_back(0, now=-1001)
        assert drive.cycle(6) == (waiting_tasks, replace(waiting_tasks, job_id=JobId(20)))
        drive.obeys(replace(waiting_tasks, job_id=JobId(20)))
        assert drive.cycle(8) == (waiting_tasks,)
        drive.obeys(waiting_tasks)
        drive.cycle(10)
        anew = drive.memory.changes_of(Field.NICE)[JobId(TE)]
        assert (anew.order_id, anew.previous) == (2, 0), "the next task's order raises it from its own value"


class TestResourcesAreFree:
    """Resources that only the queue's order keeps from a TE job need no victim."""

    def drive(self) -> Driver:
        return Driver([node("n1"), node("n2")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)])

    def test_the_job_is_raised_and_no_victim_pays(self) -> None:
        drive = self.drive()
        drive.change(TE, priority=50)
        drive.jobs[JobId(5)] = waiting(5, cpus=33)  # never fits, and is ahead of it: 101 are needed, 51 missing
        others(drive, 5)
        assert drive.cycle(0) == (first_in_queue(-1051, free=True),)
        assert drive.order().victims == ()
        assert drive.order().nodes == ("n2",)
        drive.obeys(*drive.decision.actions)
        drive.starts(TE, share("n2", 16), at_s=1)
        assert drive.cycle(2) == (nice_back(0, now=-1051),)
        assert drive.order().ending is Ending.STARTED_HERE

    def test_a_job_that_is_first_in_the_queue_is_only_watched(self) -> None:
        drive = self.drive()
        drive.change(TE, priority=1)  # more than any other job has
        assert drive.cycle(0) == ()
        assert [one.text for one in drive.decision.transitions] == [
            "resources for job 9 on n2: no victim, they are free"
        ]
        assert drive.moves() == [(None, "", "open")]
        assert drive.order().expires_at == NOW + 30 + 60  # KillWait and the site's patience
        assert drive.cycle(2) == ()
        drive.starts(TE, share("n2", 16), at_s=3)
        assert drive.cycle(4) == ()
        assert drive.order().state is OrderState.ENDED


def test_jobs_with_orders_need_not_be_ahead_of_each_other() -> None:
    # Each has its own nodes. Job 9 is 1 short of 101, which puts it ahead of the victims, and not ahead of job 8.
    drive = Driver(
        [node("n1"), node("n2")],
        [
            running(1, share("n1", 32)),
            running(2, share("n2", 32)),
            waiting(8, cpus=32, priority=5000),
            waiting(9, cpus=32),
        ],
    )
    assert drive.cycle(0) == (
        notice(job=1, preemptor=8, order=1),
        first_in_queue(-1001, job=9, order=2),
        notice(job=2, preemptor=9, order=2),
    )
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(2) == ()


def test_a_later_te_job_does_not_overtake_an_earlier_one_with_an_order() -> None:
    """A later one, raised above a victim of its own, took the free half of the earlier one's node."""
    nodes, later = [node("n1"), node("n2")], 10
    jobs = [running(BE, share("n1", 32)), running(2, share("n2", 32), priority=5000)]
    drive = Driver(nodes, [*jobs, waiting(TE, cpus=16)], graces={BE: 20, 2: 30})
    drive.obeys(*drive.cycle(0))
    drive.jobs[JobId(later)] = waiting(later, cpus=32, submit_time=NOW)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(later): drive.start.traits[JobId(TE)]})
    for at_s in (1, 2, 3):
        drive.obeys(*drive.cycle(at_s))
    ahead, behind = drive.jobs[JobId(TE)], drive.jobs[JobId(later)]
    assert behind.priority > 5000, "it is above its own victim"
    assert ahead.priority > behind.priority
    assert drive.cycle(4) == (), "and neither is raised again and again"
