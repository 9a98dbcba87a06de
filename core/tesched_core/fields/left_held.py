"""Rule of holds that a requeue leaves: none of them was wanted, so they are ended.

Slurm puts a job that was suspended when it was requeued back in the queue held, and an expedited one that has failed of
its notice (tried on 22.05 and 26.05). Such a hold is a change of tesched's: remembered for its order, released until it
is seen to be gone, and released by `tesched undo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders, under_way
from tesched_core.model.actions import Reason, ReasonCode, SetField
from tesched_core.model.change import FREE, HELD, By, Change, first_change
from tesched_core.model.cluster import HELD_BY_ITS_USER, Job
from tesched_core.model.field import Field, HoldState
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order, Victim
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot


class LeftHeldRule(Lever):
    """Holds of victims that no user, no admin and no policy has set."""

    name = Field.HOLD

    def note(
        self, victim: Victim, job: Job | None, order: Order, context: CycleContext, *, failed: bool = False
    ) -> None:
        """Remember the hold of a job that has just left its nodes because of our requeue: it is to be ended.

        Slurm puts a job that was suspended at that moment back in the queue held, and an expedited one that has
        `failed` of its notice: REQUEUE_HOLD. A job that calls `scontrol requeuehold` is PENDING (tried on 26.05.5). A
        hold that a user or an admin had set on its run, or that comes later, is theirs; so is one of RequeueExitHold.
        Its user's has a reason of its own, also where it came between two polls.
        """
        if job is None or not job.held or victim.held_before or "SPECIAL_EXIT" in job.flags or _is_its_users(job):
            return
        if ("REQUEUE_HOLD" in job.flags) is not failed:
            return
        context.changes_of(self.name)[job.job_id] = first_change(
            job.job_id, Field.HOLD, FREE, HELD, context.now, by=By.REQUEUE, order_id=order.order_id
        )

    def releases(self, victim: Victim, order: Order, context: CycleContext) -> bool:
        """Release a victim that its requeue has left held; check whether it still is."""
        one = context.changes_of(self.name).get(victim.job_id)
        if one is None or one.by is not By.REQUEUE or one.order_id != order.order_id:
            return False
        self._release(one, order.preemptor, context)
        return victim.job_id in context.changes_of(self.name)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Release what belongs to no order under way."""
        here = {order.order_id for order in under_way(orders)}
        for one in context.made_by(self.name, By.REQUEUE).values():
            if one.order_id not in here:
                self._release(one, None, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Release all jobs that were left held."""
        for one in context.made_by(self.name, By.REQUEUE).values():
            order = orders.get(one.order_id) if one.order_id is not None else None
            self._release(one, None if order is None else order.preemptor, context)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the jobs that a requeue has left held."""
        return sum(one.by is By.REQUEUE for one in memory.changes_of(self.name).values())

    def _release(self, one: Change[int], preemptor: JobId | None, context: CycleContext) -> None:
        job = context.snapshot.jobs.get(one.job_id)
        if one.job_id in context.absent:
            return
        if job is None or job.finished or not job.held or _is_its_users(job):
            del context.changes_of(self.name)[one.job_id]
            if one.order_id is not None:
                text = "its user holds it" if job is not None and job.held else "its hold is put back"
                context.moved(one.order_id, one.job_id, "raised", "put back", text)
        # Of a job that is completing Slurm takes no change.
        elif not job.completing and not context.is_refused(Field.HOLD, job.user, puts_back=True):
            text = "its requeue left it held, and no user or admin had held it"
            why = Reason(code=ReasonCode.LEFT_HELD, text=text, preemptor=preemptor, order_id=one.order_id)
            context.actions.append(
                SetField(
                    job_id=job.job_id,
                    reason=why,
                    field=Field.HOLD,
                    value=HoldState.RELEASED,
                    previous=HoldState.HELD,
                )
            )


def _is_its_users(job: Job) -> bool:
    """Check whether the hold is its user's: that of a requeue is JobHeldAdmin, or names the requeue (22.05, 26.05)."""
    return job.reason == HELD_BY_ITS_USER


LEFT_HELD_RULE = LeftHeldRule()
