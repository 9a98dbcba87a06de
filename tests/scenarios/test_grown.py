"""A job that asks for more than it had keeps no place that it has by tesched: no victim does, nor a TE job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Request
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, brought_forward, nice_back, one_node

OTHER = 5
SMALL = Request(cpus=32, mem_per_node_mib=1)
BIG = Request(cpus=32, mem_per_node_mib=1, gres_per_node=(("gpu", 8),))


def waits_ahead() -> Driver:
    """Return the case of a victim that was put ahead of another user's job and has not started yet."""
    drive = Driver(
        [node("n1", gres={"gpu": 8})],
        [
            replace(running(BE, share("n1", 32), user="ada", time_limit_s=600), request=SMALL),
            waiting(TE, cpus=16, user="carl"),
            waiting(OTHER, cpus=32, priority=900, user="bob"),
        ],
        run_times={OTHER: 600.0},
    )
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    assert drive.jobs[JobId(BE)].nice == -1301
    return drive


@pytest.mark.parametrize(
    "fields",
    [
        {"request": BIG},
        {"time_limit_s": 601},
        {"partitions": ("p", "big")},
        {"request": Request(cpus=32, min_nodes=2, mem_per_node_mib=1)},
    ],
)
def test_a_victim_that_asks_for_more_loses_its_place(fields: dict[str, Any]) -> None:
    drive = waits_ahead()
    before = drive.jobs[JobId(BE)]
    drive.jobs[JobId(BE)] = replace(before, **fields)
    drive.cycle(6)
    assert drive.decision.actions == (nice_back(0, job=BE, preemptor=TE, now=-1301),)
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(8) == ()
    assert drive.cycle(10) == (), "it is not put ahead again"

    # As it was it has its place again.
    drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], request=before.request, time_limit_s=600, partitions=("p",))
    assert drive.cycle(12) == (brought_forward(-1301),)


@pytest.mark.parametrize(
    "fields",
    [
        {"request": Request(cpus=16, mem_per_node_mib=1)},
        {"time_limit_s": 300},
        {"name": "again"},
        {"request": BIG, "partly_read": "its record is being read"},
    ],
)
def test_one_that_asks_for_less_or_is_not_read_whole_keeps_it(fields: dict[str, Any]) -> None:
    drive = waits_ahead()
    drive.jobs[JobId(BE)] = replace(drive.jobs[JobId(BE)], **fields)
    assert drive.cycle(6) == ()


def test_one_that_grew_in_the_very_moment_of_its_requeue_gets_none() -> None:
    drive = one_node()
    drive.jobs[JobId(OTHER)] = waiting(OTHER, cpus=32, priority=900)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(OTHER): drive.start.traits[JobId(BE)]})
    drive.change(BE, request=SMALL)
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.change(BE, request=BIG)
    drive.starts(TE, HALF, at_s=3)
    drive.obeys(*drive.cycle(4))
    assert drive.jobs[JobId(BE)].nice == 0
    assert drive.victim().state is VictimState.LEFT


class TestTrial:
    """A TE job for which room is made is at the head of its queue: as what it was then."""

    @pytest.mark.parametrize(
        "fields",
        [{"request": Request(cpus=17, mem_per_node_mib=1)}, {"time_limit_s": 604_800}, {"partitions": ("main",)}],
    )
    def test_one_that_grows_ends_its_order(self, fields: dict[str, Any]) -> None:
        drive = Driver(
            [node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16, time_limit_s=600)], graces={BE: 30.0}
        )
        drive.obeys(*drive.cycle(0))
        drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], **fields)
        drive.cycle(2)
        assert (drive.order().ending, drive.order().state) == (Ending.GROWN, OrderState.SETTLING)
        assert drive.decision.actions == (nice_back(0, now=-1001),)
        drive.obeys(*drive.decision.actions)
        drive.cycle(31)
        assert drive.victim().state is VictimState.SPARED, "it stays when its grace period is over"
        assert JobId(TE) in drive.memory.retry_at

    def test_one_of_which_is_not_known_what_it_asked_for_is_left_alone(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        (order,) = drive.memory.orders.values()
        drive.memory = replace(drive.memory, orders={order.order_id: replace(order, size=None)})
        drive.change(TE, time_limit_s=604_800)
        drive.cycle(2)
        assert drive.order().state is OrderState.OPEN
