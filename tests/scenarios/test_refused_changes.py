"""A site that refuses changes of jobs: what was refused is left for a while, and a TE job is served without it.

Everywhere: job 1 holds the only node and has 30 s of grace, job 9 wants half of it; both have priority 100.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from tesched_core.model.actions import Action, FailureKind, ReasonCode, Status, kind_of, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_core.orders.undo import undo
from tesched_core.policy import HoldJob, Policy, Proposal, View
from tesched_policies.baselines import NoPreemption

from tests.builders import NOW, hold, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver, explicitly_first, first_in_queue, nice_back, notice, one_node


def answers(drive: Driver, actions: tuple[Action, ...], *no: str, kind: FailureKind, words: str = "no") -> None:
    """Let Slurm fail the first action of these kinds; it takes those before it, and those after it are not sent."""
    for place, action in enumerate(actions):
        if kind_of(action) in no:
            drive.says(Status.SKIPPED, *actions[place + 1 :])
            drive.says(Status.FAILED, action, kind=kind, words=words)
            return
        drive.says(Status.SENT, action)
        drive.obeys(action)
    drive.moves()


def refuses(
    drive: Driver, at_s: float, *no: str, kind: FailureKind = FailureKind.REFUSED, words: str = "no"
) -> tuple[Action, ...]:
    """Make one cycle, of whose actions Slurm refuses those of these kinds; return them all."""
    actions = drive.cycle(at_s)
    answers(drive, actions, *no, kind=kind, words=words)
    return actions


def two_users(*jobs: Job) -> Driver:
    """Return two nodes, each full, and trials of two users."""
    nodes = [node("n1"), node("n2")]
    victims = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
    return Driver(nodes, [*victims, *jobs], limits=Limits(max_open_orders=4))


class Holding(Policy[None]):
    """Propose a hold of job 2, whatever it is shown."""

    name: ClassVar[str] = "holding"
    serves_te: ClassVar[bool] = False

    def propose(self, view: View, state: None) -> Proposal[None]:
        return Proposal(intents=(HoldJob(job_id=JobId(2), why="not its turn"),))


class TestRaise:
    """By nice, by an explicit priority, or not at all."""

    def test_where_nice_is_refused_it_is_raised_by_an_explicit_priority(self) -> None:
        drive = one_node()
        assert refuses(drive, 0, "setnice") == (first_in_queue(-1001), notice())
        assert drive.victim().state is VictimState.PLANNED
        assert drive.cycle(2) == (explicitly_first(1101, previous=100), notice())

    def test_the_next_order_does_not_try_it_before_its_time(self) -> None:
        drive = one_node()
        refuses(drive, 0, "setnice")
        drive.ends(TE, JobState.CANCELLED)
        drive.cycle(2)
        drive.submits(waiting(8, cpus=16), like=TE)
        first, *_ = drive.cycle(59)
        assert sets(first, Field.PRIORITY)
        assert "Slurm refuses to change nice values" in "".join(one.text for one in drive.decision.transitions)

    def test_it_is_tried_again_after_a_minute_then_two_and_forgotten_once_it_is_taken(self) -> None:
        drive = one_node()
        drive.submits(waiting(7, cpus=32, reason="Priority"), like=BE)
        tried = []
        for at_s in range(0, 420, 10):
            actions = refuses(drive, at_s, "setnice", "setpriority")
            if any(sets(action, Field.NICE) for action in actions):
                tried.append(at_s)
        assert tried == [0, 60, 180]
        assert drive.memory.refused[Field.NICE].count == 3
        assert drive.memory.refused[Field.NICE].since == NOW
        raised, *_ = drive.cycle(420)
        assert sets(raised, Field.NICE)
        drive.says(Status.SENT, raised)
        assert Field.NICE not in drive.memory.refused

    def test_where_both_are_refused_and_another_job_is_ahead_there_is_no_victim(self) -> None:
        drive = one_node()
        drive.submits(waiting(7, cpus=32, reason="Priority"), like=BE)
        refuses(drive, 0, "setnice")
        refuses(drive, 2, "setpriority")
        assert drive.cycle(4) == ()
        assert drive.order().ending is Ending.CHANGE_REFUSED
        assert drive.cycle(6) == ()
        assert drive.why_not(TE) is RefusalCode.SLURM_REFUSES
        drive.change(TE, priority=101)
        assert drive.cycle(8) == (notice(order=2),)

    def test_a_victim_that_may_be_back_before_the_trial_starts_is_ahead_of_it_too(self) -> None:
        drive = one_node()
        drive.requeue_delay_s = 60
        refuses(drive, 0, "setnice")
        refuses(drive, 2, "setpriority")
        assert drive.cycle(4) == ()
        drive.requeue_delay_s = 61
        assert drive.cycle(6) == (notice(order=2),)

    def test_an_order_that_is_overtaken_before_a_victim_is_notified_ends(self) -> None:
        drive = one_node()
        drive.change(TE, priority=101)
        (told,) = drive.cycle(0)
        drive.says(Status.FAILED, told, kind=FailureKind.BUSY)
        drive.change(TE, priority=100)
        refuses(drive, 2, "setnice")
        drive.requeue_delay_s = 1
        refuses(drive, 4, "setpriority")
        assert drive.cycle(6) == ()
        assert drive.victim().state is VictimState.SPARED
        assert drive.memory.paid == (), "a victim that was never asked has paid nothing"

    def test_an_order_with_a_notified_victim_goes_on_and_what_is_in_force_stays(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        drive.change(BE, priority=1101)
        assert refuses(drive, 2, "setnice") == (first_in_queue(-2002, previous=-1001),)
        assert drive.open_orders() == [1]
        assert drive.cycle(4) == ()
        drive.requeued(BE)
        drive.starts(TE, share("n1", 16), at_s=5)
        assert drive.cycle(6) == ()
        assert drive.cycle(62) == (nice_back(0, now=-1001),)

    def test_undo_sends_a_refused_change_as_well(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        drive.change(BE, priority=1101)
        refuses(drive, 2, "setnice")
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(4), drive.limits)
        assert [kind_of(action) for action in drive.decision.actions] == ["setnice"]

    def test_an_answer_that_is_not_understood_counts_from_the_second_one(self) -> None:
        drive = one_node()
        assert refuses(drive, 0, "setnice", kind=FailureKind.UNKNOWN) == (first_in_queue(-1001), notice())
        assert refuses(drive, 2, "setnice", kind=FailureKind.UNKNOWN) == (first_in_queue(-1001), notice())
        assert drive.cycle(4) == (explicitly_first(1101, previous=100), notice())

    def test_no_answer_is_no_refusal(self) -> None:
        drive = one_node()
        for at_s in (0, 2, 4):
            assert refuses(drive, at_s, "setnice", kind=FailureKind.UNREACHABLE)[0] == first_in_queue(-1001)
        assert drive.memory.refused == {}

    def test_after_a_jump_of_the_clock_it_is_tried_in_the_same_time(self) -> None:
        drive = one_node()
        refuses(drive, 0, "setnice")
        before = drive.memory.refused[Field.NICE]
        after = shift_times(drive.memory, 3600).refused[Field.NICE]
        assert after == replace(before, since=NOW + 3600, at=NOW + 3600)


class TestUsers:
    """What is refused of one user's jobs says nothing of those of others, until it is refused of theirs, too."""

    def test_another_user_s_trial_is_raised_by_nice(self) -> None:
        drive = two_users(waiting(8, cpus=32, user="ada"))
        refuses(drive, 0, "setnice")
        drive.submits(waiting(TE, cpus=32, user="bob"), like=8)
        raised = [action for action in drive.cycle(2) if sets(action, Field.NICE, Field.PRIORITY)]
        assert [(action.job_id, kind_of(action)) for action in raised] == [(8, "setpriority"), (TE, "setnice")]

    def test_refused_of_two_users_it_is_refused_of_all(self) -> None:
        drive = two_users(waiting(8, cpus=32, user="ada"), waiting(TE, cpus=32, user="bob"))
        actions = drive.cycle(0)
        drive.says(Status.FAILED, *(one for one in actions if sets(one, Field.NICE)), kind=FailureKind.DENIED)
        one = drive.memory.refused[Field.NICE]
        assert (one.users, one.everywhere, one.count) == (("ada", "bob"), True, 1)
        assert one.holds("eve", NOW + 59)
        assert not one.holds("eve", NOW + 60)

    def test_taken_of_a_third_user_it_is_refused_of_the_two_alone(self) -> None:
        drive = two_users(waiting(8, cpus=32, user="ada"), waiting(TE, cpus=32, user="bob"))
        first, _, second, _ = drive.cycle(0)
        drive.says(Status.FAILED, first, second, kind=FailureKind.DENIED)
        drive.change(TE, user="eve")
        drive.says(Status.SENT, second)
        one = drive.memory.refused[Field.NICE]
        assert (one.users, one.everywhere) == (("ada", "bob"), False)


class TestBinding:
    """A TE job is served without one."""

    def test_victims_are_notified_without_it_where_it_is_refused(self) -> None:
        drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], binds=True)
        raised, bound, told = refuses(drive, 0, "setnodes")
        assert (kind_of(raised), kind_of(bound), told) == ("setnice", "setnodes", notice())
        assert drive.cycle(2) == (notice(),)
        assert drive.memory.changes_of(Field.NODES) == {}
        assert Field.NICE in drive.memory.changes

    @pytest.mark.parametrize(
        "words",
        [
            "Requested node configuration is not available for job 9",
            "Invalid node name specified for job 9",
            "Required node not available (down, drained or reserved) for job 9",
            "Requested nodes are busy for job 9",
        ],
    )
    def test_nodes_that_it_cannot_have_end_its_order_and_say_nothing_of_the_site(self, words: str) -> None:
        drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], binds=True)
        refuses(drive, 0, "setnodes", words=words)
        assert drive.order().ending is Ending.REFUSED
        assert drive.memory.refused == {}
        assert notice() not in drive.cycle(2)

    def test_one_that_is_not_to_be_undone_is_tried_once_a_minute(self) -> None:
        drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], binds=True)
        drive.obeys(*drive.cycle(0))
        drive.change(TE, reason="Licenses")
        tried = [
            at_s
            for at_s in range(2, 200, 2)
            if any(sets(action, Field.NODES) for action in refuses(drive, at_s, "setnodes"))
        ]
        assert tried == [2, 62, 122, 182]

    def test_a_later_order_says_that_it_goes_without_it(self) -> None:
        nodes = [node("n1"), node("n2")]
        victims = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
        drive = Driver(nodes, [*victims, waiting(TE, cpus=32)], binds=True)
        refuses(drive, 0, "setnodes")
        drive.submits(waiting(8, cpus=32), like=TE)
        assert "setnodes" not in {kind_of(action) for action in drive.cycle(2)}
        texts = [one.text for one in drive.decision.transitions if one.order_id == 2]
        assert 'it is not bound to its nodes: Slurm refuses to change node lists ("no")' in texts


class TestOthers:
    """Best-effort jobs, which are moved in their queue or held."""

    def test_a_victim_that_waits_again_keeps_the_place_that_slurm_gave_it(self) -> None:
        drive = one_node()
        drive.submits(waiting(7, cpus=32, priority=500, reason="Priority"), like=BE)
        refuses(drive, 0, "setnice")
        drive.obeys(*drive.cycle(2))
        drive.requeued(BE)
        drive.starts(TE, share("n1", 16), at_s=3)
        assert "setnice" not in {kind_of(action) for action in drive.cycle(4)}
        assert "setnice" in {kind_of(action) for action in drive.cycle(61)}, "it is ahead once nice may be tried again"

    def test_a_hold_that_is_refused_is_not_tried_at_each_poll(self) -> None:
        jobs = [running(BE, share("n1", 32)), waiting(2, cpus=32)]
        drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=Holding(), run_times={2: 60})
        tried = [at_s for at_s in range(0, 200, 2) if refuses(drive, at_s, "hold")]
        assert tried == [0, 60, 180]

    def test_a_job_that_its_requeue_left_held_is_released_a_minute_after_refusals_of_holds(self) -> None:
        drive = one_node(grace_s=0)
        (_, asked) = actions = drive.cycle(0)
        drive.obeys(*actions)
        drive.change(BE, priority=0, reason="JobHeldAdmin")
        held = hold(JobId(BE), replace(asked.reason, code=ReasonCode.NOT_ITS_TURN, order_id=None))
        for _ in range(5):
            drive.at_s += 1
            drive.says(Status.FAILED, held, kind=FailureKind.REFUSED)
        assert drive.cycle(6) == ()
        assert drive.cycle(64) == ()
        (released,) = drive.cycle(65)
        assert (kind_of(released), released.reason.code) == ("release", ReasonCode.LEFT_HELD)

    def test_a_raise_is_put_back_a_minute_after_refusals_of_raises(self) -> None:
        drive = one_node()
        raised, _ = actions = drive.cycle(0)
        drive.obeys(*actions)
        drive.requeued(BE)
        drive.starts(TE, share("n1", 16), at_s=2)
        other = replace(raised, reason=replace(raised.reason, order_id=None))
        for _ in range(5):
            drive.at_s += 1
            drive.says(Status.FAILED, other, kind=FailureKind.REFUSED)
        assert drive.cycle(64) == ()
        assert drive.cycle(65) == (nice_back(0, now=-1001),)

    def test_a_hold_of_ours_is_ended_a_minute_after_refusals_of_holds(self) -> None:
        jobs = [running(BE, share("n1", 32)), waiting(2, cpus=32), waiting(3, cpus=32)]
        drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=Holding(), run_times={2: 60, 3: 60})
        (held,) = drive.cycle(0)
        drive.obeys(held)
        drive.says(Status.SENT, held)
        for _ in range(5):
            drive.at_s += 1
            drive.says(Status.FAILED, replace(held, job_id=JobId(3)), kind=FailureKind.REFUSED)
        drive.best_effort = NoPreemption()
        assert drive.cycle(64) == ()
        assert [kind_of(action) for action in drive.cycle(65)] == ["release"]

    def test_an_array_without_its_own_record_belongs_to_its_user(self) -> None:
        array = JobId(10)
        task = replace(running(11, share("n1", 1)), array_job_id=array, array_task_id=1, array_throttle=2, user="ann")
        drive = Driver([node("n1")], [task])
        one = Change(
            job_id=array,
            field=Field.THROTTLE,
            previous=0,
            value=2,
            before=0,
            at=NOW - 100,
            since=NOW - 100,
        )
        drive.memory = replace(drive.memory, changes={Field.THROTTLE: {array: one}})
        tried = []
        for at_s in range(0, 130, 2):
            actions = drive.cycle(at_s)
            drive.says(Status.FAILED, *actions, kind=FailureKind.REFUSED)
            tried += [at_s] if actions else []
        assert tried == [0, 60, 120]
        assert drive.memory.refused[Field.THROTTLE].users == ("ann",)

    def test_nothing_is_learned_of_a_job_that_is_not_seen(self) -> None:
        drive = one_node()
        raised, *_ = drive.cycle(0)
        drive.forgets(TE)
        drive.says(Status.FAILED, raised, kind=FailureKind.REFUSED)
        assert drive.memory.refused == {}
