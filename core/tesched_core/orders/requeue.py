"""Requeue lever: a victim is put back in the queue, and runs again, whatever became of its run.

Definitions
    died of its notice  the job had its notice and then FAILED, within its grace period: the signal ended it, or a trap
                        that ends with a code of its own.
    rerun               `scontrol requeue` of a job that has ended, which Slurm does for as long as it remembers it
                        (MinJobAge); of one that has failed, while its nodes are completing (`orders/early_rerun.py`).
    lost                a victim that should run again and was not put back in the queue in that time. The goal is 0.

Principle
    Slurm considers the jobs that depend on a job (afterok) in its next scheduling pass. As long as the victim is put
    back before that, they wait on as if nothing had happened; else Slurm calls their dependency never satisfied, and
    it must be written anew. Jobs that waited for its end or its failure (afterany, afternotok) have started by then.

Source
    tesched's own; tried on 22.05 and 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever, Orders, final, of_failed, said, with_victim
from tesched_core.model.actions import (
    Cancel,
    Outcome,
    Reason,
    ReasonCode,
    Requeue,
    Rerun,
    SetField,
    Status,
)
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import TO_RERUN, Departure, Order, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.notice import not_taken

#: Seconds after a victim has left in which the jobs that depend on it are mended: Slurm's passes are at most 60 s
#: apart, and from the rerun on they find a job that waits.
MEND_FOR_S = 120.0


class RequeueLever(Lever):
    """Requeue of victims."""

    name = "requeue"

    def ask(self, victim: Victim, order: Order, context: CycleContext, code: ReasonCode) -> Victim:
        """Return the victim after its requeue was sent, or of one that ends for good its cancel; or once more."""
        again = victim.state is VictimState.REQUEUING
        text = (
            f"it has no grace period, and job {order.preemptor} needs its resources"
            if code is ReasonCode.NO_GRACE
            else f"it has declared no signal, so Slurm's SIGTERM is its notice; job {order.preemptor} needs the nodes"
            if code is ReasonCode.NO_SIGNAL
            else f"its grace period of {victim.grace_period_s:.0f} s is over and it still runs"
        )
        reason = Reason(code=code, text=text, preemptor=order.preemptor, order_id=order.order_id)
        action, what = (Cancel, "cancelled, as its owner has said") if victim.ends else (Requeue, "requeue")
        context.actions.append(action(job_id=victim.job_id, reason=reason, restarts=victim.restarts))
        told = f"{what}{' (again)' if again else ''}: {text}"
        requeuing = replace(victim, state=VictimState.REQUEUING, requeue_sent_at=context.now)
        return context.victim_step(order, victim, requeuing, told)

    def rerun(self, victim: Victim, order: Order, context: CycleContext) -> Victim:
        """Return the victim after its rerun was sent: its run has ended, and its job is to be put back in the queue.

        At once: a job that depends on it (afterok) is considered in Slurm's next pass, and is stuck from then on.
        """
        how = "has saved its work and ended" if victim.departure is Departure.SAVED else "died of its notice"
        reason = Reason(
            code=ReasonCode.RUNS_AGAIN,
            text=f"it freed resources for job {order.preemptor}, {how}, and is to run again",
            preemptor=order.preemptor,
            order_id=order.order_id,
        )
        context.actions.append(Rerun(job_id=victim.job_id, reason=reason, restarts=victim.restarts))
        return replace(victim, requeue_sent_at=context.now)

    def mend_dependents(self, victim: Victim, job: Job, order: Order, context: CycleContext) -> None:
        """Write the dependencies anew that Slurm has given up since the victim was seen to have failed."""
        if victim.left_at is None or context.now - victim.left_at > MEND_FOR_S:
            return
        for waits in context.snapshot.jobs.values():
            if not waits.pending or not _given_up(job, waits).search(waits.dependency):
                continue
            text = f"it depends on job {victim.job_id}, which had died of its notice and is to run again"
            reason = Reason(
                code=ReasonCode.MENDS_DEPENDENCY, text=text, preemptor=order.preemptor, order_id=order.order_id
            )
            whole = re.sub(r"\([a-z]+\)", "", waits.dependency)
            context.actions.append(
                SetField(
                    job_id=waits.job_id,
                    reason=reason,
                    field=Field.DEPENDENCY,
                    value=whole,
                    previous=waits.dependency,
                )
            )

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Do nothing: a requeue cannot be taken back."""

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take back the requeues that certainly were not made; a job that Slurm does not run again is lost.

        A rerun that mode shadow has only recorded is sent by the turn that puts back what mode enforce has changed.
        """
        for outcome in outcomes:
            job_id = outcome.action.job_id
            asked = of_failed(outcome, (Requeue, Cancel), orders)
            again = of_failed(outcome, Rerun, orders, or_recorded=True)
            if asked is not None and not_taken(outcome):
                if final(outcome):
                    context.draft.update(job_id, last_preempted=context.now)  # it had its notice, and is let go
                orders[asked.order_id] = with_victim(asked, job_id, partial(_stays, spared=final(outcome)))
                context.moved(asked.order_id, job_id, "sent", "not sent", said(outcome))
            elif again is not None and final(outcome) and _has_left(again, job_id):
                # After any other failure it is sent again, until Slurm has forgotten the job; so is an early one.
                why = f"Slurm does not put it back in the queue ({said(outcome)})"
                is_lost = partial(lost, why=why, order=again, context=context)
                orders[again.order_id] = with_victim(again, job_id, is_lost)
            elif again is not None and outcome.status is not Status.FAILED:
                orders[again.order_id] = with_victim(again, job_id, partial(replace, requeue_sent_at=None))

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count nothing: what a requeue may leave in Slurm is a hold (`fields/left_held.py`)."""
        return 0


def owes_rerun(victim: Victim, job: Job) -> bool:
    """Check whether a victim's run is over for good, and its job is not back in the queue though it is to run again."""
    return victim.awaited and victim.departure in TO_RERUN and job.restarts == victim.restarts and not job.pending


def _given_up(job: Job, waits: Job) -> re.Pattern[str]:
    """Pattern of a dependency on this job that Slurm has given up, as squeue shows it of a job that waits.

    By aftercorr a task waits for the task of its number alone, and is shown with the whole array.
    """
    names = [str(job.job_id), re.escape(job.label)]
    if job.array_task_id is not None and job.array_task_id == waits.array_task_id:
        names.append(rf"aftercorr:{job.array_job_id}_\*")
    return re.compile(rf"(?<![\d_])(?:{'|'.join(names)})\(failed\)")


def _has_left(order: Order, job_id: JobId) -> bool:
    return any(victim.job_id == job_id and victim.state is VictimState.LEFT for victim in order.victims)


def lost(victim: Victim, *, why: str, order: Order, context: CycleContext) -> Victim:
    """Return the victim that will not run again by itself: the worst that can become of one."""
    gone = replace(victim, departure=Departure.LOST, given_up_at=context.now)
    return context.victim_step(order, victim, gone, f"LOST: {why}; its user must submit it again")


def _stays(victim: Victim, *, spared: bool) -> Victim:
    if spared:
        return replace(victim, state=VictimState.SPARED)
    return replace(victim, state=VictimState.NOTICED, requeue_sent_at=None)


REQUEUE_LEVER = RequeueLever()
