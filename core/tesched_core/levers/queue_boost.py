"""Best-effort jobs that a best-effort policy brought forward: raised by their nice value, put back when they run.

Who has not started `LASTS_S` after it was brought forward (somebody else took the room, or Slurm ignores its nice
value) is put back as well, and may be brought forward again. As with orders, a value is believed to be back only when
that is seen, and one that somebody else has set is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tesched_core.levers.context import CycleContext
from tesched_core.levers.priority import MIN_NICE
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetNice, Status
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusals
from tesched_core.model.memory import Forwarded, Memory
from tesched_core.model.order import Lever, Raise
from tesched_core.model.resources import JobId
from tesched_core.model.room import Room
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demand_of
from tesched_core.policy import BePolicy, BeView

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s).
LASTS_S = 90.0
#: Room above the others, as for preemptors and victims, and below both.
MARGIN = 250


def restore(memory: Memory, context: CycleContext, *, lasts_s: float = LASTS_S) -> Memory:
    """Put back whoever has started, or has not in time; return the memory without those that are as they were."""
    kept: dict[JobId, Forwarded] = {}
    for job_id, one in memory.forwarded.items():
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent:
            kept[job_id] = one
            continue
        if job is None or job.finished:
            continue
        # Who is to be first for as long as he gains most waits for room that nobody can foretell.
        stays = memory.shares is not None and memory.shares.first == job_id
        if job.pending and (stays or context.now - one.at <= lasts_s):
            kept[job_id] = one
        elif not one.raised.restored and one.raised.value <= job.nice < one.raised.previous:
            kept[job_id] = one
            reason = Reason(code=ReasonCode.FILLED, text=f"put its nice back to {one.raised.previous}")
            back = SetNice(job_id=job_id, reason=reason, nice=one.raised.previous, previous=job.nice)
            context.actions.append(back)
    return replace(memory, forwarded=kept)


def boost(
    memory: Memory, policy: BePolicy, room: Room, ahead: Sequence[Job], context: CycleContext
) -> tuple[Memory, Refusals]:
    """Ask the policy, bring forward whom it names, and return why not the others.

    `room` is what is free and promised to nobody, `ahead` the TE jobs that wait for such room.
    """
    view = BeView(
        now=context.now,
        waiting=context.columns.waiting,
        room=room,
        ends=context.columns.ends,
        ahead=tuple(_demands(ahead, room, context)),
        forwarded=frozenset(memory.forwarded),
    )
    if not len(view.waiting):
        return memory, Refusals()
    proposal = policy.propose(view)
    forwarded = dict(memory.forwarded)
    going = {*forwarded, *(one.job_id for one in proposal.forward)}
    for one in proposal.forward:
        reason = Reason(code=ReasonCode.FILLS_ROOM, text=f"on {','.join(one.nodes)} {one.text}")
        forwarded[one.job_id] = _brought_forward(context.snapshot.jobs[one.job_id], going, reason, context)
    return replace(memory, forwarded=forwarded), proposal.refusals


def brought_first(memory: Memory, job: Job, text: str, context: CycleContext) -> Memory:
    """Return the memory after this job, which waits, was brought to the head of the best-effort queue."""
    reason = Reason(code=ReasonCode.GAINS_MOST, text=text)
    one = _brought_forward(job, {*memory.forwarded, job.job_id}, reason, context)
    return replace(memory, forwarded={**memory.forwarded, job.job_id: one})


def _demands(jobs: Sequence[Job], room: Room, context: CycleContext) -> Iterator[Demand]:
    for job in jobs:
        with suppress(UnsupportedRequestError):  # it is left to Slurm
            yield demand_of(job, context.snapshot, room)


def _brought_forward(job: Job, going: set[JobId], reason: Reason, context: CycleContext) -> Forwarded:
    rivals = context.partitions_beside(job.partitions)
    missing = 1 + context.columns.first_in_queue(rivals, going, best_effort=True) - job.priority
    value = max(job.nice - missing - MARGIN, MIN_NICE)
    if missing <= 0 or value >= job.nice:
        return Forwarded(job_id=job.job_id, at=context.now, raised=_as_it_is(job))
    context.actions.append(SetNice(job_id=job.job_id, reason=reason, nice=value, previous=job.nice))
    raised = Raise(lever=Lever.NICE, previous=job.nice, value=value)
    return Forwarded(job_id=job.job_id, at=context.now, raised=raised)


def _as_it_is(job: Job) -> Raise:
    return Raise(lever=Lever.NICE, previous=job.nice, value=job.nice, restored=True)


def not_forwarded(memory: Memory, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory without those that certainly were not brought forward; in shadow mode, nobody was."""
    forwarded = dict(memory.forwarded)
    for outcome in outcomes:
        action = outcome.action
        one = forwarded.get(action.job_id)
        if one is None or action.reason.code not in {ReasonCode.FILLS_ROOM, ReasonCode.GAINS_MOST}:
            continue
        if outcome.status is Status.WOULD:
            forwarded[action.job_id] = replace(one, raised=replace(one.raised, restored=True))
        elif outcome.status in {Status.FAILED, Status.SKIPPED}:
            kind = outcome.failure.kind if outcome.failure else None
            if kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}:  # it may have arrived all the same
                del forwarded[action.job_id]
    return replace(memory, forwarded=forwarded)
