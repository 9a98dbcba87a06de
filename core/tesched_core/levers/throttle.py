"""Policies that share workers among trainings. How that is brought about in Slurm: by the throttles of job arrays.

    share   the array's throttle (ArrayTaskThrottle): Slurm starts its next tasks up to there, and ends none that runs.
    first   a job that is no array and waits is brought to the head of the best-effort queue, by its nice value.

Each lever has its smallest step and its cool-down, so that a forecast that trembles moves nothing. The throttle that an
array came with is its user's limit: never exceeded, and put back when none of its tasks waits any more, or the policy
is another one. What somebody else has set meanwhile is the user's limit from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.levers.queue_boost import brought_first
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetThrottle, Status
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, Refusals
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.room import Room
from tesched_core.model.share_state import ShareState, Throttled
from tesched_core.model.snapshot import Snapshot

#: Throttles that are set in one look: each is a command, and the others come with the next look.
MOST_A_LOOK = 50


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShareView:
    """What such a policy looks at."""

    snapshot: Snapshot
    memory: Memory
    #: room that is free now and promised to nobody
    room: Room
    limits: Limits

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    def own_limit(self, array: JobId, job: Job) -> int:
        """Return the throttle that the array has of its user, 0 for none; `job` is any record of it."""
        state = self.memory.shares
        one = state.throttled.get(array) if state else None
        return job.array_throttle if one is None else one.previous


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProposal:
    """Its answer: the state has the shares, and who of those that are no arrays is to be first."""

    state: ShareState
    #: for each job that the policy looks after, what it has and why
    refusals: tuple[Refusal, ...]


@runtime_checkable
class SharePolicy(Protocol):
    """Says how many workers each training has."""

    @property
    def name(self) -> str:
        """Return the name that the configuration uses."""
        ...

    @property
    def throttle_step(self) -> int:
        """Return the smallest change of a throttle that is made, workers."""
        ...

    @property
    def throttle_cool_down_s(self) -> float:
        """Return for how long an array is left alone after its throttle was changed."""
        ...

    def share_out(self, view: ShareView) -> ShareProposal:
        """Return what each should have now."""
        ...


def share_out(memory: Memory, policy: SharePolicy, room: Room, context: CycleContext) -> tuple[Memory, Refusals]:
    """Return the memory after the policy was asked, and why each has what it has; its actions go to `context`."""
    arrays = _arrays(context.snapshot)
    state = _followed(memory.shares, arrays, context)
    view = ShareView(snapshot=context.snapshot, memory=replace(memory, shares=state), room=room, limits=context.limits)
    proposal = policy.share_out(view)
    state = proposal.state
    throttled = {
        array: one
        for array, one in state.throttled.items()
        if array in state.shares or _put_back(array, one, arrays, context)
    }
    for array, share in state.shares.items():
        seen, before = arrays[array], throttled.get(array)
        if (before is not None and context.now - before.at < policy.throttle_cool_down_s) or _full(context):
            continue
        now_at = seen if before is None or not before.dry else before.value
        if now_at == 0 or abs(share - now_at) >= policy.throttle_step:
            reason = Reason(code=ReasonCode.GETS_SHARE, text=state.said.get(array, ""))
            context.actions.append(SetThrottle(job_id=array, reason=reason, throttle=share, previous=seen))
            own = seen if before is None else before.previous
            throttled[array] = Throttled(at=context.now, previous=own, value=share, before=seen)
    memory = replace(memory, shares=replace(state, throttled=throttled))
    # Whom Slurm did not move is tried again with the next allocation, not at each look.
    if state.first is not None and state.first not in memory.forwarded and state.allocated_at == context.now:
        memory = brought_first(memory, context.snapshot.jobs[state.first], state.said.get(state.first, ""), context)
    return memory, Refusals(proposal.refusals)


def _arrays(snapshot: Snapshot) -> dict[JobId, int]:
    """Return the throttle of each array that has not ended, by its id; all its records show it."""
    return {
        job.array_job_id: job.array_throttle
        for job in snapshot.jobs.values()
        if job.array_job_id is not None and not job.finished
    }


def _followed(state: ShareState | None, arrays: Mapping[JobId, int], context: CycleContext) -> ShareState | None:
    """Return the state without throttles that are not ours any more."""
    if state is None:
        return None
    kept: dict[JobId, Throttled] = {}
    for array, one in state.throttled.items():
        seen = arrays.get(array)
        if seen is None:
            continue
        if one.dry or seen == one.value:
            kept[array] = one
        elif seen == one.before:
            on_its_way = context.now - one.at <= RESEND_AFTER_S
            if on_its_way or one.before != one.previous:
                kept[array] = one if on_its_way else replace(one, value=one.before)
    return replace(state, throttled=kept)


def _put_back(array: JobId, one: Throttled, arrays: Mapping[JobId, int], context: CycleContext) -> bool:
    """Put the array's own throttle back; return whether it is still to be seen there."""
    seen = arrays.get(array)
    # None: it has ended. Another one than ours: somebody else has set it.
    if one.dry or seen is None or seen == one.previous or seen not in {one.value, one.before}:
        return False
    if _full(context):
        return True
    what = "no limit" if one.previous == 0 else str(one.previous)
    reason = Reason(code=ReasonCode.SHARE_ENDED, text=f"put its throttle back to {what}")
    context.actions.append(SetThrottle(job_id=array, reason=reason, throttle=one.previous, previous=seen))
    return True


def _full(context: CycleContext) -> bool:
    return sum(isinstance(action, SetThrottle) for action in context.actions) >= MOST_A_LOOK


def drop_dry_run_records(memory: Memory) -> Memory:
    """Return the memory without what mode shadow would have set: in mode enforce that is still to be done."""
    forwarded = {
        job_id: one
        for job_id, one in memory.forwarded.items()
        if not (one.raised.restored and one.raised.value != one.raised.previous)
    }
    if len(forwarded) < len(memory.forwarded):
        memory = replace(memory, forwarded=forwarded)
    state = memory.shares
    if state is None or not any(one.dry for one in state.throttled.values()):
        return memory
    throttled = {array: one for array, one in state.throttled.items() if not one.dry}
    return replace(memory, shares=replace(state, throttled=throttled))


def restore_all(memory: Memory, context: CycleContext) -> Memory:
    """Put all throttles back, and forget the shares once that is seen."""
    if memory.shares is None:
        return memory
    arrays = _arrays(context.snapshot)
    left = {array: one for array, one in memory.shares.throttled.items() if _put_back(array, one, arrays, context)}
    if not left:
        return replace(memory, shares=None)
    state = ShareState(counted_at=memory.shares.counted_at, throttled=left)
    return replace(memory, shares=state)


def not_throttled(memory: Memory, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory after what became of throttles: one that certainly was not set is as it was."""
    state = memory.shares
    if state is None:
        return memory
    throttled = dict(state.throttled)
    for outcome in outcomes:
        action = outcome.action
        one = throttled.get(action.job_id)
        if one is None or not isinstance(action, SetThrottle):
            continue
        kind = outcome.failure.kind if outcome.failure else None
        if kind is FailureKind.NOT_FOUND:
            del throttled[action.job_id]
            continue
        if action.reason.code is not ReasonCode.GETS_SHARE:
            continue
        if outcome.status is Status.WOULD and one.before == one.previous:
            throttled[action.job_id] = replace(one, dry=True)
        elif outcome.status in {Status.SKIPPED, Status.WOULD} or (
            outcome.status is Status.FAILED and kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}
        ):
            # Kept for its cool-down, so that who says no is not asked at each look.
            throttled[action.job_id] = replace(one, value=one.before)
    return replace(memory, shares=replace(state, throttled=throttled))


def shift_times(state: ShareState, by_s: float) -> ShareState:
    """Return the state as it is to be read after the clock was set."""
    return replace(
        state,
        counted_at=state.counted_at + by_s,
        allocated_at=state.allocated_at + by_s,
        next_at=state.next_at + by_s,
        first_at=state.first_at + by_s,
        throttled={job_id: replace(one, at=one.at + by_s) for job_id, one in state.throttled.items()},
    )
