"""An order lives for as long as its victims take to leave, and not for ever.

Everywhere: job 1 holds n1 and has 30 s of grace, job 9 wants half a node, KillWait is 30 s, guard.order_timeout_s and
guard.bind_for_s are 60 s. So an order that nothing holds up is over after 120 s, and the binding after 60 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.leave_times import MOST_TIMES, ending_s, patience_s, with_ending_times
from tesched_core.model.actions import Rerun, kind_of, sets
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, one_node


def asked(*, jobs: int = 1) -> Driver:
    """Return the case in which job 1 is in its Epilog since 31 s; a second one holds n2, and stays."""
    names = [f"n{number}" for number in range(1, jobs + 1)]
    others = [running(2, share("n2", 32), requeueable=False)] if jobs == 2 else []
    drive = Driver(
        [node(name) for name in names],
        [running(BE, share("n1", 32)), *others, waiting(TE, cpus=16)],
        graces={BE: 30},
        binds=True,
    )
    drive.limits = replace(drive.limits, bind_for_s=60)
    drive.obeys(*drive.cycle(0))
    assert [kind_of(action) for action in drive.cycle(30)] == ["requeue"]
    drive.completing(BE, JobState.PENDING)
    drive.cycle(31)
    return drive


def is_bound(drive: Driver) -> bool:
    return drive.jobs[JobId(TE)].request.required_nodes == ("n1",)


def test_a_victim_in_its_epilog_is_awaited_and_the_te_job_keeps_place_and_nodes() -> None:
    drive = asked(jobs=2)
    nice = drive.jobs[JobId(TE)].nice
    for at_s in (60, 91, 121, 150, 250, 400):
        drive.obeys(*drive.cycle(at_s))
        assert (drive.order().state, drive.victim().state) == (OrderState.OPEN, VictimState.REQUEUING), at_s
        assert (is_bound(drive), drive.jobs[JobId(TE)].nice) == (True, nice), at_s
    drive.requeued(BE)
    drive.obeys(*drive.cycle(401))
    assert is_bound(drive), "its node is free, and Slurm has not yet started it"
    drive.starts(TE, HALF, at_s=402)
    drive.cycle(403)
    assert (drive.order().ending, drive.order().futile) == (Ending.STARTED_HERE, False)


def test_once_the_last_victim_has_left_the_time_for_its_start_is_the_usual_one() -> None:
    drive = asked()
    for at_s in (60, 85, 119):
        drive.cycle(at_s)
    drive.requeued(BE)
    for at_s in (120, 149):
        drive.cycle(at_s)
    assert drive.order().state is OrderState.OPEN, "at least half of guard.order_timeout_s is left to it"
    drive.cycle(181)
    assert drive.order().ending is Ending.EXPIRED


def test_bound_for_long_enough_after_a_late_victim_has_left_it_may_start_anywhere() -> None:
    drive = asked(jobs=2)
    for at_s in (61, 90, 120):
        drive.obeys(*drive.cycle(at_s))
    drive.requeued(BE)
    drive.obeys(*drive.cycle(121))
    order = drive.order()
    drive.memory = replace(drive.memory, orders={order.order_id: replace(order, expires_at=1e12)})
    for at_s, bound in ((180, True), (182, False), (183, False)):
        drive.obeys(*drive.cycle(at_s))
        assert is_bound(drive) is bound, at_s
        assert drive.order().state is OrderState.OPEN


def test_what_hangs_is_not_awaited_for_ever() -> None:
    drive = asked()
    for at_s in range(60, 631, 30):
        drive.cycle(at_s)
    assert drive.order().state is OrderState.OPEN, "nothing is known that took longer than 600 s"
    for at_s in (660, 691):
        drive.cycle(at_s)
    assert drive.order().ending is Ending.EXPIRED
    (text,) = [one.text for one in drive.decision.transitions if one.after is OrderState.SETTLING]
    assert f"still completing, in an Epilog or by a process that can't be killed: job {BE} on n1" in text
    drive.cycle(692)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    drive.requeued(BE)
    drive.cycle(700)
    assert drive.order().futile, "its victim has left for nothing"


@pytest.mark.parametrize("where", ["n1", "n7"])
def test_a_node_that_takes_longer_is_awaited_for_longer(where: str) -> None:
    """Where nothing is known of the node itself, what is known of others counts."""
    drive = asked()
    drive.memory = replace(drive.memory, ending_times={where: (70.0, 400.0)})
    for at_s in range(60, 831, 30):
        drive.cycle(at_s)
    assert drive.order().state is OrderState.OPEN
    for at_s in (840, 900):
        drive.cycle(at_s)
    assert drive.order().ending is Ending.EXPIRED


def test_what_is_known_of_a_node_counts_before_what_is_known_of_others() -> None:
    known = {"n1": (70.0, 400.0), "n2": (20.0,)}
    assert [patience_s(known, [name]) for name in ("n1", "n2", "n3")] == [800, 600, 800]
    assert patience_s(known, ["n2", "n1"]) == 800
    assert patience_s({}, ["n1"]) == 600


def test_what_a_victim_took_is_learned_by_its_nodes_whether_it_had_a_notice_or_not() -> None:
    drive = asked()
    drive.cycle(100)
    drive.requeued(BE)
    drive.cycle(130)
    assert drive.memory.ending_times == {"n1": (99.0,)}
    many = with_ending_times({"n1": (1.0,)}, [(("n1", "n2"), float(took_s)) for took_s in range(MOST_TIMES)])
    assert many == {name: tuple(map(float, range(MOST_TIMES))) for name in ("n1", "n2")}


def test_one_that_was_not_seen_to_be_ending_teaches_nothing() -> None:
    drive = asked()
    drive.requeued(BE)
    drive.cycle(40)
    left = drive.victim()
    assert ending_s(left) == 9
    assert ending_s(replace(left, ending_since=None)) is None
    assert ending_s(replace(left, left_at=None)) is None


def test_a_job_that_hung_or_left_while_no_daemon_polled_teaches_no_patience() -> None:
    drive = asked()
    drive.requeued(BE)
    drive.cycle(31 + 172_800)
    assert (drive.victim().left_at, drive.memory.ending_times) == (NOW + 31 + 172_800, {})
    assert with_ending_times({}, [(("n1",), 500.0), (("n1",), 1000.0), (("n1",), 2001.0)]) == {"n1": (500.0, 1000.0)}


@pytest.mark.parametrize("polls", [1, 2])
def test_a_victim_that_some_answers_do_not_show_goes_on_ending(polls: int) -> None:
    drive = asked(jobs=2)
    drive.obeys(*drive.cycle(90))
    shown = drive.jobs[JobId(BE)]
    drive.forgets(BE)
    for number in range(polls):
        drive.obeys(*drive.cycle(125 + number))
    drive.jobs[JobId(BE)] = shown
    drive.obeys(*drive.cycle(130))
    assert (drive.order().state, drive.victim().state) == (OrderState.OPEN, VictimState.REQUEUING)
    assert is_bound(drive)


def test_a_long_grace_period_is_no_part_of_how_long_it_is_awaited() -> None:
    """It dies of its notice at 10 s, and hangs: 7,200 s of grace are left."""
    drive = one_node(grace_s=7200)
    drive.obeys(*drive.cycle(0))
    drive.completing(BE, JobState.FAILED)
    for at_s in (10, *range(40, 601, 30)):
        drive.cycle(at_s)
    assert drive.order().state is OrderState.OPEN
    order = drive.order()
    drive.memory = replace(drive.memory, orders={order.order_id: replace(order, expires_at=NOW + 640)})
    for at_s in (611, 641):
        drive.cycle(at_s)
    assert drive.order().ending is Ending.EXPIRED


def test_one_that_dies_of_its_notice_in_a_long_epilog_is_put_back_though_its_te_job_is_gone() -> None:
    """Its job has ended as FAILED, and nothing but tesched brings it back: it is not one that goes on."""
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.completing(BE, JobState.FAILED)
    drive.ends(TE, JobState.CANCELLED)
    for at_s in (20, 31, 200):
        drive.cycle(at_s)
        assert drive.victim().state is VictimState.NOTICED, at_s
    drive.ends(BE, JobState.FAILED)
    actions = drive.cycle(201)
    assert drive.victim().departure is Departure.DIED_OF_NOTICE
    assert [action.job_id for action in actions if isinstance(action, Rerun)] == [BE]


def test_one_that_ends_by_itself_in_a_long_epilog_does_not_go_on_though_its_te_job_is_gone() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.completing(BE, JobState.COMPLETED)
    drive.ends(TE, JobState.CANCELLED)
    for at_s in (20, 31, 200):
        drive.cycle(at_s)
        assert drive.victim().state is VictimState.NOTICED, at_s
    drive.ends(BE, JobState.COMPLETED)
    drive.cycle(201)
    assert drive.victim().departure is Departure.FINISHED


def test_what_is_leaving_for_a_te_job_that_waits_no_more_is_awaited_by_the_next_one() -> None:
    """The second order needs no victim: the first one's is in its Epilog, which takes minutes."""
    drive = asked()
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(35)
    drive.jobs[JobId(10)] = waiting(10, cpus=16, submit_time=NOW + 36)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(10): drive.start.traits[JobId(TE)]})
    drive.obeys(*drive.cycle(40))
    assert (drive.order(2).victims, drive.order(2).nodes) == ((), ("n1",))
    for at_s in (90, 140, 240, 340):
        drive.cycle(at_s)
        assert drive.order(2).state is OrderState.OPEN, at_s
    drive.requeued(BE)
    for at_s in (341, 371, 410):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED
    assert drive.why_not(10) is RefusalCode.RETRY_LATER


def test_an_order_awaits_no_other_jobs_epilog_when_its_te_job_fits_already() -> None:
    """It needs no victim, and what ends beside it does not hold it up."""
    drive = Driver([node("n1")], [running(BE, HALF), waiting(TE, cpus=16)])
    drive.obeys(*drive.cycle(0))
    assert (drive.order().victims, drive.order().nodes) == ((), ("n1",))
    drive.completing(BE, JobState.COMPLETED)
    for at_s in (40, 80, 91):
        drive.cycle(at_s)
    assert drive.order().ending is Ending.EXPIRED


def test_another_jobs_epilog_on_its_nodes_is_not_awaited_for_it() -> None:
    """Its victim has left; that the job beside it is still ending does not keep the TE job from its start."""
    other = running(2, share("n1", 8))
    drive = Driver([node("n1")], [running(BE, share("n1", 24)), other, waiting(TE, cpus=16)], graces={BE: 30})
    drive.obeys(*drive.cycle(0))
    drive.obeys(*drive.cycle(30))
    drive.completing(2, JobState.COMPLETED)
    for at_s in (31, 100, 121):
        drive.cycle(at_s)
    assert drive.order().ending is Ending.EXPIRED
    assert not any(sets(action, Field.NODES) for action in drive.decision.actions)
