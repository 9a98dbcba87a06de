"""Policies that go in rounds: who runs where for the next minutes, and who waits. How that is brought about in Slurm.

    start       an order without victims: the job is bound to its nodes and put first in the queue.
    start with  an order whose victims are those on these nodes that have no turn.
    move        an order in which the job is its own victim: it gets its notice, leaves, and starts on the other nodes.
    wait        the job is held, or it would start in the gap between somebody's leaving and somebody's coming.

So everything goes through the guard, and through the orders' own rules: nobody is asked twice, whatever was changed is
put back, a restarted daemon goes on. The TE policy comes first; what it has promised is not there for a round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from tesched_core.guard.admission import admitted
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.model.actions import Hold, Reason, ReasonCode, Release
from tesched_core.model.cluster import Job
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.decision import Refusal, Refusals
from tesched_core.model.limits import Limits, RoundLimits
from tesched_core.model.memory import Memory
from tesched_core.model.order import OrderState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.room import Room
from tesched_core.model.round_state import RoundState
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import Eligibility, Plan, View

#: Most jobs that are held in one look: each is one call of Slurm, and trials wait meanwhile.
MOST_HELD = 50
#: What Slurm says of a job that an operator holds; its own user's hold is not ours to end.
HELD_BY_US = "JobHeldAdmin"
HELD_BY_ITS_USER = "JobHeldUser"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundView:
    """What such a policy looks at."""

    snapshot: Snapshot
    memory: Memory
    columns: ClusterColumns
    #: of those that run
    eligibility: Eligibility
    #: room that is free now and promised to nobody
    room: Room
    limits: Limits = field(default_factory=Limits)

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    def held_by_us(self, job: Job) -> bool:
        """Return whether the job is held, and by tesched."""
        state = self.memory.rounds
        return job.held and job.reason == HELD_BY_US and state is not None and job.job_id in state.held


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundProposal:
    """Its answer."""

    #: at most one for a job; a victim may be the preemptor itself, which then moves
    plans: tuple[Plan, ...]
    hold: tuple[JobId, ...]
    state: RoundState
    #: for each job that the policy looks after, why it is where it is
    refusals: tuple[Refusal, ...]
    #: why those are held, one sentence
    hold_because: str = (
        "this round's accelerators go to others; it is held so that it does not start in a gap between two jobs"
    )
    #: held by tesched, and to be left to Slurm without a place of its own; and why, one sentence
    let_go: tuple[tuple[JobId, str], ...] = ()
    #: whom the policy looks after now: whoever else is held by tesched is let go
    minds: frozenset[JobId] = frozenset()


@runtime_checkable
class RoundPolicy(Protocol):
    """Says who runs where, round after round."""

    @property
    def name(self) -> str:
        """Return the name that the configuration uses."""
        ...

    @property
    def limits(self) -> RoundLimits:
        """Return how much its turns may cost."""
        ...

    def turn(self, view: RoundView) -> RoundProposal:
        """Return what is to be done now, for what this round wants."""
        ...


def propose_round(
    memory: Memory, policy: RoundPolicy, room: Room, context: CycleContext, *, asked: int = 0
) -> tuple[Memory, tuple[Plan, ...], Refusals]:
    """Return the memory after the policy was asked, the plans that the guard admits, and why it is as it is.

    `room` is what is free and reserved for no order, `asked` the number of victims of this cycle so far. Holds go to
    `context`; releases come when the plans are orders (`release`), or a job would start on any free node before it is
    bound to its own.
    """
    snapshot, columns, limits = context.snapshot, context.columns, context.limits
    excused = eligible_victims(columns.running, memory, limits, context.now, room.index, rounds=policy.limits)
    seen = RoundView(snapshot=snapshot, memory=memory, columns=columns, eligibility=excused, room=room, limits=limits)
    proposal = policy.turn(seen)
    view = View(snapshot=snapshot, memory=memory, waiting=(), running=columns.running, eligibility=excused, room=room)
    dropped: list[Refusal] = []
    plans = admitted(proposal.plans, view, limits, dropped.append, asked=asked, rounds=policy.limits)
    held = {job_id: at for job_id, at in proposal.state.held.items() if _still_held(job_id, at, context)}
    # Slurm starts the first in the queue first. Of thousands the others have their turn in the next looks.
    for job_id in sorted(proposal.hold, key=lambda one: (-snapshot.jobs[one].priority, one))[:MOST_HELD]:
        held[job_id] = context.now
        reason = Reason(code=ReasonCode.NOT_ITS_TURN, text=proposal.hold_because)
        context.actions.append(Hold(job_id=job_id, reason=reason))
    strangers = [
        (job_id, "the policy does not look after it any more")
        for job_id in proposal.state.held
        if job_id not in proposal.minds and job_id in snapshot.jobs and seen.held_by_us(snapshot.jobs[job_id])
    ]
    for job_id, text in dict([*strangers, *proposal.let_go]).items():
        context.actions.append(Release(job_id=job_id, reason=Reason(code=ReasonCode.ITS_TURN, text=text)))
    return replace(memory, rounds=replace(proposal.state, held=held)), plans, Refusals((*proposal.refusals, *dropped))


def _still_held(job_id: JobId, at: UnixSeconds, context: CycleContext) -> bool:
    """Return whether our hold is in place, or on its way. One that came as the job started waits for its requeue."""
    job = context.snapshot.jobs.get(job_id)
    if job is None or job_id in context.absent:
        return job_id in context.absent
    return not job.finished and (job.priority == 0 or context.now - at <= RESEND_AFTER_S)


def release(memory: Memory, context: CycleContext) -> None:
    """Release the held jobs that have an order: it is their turn, and each can start on its own nodes alone."""
    if memory.rounds is None:
        return
    for order in memory.open_orders():
        job = context.snapshot.jobs.get(order.preemptor)
        waits = job is not None and job.pending and job.held and job.reason == HELD_BY_US
        if order.state is OrderState.OPEN and waits and order.preemptor in memory.rounds.held:
            reason = Reason(
                code=ReasonCode.ITS_TURN,
                text="it is its turn in this round",
                preemptor=order.preemptor,
                order_id=order.order_id,
            )
            context.actions.append(Release(job_id=order.preemptor, reason=reason))


def release_all(memory: Memory, context: CycleContext, *, forget: bool = True) -> Memory:
    """Release the jobs that are held for their turn, and `forget` the rounds once none is.

    A hold that is on its way, or that came as the job started, is remembered: it shows later, or at the job's requeue.
    """
    if memory.rounds is None:
        return memory
    left: dict[JobId, UnixSeconds] = {}
    for job_id, at in memory.rounds.held.items():
        job = context.snapshot.jobs.get(job_id)
        if not _still_held(job_id, at, context) or (job is not None and job.held and job.reason == HELD_BY_ITS_USER):
            continue
        left[job_id] = at
        if job is not None and job.held and job.reason == HELD_BY_US:
            left[job_id] = 0.0  # it is no longer on its way: once the job is free, nothing is left
            text = "it is held for no round any more"
            context.actions.append(Release(job_id=job_id, reason=Reason(code=ReasonCode.ITS_TURN, text=text)))
    return replace(memory, rounds=None if forget and not left else replace(memory.rounds, held=left))


def shift_times(state: RoundState, by_s: float) -> RoundState:
    """Return the state as it is to be read after the clock was set."""
    held: Mapping[JobId, UnixSeconds] = {job_id: at + by_s for job_id, at in state.held.items()}
    plans = {
        job_id: replace(plan, planned_at=plan.planned_at + by_s, start_at=plan.start_at + by_s)
        for job_id, plan in state.plans.items()
    }
    return replace(
        state,
        began_at=state.began_at + by_s,
        ends_at=state.ends_at + by_s,
        counted_at=state.counted_at + by_s,
        solved_at=state.solved_at + by_s,
        held=held,
        plans=plans,
    )
