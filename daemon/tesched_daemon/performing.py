"""The actions of a turn, one after the other; and the decision of a daemon that takes none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tesched_core.model.actions import Action, Failure, FailureKind, OrderId, Outcome, ReasonCode, Status, kind_of
from tesched_core.model.decision import Decision
from tesched_core.model.memory import Memory
from tesched_core.model.refused import PUTS_BACK
from tesched_core.model.snapshot import Snapshot
from tesched_core.model.visible import shortened
from tesched_core.orders.bystanders import unwatched
from tesched_core.ports import Actuator, Barred

log = logging.getLogger(__name__)

#: Characters of an error that are kept.
_MOST_SHOWN = 200
#: Why a change is put back, or a hold ended; the end of a preemptor's own hold is a part of its order.
_PUTS_BACK = PUTS_BACK - {ReasonCode.ITS_TURN}


def perform(
    actions: Sequence[Action], actuator: Actuator, barred: Barred, clock: Callable[[], float]
) -> tuple[Outcome, ...]:
    """Take the actions and return what became of them.

    After one that failed the rest of its order is skipped, but for what puts back; once Slurm does not answer, or they
    are `barred`, all are.
    """
    outcomes: list[Outcome] = []
    failed: set[OrderId | None] = set()
    unreachable = False
    for action in actions:
        # Of an order, each action counts on those before it; what belongs to none, or puts back, stands by itself.
        counts = action.reason.order_id is not None and action.reason.code not in _PUTS_BACK
        in_vain = counts and action.reason.order_id in failed
        if unreachable or in_vain or barred():
            outcomes.append(Outcome(action=action, status=Status.SKIPPED, at=clock()))
            continue
        outcome = _outcome(action, actuator, barred, clock)
        outcomes.append(outcome)
        if outcome.status is Status.FAILED:
            if counts:
                failed.add(action.reason.order_id)
            unreachable = outcome.failure is not None and outcome.failure.kind is FailureKind.UNREACHABLE
            said = f"{outcome.failure.kind}: {outcome.failure.message}" if outcome.failure else "no reason given"
            log.warning("%s of job %s failed (%s)", kind_of(action), action.job_id, said)
    return tuple(outcomes)


def _outcome(action: Action, actuator: Actuator, barred: Barred, clock: Callable[[], float]) -> Outcome:
    try:
        return actuator.act(action, barred)
    except Exception as error:
        # A bug of ours, at one job: it may have been sent, or not, as with an answer that is not understood.
        log.exception("%s of job %s raised", kind_of(action), action.job_id)
        failure = Failure(kind=FailureKind.UNKNOWN, message=shortened(f"{type(error).__name__}: {error}", _MOST_SHOWN))
        return Outcome(action=action, status=Status.FAILED, at=clock(), failure=failure)


def watched(memory: Memory, snapshot: Snapshot) -> tuple[Memory, Decision]:
    """Return the decision of a daemon that only watches. Orders of an earlier mode stay as they are."""
    return unwatched(memory, snapshot), Decision(
        cycle=memory.cycle,
        at=snapshot.taken_at,
        policy="",
        actions=(),
        refusals=(),
        transitions=(),
        summary="mode observe: watched, decided nothing",
    )
