"""What becomes of a plan whose order has come to nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import OrderId
from tesched_core.model.notice import Target
from tesched_core.model.order import Ending, Order, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_policies.pdors.give_up import MOST_FAILURES, after_order
from tesched_policies.pdors.state import JobPlan

PLAN = JobPlan(planned_at=0.0, start_at=0.0, run_s=60.0, nodes=("a",))


def overtaken(order_id: int, noticed_at: float | None) -> Order:
    victim = Victim(
        job_id=JobId(1),
        state=VictimState.SPARED,
        restarts=0,
        grace_period_s=30.0,
        notice_signal="TERM",
        notice_target=Target.BATCH,
        score=0.0,
        nodes=("a",),
        started_at=0.0,
        noticed_at=noticed_at,
    )
    return Order(
        order_id=OrderId(order_id),
        preemptor=JobId(2),
        state=OrderState.ENDED,
        created_at=0.0,
        expires_at=60.0,
        nodes=("a",),
        ending=Ending.OVERTAKEN,
        victims=(victim,),
    )


@pytest.mark.parametrize(("noticed_at", "dropped"), [(None, False), (10.0, True)])
def test_a_plan_is_dropped_after_several_overtaken_orders_only_if_victims_were_notified(
    noticed_at: float | None, dropped: bool
) -> None:
    plan = PLAN
    for order_id in range(1, MOST_FAILURES + 1):
        plan = after_order(plan, overtaken(order_id, noticed_at))
    assert plan.dropped is dropped


def test_a_plan_that_needs_no_victims_is_dropped_when_others_take_its_place_each_time() -> None:
    plan = PLAN
    for order_id in range(1, MOST_FAILURES + 1):
        plan = after_order(plan, replace(overtaken(order_id, None), victims=()))
    assert plan.dropped
