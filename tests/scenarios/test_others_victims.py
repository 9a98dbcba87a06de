"""A TE job starts in what another one's victim has freed, while its own victim still saves: the other one gets that.

Everywhere: job 1 and job 2 hold half of n1 each, TE jobs 9 and 10 want half a node each. Job 1 has a grace period of
300 s; job 2 has declared no signal. Job 1 has its notice for job 9 at 0 s, job 2 is requeued for job 10 at 50 s, and
has left at 80 s, when job 9, which is first in the queue, starts in its place. KillWait is 30 s, guard.order_timeout_s
60 s: the order for job 10 would be over after 140 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tesched_core.model.actions import Requeue
from tesched_core.model.cluster import JobState, NodeShare, Request
from tesched_core.model.limits import Bound
from tesched_core.model.order import Ending, OrderState, Purpose, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NODE_MEM_MIB, NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

QUICK, LATER = 2, 10
#: half a node, with its memory: of a job that is suspended the CPUs alone are free
PART = share("n1", 16, NODE_MEM_MIB // 2)
OTHER, SECOND = 3, 21


def requeued_by(drive: Driver) -> list[int]:
    return [one.job_id for one in drive.decision.actions if isinstance(one, Requeue)]


def eighths(mine: Sequence[int], quick: int, *others: int) -> Driver:
    """Return the case at 81 s where jobs hold so many eighths of n1, and each TE job wants what its victims hold."""

    def held(many: int) -> NodeShare:
        return share("n1", 4 * many, NODE_MEM_MIB // 8 * many)

    wants = [Request(cpus=4 * many, mem_per_node_mib=NODE_MEM_MIB // 8 * many) for many in (sum(mine), quick)]
    victims = [running(job_id, held(many)) for job_id, many in zip((BE, OTHER), mine, strict=False)]
    stay = [running(20 + place, held(many), requeueable=False) for place, many in enumerate(others)]
    jobs = [*victims, running(QUICK, held(quick), requeueable=False), *stay, waiting(TE, wants[0])]
    drive = Driver([node("n1")], jobs, graces={BE: 300, OTHER: 300})
    said = drive.start.traits[JobId(QUICK)]
    drive.start = drive.start.with_traits(
        {**drive.start.traits, JobId(QUICK): replace(said, notice_signal="", grace_period_s=0.0)}
    )
    drive.obeys(*drive.cycle(0))
    drive.jobs[JobId(QUICK)] = replace(drive.jobs[JobId(QUICK)], requeueable=True)
    drive.submits(waiting(LATER, wants[1], submit_time=NOW + 50), like=TE)
    drive.obeys(*drive.cycle(50))
    assert requeued_by(drive) == [QUICK]
    drive.requeued(QUICK)
    drive.starts(TE, held(sum(mine)), at_s=80)
    drive.cycle(81)
    assert (drive.order(1).ending, drive.order(2).state) == (Ending.STARTED_HERE, OrderState.OPEN)
    return drive


def taken() -> Driver:
    """Return the case of the module's docstring at 81 s."""
    return eighths((4,), 4)


def states(drive: Driver) -> tuple[VictimState, OrderState]:
    return drive.victim(1).state, drive.order(2).state


def test_its_order_lasts_until_the_other_ones_victim_has_left() -> None:
    drive = taken()
    for at_s in (111, 141, 171, 200):
        drive.obeys(*drive.cycle(at_s))
        assert states(drive) == (VictimState.NOTICED, OrderState.OPEN), at_s
    drive.requeued(BE)
    drive.starts(LATER, PART, at_s=201)
    drive.cycle(202)
    assert (drive.order(2).ending, drive.order(2).futile) == (Ending.STARTED_HERE, False)


def test_a_victim_that_sits_its_grace_period_out_is_requeued_for_it() -> None:
    drive = taken()
    for at_s in range(111, 300, 30):
        drive.obeys(*drive.cycle(at_s))
    drive.cycle(300)
    assert (requeued_by(drive), states(drive)) == ([BE], (VictimState.REQUEUING, OrderState.OPEN))
    drive.completing(BE, JobState.PENDING)
    for at_s in (330, 360, 390):
        drive.cycle(at_s)
        assert states(drive) == (VictimState.REQUEUING, OrderState.OPEN), "it is in its Epilog"
    drive.requeued(BE)
    drive.starts(LATER, PART, at_s=391)
    drive.cycle(392)
    assert (drive.order(2).ending, drive.order(2).futile) == (Ending.STARTED_HERE, False)


def test_it_goes_on_where_the_later_one_waits_no_more() -> None:
    drive = taken()
    drive.ends(LATER, JobState.CANCELLED)
    for at_s in (111, 300):
        drive.cycle(at_s)
    assert (requeued_by(drive), drive.victim(1).state) == ([], VictimState.SPARED)


def test_it_goes_on_where_its_own_te_job_has_taken_nothing_there() -> None:
    drive = taken()
    drive.nodes["n2"] = node("n2")
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], allocation=(share("n2", 16, NODE_MEM_MIB // 2),))
    drive.jobs[JobId(30)] = running(30, PART)
    drive.cycle(111)
    drive.cycle(300)
    assert (requeued_by(drive), drive.victim(1).state) == ([], VictimState.SPARED)


def test_it_goes_on_where_its_order_was_withdrawn() -> None:
    drive = taken()
    withdrawn = replace(drive.order(1), ending=Ending.WITHDRAWN)
    drive.memory = replace(drive.memory, orders={**drive.memory.orders, withdrawn.order_id: withdrawn})
    drive.cycle(111)
    drive.cycle(300)
    assert (requeued_by(drive), drive.victim(1).state) == ([], VictimState.SPARED)


def test_it_goes_on_where_it_was_to_leave_for_the_turn_of_a_best_effort_job() -> None:
    drive = taken()
    (victim,) = drive.order(1).victims
    turn = replace(drive.order(1), victims=(replace(victim, purpose=Purpose.ROUND),))
    drive.memory = replace(drive.memory, orders={**drive.memory.orders, turn.order_id: turn})
    for at_s in (111, 141):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED
    drive.cycle(300)
    assert (requeued_by(drive), drive.victim(1).state) == ([], VictimState.SPARED)


def test_it_goes_on_where_the_later_one_fits_without() -> None:
    drive = taken()
    drive.ends(TE)
    for at_s in (111, 141):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED, "what it needs has been free for a minute"
    drive.cycle(300)
    assert (requeued_by(drive), drive.victim(1).state) == ([], VictimState.SPARED)


@pytest.mark.parametrize("nothing_more", ["suspended", "gone"])
def test_it_is_not_awaited_where_it_leaves_nothing(nothing_more: str) -> None:
    drive = taken()
    if nothing_more == "suspended":
        drive.change(BE, state=JobState.SUSPENDED)
    else:
        drive.ends(BE)
        drive.jobs[JobId(3)] = running(3, PART)
    for at_s in (111, 141):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED


def test_it_is_not_awaited_where_that_is_not_enough() -> None:
    drive = taken()
    drive.ends(TE)
    drive.jobs[JobId(3)] = running(3, share("n1", 17))
    for at_s in (111, 141):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED, "job 3 holds 17 of 32 CPUs, and stays"


def test_of_two_that_are_over_at_once_the_one_that_is_enough_is_requeued() -> None:
    drive = eighths((1, 1), 4, 1, 1)
    for at_s in range(111, 300, 30):
        drive.obeys(*drive.cycle(at_s))
    drive.ends(SECOND)
    drive.cycle(300)
    states = {one.job_id: one.state for one in drive.order(1).victims}
    assert (requeued_by(drive), states[JobId(OTHER)]) == ([BE], VictimState.SPARED)


def test_with_a_bound_an_order_is_over_in_the_time_of_its_own_victims() -> None:
    drive = taken()
    drive.limits = replace(drive.limits, bound=Bound(slowdown=100.0, te_time_limit_s=600))
    for at_s in (111, 141):
        drive.cycle(at_s)
    assert drive.order(2).ending is Ending.EXPIRED


@pytest.mark.parametrize("thief", [False, True])
def test_it_goes_on_where_what_it_holds_is_not_enough_any_more(*, thief: bool) -> None:
    drive = eighths((2,), 4, 2)
    for at_s in range(111, 300, 30):
        drive.obeys(*drive.cycle(at_s))
    if thief:
        drive.jobs[JobId(30)] = running(30, share("n1", 8, NODE_MEM_MIB // 4))
    drive.cycle(300)
    assert drive.order(2).state is OrderState.OPEN
    assert requeued_by(drive) == ([] if thief else [BE])


def test_what_another_ones_victim_leaves_over_is_awaited_where_its_resources_were_taken() -> None:
    """Job 3 starts where job 2 has left, and job 9 is bound to n2: job 1 leaves it for job 10, and 12 CPUs are over."""
    jobs = [running(BE, share("n2", 32), requeueable=False), running(QUICK, HALF), waiting(TE, cpus=12)]
    stays = running(4, HALF, requeueable=False)
    drive = Driver([node("n1"), node("n2")], [*jobs, stays], graces={BE: 300}, binds=True)
    quick = replace(drive.start.traits[JobId(QUICK)], notice_signal="", grace_period_s=0.0)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(QUICK): quick})
    drive.obeys(*drive.cycle(0))
    assert requeued_by(drive) == [QUICK]
    drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], requeueable=True)
    drive.submits(waiting(LATER, cpus=20, submit_time=NOW + 10), like=TE)
    drive.obeys(*drive.cycle(10))
    assert drive.victim(2).job_id == BE
    drive.requeued(QUICK)
    drive.submits(running(3, HALF, requeueable=False), like=QUICK)
    drive.obeys(*drive.cycle(30))
    assert (drive.order(1).nodes, drive.order(1).expires_at) == (("n2",), NOW + 90)
    for at_s in (61, 91, 151, 211, 271):
        drive.obeys(*drive.cycle(at_s))
        assert drive.order(1).state is OrderState.OPEN, at_s
    drive.requeued(BE)
    drive.starts(TE, share("n2", 12), at_s=300)
    drive.cycle(301)
    assert (drive.order(1).ending, drive.order(1).futile) == (Ending.STARTED_HERE, False)
