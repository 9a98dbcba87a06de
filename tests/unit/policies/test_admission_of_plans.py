"""What a policy plans for where the guard's limits that count have no place left."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.admission import GuardAdmission
from tesched_core.model.actions import OrderId
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId
from tesched_core.policy import AwaitRoom, Policy, Proposal, View
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient

from tests.builders import NOW, cluster, node, plans_of, running, share, view_of, waiting


def proposed(policy: Policy[None], limits: Limits, view: View) -> Proposal[None]:
    return policy.propose(replace(view, limits=limits, admission=GuardAdmission.of), None)


def two_wait() -> View:
    """Return the view of a full node; job 10 has an order, by which it awaits free resources, and job 11 has none."""
    goes_on = Order(
        order_id=OrderId(1),
        preemptor=JobId(10),
        state=OrderState.OPEN,
        created_at=NOW - 5,
        expires_at=NOW + 60,
        nodes=(),
        victims=(),
        waits_until=NOW + 5,
    )
    jobs = [running(1, share("n1", 8)), waiting(10, submit_time=NOW - 5), waiting(11, submit_time=NOW - 5)]
    return replace(view_of(cluster([node("n1", cpus=8)], jobs)), memory=Memory(orders={OrderId(1): goes_on}))


def test_one_that_awaits_resources_goes_on_where_no_further_order_may_be_opened() -> None:
    found = proposed(Patient(patience_s=60.0), Limits(max_open_orders=0), two_wait())
    assert [(plan.preemptor, type(plan)) for plan in found.plans] == [(JobId(10), AwaitRoom)]
    (why,) = found.refusals
    assert (why.preemptor, why.code) == (JobId(11), RefusalCode.CYCLE_LIMIT)
    assert "guard.max_open_orders is 0" in why.text


def test_one_may_await_resources_where_no_further_victim_may_leave() -> None:
    found = proposed(Patient(patience_s=60.0), Limits(max_victims_per_cycle=0), two_wait())
    assert [(plan.preemptor, type(plan)) for plan in found.plans] == [(JobId(10), AwaitRoom), (JobId(11), AwaitRoom)]


@pytest.mark.parametrize("policy", [FitGpp(), Patient(patience_s=0.0)])
def test_one_that_fits_on_what_is_free_starts_where_no_further_victim_may_leave(policy: Policy[None]) -> None:
    jobs = [running(1, share("n1", 8)), waiting(10, cpus=8), waiting(11, cpus=2), waiting(12, cpus=2)]
    view = view_of(cluster([node("n1", cpus=8), node("n2", cpus=4)], jobs))
    found = proposed(policy, Limits(max_victims_per_cycle=0), view)
    assert [(plan.preemptor, plan.nodes, plan.victims) for plan in plans_of(found)] == [
        (JobId(11), ("n2",), ()),
        (JobId(12), ("n2",), ()),
    ]
    (why,) = (one for one in found.refusals if one.job_id == one.preemptor)
    assert (why.preemptor, why.code) == (JobId(10), RefusalCode.CYCLE_LIMIT)
