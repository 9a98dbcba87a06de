"""Left alone by tesched: holds of others, nice values of array tasks, bindings, clocks, silent nodes.

Everywhere: job 1 holds the only node, job 9 wants half of it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.nice import MIN_NICE
from tesched_core.model.actions import FailureKind, Notify, Status, kind_of, releases, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import JobState, Partition
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

from tests.builders import NOW, node, running, share, traits, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, nice_back, notice, one_node


class TestAHoldOfSomebodyElse:
    """A running job's priority is 0 where its user or an admin holds it; it is to wait after its next requeue."""

    def requeued(self, *, held_at_s: float | None) -> Driver:
        drive = one_node()
        if held_at_s is not None and held_at_s <= 0:
            drive.change(BE, priority=0)
        drive.obeys(*drive.cycle(0))
        if held_at_s is not None and held_at_s > 0:
            drive.change(BE, priority=0)
            drive.cycle(held_at_s)
        drive.obeys(*drive.cycle(30))
        # Slurm's word for the hold of a job that was suspended when it was requeued, and for an admin's (22.05).
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        return drive

    def test_a_job_that_was_held_while_it_ran_stays_held(self) -> None:
        for held_at_s in (0.0, 5.0):
            drive = self.requeued(held_at_s=held_at_s)
            assert not any(releases(action) for action in drive.cycle(31)), held_at_s
            drive.starts(TE, HALF, at_s=32)
            drive.cycle(33)
            drive.cycle(35)
            assert not any(releases(action) for action in drive.decision.actions), held_at_s

    def test_what_our_requeue_alone_left_held_is_released(self) -> None:
        drive = self.requeued(held_at_s=None)
        assert [kind_of(action) for action in drive.cycle(31)] == ["release"]


class TestArrayTasks:
    """Tasks of an array that start together all have the raised nice value, and all get their own back."""

    def test_all_tasks_that_started_are_put_back(self) -> None:
        drive = one_node()
        drive.change(TE, array_job_id=JobId(TE), array_tasks="0-9")
        drive.obeys(*drive.cycle(0))
        drive.requeued(BE)
        for task in (20, 21, 22):
            drive.jobs[JobId(task)] = running(
                task, share("n1", 8), array_job_id=JobId(TE), nice=-1001, start_time=NOW + 5
            )
        back = drive.cycle(6)
        assert sorted(action.job_id for action in back if sets(action, Field.NICE)) == [TE, 20, 21, 22]
        drive.obeys(*back)
        drive.cycle(8)
        assert drive.decision.actions == ()
        assert drive.memory.changes_of(Field.NICE) == {}


class TestBindFor:
    """guard.bind_for_s counts from the first binding in this wait: 60 s here."""

    @pytest.mark.parametrize("next_order_s", [30, 100])
    def test_the_next_order_does_not_begin_that_time_anew(self, next_order_s: int) -> None:
        jobs = [running(BE, share("n1", 32)), running(2, share("n2", 32)), waiting(TE, cpus=16)]
        limits = Limits(bind_for_s=60, retry_after_s=0)
        drive = Driver([node("n1"), node("n2")], jobs, graces={BE: 900, 2: 901}, limits=limits, binds=True)
        bound_s = 0.0
        for at_s in range(0, 600, 5):
            drive.obeys(*drive.cycle(at_s))
            bound_s += 5 * bool(drive.jobs[JobId(TE)].request.required_nodes)
            if at_s == next_order_s:
                drive.nodes["n1"] = replace(drive.nodes["n1"], state="DOWN")
        assert drive.order(2).nodes == ("n2",), "a second order was made"
        assert bound_s <= 60 + 5

    def test_after_it_has_run_it_may_be_bound_anew(self) -> None:
        drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 9}, binds=True)
        drive.obeys(*drive.cycle(0))
        assert drive.memory.changes_of(Field.NODES)[JobId(TE)].since == NOW
        drive.requeued(BE)
        drive.starts(TE, HALF, at_s=5)
        drive.cycle(6)
        assert drive.memory.changes_of(Field.NODES)[JobId(TE)].since is None

    def test_a_binding_that_did_not_arrive_does_not_count(self) -> None:
        drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], graces={BE: 9}, binds=True)
        (nodes,) = (action for action in drive.cycle(0) if sets(action, Field.NODES))
        drive.says(Status.FAILED, nodes, kind=FailureKind.BUSY)
        assert drive.memory.changes_of(Field.NODES) == {}


def held_since(at: float) -> dict[str, dict[JobId, Change[int]]]:
    """Return the change by which tesched holds the best-effort job."""
    job_id = JobId(BE)
    one = Change(job_id=job_id, field=Field.HOLD, previous=0, value=1, at=at, since=at)
    return {Field.HOLD: {job_id: one}}


def partitions(drive: Driver, *, te_tier: int = 1) -> Driver:
    """Let the TE job wait in a partition of its own over the same nodes, and a best-effort job in another one."""
    nodes = frozenset(drive.nodes)
    both = [Partition(name="p", nodes=nodes), Partition(name="te", nodes=nodes, priority_tier=te_tier)]
    far = Partition(name="far", nodes=frozenset({"x1"}))
    drive.start = replace(drive.start, partitions={one.name: one for one in (*both, far)})
    drive.change(TE, partitions=("te",))
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): traits(JobClass.BE)})
    return drive


class TestPartitionsOverTheSameNodes:
    """A job of another partition takes the same resources, if it is ahead."""

    def test_the_te_job_is_put_ahead_of_those_of_other_partitions(self) -> None:
        drive = partitions(one_node(waiting(5, cpus=16, priority=700)))
        # 701 are needed, 601 are missing
        assert drive.cycle(0)[0] == first_in_queue(-1601)

    def test_not_of_those_on_other_nodes(self) -> None:
        drive = partitions(one_node(waiting(5, cpus=16, priority=700, partitions=("far",))))
        assert drive.cycle(0)[0] == first_in_queue(-1001)

    def test_not_of_those_of_a_lower_tier_which_slurm_comes_to_later_anyway(self) -> None:
        drive = partitions(one_node(waiting(5, cpus=16, priority=700)), te_tier=10)
        assert drive.cycle(0) == (notice(),), "nor of its own victim, which comes back to that tier"

    @pytest.mark.parametrize("reason", ["Resources", "Priority", "Dependency"])
    def test_no_victim_is_notified_where_a_job_of_a_higher_tier_would_take_its_resources(self, reason: str) -> None:
        drive = partitions(one_node(waiting(5, cpus=16, partitions=("vip",), reason=reason)))
        vip = Partition(name="vip", nodes=frozenset({"n1"}), priority_tier=5)
        drive.start = replace(drive.start, partitions={**drive.start.partitions, "vip": vip})
        actions = drive.cycle(0)
        if reason == "Dependency":
            assert actions == (first_in_queue(-1001), notice()), "it would not start there now"
        else:
            assert (actions, drive.why_not(TE)) == ((), RefusalCode.OUTRANKED)


class TestANodeThatDoesNotRespond:
    """One missed ping is not the end of a node: Slurm says that it is down after SlurmdTimeout."""

    def test_the_order_goes_on_and_no_other_job_is_notified(self) -> None:
        jobs = [running(BE, share("n1", 32)), running(2, share("n2", 32)), waiting(TE, cpus=16)]
        drive = Driver([node("n1"), node("n2")], jobs, graces={BE: 10, 2: 30})
        drive.obeys(*drive.cycle(0))
        drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"NOT_RESPONDING"}))
        assert drive.cycle(2) == ()
        assert drive.cycle(12) == (), "nor is its victim pressed while nobody knows what the node will be"
        drive.nodes["n1"] = node("n1")
        assert [kind_of(action) for action in drive.cycle(14)] == ["requeue"]

    def test_when_it_is_down_the_order_ends(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        drive.nodes["n1"] = replace(drive.nodes["n1"], state="DOWN", flags=frozenset({"NOT_RESPONDING"}))
        drive.cycle(2)
        assert drive.order().ending is Ending.NODE_GONE

    def test_it_ends_in_time_if_the_node_never_responds(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"NOT_RESPONDING"}))
        drive.cycle(121)
        assert (drive.order().ending, drive.victim().state) == (Ending.EXPIRED, VictimState.SPARED)


class TestNice:
    """A nice value that got no answer is sent again; one that Slurm cannot have is not sent."""

    def test_one_that_timed_out_is_sent_again_and_never_becomes_an_explicit_priority(self) -> None:
        drive = one_node()
        raised, told = drive.cycle(0)
        drive.says(Status.FAILED, raised, kind=FailureKind.UNREACHABLE)
        drive.says(Status.SKIPPED, told)
        for at_s in (2, 6, 20, 40):
            actions = drive.cycle(at_s)
            assert first_in_queue(-1001) in actions
            assert not any(sets(action, Field.PRIORITY) for action in actions)
            drive.says(Status.FAILED, first_in_queue(-1001), kind=FailureKind.UNREACHABLE)
            drive.says(Status.SKIPPED, *(action for action in actions if isinstance(action, Notify)))

    def test_the_least_nice_value_is_requested_once(self) -> None:
        drive = one_node(waiting(5, cpus=1, priority=3_000_000_000))
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): traits(JobClass.BE)})
        drive.change(TE, priority=1)
        raised = drive.cycle(0)[0]
        assert sets(raised, Field.NICE)
        assert raised.value == MIN_NICE
        drive.obeys(raised)
        assert drive.cycle(2) == ()
        drive.ends(BE)
        drive.starts(TE, HALF)
        assert drive.cycle(4) == (nice_back(0, now=MIN_NICE),)


class TestHoldsOfRounds:
    """Rounds that end forget no hold that may still show."""

    def test_a_hold_that_came_as_the_job_started_is_released_at_its_requeue(self) -> None:
        drive = one_node()
        drive.ends(TE)
        drive.change(BE, priority=0)
        drive.memory = replace(drive.memory, changes=held_since(NOW - 100))
        assert drive.cycle(0) == ()
        assert drive.memory.changes_of(Field.HOLD)
        drive.requeued(BE)
        drive.change(BE, reason="JobHeldAdmin", priority=0)
        assert [kind_of(action) for action in drive.cycle(2)] == ["release"]
        drive.obeys(*drive.decision.actions)
        drive.cycle(4)
        assert not drive.memory.changes_of(Field.HOLD)

    def test_a_hold_that_is_on_its_way_is_remembered(self) -> None:
        drive = one_node()
        drive.ends(TE)
        drive.requeued(BE)
        drive.memory = replace(drive.memory, changes=held_since(NOW - 1))
        drive.cycle(0)
        assert drive.memory.changes_of(Field.HOLD)
        drive.change(BE, reason="JobHeldAdmin", priority=0)
        assert [kind_of(action) for action in drive.cycle(2)] == ["release"]


def test_fifty_victims_that_wait_for_days_stop_no_further_preemption() -> None:
    names = [f"n{number}" for number in range(52)]
    jobs = [running(number + 1, share(name, 32)) for number, name in enumerate(names)]
    trials = [waiting(1000 + number, cpus=32, submit_time=NOW - 100 + number) for number in range(52)]
    graces = dict.fromkeys(range(1, 53), 0.0)
    limits = Limits(max_victims_per_cycle=100, max_preemptions_per_user_hour=999, max_preemptions_per_account_hour=999)
    drive = Driver([node(name) for name in names], [*jobs, *trials], graces=graces, limits=limits)
    drive.obeys(*drive.cycle(0))
    assert len(drive.open_orders()) == 50
    for order in drive.memory.open_orders():
        drive.starts(order.preemptor, share(order.nodes[0], 32), at_s=1)
    drive.obeys(*drive.cycle(2))
    assert len([one for one in drive.memory.open_orders() if one.state is OrderState.SETTLING]) == 50
    assert len(drive.open_orders()) == 2


def test_a_trial_that_started_and_was_cancelled_between_two_polls_has_been_served() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.change(TE, start_time=NOW + 3, end_time=NOW + 9, state=JobState.CANCELLED)
    drive.cycle(10)
    assert drive.order().ending is Ending.STARTED_HERE
