"""Nice value of a preemptor: it is first in the queue while its victims leave.

It is raised by its nice value; where Slurm ignores that, by an explicit priority (`fields/nice.py`).
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Orders, certainly_failed
from tesched_core.fields.nice import (
    MAX_PRIORITY,
    MIN_NICE,
    is_left,
    is_ours,
    nice_set,
    set_of_its_array,
    times_undone,
    value_of,
)
from tesched_core.fields.reconcile import Want
from tesched_core.fields.slurms_word import considered_at_the_head
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES, seen_at_the_head
from tesched_core.model.actions import Outcome, Reason, ReasonCode, Status
from tesched_core.model.change import WRITTEN_WITHIN_S, By, Change, first_change
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.order import Order, OrderState, Victim
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import AwaitRoom, Plan

#: Margin above the others, so that a priority that grows with age does not overtake at once.
PRIORITY_MARGIN = 1000
#: why a preemptor is raised
RAISES = frozenset({ReasonCode.MAKE_ROOM_FIRST, ReasonCode.ROOM_IS_FREE})


def want_of(order: Order, context: CycleContext) -> Want[int] | None:
    """Priority that the preemptor needs before its victims leave, or another job takes the resources; None: it has it.

    The value is the least priority with which it is first in its queue.
    """
    job = context.snapshot.jobs.get(order.preemptor)
    if job is None or not job.pending or job.held:
        return None
    needed = needed_priority(job, order.victims, context)
    in_round = context.snapshot.job_class(job.job_id) is JobClass.BE
    if (order.waits or (in_round and order.victims)) and _is_said_since_submission(job, context):
        needed = max(needed, job.priority + 1)  # so that what Slurm says is of its next pass
    if needed <= job.priority or job.nice <= MIN_NICE:
        return None
    why = Reason(
        code=ReasonCode.MAKE_ROOM_FIRST if order.victims else ReasonCode.ROOM_IS_FREE,
        text="it must be first in the queue, or another job takes the resources",
        preemptor=job.job_id,
        order_id=order.order_id,
    )
    # Another one is first by itself, or its victims leave already (`orders/refused_changes.py`).
    return Want(job_id=job.job_id, value=needed, why=why, by=By.PREEMPTOR, insists=in_round)


def raised(want: Want[int], one: Change[int] | None, job: Job, context: CycleContext) -> Change[int]:
    """Change that makes the job first: what was set of its nice value, for whatever purpose, is raised further."""
    one = None if one is None or one.restored else one
    one = None if one is None else _not_lost(one, job, context)
    undone = 0 if one is None else times_undone(one, job, By.PREEMPTOR)
    if one is not None and not is_ours(job, one) and value_of(job, one) != one.previous:
        one = None  # others have set it since: that is what it is put back to
    explicit, order_id = min(want.value + PRIORITY_MARGIN, MAX_PRIORITY), want.why.order_id
    array = set_of_its_array(job, Field.PRIORITY, context)
    own = job.priority if array is None else array.previous
    fresh = first_change(job.job_id, Field.PRIORITY, own, explicit, context.now, by=By.PREEMPTOR, order_id=order_id)
    fresh = replace(fresh, undone=undone, before=None if array is None else job.priority)
    if one is not None and _ignored(one, job, context):
        return fresh
    in_force = one is not None and value_of(job, one) != one.previous
    if not in_force and context.is_refused(Field.NICE, job.user):
        return fresh  # what is in force stays: an explicit priority on top of it could not be put back whole
    if one is None or one.field is Field.NICE:
        missing = want.value - job.priority
        value = max(job.nice - missing - PRIORITY_MARGIN, MIN_NICE)
        return replace(nice_set(job, value, one, want, context), undone=undone)
    taken_at = one.taken_at if (undone, explicit) == (one.undone, one.value) else None
    return replace(
        one, by=By.PREEMPTOR, value=explicit, at=context.now, order_id=order_id, undone=undone, taken_at=taken_at
    )


def _is_said_since_submission(job: Job, context: CycleContext) -> bool:
    one = context.changes_of(Field.NICE).get(job.job_id)
    return seen_at_the_head(job) and not considered_at_the_head(job, context.snapshot, one)


def say_again(before: Change[int] | None, after: Change[int], job: Job, context: CycleContext) -> None:
    """Record that a raise is made again, since others have undone it."""
    if before is not None and after.order_id is not None and after.undone > before.undone:
        text = f"{_what_undid_it(before, job)}; it is raised again"
        context.moved(after.order_id, job.job_id, "raised", "raised", text)


def why_left(order: Order, job: Job, context: CycleContext) -> str:
    """Reason that the order's job is not raised once more, in words; empty if it may be."""
    one = context.changes_of(Field.NICE).get(job.job_id)
    if one is None or one.order_id != order.order_id or not job.pending or not is_left(one, job):
        return ""
    if needed_priority(job, order.victims, context) <= job.priority:
        return ""  # it is first without
    return f"{_what_undid_it(one, job)}: it was raised again {one.undone} times, and is left"


def after(one: Change[int], outcome: Outcome, orders: Orders, *, is_first: bool) -> Change[int] | None:
    """Return a raise after what became of its command: of the first that certainly did not arrive nothing is left."""
    order = orders.get(one.order_id) if one.order_id is not None else None
    if order is None or order.state is not OrderState.OPEN or outcome.action.reason.order_id != order.order_id:
        return one
    if outcome.status is Status.SENT and one.taken_at is None:
        return replace(one, taken_at=outcome.at)
    # Else an earlier raise did arrive.
    return None if is_first and (outcome.status is Status.WOULD or certainly_failed(outcome)) else one


def _ignored(one: Change[int], job: Job, context: CycleContext) -> bool:
    """Check whether Slurm took a nice value some time ago, and again in a later poll, and it has changed nothing.

    A command that got no answer says nothing of that: it is sent again. So is the first one that changed nothing:
    slurmctld may have been killed after it, and gone on with an older state. An explicit priority is a lasting change.
    """
    if not _is_unchanged(one, job) or one.taken_at is None:
        return False
    return one.at > one.taken_at and context.now > one.taken_at + RESEND_AFTER_S


def _is_unchanged(one: Change[int], job: Job) -> bool:
    return one.field is Field.NICE and job.nice == one.previous


def _not_lost(one: Change[int], job: Job, context: CycleContext) -> Change[int]:
    """Return the change; of a nice value that may be lost with a slurmctld that was killed, as if it were not taken.

    It may be where no answer came for a while after it was sent, or right after the first one. Not while a node
    has not reported: one that never does would leave the job without its place, and its victims leave all the same.
    """
    if not (_is_unchanged(one, job) and context.snapshot.controller_is_new):
        return one
    was_away = context.now - one.at > context.longest_wait_s + WRITTEN_WITHIN_S
    is_first = one.since is not None and context.now - one.since < WRITTEN_WITHIN_S
    return replace(one, taken_at=None) if was_away or is_first else one


def _what_undid_it(one: Change[int], job: Job) -> str:
    """Sign that a raise is not in force, in words."""
    if one.field is Field.NICE and job.nice == one.value:
        return f"its priority is {job.priority} again though its nice value stays {job.nice}"
    return f"its {one.field} was set to {value_of(job, one)} by others"


def needed_priority(job: Job, victims: tuple[Victim, ...], context: CycleContext) -> int:
    """Return the least priority with which the job is ahead of every other one that could take its resources.

    Those are the pending jobs of its tier in the partitions that share nodes with its own, and its victims, which come
    back with the priority that they had. Of the other jobs for which resources are freed those that came later
    are among them: raised above a victim of its own, a later one would be ahead of this one, and take what comes free.
    """
    jobs = context.snapshot.jobs
    rivals = context.partitions_beside(job.partitions)

    def among(one: Job) -> bool:
        return one.job_id != job.job_id and not rivals.isdisjoint(one.partitions)

    leaving = [jobs[victim.job_id] for victim in victims if victim.job_id in jobs]
    paying = max((one.priority for one in leaving if among(one)), default=0)
    place, younger = (job.submit_time, job.job_id), 0
    for one in filter(None, map(jobs.get, context.preemptors)):
        # What rules most of them out is checked first.
        if one.priority > younger and (one.submit_time, one.job_id) > place and one.pending and among(one):
            younger = one.priority
    excluded = context.preemptors | {job.job_id}
    return 1 + max(paying, younger, context.columns.first_in_queue(rivals, excluded))


def outranked(plan: Plan, context: CycleContext) -> Refusal | None:
    """Refusal of this plan, where a job of a higher tier waits for the same nodes; None: none does.

    Slurm comes to that one first, whatever their priorities are, and it would take what the victims leave. TE jobs do
    not count: resources are freed for them as well.
    """
    if isinstance(plan, AwaitRoom):
        return None
    snapshot, job = context.snapshot, context.snapshot.jobs[plan.preemptor]
    tiers = [snapshot.partitions[name].priority_tier for name in job.partitions if name in snapshot.partitions]
    nodes = frozenset(plan.nodes)
    above = {
        name
        for name, one in snapshot.partitions.items()
        if tiers and one.priority_tier > max(tiers) and one.state == "UP" and not nodes.isdisjoint(one.nodes)
    }
    if not above or not plan.victims:
        return None
    for other in snapshot.jobs.values():
        waits = other.pending and not other.held and other.reason in WAITS_FOR_RESOURCES
        mine = above & set(other.partitions)
        if waits and mine and snapshot.job_class(other.job_id) is not JobClass.TE:
            where = f"waits in {min(mine)}, of a higher PriorityTier over {','.join(plan.nodes)}"
            text = f"job {other.label} {where}: it would take what a victim leaves there"
            return Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.OUTRANKED, text=text)
    return None
