"""Nodes that are taken out of service while an order waits for them.

Everywhere: job 1 holds n1, job 2 holds n2 and may be no victim, job 9 wants half a node; job 1 leaves for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.context import CycleContext
from tesched_core.model.actions import FailureKind, Notify, Requeue, SetField, Status, sets
from tesched_core.model.cluster import Request
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, LostNode, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.advance import end_wait
from tesched_core.orders.undo import undo
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, by_job, node, running, share, traits, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, requeue_at_once

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
    drive.turns(TE)
    drive.cycle(LEFT_S + 1)
    assert drive.order().ending is Ending.NODE_GONE


def test_it_is_said_in_words_that_a_node_is_out_of_service_once_and_when_it_is_back() -> None:
    drive = leaving()
    drive.nodes["n1"] = replace(drive.nodes["n1"], reason="Prolog error")
    drive.requeued(BE)
    said = steps(drive, *range(3, 9))
    assert said == [], "it was said when it was seen"
    assert drive.order().lost_nodes == (LostNode(name="n1", state="IDLE+DRAIN", reason="Prolog error"),)
    drive.nodes["n1"] = node("n1")
    assert steps(drive, 20, 21) == ["in service again: n1"]
    assert drive.order().lost_nodes == ()


def test_what_is_said_names_its_state_and_reason_and_for_how_long_it_is_awaited() -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)], limits=LIMITS, graces={BE: 0})
    drive.obeys(*(one for one in drive.cycle(0) if not isinstance(one, Requeue)))
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=DRAINED, reason="Prolog error")
    (said,) = steps(drive, 1)
    assert said == (
        "out of service: n1 (IDLE+DRAIN: Prolog error); job 9 is bound to no nodes meanwhile, and its order goes on "
        "until 60 s after its victims have left (guard.order_timeout_s)"
    )
    drive.cycle(2)
    awaits = "; order 1 awaits what is out of service: n1 "
    assert drive.decision.summary.endswith(f"{awaits}(IDLE+DRAIN: Prolog error)")
    drive.nodes.pop("n1")
    drive.cycle(3)
    assert drive.decision.summary.endswith(f"{awaits}(no node of Slurm's any more)")


def test_an_order_that_has_ended_awaits_no_node() -> None:
    drive = with_left()
    drive.cycle(LEFT_S + 61)
    assert (drive.order().ending, drive.order().lost_nodes) == (Ending.NODE_GONE, ())


def test_an_order_that_is_withdrawn_awaits_no_node() -> None:
    drive = with_left()
    assert drive.order().lost_nodes
    drive.memory, _ = undo(drive.memory, drive.snapshot(LEFT_S + 1), drive.limits)
    assert (drive.order().ending, drive.order().lost_nodes) == (Ending.WITHDRAWN, ())


def test_an_order_that_slurm_refuses_awaits_no_node() -> None:
    drive = leaving()
    assert drive.order().lost_nodes
    drive.says(Status.FAILED, requeue_at_once(), kind=FailureKind.REFUSED)
    assert (drive.order().ending, drive.order().lost_nodes) == (Ending.REFUSED, ())


def test_an_order_that_ends_by_a_refused_change_awaits_no_node() -> None:
    drive = leaving()
    context = CycleContext.of(drive.memory, drive.snapshot(3), columns_of(drive.snapshot(3)), drive.limits)
    order = end_wait(drive.order(), Ending.CHANGE_REFUSED, "it can't be raised", context)
    assert (order.ending, order.lost_nodes) == (Ending.CHANGE_REFUSED, ())


def test_nothing_is_said_of_a_node_while_the_job_that_awaits_it_is_not_seen() -> None:
    drive = with_left()
    job = drive.jobs.pop(JobId(TE))
    drive.nodes["n1"] = node("n1")
    assert (steps(drive, 20), len(drive.order().lost_nodes)) == ([], 1)
    drive.jobs[JobId(TE)] = job
    assert steps(drive, 21) == ["in service again: n1"]


def test_of_many_nodes_three_are_named() -> None:
    names = [f"n{number}" for number in range(1, 6)]
    jobs = [running(BE, *(share(name, 32) for name in names))]
    request = Request(min_nodes=5, max_nodes=5, cpus=5, tasks=5, mem_per_node_mib=1)
    drive = Driver([node(name) for name in names], [*jobs, waiting(TE, request)], limits=LIMITS, graces={BE: 0})
    drive.obeys(*(one for one in drive.cycle(0) if not isinstance(one, Requeue)))
    for name in names:
        drive.nodes[name] = replace(drive.nodes[name], flags=DRAINED)
    (said,) = steps(drive, 1)
    assert said.startswith("out of service: n1 (IDLE+DRAIN), n2 (IDLE+DRAIN), n3 (IDLE+DRAIN) and 2 more; job 9")
    assert [one.name for one in drive.order().lost_nodes] == names


def steps(drive: Driver, *at_s: float) -> list[str]:
    """Return the steps of the order itself in cycles at these times."""
    said = []
    for at in at_s:
        drive.obeys(*drive.cycle(at))
        said += [one.text for one in drive.decision.transitions if one.job_id is None]
    return said
