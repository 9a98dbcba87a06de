"""Another job takes resources that an order counts on, while its victim is leaving; it becomes a victim, too.

Everywhere: job 1 holds half of n1 and has 100 s of grace, job 2 holds all of n2 and is not eligible, job 9 wants all
CPUs of a node; job 1 is notified. Then job 3, which waited, starts on the free half of n1.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import FailureKind, Notify, Status
from tesched_core.model.cluster import Job, JobState, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId, Tres
from tesched_core.orders.undo import undo
from tesched_core.step import step

from tests.builders import NOW, node, nodes_set, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

THIEF = 3


def robbed(limits: Limits | None = None, *, thief_at_s: float = 4) -> Driver:
    drive = Driver(
        [node("n1"), node("n2")],
        [
            running(BE, HALF),
            running(2, share("n2", 32), requeueable=False),
            waiting(THIEF, cpus=16, name="train", user="eve"),
            waiting(TE, cpus=32),
        ],
        graces={BE: 100, THIEF: 20},
        run_times={THIEF: 1000},
        limits=limits or Limits(),
        binds=True,
    )
    drive.obeys(*drive.cycle(0))
    assert asked(drive) == [BE]
    drive.starts(THIEF, HALF, at_s=thief_at_s)
    return drive


def asked(drive: Driver) -> list[int]:
    return [action.job_id for action in drive.decision.actions if isinstance(action, Notify)]


def test_a_job_that_took_the_resources_is_preempted_though_it_has_just_started() -> None:
    drive = robbed()
    drive.cycle(5)
    assert asked(drive) == [THIEF]
    order = drive.order()
    assert [(victim.job_id, victim.state) for victim in order.victims] == [
        (BE, VictimState.NOTICED),
        (THIEF, VictimState.NOTICED),
    ]
    assert order.victims[1].deadline == NOW + 5 + 20
    assert drive.open_orders() == [1]
    assert drive.why_not(TE) is RefusalCode.ORDER_OPEN


def test_no_job_is_notified_twice_and_the_trial_starts_on_the_resources_of_both() -> None:
    drive = robbed()
    drive.cycle(5)
    drive.cycle(6)
    assert asked(drive) == []
    drive.requeued(BE)
    drive.requeued(THIEF)
    drive.cycle(20)
    assert asked(drive) == []
    drive.starts(TE, share("n1", 32), at_s=21)
    drive.cycle(22)
    assert (drive.order().ending, drive.order().futile) == (Ending.STARTED_HERE, False)


def test_its_own_start_between_the_read_of_the_jobs_and_that_of_the_nodes_takes_nothing() -> None:
    """Its order was moved to another node, and its victims had left for nothing."""
    for victims, nodes in (([running(BE, HALF)], ["n1", "n2"]), ([], ["n1", "n2"])):
        drive = Driver([node(one) for one in nodes], [*victims, waiting(TE, cpus=32, priority=50)], binds=True)
        drive.jobs[JobId(2)] = running(2, share("n2", 32), requeueable=False)
        drive.start = drive.start.with_traits({**drive.start.traits, JobId(2): drive.start.traits[JobId(TE)]})
        drive.obeys(*drive.cycle(0))
        assert drive.order().nodes == ("n1",)
        if victims:
            drive.requeued(BE)
        del drive.jobs[JobId(2)]  # the other node is free by now
        drive.nodes["n1"] = replace(drive.nodes["n1"], held=Tres(cpus=32, mem_mib=1))
        drive.cycle(5)
        assert (asked(drive), bound_to(drive), drive.order().nodes) == ([], [], ("n1",))


@pytest.mark.parametrize(
    ("victim", "on_n2", "moves"),
    [("none", 8, False), ("gone", 8, False), ("still seen", 8, False), ("none", 12, True), ("gone", 12, True)],
)
def test_so_it_is_where_its_tasks_are_spread_unevenly(victim: str, on_n2: int, moves: bool) -> None:
    """Of five tasks of 8 CPUs four are on n1 and one is on n2, beside job 2: not the three on each of an even spread.

    On n2 there was a victim of 12 CPUs, whose end the jobs may not show yet.
    """
    jobs = [
        running(2, share("n2", 16), requeueable=False),
        running(4, share("n3", 32), share("n4", 32), requeueable=False),
    ]
    if victim != "none":
        jobs.append(running(BE, share("n2", 12)))
    request = Request(min_nodes=2, max_nodes=2, cpus=40, tasks=5, cpus_per_task=8, mem_per_node_mib=1)
    drive = Driver(
        [node("n1"), node("n2", cpus=28), node("n3"), node("n4")],
        [*jobs, waiting(TE, request, priority=50)],
        binds=True,
    )
    drive.obeys(*drive.cycle(0))
    assert (asked(drive), drive.order().nodes) == ([] if victim == "none" else [BE], ("n1", "n2"))
    if victim == "gone":
        drive.requeued(BE)
    del drive.jobs[JobId(4)]  # two other nodes are free by now
    before = drive.order()
    held = {"n1": 32, "n2": 16 + on_n2}
    for name, cpus in held.items():
        drive.nodes[name] = replace(drive.nodes[name], held=Tres(cpus=cpus, mem_mib=1))
    drive.cycle(5)
    assert (drive.order().nodes != before.nodes) is moves


def test_what_a_node_holds_beside_its_own_job_is_taken_by_others() -> None:
    """A job whose record can't be read shows in its node's record alone."""
    drive = robbed(thief_at_s=9)
    del drive.jobs[JobId(THIEF)]
    drive = elsewhere(drive)
    drive.requeued(BE)
    for cpus, moves in ((32, False), (33, True)):
        drive.nodes["n1"] = replace(drive.nodes["n1"], held=Tres(cpus=cpus, mem_mib=1))
        drive.cycle(5 + cpus)
        assert bool(bound_to(drive)) is moves, cpus


def test_it_happens_again_and_the_next_one_is_notified() -> None:
    drive = robbed()
    drive.cycle(5)
    drive.requeued(BE)
    drive.jobs[JobId(4)] = replace(drive.jobs[JobId(THIEF)], job_id=JobId(4), start_time=NOW + 8)
    drive.start = drive.start.with_traits(
        {**drive.start.traits, JobId(4): drive.start.traits[JobId(THIEF)]},
    )
    drive.cycle(9)
    assert asked(drive) == [4]


def test_a_thief_that_is_leaving_already_is_awaited_and_no_other_job_is_notified() -> None:
    eighth = share("n1", 8)
    drive = Driver(
        [node("n1")],
        [running(BE, HALF), running(5, eighth), waiting(THIEF, cpus=8), waiting(TE, cpus=24)],
        run_times={THIEF: 1000},
        binds=True,
    )
    drive.obeys(*drive.cycle(0))
    assert asked(drive) == [BE]
    drive.starts(THIEF, eighth, at_s=4)
    drive.completing(THIEF, JobState.COMPLETED)
    drive.cycle(5)
    assert asked(drive) == []
    drive.change(THIEF, state=JobState.RUNNING, flags=frozenset())
    drive.cycle(6)
    assert len(asked(drive)) == 1, "the thief, or job 5, which is as small: the counterpart of the case above"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(protected_users=("eve",)), RefusalCode.PROTECTED_USER),
        (Limits(protected_names=("train",)), RefusalCode.PROTECTED_NAME),
        (Limits(max_preemptions_per_hour=1), RefusalCode.HOUR_LIMIT),
        (Limits(max_preemptions_per_node_hour=1), RefusalCode.NODE_LIMIT),
    ],
)
def test_the_guards_other_limits_hold_and_are_named(limits: Limits, why: RefusalCode) -> None:
    drive = robbed(limits)
    drive.cycle(5)
    assert asked(drive) == []
    assert drive.order().state is OrderState.OPEN
    assert why in {refusal.code for refusal in drive.decision.refusals}


def test_the_order_takes_no_place_of_another_one() -> None:
    drive = robbed(Limits(max_open_orders=1))
    drive.cycle(5)
    assert asked(drive) == [THIEF]


def test_a_job_that_ran_there_before_the_order_is_notified_only_after_its_least_run_time() -> None:
    # It started before there was a victim, so it is no newcomer.
    drive = robbed(Limits(min_run_time_s=30), thief_at_s=-3)
    drive.cycle(5)
    assert asked(drive) == []
    drive.cycle(28)
    assert asked(drive) == [THIEF]


def test_a_job_that_started_between_the_poll_and_a_late_notice_is_a_newcomer() -> None:
    drive = Driver(
        [node("n1"), node("n2")],
        [
            running(BE, HALF),
            running(2, share("n2", 32), requeueable=False),
            waiting(THIEF, cpus=16, name="train", user="eve"),
            waiting(TE, cpus=32),
        ],
        graces={BE: 100, THIEF: 20},
        run_times={THIEF: 1000},
        limits=Limits(min_run_time_s=30),
        binds=True,
    )
    actions = drive.cycle(0)
    drive.obeys(*actions)
    drive.at_s = 8
    drive.says(Status.SENT, *actions)
    drive.starts(THIEF, HALF, at_s=4)
    drive.cycle(9)
    assert asked(drive) == [THIEF]


def test_the_nodes_are_not_fought_for_longer_than_the_trial_is_bound() -> None:
    drive = robbed(Limits(bind_for_s=10), thief_at_s=10.5)
    drive.cycle(11)
    assert asked(drive) == []


def test_it_is_fought_for_while_the_victim_is_in_its_epilog_however_long_that_takes() -> None:
    drive = robbed(Limits(bind_for_s=10), thief_at_s=50)
    drive.jobs[JobId(THIEF)] = waiting(THIEF, cpus=16, name="train", user="eve")
    drive.completing(BE, JobState.FAILED)
    for at_s in (9, 20, 49):
        drive.obeys(*drive.cycle(at_s))
        assert asked(drive) == [], at_s
    drive.starts(THIEF, HALF, at_s=50)
    drive.cycle(51)
    assert asked(drive) == [THIEF]


def test_of_two_that_took_it_the_one_without_a_signal_waits_for_the_other() -> None:
    drive = robbed()
    silent = replace(drive.start.traits[JobId(THIEF)], notice_signal="", grace_period_s=0.0)
    drive.jobs[JobId(4)] = running(4, share("n1", 8), submit_time=NOW, start_time=NOW + 4)
    drive.starts(THIEF, share("n1", 8), at_s=4)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(4): silent})
    drive.requeue_delay_s = 1
    drive.completing(BE, JobState.FAILED)  # for this one none has to wait
    drive.cycle(5)
    assert asked(drive) == [THIEF]
    states = {victim.job_id: victim.state for victim in drive.order().victims}
    assert states == {BE: VictimState.NOTICED, THIEF: VictimState.NOTICED, 4: VictimState.PLANNED}


def test_a_trial_that_may_start_anywhere_is_left_to_slurm() -> None:
    drive = robbed(Limits(bind_for_s=0))
    drive.cycle(5)
    assert asked(drive) == []


def test_no_job_is_notified_during_a_pause() -> None:
    drive = robbed()
    _, decision = step(drive.memory, drive.snapshot(5), drive.entries(), drive.limits, paused="by an admin")
    assert not any(isinstance(action, Notify) for action in decision.actions)


def test_a_cycle_asks_no_more_than_its_limit_in_all() -> None:
    drive = robbed(Limits(max_victims_per_cycle=1))
    drive.nodes["n3"] = node("n3")
    drive.start = replace(
        drive.start, partitions={"p": replace(drive.start.partitions["p"], nodes=frozenset({"n1", "n2", "n3"}))}
    )
    drive.jobs[JobId(5)] = running(5, share("n3", 32))
    drive.jobs[JobId(10)] = waiting(10, cpus=32)
    be, te = drive.start.traits[JobId(BE)], drive.start.traits[JobId(TE)]
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): be, JobId(10): te})
    drive.cycle(5)
    assert asked(drive) == [THIEF]
    assert drive.why_not(10) is RefusalCode.CYCLE_LIMIT
    drive.cycle(6)
    assert asked(drive) == [5]


def elsewhere(drive: Driver, *jobs: Job) -> Driver:
    """Let there be a third node, with these jobs on it."""
    drive.nodes["n3"] = node("n3")
    drive.start = replace(
        drive.start, partitions={"p": replace(drive.start.partitions["p"], nodes=frozenset({"n1", "n2", "n3"}))}
    )
    for job in jobs:
        drive.jobs[job.job_id] = job
        drive.start = drive.start.with_traits({**drive.start.traits, job.job_id: drive.start.traits[JobId(BE)]})
    return drive


def bound_to(drive: Driver) -> list[tuple[str, ...]]:
    return [nodes.names for _, nodes in nodes_set(drive.decision.actions)]


def test_resources_that_are_free_elsewhere_come_before_another_victim() -> None:
    drive = elsewhere(robbed())
    drive.obeys(*drive.cycle(5))
    assert (asked(drive), bound_to(drive)) == ([], [("n3",)])
    assert drive.order().nodes == ("n3",)
    assert drive.cycle(6) == ()
    drive.requeued(BE)
    drive.starts(TE, share("n3", 32), at_s=7)
    drive.cycle(8)
    assert (drive.order().ending, drive.order().futile) == (Ending.STARTED_HERE, False)


def tries_to_move(*, sent: int) -> Driver:
    """Return the case in which job 9 is to be bound to n3, and no command for that has had an answer."""
    drive = elsewhere(robbed())
    for at_s in range(5, 5 + sent):
        actions = drive.cycle(at_s)
        assert bound_to(drive) == [("n3",)], at_s
        kind = FailureKind.UNREACHABLE
        drive.says(Status.FAILED if at_s % 2 else Status.SKIPPED, *actions, kind=kind if at_s % 2 else None)
    return drive


def test_a_binding_elsewhere_is_sent_until_it_arrives_and_the_nodes_before_are_no_word_of_its_users() -> None:
    drive = tries_to_move(sent=20)
    assert (drive.open_orders(), drive.jobs[JobId(TE)].request.required_nodes) == ([1], ("n1",))
    drive.obeys(*drive.cycle(26))
    drive.cycle(27)
    assert (bound_to(drive), drive.jobs[JobId(TE)].request.required_nodes) == ([], ("n3",))


@pytest.mark.parametrize("sent", [1, 2, 3, 4])
@pytest.mark.parametrize("arrives", [False, True])
def test_undo_sets_it_free_where_that_binding_has_not_arrived_or_late(sent: int, arrives: bool) -> None:
    drive = tries_to_move(sent=sent)
    if arrives:
        drive.change(TE, request=replace(drive.jobs[JobId(TE)].request, required_nodes=("n3",)))
    for at_s in (20, 21, 22):
        drive.memory, drive.decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        drive.obeys(*drive.decision.actions)
    assert (drive.jobs[JobId(TE)].request.required_nodes, drive.memory.is_bound(JobId(TE))) == ((), False)


def test_another_victim_is_notified_once_the_first_has_left_where_a_te_job_took_its_resources() -> None:
    """It waited beside free nodes for 25 s: a later TE job was backfilled into the free half of its node."""
    drive = elsewhere(robbed(), running(7, share("n3", 32)))
    te = drive.start.traits[JobId(TE)]
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(THIEF): te})
    drive.cycle(5)
    assert asked(drive) == [], "its victim may yet leave sooner than the thief"
    drive.requeued(BE)
    drive.obeys(*drive.cycle(10))
    assert (asked(drive), bound_to(drive)) == ([7], [("n3",)])
    assert drive.open_orders() == [1]
    assert drive.cycle(10.5) == ()


def test_an_order_that_notified_no_victim_selects_nodes_anew_when_its_resources_are_taken() -> None:
    jobs = [running(BE, HALF), waiting(THIEF, cpus=16), waiting(TE, cpus=16, priority=50)]
    drive = Driver([node("n1")], jobs, run_times={THIEF: 1000}, binds=True)
    drive.obeys(*drive.cycle(0))
    assert (asked(drive), drive.order().nodes) == ([], ("n1",))
    drive.starts(THIEF, HALF, at_s=1)
    drive.cycle(2)
    assert asked(drive) != []
    assert drive.open_orders() == [1], "it is the same order"
