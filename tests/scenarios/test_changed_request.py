"""A TE job whose user changes its request during its order: its victims do not leave for what serves it no more.

Everywhere, unless said otherwise: jobs 1 and 2 hold n1 and n2, each with time to save its work; job 9 wants half a node
and job 1 has its notice for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import Notify, Requeue
from tesched_core.model.cluster import Job, JobState, Node, Request, Reservation
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

Change = Callable[[Request], Request]
SMALL = Request(cpus=16, mem_per_node_mib=1)
TWO_NODES = Request(cpus=64, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
GRACE_S = 60


def nodes() -> list[Node]:
    return [replace(node(name), features=frozenset({"ssd", name})) for name in ("n1", "n2")]


def with_notices(
    request: Request = SMALL, *, binds: bool = True, array: bool = False, site: list[Node] | None = None
) -> Driver:
    """Return the case after the notices, seen once more."""
    trial = waiting(TE, request)
    if array:
        trial = replace(trial, array_job_id=JobId(TE), array_tasks="0-3")
    drive = Driver(
        site or nodes(),
        [running(BE, share("n1", 32)), running(2, share("n2", 32)), trial],
        graces={BE: GRACE_S, 2: GRACE_S + 1},
        binds=binds,
    )
    drive.obeys(*drive.cycle(0))
    drive.cycle(1)
    return drive


def asks_for(drive: Driver, change: Change) -> None:
    drive.change(TE, request=change(drive.jobs[JobId(TE)].request))


def left_in_the_end(drive: Driver) -> list[int]:
    """Return the jobs that are requeued for order 1, or may leave for it still."""
    gone: list[int] = []
    for at_s in (6, 30, GRACE_S + 1, GRACE_S + 2, GRACE_S + 3):
        actions = drive.cycle(at_s)
        gone += [one.job_id for one in actions if isinstance(one, Requeue) and one.reason.order_id == 1]
        drive.obeys(*actions)
    moved = [job_id for job_id, _, after in drive.moves() if after == VictimState.SPARED]
    return gone + [
        victim.job_id
        for order in drive.memory.orders.values()
        if order.order_id == 1
        for victim in order.victims
        if victim.job_id not in moved
    ]


ELSEWHERE: dict[str, Change] = {
    "excluded": lambda request: replace(request, excluded_nodes=("n1",)),
    "other node": lambda request: replace(request, required_nodes=("n2",)),
    "one node more": lambda request: replace(request, required_nodes=("n1", "n2")),
    "feature": lambda request: replace(request, features="ssd&n2"),
}


@pytest.mark.parametrize("what", ELSEWHERE)
@pytest.mark.parametrize("array", [False, True], ids=["job", "array"])
def test_no_victim_leaves_for_a_job_that_may_not_start_there_any_more(what: str, array: bool) -> None:
    drive = with_notices(array=array)
    asks_for(drive, ELSEWHERE[what])
    drive.obeys(*drive.cycle(5))
    assert drive.order().ending is Ending.CHANGED
    (text,) = texts(drive)
    assert text.count(" asks for other nodes than when the order was made: ")
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1, "and it is remembered"
    assert left_in_the_end(drive) == []


def texts(drive: Driver) -> list[str]:
    """Return what the last cycle says of order 1."""
    return [one.text for one in drive.decision.transitions if one.order_id == 1 and one.job_id is None]


@pytest.mark.parametrize("fields", [{"partitions": ("q",)}, {"reservation": "r"}], ids=["partition", "reservation"])
def test_nor_for_one_with_a_partition_or_reservation_of_other_nodes(fields: dict[str, Any]) -> None:
    drive = with_notices()
    everywhere = drive.start.partitions["p"]
    drive.start = replace(
        drive.start,
        partitions={"p": everywhere, "q": replace(everywhere, name="q", nodes=frozenset({"n2"}))},
        reservations={"r": Reservation(name="r", nodes=frozenset({"n2"}), start_time=NOW, end_time=NOW + 1e6)},
    )
    job: Job = drive.jobs[JobId(TE)]
    (order,) = drive.memory.orders.values()
    size = replace(order.size, partitions=("p", "q")) if order.size else None
    drive.memory = replace(drive.memory, orders={order.order_id: replace(order, size=size)})
    drive.jobs[job.job_id] = replace(job, **fields)
    drive.cycle(5)
    assert drive.order().ending is Ending.CHANGED


def test_other_resources_are_freed_at_once_the_first_time_and_later_the_second() -> None:
    drive = with_notices()
    asks_for(drive, ELSEWHERE["excluded"])
    drive.obeys(*drive.cycle(5))
    drive.cycle(6)  # its priority and its nodes are seen to be back
    actions = drive.cycle(7)
    assert [one.job_id for one in actions if isinstance(one, Notify)] == [2]
    drive.obeys(*actions)
    asks_for(drive, lambda request: replace(request, excluded_nodes=("n2",)))
    drive.obeys(*drive.cycle(20))
    assert drive.open_orders() == []
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 20 + 600}


def test_a_job_waits_for_its_next_order_once_its_victim_has_left() -> None:
    drive = with_notices()
    drive.requeued(BE)
    drive.obeys(*drive.cycle(4))
    asks_for(drive, ELSEWHERE["excluded"])
    drive.cycle(5)
    assert (drive.order().ending, drive.order().futile) == (Ending.CHANGED, True)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 5 + 300}


@pytest.mark.parametrize(
    "change",
    [
        lambda request: request,
        lambda request: replace(request, required_nodes=()),
        lambda request: replace(request, required_nodes=("n1",)),
        lambda request: replace(request, excluded_nodes=("n2",)),
        lambda request: replace(request, features="ssd"),
        lambda request: replace(request, features="gone|n1"),
        lambda request: replace(request, features="[n1|n2]"),
        lambda request: replace(request, features="by-a-reboot"),
        lambda request: replace(request, cpus=8),
    ],
    ids=["same", "none", "its own", "another", "feature", "either", "of all", "reboot", "fewer CPUs"],
)
@pytest.mark.parametrize("binds", [False, True])
def test_an_order_that_serves_it_still_goes_on(change: Change, binds: bool) -> None:
    drive = with_notices(binds=binds)
    asks_for(drive, change)
    drive.obeys(*drive.cycle(5))
    assert drive.open_orders() == [1]


@pytest.mark.parametrize("fields", [{"partly_read": "its record is being read"}, {"doubt": "its record is unreadable"}])
def test_nothing_is_concluded_of_a_job_that_is_not_read_whole(fields: dict[str, Any]) -> None:
    drive = with_notices()
    asks_for(drive, ELSEWHERE["excluded"])
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], **fields)
    drive.cycle(5)
    assert drive.open_orders() == [1]


def test_nor_of_features_of_a_node_that_has_not_reported() -> None:
    drive = with_notices()
    asks_for(drive, lambda request: replace(request, features="n1"))
    drive.nodes["n1"] = replace(drive.nodes["n1"], features=frozenset(), state="UNKNOWN")
    drive.nodes["n2"] = replace(drive.nodes["n2"], features=frozenset({"n1"}))
    drive.cycle(5)
    assert drive.open_orders() == [1]


def test_a_binding_that_is_on_its_way_is_no_word_of_the_jobs_user() -> None:
    drive = with_notices()
    drive.change(TE, request=SMALL)  # lost
    drive.cycle(7)
    drive.cycle(8)
    assert drive.open_orders() == [1]


def test_a_binding_that_slurmctld_was_to_forget_is_none_either() -> None:
    drive = with_notices()
    drive.limits = replace(drive.limits, retry_after_s=1)
    asks_for(drive, ELSEWHERE["excluded"])
    for at_s in (5, 6):
        drive.obeys(*drive.cycle(at_s))
    drive.ends(2)
    drive.submits(waiting(5, cpus=32, priority=900), like=BE)
    drive.obeys(*drive.cycle(7))
    assert (drive.order(2).nodes, drive.order(2).victims) == (("n2",), ())
    # A slurmctld that was restarted shows nodes and exclusions as they were before the order ended.
    drive.change(TE, request=replace(SMALL, required_nodes=("n1",)))
    drive.cycle(9)
    assert drive.open_orders() == [2]


def test_an_order_without_victims_is_made_anew_elsewhere() -> None:
    drive = Driver(
        nodes(), [running(BE, HALF), waiting(TE, cpus=16), waiting(5, cpus=32, priority=900)], run_times={5: 100}
    )
    drive.obeys(*drive.cycle(0))
    before = drive.order()
    assert before.victims == ()
    asks_for(drive, lambda request: replace(request, excluded_nodes=before.nodes))
    drive.obeys(*drive.cycle(5))
    assert drive.order().ending is Ending.CHANGED
    drive.cycle(6)
    assert drive.order(2).nodes != before.nodes
    assert by_job(drive.memory, "retry_at") == {}


class TestLess:
    """It asks for less, so that fewer victims are enough."""

    @pytest.mark.parametrize(
        "less",
        [
            lambda request: replace(request, cpus=16, tasks=1, min_nodes=1, max_nodes=1),
            lambda request: replace(request, cpus=16, tasks=1, min_nodes=1),
        ],
        ids=["one node", "one or two"],
    )
    @pytest.mark.parametrize("array", [False, True], ids=["job", "array"])
    def test_no_victim_leaves_though_one_would_be_enough(self, less: Change, array: bool) -> None:
        drive = with_notices(TWO_NODES, array=array)
        assert [one.job_id for one in drive.order().victims] == [1, 2]
        asks_for(drive, less)
        drive.obeys(*drive.cycle(5))
        assert drive.order().ending is Ending.CHANGED
        (text,) = texts(drive)
        assert text.endswith(" asks for less than when the order was made: job 1 need not leave for it")
        assert left_in_the_end(drive) == []

    @pytest.mark.parametrize("how", ["left", "ending", "requeued", "suspended", "silent"])
    def test_one_goes_on_once_a_victim_leaves(self, how: str) -> None:
        """What it leaves is for this order's job: without the order others would take it, and it left in vain.

        While its node has not reported it may have left.
        """
        drive = with_notices(TWO_NODES)
        if how == "left":
            drive.requeued(BE)
        elif how == "ending":
            drive.completing(BE, JobState.FAILED)
        elif how == "silent":
            drive.nodes["n1"] = replace(drive.nodes["n1"], state="UNKNOWN")
        else:
            (order,) = drive.memory.orders.values()
            first, second = order.victims
            after = (
                replace(first, state=VictimState.REQUEUING, requeue_sent_at=NOW + 4)
                if how == "requeued"
                else replace(first, state=VictimState.SUSPENDED, suspended_at=NOW + 4)
            )
            drive.memory = replace(drive.memory, orders={order.order_id: replace(order, victims=(after, second))})
            if how == "suspended":
                drive.change(BE, state=JobState.SUSPENDED, priority=0)
        asks_for(drive, lambda request: replace(request, cpus=16, tasks=1, min_nodes=1, max_nodes=1))
        drive.cycle(5)
        drive.cycle(6)
        assert drive.open_orders() == [1]

    def test_an_order_with_victims_that_are_all_needed_still_goes_on(self) -> None:
        drive = with_notices(TWO_NODES)
        asks_for(drive, lambda request: replace(request, cpus=32))
        drive.cycle(5)
        assert drive.open_orders() == [1]

    def test_one_goes_on_of_a_job_that_asks_for_as_much_though_resources_came_free(self) -> None:
        drive = with_notices()
        drive.ends(2)
        drive.nodes["n1"] = replace(drive.nodes["n1"], total=replace(drive.nodes["n1"].total, cpus=64))
        drive.cycle(5)
        assert drive.open_orders() == [1]

    def test_what_another_order_has_reserved_is_not_enough(self) -> None:
        """Job 1 would leave 16 CPUs to each of two TE jobs; the second now wants 8."""
        drive = Driver(
            [node("n1")],
            [running(BE, HALF), running(2, HALF), waiting(TE, cpus=16), waiting(10, cpus=16)],
            graces={BE: GRACE_S, 2: GRACE_S},
            limits=Limits(max_open_orders=5),
        )
        drive.obeys(*drive.cycle(0))
        assert drive.open_orders() == [1, 2]
        drive.change(10, request=replace(SMALL, cpus=8))
        drive.cycle(5)
        assert drive.open_orders() == [1, 2]

    def test_a_size_that_is_not_known_is_not_compared(self) -> None:
        drive = with_notices(TWO_NODES)
        (order,) = drive.memory.orders.values()
        drive.memory = replace(drive.memory, orders={order.order_id: replace(order, size=None)})
        asks_for(drive, lambda request: replace(request, cpus=16, tasks=1, min_nodes=1, max_nodes=1))
        drive.cycle(5)
        assert drive.order().state is OrderState.OPEN


def test_one_that_slurm_holds_for_that_is_changed_all_the_same() -> None:
    # required and excluded at once, it has BadConstraints in Slurm's next pass, and no priority
    drive = with_notices()
    asks_for(drive, lambda request: replace(request, excluded_nodes=("n1",), required_nodes=("n1",)))
    drive.change(TE, reason="BadConstraints", priority=0, flags=frozenset())
    drive.cycle(2)
    assert drive.order().ending is Ending.CHANGED
