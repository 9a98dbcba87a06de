"""A trial waits for the resources that it has requested, and is set free of them again.

Everywhere: job 1 holds n1 and has 30 s of grace, job 2 holds n2, job 9 wants half a node; job 1 is notified.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import FailureKind, OrderId, Reason, ReasonCode, SetField, Status, kind_of, sets
from tesched_core.model.cluster import Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field, NodeCount, Nodes
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

TO_N1 = SetField(
    job_id=JobId(TE),
    reason=Reason(
        code=ReasonCode.BOUND,
        text="a victim is to leave n1 for it, so it waits for those nodes",
        preemptor=JobId(TE),
        order_id=OrderId(1),
    ),
    field=Field.NODES,
    value=Nodes(names=("n1",)),
    previous=Nodes(),
)
FREE = SetField(
    job_id=JobId(TE),
    reason=Reason(
        code=ReasonCode.SET_FREE,
        text="it may start wherever it was allowed to",
        preemptor=JobId(TE),
        order_id=OrderId(1),
    ),
    field=Field.NODES,
    value=Nodes(),
    previous=Nodes(names=("n1",)),
)


def two_nodes(*, bind_for_s: float = 60, request: Request | None = None) -> Driver:
    trial = waiting(TE, request, cpus=16)
    return Driver(
        [node("n1"), node("n2")],
        [running(BE, share("n1", 32)), running(2, share("n2", 32), requeueable=False), trial],
        graces={BE: 100},
        limits=Limits(bind_for_s=bind_for_s),
        binds=True,
    )


def bound() -> Driver:
    drive = two_nodes()
    drive.obeys(*drive.cycle(0))
    return drive


#: two tasks, on one node or two
OPEN = Request(cpus=16, tasks=2, cpus_per_task=8, max_nodes=2, mem_per_node_mib=1)
ITS_OWN, ON_ONE = NodeCount(least=1, most=2), NodeCount(least=1, most=1)


def nodes_asked(drive: Driver) -> list[SetField]:
    return [action for action in drive.decision.actions if sets(action, Field.NODES)]


def test_preemptor_is_bound_before_victims_are_notified() -> None:
    drive = two_nodes()
    actions = drive.cycle(0)
    assert [kind_of(action) for action in actions] == ["setnice", "setnodes", "notify"]
    assert actions[1] == TO_N1
    drive.obeys(*actions)
    assert drive.cycle(1) == (), "it is bound, and nothing more is to be done"


def test_a_number_of_nodes_that_it_leaves_open_is_set_with_them_and_put_back() -> None:
    drive = two_nodes(request=OPEN)
    drive.obeys(*drive.cycle(0))
    assert nodes_asked(drive) == [
        replace(TO_N1, value=Nodes(names=("n1",), count=ON_ONE), previous=Nodes(count=ITS_OWN))
    ]
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(5)
    assert nodes_asked(drive) == [
        replace(FREE, value=Nodes(count=ITS_OWN), previous=Nodes(names=("n1",), count=ON_ONE))
    ]
    drive.obeys(*drive.decision.actions)
    assert drive.jobs[JobId(TE)].request == OPEN


@pytest.mark.parametrize("more", [{"tasks": 3, "cpus": 24}, {"min_nodes": 2, "max_nodes": 2}])
def test_what_its_user_makes_of_it_while_it_is_bound_is_its_own(more: dict[str, int]) -> None:
    drive = two_nodes(request=OPEN)
    drive.obeys(*drive.cycle(0))
    changed = replace(drive.jobs[JobId(TE)].request, **more)  # type: ignore[arg-type] # numbers
    drive.change(TE, request=changed)
    drive.cycle(5)
    assert drive.order().ending is Ending.GROWN
    drive.obeys(*drive.decision.actions)
    drive.cycle(6)
    left = drive.jobs[JobId(TE)].request
    own = (left.tasks, left.cpus, left.required_nodes)
    assert own == (changed.tasks, changed.cpus, ())
    assert (left.min_nodes, left.max_nodes) == ((2, 2) if "min_nodes" in more else (1, 2))


def test_fewer_tasks_of_its_user_s_stay_and_no_number_of_nodes_is_set_again() -> None:
    drive = two_nodes(request=replace(OPEN, max_nodes=3))
    drive.obeys(*drive.cycle(0))
    drive.change(TE, request=replace(drive.jobs[JobId(TE)].request, tasks=1, cpus=8, max_nodes=2))
    drive.cycle(5)
    assert nodes_asked(drive) == []


def test_tasks_for_each_node_are_left_as_they_are() -> None:
    drive = two_nodes(request=replace(OPEN, tasks_per_node=2))
    drive.cycle(0)
    assert nodes_asked(drive) == [TO_N1]


def test_no_number_above_what_it_allows_is_set() -> None:
    """Two tasks in a partition of MinNodes=3 start on three nodes, and Slurm takes no number above two."""
    nodes = [node(f"n{one}") for one in (1, 2, 3)]
    full = [running(one, share(f"n{one}", 32)) for one in (1, 2)]
    te = replace(waiting(TE, OPEN), partitions=("wide",))
    drive = Driver(nodes, [*full, te], graces={1: 100, 2: 100}, binds=True)
    wide = replace(drive.start.partitions["p"], name="wide", min_nodes=3)
    drive.start = replace(drive.start, partitions={**drive.start.partitions, "wide": wide})
    drive.cycle(0)
    assert [one.value for one in nodes_asked(drive)] == [Nodes(names=("n1", "n2", "n3"))]


def test_a_command_that_did_not_arrive_is_sent_again() -> None:
    drive = two_nodes()
    drive.cycle(0)
    drive.cycle(1)
    assert nodes_asked(drive) == [TO_N1]


def test_nothing_is_requested_of_slurm_once_it_runs_and_ends_and_it_is_forgotten_with_its_record() -> None:
    drive = bound()
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=10)
    drive.cycle(11)
    assert (drive.order().ending, nodes_asked(drive)) == (Ending.STARTED_HERE, [])
    assert drive.memory.is_bound(JobId(TE)), "Slurm would let nobody change a job that runs"
    drive.ends(TE)
    drive.cycle(12)
    assert (nodes_asked(drive), drive.memory.is_bound(JobId(TE))) == ([], True), "its user may requeue it"
    drive.forgets(TE)
    drive.cycle(13)
    drive.cycle(700)
    assert not drive.memory.is_bound(JobId(TE))


def test_put_back_in_the_queue_later_it_may_start_anywhere() -> None:
    drive = bound()
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=10)
    drive.cycle(11)
    drive.requeued(TE)
    drive.cycle(50)
    assert nodes_asked(drive) == [FREE]
    drive.obeys(*drive.decision.actions)
    drive.cycle(51)
    assert (nodes_asked(drive), drive.memory.is_bound(JobId(TE))) == ([], False)


def test_an_order_that_ends_sets_it_free_before_another_is_made_for_it() -> None:
    drive = bound()
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(5)
    assert drive.order().ending is Ending.NODE_GONE
    assert nodes_asked(drive) == [FREE]
    drive.cycle(6)
    assert drive.why_not(TE) is RefusalCode.ORDER_OPEN
    assert nodes_asked(drive) == [FREE], "it is believed to be free when that is seen"
    drive.obeys(*drive.decision.actions)
    drive.cycle(7)
    assert not drive.memory.is_bound(JobId(TE))


def test_a_binding_that_was_sent_again_right_before_its_order_ended_is_awaited() -> None:
    drive = two_nodes()
    drive.cycle(0)
    late = [action for action in drive.cycle(20) if sets(action, Field.NODES)]
    assert late == [TO_N1]
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(21)
    assert (drive.order().ending, nodes_asked(drive)) == (Ending.NODE_GONE, [])
    drive.obeys(*late)
    drive.cycle(23)
    assert nodes_asked(drive) == [FREE]


def test_after_a_while_it_takes_what_comes_first_and_the_order_goes_on() -> None:
    drive = bound()
    assert drive.cycle(60) == ()
    assert drive.cycle(61) == (FREE,)
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(62) == (), "it is not bound a second time"
    assert (drive.order().state, drive.victim().state) == (OrderState.OPEN, VictimState.NOTICED)


def test_no_job_is_bound_with_no_time_to_wait() -> None:
    drive = two_nodes(bind_for_s=0)
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "notify"]


def test_a_job_that_requested_nodes_itself_keeps_them() -> None:
    drive = two_nodes(request=Request(cpus=16, mem_per_node_mib=1, required_nodes=("n1",)))
    assert [kind_of(action) for action in drive.cycle(0)] == ["setnice", "notify"]


def test_of_a_job_that_requested_nodes_itself_the_number_alone_is_set_and_put_back() -> None:
    own = replace(OPEN, required_nodes=("n1",))
    drive = two_nodes(request=own)
    drive.obeys(*drive.cycle(0))
    assert nodes_asked(drive) == [
        replace(TO_N1, value=Nodes(names=("n1",), count=ON_ONE), previous=Nodes(names=("n1",), count=ITS_OWN))
    ]
    drive.cycle(1)
    assert nodes_asked(drive) == []
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(5)
    assert nodes_asked(drive) == [
        replace(FREE, value=Nodes(names=("n1",), count=ITS_OWN), previous=Nodes(names=("n1",), count=ON_ONE))
    ]
    drive.obeys(*drive.decision.actions)
    assert drive.jobs[JobId(TE)].request == own
    drive.cycle(6)
    assert (nodes_asked(drive), drive.memory.is_bound(JobId(TE))) == ([], False)


def moved(drive: Driver, *nodes: str) -> None:
    """Let the order be on these nodes from now on, as it is after others have taken its resources."""
    orders = {**drive.memory.orders, OrderId(1): replace(drive.order(), nodes=nodes)}
    drive.memory = replace(drive.memory, orders=orders)


def set_free(drive: Driver, at_s: float) -> None:
    """Let the order end, and the job be set free."""
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(at_s)
    drive.obeys(*drive.decision.actions)


def test_nodes_that_its_user_sets_while_its_number_alone_is_bound_are_left() -> None:
    drive = two_nodes(request=replace(OPEN, required_nodes=("n1",)))
    drive.obeys(*drive.cycle(0))
    drive.change(TE, request=replace(drive.jobs[JobId(TE)].request, required_nodes=("n2",)))
    set_free(drive, 5)
    assert drive.jobs[JobId(TE)].request == replace(OPEN, required_nodes=("n2",))


def test_a_job_with_nodes_of_its_own_that_was_bound_anew_is_set_free_once() -> None:
    own = replace(OPEN, required_nodes=("n1",))
    drive = two_nodes(request=own)
    drive.obeys(*drive.cycle(0))
    moved(drive, "n1", "n2")
    drive.obeys(*drive.cycle(1))
    assert drive.jobs[JobId(TE)].request == replace(own, required_nodes=("n1", "n2"), min_nodes=2)
    set_free(drive, 5)
    assert drive.jobs[JobId(TE)].request == own
    drive.cycle(6)
    assert (nodes_asked(drive), drive.memory.is_bound(JobId(TE))) == ([], False)


@pytest.mark.parametrize("own", [OPEN, replace(OPEN, required_nodes=("n1",))])
@pytest.mark.parametrize("nodes", [(("n1",), ("n1", "n2")), (("n1", "n2"), ("n1",))])
def test_its_own_number_is_put_back_though_the_last_binding_did_not_arrive(
    own: Request, nodes: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    drive = two_nodes(request=own)
    drive.obeys(*drive.cycle(0))
    if nodes[0] != ("n1",):
        moved(drive, *nodes[0])
        drive.obeys(*drive.cycle(1))
    moved(drive, *nodes[1])
    drive.says(Status.FAILED, *drive.cycle(2), kind=FailureKind.UNREACHABLE)
    set_free(drive, 30)
    assert drive.jobs[JobId(TE)].request == own


def test_a_job_that_requested_some_of_its_nodes_is_bound_to_the_others_too() -> None:
    own = Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1, required_nodes=("n2",))
    jobs = [running(BE, share("n1", 32)), waiting(TE, own)]
    drive = Driver([node("n1"), node("n2")], jobs, graces={BE: 100}, binds=True)
    drive.obeys(*drive.cycle(0))
    assert [(one.value, one.previous) for one in nodes_asked(drive)] == [
        (Nodes(names=("n1", "n2")), Nodes(names=("n2",)))
    ]
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(5)
    drive.obeys(*drive.decision.actions)
    assert drive.jobs[JobId(TE)].request == own


def test_nodes_that_another_user_has_set_are_left() -> None:
    drive = bound()
    request = Request(cpus=16, mem_per_node_mib=1, required_nodes=("n2",))
    drive.change(TE, request=request)
    drive.change(BE, requeueable=False)
    drive.cycle(70)
    assert (nodes_asked(drive), drive.memory.is_bound(JobId(TE))) == ([], False)


def test_a_job_that_started_a_moment_before_it_was_bound_leaves_its_victims_in_peace() -> None:
    drive = two_nodes()
    nice, nodes, notice = drive.cycle(0)
    drive.obeys(nice)
    drive.says(Status.FAILED, nodes, kind=FailureKind.ALREADY_DONE)
    drive.says(Status.SKIPPED, notice)
    drive.starts(TE, share("n2", 16), at_s=0)
    drive.cycle(1)
    assert drive.order().ending is Ending.STARTED_ELSEWHERE
    assert (drive.victim().state, drive.order().futile) == (VictimState.SPARED, False)
    assert not drive.memory.is_bound(JobId(TE))


def test_a_victim_that_ended_by_itself_before_its_notice_has_not_left_in_vain() -> None:
    drive = two_nodes()
    nice, nodes, notice = drive.cycle(0)
    drive.obeys(nice)
    drive.says(Status.FAILED, nodes, kind=FailureKind.ALREADY_DONE)
    drive.says(Status.SKIPPED, notice)
    drive.starts(TE, share("n2", 16), at_s=0)
    drive.ends(BE)
    drive.cycle(1)
    assert (drive.order().ending, drive.victim().state) == (Ending.STARTED_ELSEWHERE, VictimState.LEFT)
    assert not drive.order().futile


def test_shadow_mode_binds_no_job() -> None:
    drive = two_nodes()
    actions = drive.cycle(0)
    drive.says(Status.WOULD, *actions)
    assert not drive.memory.is_bound(JobId(TE))


def test_undo_sets_each_waiting_job_free() -> None:
    drive = bound()
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(5), drive.limits)
    assert nodes_asked(drive) == [FREE]
    drive.obeys(*drive.decision.actions)
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(6), drive.limits)
    assert (drive.decision.actions, drive.memory.is_bound(JobId(TE))) == ((), False)


def test_a_binding_that_arrives_late_is_taken_back_though_its_repetition_was_not_sent() -> None:
    """Its first command had no answer; when it was to be sent again, Slurm had failed to answer another one."""
    drive = two_nodes()
    nice, binding, told = drive.cycle(0)
    drive.obeys(nice)
    drive.says(Status.FAILED, binding, kind=FailureKind.UNREACHABLE)
    drive.says(Status.SKIPPED, told)
    again = nodes_asked(drive) if drive.cycle(1) else []
    assert again == [TO_N1]
    drive.says(Status.SKIPPED, *drive.decision.actions)
    drive.obeys(binding)
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    drive.cycle(5)
    assert nodes_asked(drive) == [FREE]
