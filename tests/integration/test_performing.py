"""The actions of a turn, one after the other: which of them a failure skips."""

from __future__ import annotations

from tesched_core.model.actions import Failure, FailureKind, OrderId, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.ports import never_barred
from tesched_daemon.performing import perform

from tests.builders import hold, release
from tests.loop_parts import TRIAL, VICTIM, Cluster


def test_an_action_of_no_order_does_not_count_on_another() -> None:
    busy = Failure(kind=FailureKind.ALREADY_DONE, message="it has started")
    reason = Reason(code=ReasonCode.NOT_ITS_TURN, text="")
    actions = (hold(VICTIM.job_id, reason), release(TRIAL.job_id, reason))
    outcomes = perform(actions, Cluster(answers={"hold": busy}), never_barred, lambda: 1000.0)
    assert [outcome.status for outcome in outcomes] == [Status.FAILED, Status.SENT]


def test_what_puts_back_does_not_count_on_another_of_its_order() -> None:
    gone = Failure(kind=FailureKind.ALREADY_DONE, message="it has ended")
    reason = Reason(code=ReasonCode.ORDER_ENDED, text="", order_id=OrderId(7))
    actions = tuple(
        SetField(job_id=JobId(job_id), reason=reason, field=Field.NICE, value=0, previous=-50) for job_id in (1, 2)
    )
    outcomes = perform(actions, Cluster(answers={"setnice": gone}), never_barred, lambda: 1000.0)
    assert [outcome.status for outcome in outcomes] == [Status.FAILED, Status.FAILED]
