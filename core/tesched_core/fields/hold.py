"""Hold rule: a job that would start where or when it should not is held, and released when that is over.

A policy proposes `HoldJob` for a job at each poll for as long as the job is to be held. A job that tesched holds and
that no policy wants held any more is released; so is one whose order opens, since it can start on its own nodes alone
then. A hold is believed when it is seen, and a job that its user holds is left to the user.

An operator's hold is shown as tesched's is (JobHeldAdmin). So none is sent to a job that is held by now
(`slurm/right_before.py`), and one that was not sent, or that Slurm refused, is not believed when a hold is seen. What
an operator holds in the moment between that query and the command, after a command that got no answer, or while
tesched holds it already counts as tesched's: Slurm keeps no trace of it.

A job that the submission hook holds (`model/hook.py`) is taken over as if tesched itself had held it: it is released
unless it must wait on, as it must by `guard.bound`. Then it is held anew, as by an operator, so that its user can't
release it. Where Slurm lets no operator remove the hook's mark, it is remembered that the hook's hold is over: a later
hold of that job is its user's own.

A TE job that another hand has released is not held again for its run (`other_hand.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed, open_now
from tesched_core.fields.other_hand import note_releases, see_other_hands
from tesched_core.model.actions import (
    FailureKind,
    Outcome,
    Reason,
    ReasonCode,
    SetField,
    Status,
    holds,
    releases,
)
from tesched_core.model.change import FREE, HELD, LET_THROUGH, NEVER, Change, first_change
from tesched_core.model.cluster import HELD_BY_ITS_USER, HELD_BY_US, Job
from tesched_core.model.field import Field, HoldState
from tesched_core.model.hook import has_hook_mark, is_held_by_hook
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.policy import HoldJob, ReleaseJob

#: Most jobs that are held in one poll, and most TE jobs that are released: each is one call of Slurm, and others wait.
MOST_HELD = 50
#: Seconds in which the removal of the hook's mark is tried, once in `RESEND_AFTER_S`.
UNMARK_FOR_S = 20.0
_NOT_WANTED = "no policy wants it held any more"


class HoldRule(Lever):
    """Hold and release of pending jobs."""

    name = Field.HOLD
    intents = (HoldJob, ReleaseJob)

    def follow(self, context: CycleContext) -> None:
        """See which holds others have ended, and take over those of the submission hook: then see who must wait."""
        self._take_over_tasks(context)
        see_other_hands(context)
        self._take_over(context)

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Hold the jobs that a policy wants held, and release the others that tesched holds."""
        wanted = {one.job_id: one.why for one in intents if isinstance(one, HoldJob)}
        let_go = {one.job_id: one.why for one in intents if isinstance(one, ReleaseJob)}
        served = {order.preemptor: order for order in open_now(orders) if not _must_wait(order, wanted, context)}
        self._release(wanted, let_go, served, context, MOST_HELD)
        held, jobs = context.changes_of(self.name), context.snapshot.jobs
        new = [job_id for job_id in wanted if job_id in jobs and job_id not in served]
        new = [job_id for job_id in new if _is_to_be_held(jobs[job_id], held.get(job_id), context)]
        # Slurm starts the first in the queue first. Of thousands the others come with the next polls.
        new = [job_id for job_id in new if not context.is_refused(Field.HOLD, jobs[job_id].user)]
        newest = max(jobs) if new else None
        for job_id in sorted(new, key=lambda one: (-jobs[one].priority, one))[:MOST_HELD]:
            held[job_id] = replace(_anew(jobs[job_id], held.get(job_id), context), shown=newest)
            reason = Reason(code=ReasonCode.NOT_ITS_TURN, text=wanted[job_id])
            context.actions.append(_set(job_id, reason, HoldState.HELD))

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Release all held jobs."""
        self._take_over_tasks(context)
        see_other_hands(context)
        self._take_over(context)
        held = context.changes_of(self.name)
        for job_id, one in context.made_by(self.name, None).items():
            if one.restored:
                held[job_id] = replace(one, since=context.now)
        served = {order.preemptor: order for order in open_now(orders)}
        self._release({}, {}, served, context, inf)

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in that a job stays held, as its release did not reach Slurm for certain, or that its hold did not.

        A hold that such a job shows later is another hand's, but for the submission hook's; in shadow mode it has none.
        """
        held = context.changes_of(self.name)
        for outcome in outcomes:
            action, one = outcome.action, held.get(outcome.action.job_id)
            if releases(action) and one is not None and one.value == FREE and certainly_failed(outcome):
                held[action.job_id] = replace(one, value=HELD)
            elif holds(action) and one is not None and outcome.status is Status.WOULD:
                held[action.job_id] = replace(one, dry=True)
            elif holds(action) and one is not None and one.at == one.since and certainly_failed(outcome):
                if one.before == HELD and not _is_as_wanted(outcome):
                    del held[action.job_id]  # the hook's is in place, and is taken over again
                else:
                    held[action.job_id] = replace(one, restored=True)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the holds that are to be ended. Of a job that runs none can be."""
        jobs, changes = snapshot.jobs, memory.changes_of(self.name)
        mine = (job_id for job_id, one in changes.items() if one.by is None and not one.restored)
        return sum(job_id in jobs and jobs[job_id].pending for job_id in mine)

    def _take_over(self, context: CycleContext) -> None:
        """Take over the holds of the submission hook; of a job that has its mark and is not held, that this is so."""
        held = context.changes_of(self.name)
        for job_id in context.columns.hook_marked:
            job = context.snapshot.jobs[job_id]
            if job.pending and job_id not in held:
                held[job_id] = replace(_hold(job_id, context), at=NEVER, restored=not is_held_by_hook(job))

    def _take_over_tasks(self, context: CycleContext) -> None:
        """Take over the holds of tasks that have left an array's record while tesched holds it: they have its hold.

        Slurm gives a task a record of its own when it alone is changed. One that had its own before the hold was held
        by others, and stays so.
        """
        held = context.changes_of(self.name)
        for array, one in context.made_by(self.name, None).items():
            if one.restored or one.dry or one.shown is None:
                continue  # the last is the submission hook's, which each task of it shows
            for task in context.tasks_of(array):
                is_new = task.job_id > one.shown and task.job_id not in held and not task.restarts
                if is_new and task.held and task.reason == HELD_BY_US:
                    held[task.job_id] = replace(_hold(task.job_id, context), at=one.at)

    def _release(
        self,
        wanted: Mapping[JobId, str],
        let_go: Mapping[JobId, str],
        served: Mapping[JobId, Order],
        context: CycleContext,
        most_admitted: float,
    ) -> None:
        """Release the held jobs that are wanted no more and those with an order; forget the holds that are gone."""
        held = context.changes_of(self.name)
        admitted = 0
        for job_id, one in context.made_by(self.name, None).items():
            job = context.snapshot.jobs.get(job_id)
            if one.restored or not _still_held(one, context):
                if job is not None and job.pending and has_hook_mark(job):
                    over = one if one.restored else replace(one, restored=True, since=context.now)
                    held[job_id] = _without_mark(over, job, context)
                elif job_id not in context.absent:
                    _forget(one, held)
            elif job_id in served:
                if job is not None and job.pending and _shows(job_id, context):
                    context.actions.append(_its_turn(served[job_id]))
            elif job_id in wanted:
                continue
            elif job is not None and job.held and job.reason == HELD_BY_ITS_USER and not is_held_by_hook(job):
                _forget(one, held)
            elif _shows(job_id, context):
                admitted += context.snapshot.job_class(job_id) is JobClass.TE
                if admitted > most_admitted:
                    continue  # of hundreds the others come with the next polls
                reason = Reason(code=ReasonCode.ITS_TURN, text=let_go.get(job_id, _NOT_WANTED))
                context.actions.append(_set(job_id, reason, HoldState.RELEASED))
        note_releases(context)


def _hold(job_id: JobId, context: CycleContext) -> Change[int]:
    return first_change(job_id, Field.HOLD, FREE, HELD, context.now)


def _anew(job: Job, one: Change[int] | None, context: CycleContext) -> Change[int]:
    """Hold that is to be sent: since when it may have arrived, and whether the submission hook's is in place."""
    was_sent = one is not None and not one.restored and one.at > NEVER
    before = HELD if is_held_by_hook(job) else None
    return replace(_hold(job.job_id, context), before=before, since=one.since if one and was_sent else context.now)


def _is_as_wanted(outcome: Outcome) -> bool:
    """Check whether the job was held already, or waits no more."""
    return outcome.failure is not None and outcome.failure.kind is FailureKind.ALREADY_DONE


def _set(job_id: JobId, reason: Reason, value: HoldState) -> SetField:
    previous = HoldState.RELEASED if value is HoldState.HELD else HoldState.HELD
    return SetField(job_id=job_id, reason=reason, field=Field.HOLD, value=value, previous=previous)


def _its_turn(order: Order) -> SetField:
    reason = Reason(
        code=ReasonCode.ITS_TURN,
        text="it is its turn in this round",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    return _set(order.preemptor, reason, HoldState.RELEASED)


def _forget(one: Change[int], held: MutableMapping[JobId, Change[int]]) -> None:
    """Drop a hold that is over. That another hand has let the job through is kept."""
    if one.value == LET_THROUGH:
        held[one.job_id] = replace(one, restored=True)
    else:
        del held[one.job_id]


def _without_mark(one: Change[int], job: Job, context: CycleContext) -> Change[int]:
    """Have the mark removed from a job whose hold is over. Where Slurm denies it that is given up after a while."""
    tried_s, over_s = context.now - one.at, context.now - (one.since or 0.0)
    if job.held or tried_s <= RESEND_AFTER_S or over_s > UNMARK_FOR_S:
        return one
    reason = Reason(code=ReasonCode.ITS_TURN, text="its hold is over: the submission hook's mark is removed")
    context.actions.append(_set(job.job_id, reason, HoldState.UNMARKED))
    return replace(one, at=context.now)


def _must_wait(order: Order, wanted: Collection[JobId], context: CycleContext) -> bool:
    """Check whether a TE job must not start in what is free, though it has an order: no victim leaves for it."""
    is_te = context.snapshot.job_class(order.preemptor) is JobClass.TE
    return is_te and not order.victims and order.preemptor in wanted


def _is_to_be_held(job: Job, one: Change[int] | None, context: CycleContext) -> bool:
    """Check whether a hold is to be sent for a job that must wait: none is there, or it is the hook's alone."""
    if one is None or one.restored:
        return not job.held
    return is_held_by_hook(job) and job.reason == HELD_BY_ITS_USER and context.now - one.at > RESEND_AFTER_S


def _still_held(one: Change[int], context: CycleContext) -> bool:
    """Check whether our hold is in place, or on its way. One that came as the job started waits for its requeue."""
    job = context.snapshot.jobs.get(one.job_id)
    if job is None or one.job_id in context.absent:
        return one.job_id in context.absent
    # Not negative: the clock may have been set back.
    on_its_way = one.value == HELD and 0.0 <= context.now - one.at <= RESEND_AFTER_S
    # Of one that has ended, too: its user may requeue it, and it waits held then.
    return job.priority == 0 or (on_its_way and not job.finished)


def _shows(job_id: JobId, context: CycleContext) -> bool:
    job = context.snapshot.jobs.get(job_id)
    if job is None or not job.held or not (job.reason == HELD_BY_US or is_held_by_hook(job)):
        return False
    return not context.is_refused(Field.HOLD, job.user, puts_back=True)


HOLD_RULE = HoldRule()
