"""Nodes that are taken out of service while an order waits for them.

Everywhere: job 1 holds n1, job 2 holds n2 and may be no victim, job 9 wants half a node; job 1 leaves for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, Requeue, SetField, sets
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

from tests.builders import NOW, by_job, node, running, share, traits, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

DRAINED = frozenset({"DRAIN"})
LIMITS = Limits(order_timeout_s=60, retry_after_s=300, bind_for_s=600)
#: job 1 has left by then
LEFT_S = 10


def leaving() -> Driver:
    """Return a site where job 1 is put back in the queue as n1 is drained."""
    jobs = [running(BE, share("n1", 32)), running(2, share("n2", 32), requeueable=False), waiting(TE, cpus=16)]
    drive = Driver([node("n1"), node("n2")], jobs, limits=LIMITS, graces={BE: 0}, binds=True)
    drive.obeys(*(one for one in drive.cycle(0) if not isinstance(one, Requeue)))  # it takes its time to end
    drive.cycle(1)
    assert (drive.victim().state, bound_to(drive)) == (VictimState.REQUEUING, ("n1",))
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=DRAINED)
    drive.obeys(*drive.cycle(2))
    return drive


def with_left() -> Driver:
    """Return one where job 1 has left n1, which stays as it is."""
    drive = leaving()
    drive.requeued(BE)
    drive.obeys(*drive.cycle(LEFT_S))
    assert drive.victim().left_at == NOW + LEFT_S
    return drive


def bound_to(drive: Driver) -> tuple[str, ...]:
    return drive.jobs[JobId(TE)].request.required_nodes


def test_what_has_left_has_not_left_for_nothing_if_the_node_is_back_in_service_soon() -> None:
    drive = with_left()
    assert drive.open_orders() == [1]
    drive.nodes["n1"] = node("n1")
    drive.obeys(*drive.cycle(30))
    assert bound_to(drive) == ("n1",)
    drive.starts(TE, HALF, at_s=31)
    drive.cycle(32)
    assert (drive.order().ending, drive.order().futile) == (Ending.STARTED_HERE, False)
    assert by_job(drive.memory, "retry_at") == {}


def test_a_node_that_is_back_late_has_time_to_start_the_job() -> None:
    drive = with_left()
    drive.cycle(LEFT_S + 60)
    drive.nodes["n1"] = node("n1")
    drive.obeys(*drive.cycle(LEFT_S + 85))
    assert (drive.open_orders(), bound_to(drive)) == ([1], ("n1",))


def test_while_it_may_take_any_nodes_slurms_word_is_awaited_for_another() -> None:
    drive = with_left()
    drive.nodes["n3"] = node("n3")
    part = drive.start.partitions["p"]
    drive.start = replace(drive.start, partitions={"p": replace(part, nodes=frozenset(drive.nodes))})
    drive.jobs[JobId(5)] = running(5, share("n3", 32))
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(5): traits(JobClass.BE)})
    drive.submits(waiting(10, cpus=32, reason="Priority", eligible_time=NOW), like=TE)
    drive.enforces_limits = False
    drive.cycle(LEFT_S + 1)
    assert not any(isinstance(one, Requeue | Notify) for one in drive.decision.actions)
    drive.nodes["n1"] = node("n1")
    drive.cycle(LEFT_S + 2)
    assert any(isinstance(one, Requeue | Notify) and one.job_id == 5 for one in drive.decision.actions)


def test_meanwhile_it_starts_wherever_it_can_at_the_head_of_its_queue() -> None:
    drive = with_left()
    assert bound_to(drive) == ()
    assert not [one for one in drive.cycle(20) if isinstance(one, SetField)], "nor is it put back in its queue"
    drive.jobs.pop(JobId(2))
    drive.starts(TE, replace(HALF, node="n2"), at_s=21)
    drive.cycle(22)
    assert drive.order().ending is Ending.STARTED_ELSEWHERE


@pytest.mark.parametrize(("flags", "state"), [(DRAINED, "IDLE"), (frozenset[str](), "DOWN")])
def test_a_node_that_stays_away_ends_it(flags: frozenset[str], state: str) -> None:
    drive = with_left()
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=flags, state=state)
    drive.cycle(LEFT_S + 60)
    assert drive.open_orders() == [1]
    drive.cycle(LEFT_S + 61)
    assert (drive.order().ending, drive.order().futile) == (Ending.NODE_GONE, True)
    assert not any(sets(one, Field.NODES) for one in drive.decision.actions), "it is set free already"


def test_a_victim_that_does_not_begin_to_end_is_awaited_no_longer_than_any() -> None:
    drive = leaving()
    drive.cycle(drive.order().expires_at - NOW)
    assert drive.open_orders() == [1]
    drive.cycle(drive.order().expires_at - NOW + 1)
    assert drive.order().ending is Ending.NODE_GONE


def test_one_that_ends_in_a_long_epilog_is_awaited() -> None:
    drive = leaving()
    over = drive.order().expires_at - NOW + 1
    drive.change(BE, flags=frozenset({"COMPLETING"}))
    drive.cycle(over - 20)
    drive.cycle(over)
    assert drive.open_orders() == [1], "it can't take back what it has paid"


def test_a_node_that_is_taken_from_the_cluster_is_none_of_its_nodes() -> None:
    drive = with_left()
    drive.nodes.pop("n1")
    drive.cycle(LEFT_S + 61)
    assert drive.order().ending is Ending.NODE_GONE


def test_before_all_have_left_others_are_tried_at_once() -> None:
    halves = [running(number, share("n1", 16)) for number in (1, 3)]
    jobs = [*halves, running(2, share("n2", 32), requeueable=False), waiting(TE, cpus=32)]
    drive = Driver([node("n1"), node("n2")], jobs, limits=LIMITS, graces={3: 300}, binds=True)
    drive.obeys(*drive.cycle(0))
    drive.requeued(1)
    drive.obeys(*drive.cycle(LEFT_S))
    assert [victim.state for victim in drive.order().victims] == [VictimState.LEFT, VictimState.NOTICED]
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=DRAINED)
    drive.cycle(LEFT_S + 1)
    assert drive.order().ending is Ending.NODE_GONE


def test_a_be_job_in_its_turn_gets_other_nodes_at_once() -> None:
    drive = with_left()
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(TE): traits(JobClass.BE)})
    drive.cycle(LEFT_S + 1)
    assert drive.order().ending is Ending.NODE_GONE
