"""Turns of BE jobs that others have come before: who has started on the nodes of a round's order.

A job that moves leaves its nodes, and is not started again before its begin time: `SlurmSettings.requeue_delay_s`.
Until then its new nodes are free for whatever starts by itself: a trial, or a job that has just been submitted. Its
order would last for its whole time then, with the job bound to nodes that are taken. So the order ends, and the policy
gives the job other nodes in the same cycle; no futile order of its own keeps it from that.

What a TE job's order loses is dealt with by `reinforce.py`.
"""

from __future__ import annotations

import re

from tesched_core.context import CycleContext
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.order import HOLDS_RESOURCES, Order
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import HELD_BY_US

#: JobHeldUser, job_requeued_in_held_state, JobHoldMaxRequeue
_OF_A_HOLD = re.compile("held|hold", re.IGNORECASE)
#: Slurm's times are whole seconds.
_WHOLE_S = 1.0


def overtaken(order: Order, job: Job, context: CycleContext) -> str:
    """Say which jobs have started on the nodes of a waiting BE job's turn since its order was made; empty if none.

    Nodes are read after the jobs: what they hold may be the job itself, so one that is seen there has to be the reason.
    """
    in_round = context.snapshot.job_class(order.preemptor) is JobClass.BE
    leaving = any(victim.state in HOLDS_RESOURCES for victim in order.victims)
    if not in_round or not order.nodes or leaving or not job.pending or context.fits(order):
        return ""
    nodes = frozenset(order.nodes)
    there = [one for one in context.snapshot.jobs.values() if one.on_nodes and not nodes.isdisjoint(one.nodes)]
    if any(one.completing for one in there):
        return ""  # what it gives back may be enough
    late = [one for one in there if one.start_time is not None and one.start_time > order.created_at - _WHOLE_S]
    names = ", ".join(one.label for one in late)
    return f"job {names} has started on {','.join(order.nodes)}, before job {job.label} could" if late else ""


def is_held_by_us(job: Job, context: CycleContext) -> bool:
    """Check whether a preemptor waits for a release that is tesched's to send, and is sent as it has an order.

    A hold may reach Slurm as the job starts: it lasts over its requeue. At first Slurm gives the end of its last run as
    the reason, such as NonZeroExitCode; any other hold has a reason of its own.
    """
    one = context.changes_of(Field.HOLD).get(job.job_id)
    is_ours = job.reason == HELD_BY_US or not _OF_A_HOLD.search(job.reason)
    return job.held and is_ours and one is not None and one.by is None and not one.restored
