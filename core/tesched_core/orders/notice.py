"""Notice lever: the signal by which a victim is to save its work. It is sent at most once, and cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders, final, of_failed, said, with_victim
from tesched_core.model.actions import FailureKind, Notify, Outcome, Reason, ReasonCode, Status
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory
from tesched_core.model.notice import TARGET_WORDS
from tesched_core.model.order import Order, Victim, VictimState
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot


class NoticeLever(Lever):
    """Signals to victims that have declared one."""

    name = "notice"

    def give(self, victim: Victim, job: Job, order: Order, context: CycleContext) -> Victim:
        """Return the victim after its notice was ordered; its grace period runs from now on."""
        to_save = f"{victim.grace_period_s:.0f} s to save its work"
        reason = Reason(
            code=ReasonCode.NOTICE,
            text=(
                f"it is to go on on {','.join(order.nodes)}; it has {to_save}"
                if victim.job_id == order.preemptor
                else f"job {order.preemptor} needs its resources; it has {to_save}"
            ),
            preemptor=order.preemptor,
            order_id=order.order_id,
        )
        context.actions.append(
            Notify(
                job_id=job.job_id,
                reason=reason,
                signal=victim.notice_signal,
                target=victim.notice_target,
                restarts=victim.restarts,
            )
        )
        target = TARGET_WORDS[victim.notice_target]
        text = f"notice by SIG{victim.notice_signal} to {target}; grace period {victim.grace_period_s:.0f} s"
        noticed = replace(victim, state=VictimState.NOTICED, noticed_at=context.now)
        return context.victim_step(order, victim, noticed, text)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Do nothing: a notice has been heard. A victim that still runs keeps its nodes when its order is withdrawn."""

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take back the notices that certainly were not sent; of an unknown one nothing is sent again.

        A grace period begins when its notice was sent: the poll may have begun some seconds before that.
        """
        for outcome in outcomes:
            self._count_from(outcome, orders)
            order = of_failed(outcome, Notify, orders)
            if order is None or not not_taken(outcome):
                continue
            after = partial(_not_told, spared=final(outcome))
            orders[order.order_id] = with_victim(order, outcome.action.job_id, after)
            context.moved(order.order_id, outcome.action.job_id, "sent", "not sent", said(outcome))

    def _count_from(self, outcome: Outcome, orders: Orders) -> None:
        action = outcome.action
        order = orders.get(action.reason.order_id) if action.reason.order_id is not None else None
        if isinstance(action, Notify) and order is not None and outcome.status is not Status.WOULD:
            orders[order.order_id] = with_victim(order, action.job_id, partial(_told_at, at=outcome.at))

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Return 0: nothing of a notice is left in Slurm."""
        return 0


def not_taken(outcome: Outcome) -> bool:
    """Check whether a command that is never sent twice certainly did not reach the job."""
    busy = outcome.failure is not None and outcome.failure.kind is FailureKind.BUSY
    return outcome.status is Status.SKIPPED or final(outcome) or busy


def _told_at(victim: Victim, *, at: UnixSeconds) -> Victim:
    if victim.state is not VictimState.NOTICED or victim.noticed_at is None:
        return victim
    return replace(victim, noticed_at=max(victim.noticed_at, at))


def _not_told(victim: Victim, *, spared: bool) -> Victim:
    if spared:
        return replace(victim, state=VictimState.SPARED)
    return replace(victim, state=VictimState.PLANNED, noticed_at=None)


NOTICE_LEVER = NoticeLever()
