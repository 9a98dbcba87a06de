"""Victims that are to run again though their run has ended for good: they died of their notice, or saved and exited.

Definitions
    died of its notice  the job had its notice and then FAILED, within its grace period: the signal ended it, or a trap
                        that ends with a code of its own.
    rerun               `scontrol requeue` of a job that has ended, which Slurm does for as long as it remembers it
                        (MinJobAge).
    lost                a victim that should run again and was not put back in the queue in that time. The goal is 0.

Principle
    Slurm looks at the jobs that depend on a job (afterok) in its next scheduling pass. As long as the victim is put
    back before that, they wait on as if nothing had happened; else Slurm calls their dependency never satisfied, and
    it must be written anew. Jobs that waited for its end or its failure (afterany, afternotok) have started by then.

Source
    tesched's own; tried on 22.05 and 26.05.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.model.actions import Reason, ReasonCode, Rerun, SetDependency
from tesched_core.model.cluster import Job
from tesched_core.model.order import Departure, Order, Victim

#: Seconds after a victim has left in which the jobs that depend on it are looked after: Slurm's passes are at most 60 s
#: apart, and from the rerun on they find a job that waits.
MEND_FOR_S = 120.0


def rerun(victim: Victim, order: Order, context: CycleContext) -> Victim:
    """Return the victim after it was asked that its job be put back in the queue, since its run has ended.

    At once: a job that depends on it (afterok) is looked at in Slurm's next pass, and is stuck from then on.
    """
    how = "died of its notice" if victim.departure is Departure.DIED_OF_NOTICE else "has saved its work and ended"
    reason = Reason(
        code=ReasonCode.RUNS_AGAIN,
        text=f"it made room for job {order.preemptor}, {how}, and is to run again",
        preemptor=order.preemptor,
        order_id=order.order_id,
    )
    context.actions.append(Rerun(job_id=victim.job_id, reason=reason, restarts=victim.restarts))
    return replace(victim, requeue_sent_at=context.now)


def lost(victim: Victim, why: str, order: Order, context: CycleContext) -> Victim:
    """Return the victim that will not run again by itself: the worst that can become of one."""
    text = f"LOST: {why}; its user must submit it again"
    context.moved(order.order_id, victim.job_id, victim.state, victim.state, text)
    return replace(victim, departure=Departure.LOST)


def not_rerun(victim: Victim, why: str, order: Order, context: CycleContext) -> Victim:
    """Return the victim after Slurm refused to put it back in the queue."""
    return lost(victim, f"Slurm does not put it back in the queue ({why})", order, context)


def mend_dependents(victim: Victim, job: Job, order: Order, context: CycleContext) -> None:
    """Write the dependencies anew that Slurm has given up since the victim was seen to have failed."""
    if victim.left_at is None or context.now - victim.left_at > MEND_FOR_S:
        return
    stuck = re.compile(rf"(?<![\d_])(?:{job.job_id}|{re.escape(job.label)})\(failed\)")
    for waits in context.snapshot.jobs.values():
        if not waits.pending or not stuck.search(waits.dependency):
            continue
        text = f"it depends on job {victim.job_id}, which had died of its notice and is to run again"
        reason = Reason(code=ReasonCode.MENDS_DEPENDENCY, text=text, preemptor=order.preemptor, order_id=order.order_id)
        whole = re.sub(r"\([a-z]+\)", "", waits.dependency)
        context.actions.append(SetDependency(job_id=waits.job_id, reason=reason, dependency=whole))
