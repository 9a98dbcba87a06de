"""A victim that stays, since new rules protect it before its notice: no other one leaves for what is then too little.

As in `test_leave_together.py`: job 1 and job 2 hold half of n1 each, job 9 wants all of it; job 1 has had its notice,
and job 2 is to leave when job 1 is about to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Reservation
from tesched_core.model.order import Ending, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.placement import awaits_reservation

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver
from tests.scenarios.test_leave_together import OTHER_HALF, QUICK, asked, state_of, two

MINE, THIRD = "of the chief", 5


def protects(drive: Driver) -> None:
    drive.limits = replace(drive.limits, protected_names=(MINE,))


def exempts(drive: Driver) -> None:
    traits = drive.start.traits
    drive.start = drive.start.with_traits(
        {**traits, JobId(QUICK): replace(traits[JobId(QUICK)], job_class=JobClass.EXEMPT)}
    )


def cannot_start_again(drive: Driver) -> None:
    drive.change(QUICK, requeueable=False)


def order_of_two() -> Driver:
    drive = two()
    drive.change(QUICK, name=MINE)
    return drive


@pytest.mark.parametrize("stays", [protects, exempts, cannot_start_again])
def test_the_order_ends_before_the_other_victim_leaves(stays: Callable[[Driver], None]) -> None:
    drive = order_of_two()
    drive.cycle(10)
    stays(drive)
    # The grace period of job 1 is over in this very poll, which no longer requeues it.
    assert asked(drive.cycle(60)) == []
    assert drive.order().ending is Ending.CHANGED
    assert state_of(drive, QUICK) is VictimState.SPARED
    assert asked(drive.cycle(61)) == []
    assert drive.open_orders() == []


def test_what_is_to_be_left_to_the_other_is_said() -> None:
    drive = order_of_two()
    protects(drive)
    drive.cycle(10)
    (why,) = (one.text for one in drive.decision.transitions if one.job_id is None)
    assert why == "victim 2 stays, and without it too little comes free: the site protects it by now"


def test_where_another_job_may_leave_in_its_place_a_new_order_has_that_one() -> None:
    drive = order_of_two()
    drive.nodes["n2"] = node("n2")
    there = {name: replace(one, nodes=one.nodes | {"n2"}) for name, one in drive.start.partitions.items()}
    drive.start = replace(drive.start, partitions=there)
    drive.submits(running(THIRD, share("n2", 32)), like=QUICK)
    protects(drive)
    drive.obeys(*drive.cycle(10))  # its place in the queue is put back first
    assert [one for at_s in (70, 71) for one in asked(drive.cycle(at_s))] == [("requeue", THIRD)]


def test_where_the_other_has_left_the_order_goes_on() -> None:
    drive = order_of_two()
    drive.requeued(BE)
    protects(drive)
    assert asked(drive.cycle(10)) == []
    assert drive.order().ending is None
    assert state_of(drive, QUICK) is VictimState.SPARED


def test_a_victim_that_has_had_its_notice_leaves_all_the_same() -> None:
    drive = two()
    drive.change(BE, name=MINE)
    protects(drive)
    assert asked(drive.cycle(60)) == [("requeue", BE), ("requeue", QUICK)]


def test_a_victim_that_was_chosen_in_doubt_is_not_withheld_for_that_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A maintenance is ahead, and there are more shapes of jobs than a poll weighs: job 0's is the last one."""
    monkeypatch.setattr(awaits_reservation, "MOST_SHAPES", 1)
    nodes = frozenset({"n1", "n2"})
    ahead = Reservation(name="maintenance", nodes=nodes, start_time=NOW + 86400, end_time=NOW + 90000)
    jobs = [running(0, share("n2", 32)), running(BE, HALF), running(QUICK, OTHER_HALF)]
    endless = [replace(one, time_limit_s=None) for one in jobs]
    trial = replace(waiting(TE, cpus=32), time_limit_s=600)
    drive = Driver([node("n1"), node("n2")], [*endless, trial], graces={BE: 60})
    traits = drive.start.traits
    quick = replace(traits[JobId(QUICK)], notice_signal="", grace_period_s=0.0)
    drive.start = replace(drive.start, reservations={ahead.name: ahead}).with_traits({**traits, JobId(QUICK): quick})
    assert asked(drive.cycle(0)) == [("notify", BE)]
    assert asked(drive.cycle(10)) == []
    assert drive.open_orders() == [1]
