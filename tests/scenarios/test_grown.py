"""A job that asks for more than it had keeps no place that it has by tesched: no victim does, nor a TE job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import OrderId, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import Request
from tesched_core.model.field import Field, NodeCount, Nodes
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Ending, Order, OrderState, Purpose, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.size import size_of

from tests.builders import NOW, by_job, node, running, share, waiting
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
    assert any("its nice is put back: it asks for " in one.text for one in drive.decision.transitions)
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
    """A preemptor is at the head of its queue: as what it was then."""

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
        assert JobId(TE) in by_job(drive.memory, "retry_at")

    def test_a_job_with_an_unknown_request_is_left_alone(self) -> None:
        drive = one_node()
        drive.obeys(*drive.cycle(0))
        (order,) = drive.memory.orders.values()
        drive.memory = replace(drive.memory, orders={order.order_id: replace(order, size=None)})
        drive.change(TE, time_limit_s=604_800)
        drive.cycle(2)
        assert drive.order().state is OrderState.OPEN


def test_a_job_that_a_policy_moves_to_more_nodes_has_not_grown() -> None:
    """It is bound to two nodes in place of one, waits for them, and stays comparable to a victim that waits, too."""
    moved, victim = waiting(1, Request(cpus=32, max_nodes=4, mem_per_node_mib=1)), waiting(2, cpus=32)
    drive = Driver(
        [node("n1"), node("n2"), node("n3")],
        [replace(moved, restarts=1), replace(victim, restarts=1), running(TE, share("n3", 32))],
        run_times={1: 600.0, 2: 600.0},
        binds=True,
    )
    left = Victim(
        job_id=JobId(1),
        state=VictimState.LEFT,
        restarts=0,
        grace_period_s=0.0,
        notice_signal="",
        notice_target=Target.BATCH,
        score=1.0,
        nodes=("n3",),
        started_at=NOW - 100,
        purpose=Purpose.ROUND,
        left_at=NOW - 3,
        departure=Departure.REQUEUED,
        size=size_of(moved),
    )
    move = Order(
        order_id=OrderId(1),
        preemptor=JobId(1),
        state=OrderState.OPEN,
        created_at=NOW - 5,
        expires_at=NOW + 500,
        nodes=("n1", "n2"),
        victims=(left,),
        size=size_of(moved),
    )
    ended = replace(move, order_id=OrderId(2), preemptor=JobId(TE), state=OrderState.SETTLING, nodes=("n3",), size=None)
    ended = replace(ended, victims=(replace(left, job_id=JobId(2), purpose=Purpose.TE, size=size_of(victim)),))
    count, own = NodeCount(least=2, most=2, tasks=2, cpus=64), NodeCount(least=1, most=4, tasks=1, cpus=32)
    bound = Change(
        job_id=JobId(1),
        field=Field.NODES,
        previous=Nodes(count=own),
        value=Nodes(names=("n1", "n2"), count=count),
        at=NOW - 3,
        since=NOW - 3,
        order_id=OrderId(1),
    )
    request = replace(moved.request, min_nodes=2, max_nodes=2, cpus=64, tasks=2, required_nodes=("n1", "n2"))
    drive.jobs[JobId(1)] = replace(drive.jobs[JobId(1)], request=request)
    drive.memory = replace(
        drive.memory,
        orders={OrderId(1): move, OrderId(2): ended},
        next_order=OrderId(3),
        changes={Field.NODES: {JobId(1): bound}},
    )
    raises = 0
    for at_s in range(0, 20, 2):
        drive.obeys(*drive.cycle(at_s))
        raises += sum(sets(one, Field.NICE) for one in drive.decision.actions)
    assert drive.order(1).state is OrderState.OPEN
    assert raises == 1, "neither is put ahead of the other again and again"
