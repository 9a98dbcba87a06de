"""Nodes that a job's user sets while tesched has bound it to others.

Everywhere: job 9 was bound to n1 for order 1, and order 2 is to bind it to n2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.context import CycleContext
from tesched_core.fields.node_binding import NODE_BINDING_RULE
from tesched_core.fields.reconcile import Want
from tesched_core.model.actions import OrderId, Reason, ReasonCode
from tesched_core.model.change import Change, first_change, own_request
from tesched_core.model.cluster import Job, Request
from tesched_core.model.field import Field, NodeCount, Nodes
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, cluster, node, traits, waiting

JOB = JobId(9)
REQUEST = Request(cpus=16, mem_per_node_mib=1)


def bound_to_n1(*, own: Nodes | None = None, before: Nodes | None = None) -> Change[Nodes]:
    previous = own or Nodes()
    count = None if previous.count is None else NodeCount(least=1, most=1)
    value = Nodes(names=("n1",), count=count)
    one = first_change(JOB, Field.NODES, previous, value, NOW - 30, order_id=OrderId(1))
    return replace(one, before=before)


def shown(*names: str, request: Request = REQUEST) -> Job:
    return waiting(JOB, replace(request, required_nodes=names))


def bound_anew(job: Job, one: Change[Nodes], job_class: JobClass, nodes: tuple[str, ...] = ("n2",)) -> CycleContext:
    """Return the context after order 2 wants the job to be bound to these nodes."""
    seen = cluster([node("n1"), node("n2"), node("n3")], [job]).with_traits({JOB: traits(job_class)})
    context = CycleContext.of(
        replace(Memory(), changes={Field.NODES: {JOB: one}}), seen, columns_of(seen), replace(Limits(), bind_for_s=60)
    )
    NODE_BINDING_RULE.follow(context)
    why = Reason(code=ReasonCode.BOUND, text="", preemptor=JOB, order_id=OrderId(2))
    insists = job_class is JobClass.BE
    NODE_BINDING_RULE.set(Want(job_id=JOB, value=Nodes(names=nodes), why=why, insists=insists), context)
    return context


@pytest.mark.parametrize("job_class", [JobClass.BE, JobClass.TE])
def test_job_with_nodes_that_its_user_set_meanwhile_is_not_bound_to_others(job_class: JobClass) -> None:
    context = bound_anew(shown("n3"), bound_to_n1(), job_class)
    assert context.actions == []
    NODE_BINDING_RULE.carry_out((), {}, context)
    assert context.actions == [], "its user's nodes stay"


def test_nodes_that_the_user_of_a_te_job_set_meanwhile_are_put_back_after_an_order_that_includes_them() -> None:
    context = bound_anew(shown("n3"), bound_to_n1(), JobClass.TE, ("n2", "n3"))
    (action,) = context.actions
    assert context.changes_of(Field.NODES)[JOB].previous == Nodes(names=("n3",))
    assert action == NODE_BINDING_RULE.setting(
        context.changes_of(Field.NODES)[JOB], action.reason, context.snapshot.jobs[JOB]
    )


def test_number_of_nodes_that_tesched_has_set_is_still_put_back_beside_its_users_nodes() -> None:
    own = Nodes(count=NodeCount(least=1, most=2))
    context = bound_anew(shown("n3"), bound_to_n1(own=own), JobClass.TE, ("n2", "n3"))
    assert context.changes_of(Field.NODES)[JOB].previous == Nodes(names=("n3",), count=own.count)


@pytest.mark.parametrize(
    ("names", "own"),
    [((), ()), (("n1",), ()), (("n2",), ()), (("n3",), ("n3",)), (("n3", "n1"), ("n3", "n1"))],
)
def test_own_nodes_are_those_shown_unless_tesched_has_set_them(names: tuple[str, ...], own: tuple[str, ...]) -> None:
    one = bound_to_n1(before=Nodes(names=("n2",)))
    assert own_request(shown(*names), one).required_nodes == own


def test_own_nodes_of_a_job_that_had_some_are_these_while_it_is_bound() -> None:
    one = bound_to_n1(own=Nodes(names=("n3",)))
    assert own_request(shown("n1"), one).required_nodes == ("n3",)
    assert own_request(shown("n2"), one).required_nodes == ("n2",)
