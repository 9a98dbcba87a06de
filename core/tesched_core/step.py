"""One step: a pure function, called by the daemon on a real cluster and by the simulator on a virtual one.

    step(memory, snapshot, policies, limits) -> (memory', decision)

Orders under way go on first. Then each policy proposes in turn, with the view after what the policies before it have
reserved; the guard admits or refuses what it proposes, and the levers carry out what is left. `orders/outcomes.py`
takes in what became of the actions, where that is known before the next snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Lever
from tesched_core.fields.put_back_lately import with_put_back, with_those_back_again
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.guard.misuse import barred_users, outlived_lately
from tesched_core.guard.te_limits import above_te_limits, submitted_by_user
from tesched_core.intake.patience import patience_ends
from tesched_core.model.actions import Action, holds, sets
from tesched_core.model.change import By
from tesched_core.model.cluster import Job
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.decision import Admission, BoundNow, Decision, Refusal, RefusalCode, Refusals, SubmittedTe
from tesched_core.model.field import Field
from tesched_core.model.known_jobs import KnownCluster
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.site_answers import SiteAnswers
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.advance import advance
from tesched_core.orders.bystanders import see_bystanders, with_tasks
from tesched_core.orders.came_back import see_returns
from tesched_core.orders.clock_jump import with_none_ahead
from tesched_core.orders.first_look import waits_for_resources_alone
from tesched_core.orders.levers import LEVERS
from tesched_core.orders.marking import see_what_slurm_did
from tesched_core.orders.no_plan import without_plan
from tesched_core.orders.reinforce import add_victims, reopened
from tesched_core.orders.serve import Served, serve
from tesched_core.orders.settled import excuse_waits
from tesched_core.orders.summary import summary
from tesched_core.orders.te_first import without_waiting_turns
from tesched_core.orders.te_queue import te_queue
from tesched_core.orders.tell_users import Telling, tell_users
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.deadlines import Deadlines
from tesched_core.policy import (
    BoostJob,
    HoldJob,
    Intent,
    LeverIntent,
    MakeRoom,
    PolicyEntry,
    Proposal,
    ReleaseJob,
    View,
)

#: Seconds after its begin time in which a job that was put back may not have started yet: Slurm goes through the queue.
_STARTED_WITHIN_S = 10.0


def step(
    memory: Memory,
    snapshot: Snapshot,
    policies: Sequence[PolicyEntry],
    limits: Limits,
    *,
    paused: str = "",
    telling: Telling | None = None,
    longest_wait_s: float = 0.0,
    counts_bystanders: bool = True,
    levers: Sequence[Lever] = LEVERS,
) -> tuple[Memory, Decision]:
    """Decide one cycle: the memory after it, and the decision, by what was seen.

    While it is `paused` (why, in words), what is under way goes on, and no policy proposes. `telling` says how users
    are notified; None: they are not. The next poll comes within `longest_wait_s`, in seconds, unless Slurm fails or the
    daemon does. With `counts_bystanders` the delays of waiting BE jobs are kept. Pure: the same arguments give the
    same two. The snapshot must be classified (`classify.classified`).
    """
    if memory.answers is None:  # the first cycle of this process
        memory = with_none_ahead(memory, snapshot.taken_at)
    before = memory = with_those_back_again(memory, snapshot)
    # Here and not by the observer: the memory is what was learned.
    answers = SiteAnswers(
        nodes=snapshot.nodes,
        partitions=snapshot.partitions,
        reservations=snapshot.reservations,
        settings=snapshot.settings,
        before=memory.answers,
    )
    snapshot = replace(snapshot, leave_times=memory.leave_times, declined=memory.declined, answers=answers)
    columns, known = _columns(snapshot, memory)
    answers.capacity = columns.capacity
    memory = replace(memory, cycle=memory.cycle + 1)
    memory, context = advance(memory, snapshot, columns, limits, paused=bool(paused), longest_wait_s=longest_wait_s)
    memory = see_returns(see_what_slurm_did(reopened(memory, context), context), context)
    for lever in levers:
        lever.follow(context)
    excuse_waits(memory, context)
    memory = context.draft.written(memory)
    memory = with_tasks(memory, context) if counts_bystanders else memory
    context.deadlines = Deadlines.of(memory, snapshot, limits, columns.capacity, longest_wait_s)
    held_once = memory.changes_of(Field.HOLD)
    held = [job_id for job_id, one in held_once.items() if not one.restored]
    free = {job.job_id for job in columns.trials if memory.is_let_through(job)} if held_once else set()
    memory = replace(memory, outlived=outlived_lately(memory.outlived, snapshot, limits.te))
    barred = barred_users(memory.outlived, limits.te, context.now)
    above = above_te_limits(
        columns.trials, snapshot, limits.te, held, let_through=free, barred=barred, poll_s=longest_wait_s
    )
    waiting, not_now = te_queue(
        columns.trials,
        memory,
        limits,
        deadlines=context.deadlines,
        above_limits=above,
        lacks_resources=lambda job: waits_for_resources_alone(job, snapshot, limits),
    )
    served = Served(memory=memory, refusals=Refusals(not_now))
    if paused:
        served.refusals += Refusals(
            Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.PAUSED, text=paused) for job in waiting
        )
    late = [one for one in not_now if one.code in {RefusalCode.BOUND, RefusalCode.TE_LIMIT}]
    intents: list[Intent] = [HoldJob(job_id=one.job_id, why=one.text) for one in late]
    intents += _next_in_line(memory, context)
    notes: dict[JobId, str] = {}
    states: dict[str, Any] = {}
    due = []
    gains = _gains(policies, memory)
    for entry in () if paused else policies:
        policy = entry.policy
        state = memory.policy_states.get(policy.name)
        if policy.serves_te:
            served.add_victims(*add_victims(served.memory, context, policy, state, limits))
        view = _view(entry, served, context, waiting, gains)
        proposal: Proposal[Any] = serve(policy, state, view, served, context)
        intents += proposal.intents
        notes |= {job_id: text for job_id, text in proposal.notes.items() if job_id not in notes}
        if proposal.state is not None:
            states[policy.name] = proposal.state
        if proposal.next_at is not None:
            due.append(proposal.next_at)
    if not paused:
        ends = (patience_ends(job, snapshot.traits[job.job_id]) for job in waiting)
        due += [at for at in ends if at is not None and at > context.now]
    memory = served.memory if paused else without_plan(served.memory, context)
    intents += _too_late_now(columns.trials, late, memory, context)
    intents = list(_not_held_when_due(intents, context))
    if paused:
        states = {**memory.policy_states}
    memory = _carried_out(memory, states, intents, context, levers)
    if counts_bystanders:
        memory = see_bystanders(memory, context)
    done = summary(served.plans, context, waiting, memory, not_now)
    # The last of all: a note may fail, or take long, and nothing else waits for it.
    tells = tell_users(before, memory, snapshot, telling) if telling is not None else ()
    answers.close()
    memory = replace(memory, newly_lost=frozenset(), answers=answers, known=known)
    memory = with_put_back(before, memory, snapshot.taken_at)
    told = (Refusal(job_id=one, preemptor=one, code=RefusalCode.NOTE, text=text) for one, text in notes.items())
    decision = Decision(
        cycle=memory.cycle,
        at=snapshot.taken_at,
        policy="+".join(entry.policy.label for entry in policies),
        actions=(*_in_order(context), *tells),
        refusals=served.refusals + Refusals(told),
        transitions=tuple(context.transitions),
        summary="; ".join([*served.failures, done if not paused or context.actions else f"did nothing new: {paused}"]),
        next_at=min(due, default=None),
        admission=_admission(context, limits.te, is_counted=limits.te.counts_what_starts or bool(barred)),
        bound=_bound(late, context),
    )
    return memory, decision


def _columns(snapshot: Snapshot, memory: Memory) -> tuple[ClusterColumns, KnownCluster | None]:
    """Return the columns, and what the next cycle need not read again; nothing where the observer has given them."""
    if snapshot.columns is not None:
        return snapshot.columns, None
    columns = columns_of(snapshot, memory.known)
    return columns, columns.known


def _too_late_now(
    trials: Iterable[Job], late: Iterable[Refusal], memory: Memory, context: CycleContext
) -> Iterator[HoldJob]:
    """Yield the holds of TE jobs that must not start any more, as they would keep the victims of this cycle away."""
    if context.deadlines is None:
        return
    # One for which victims leave is held no more; one that awaits what comes free would start in what these free.
    known = {one.job_id for one in late} | {order.preemptor for order in memory.open_orders() if order.victims}
    for job in trials:
        if job.job_id in known or memory.is_let_through(job):
            continue
        why = context.deadlines.why_te_waits(job)
        if why is not None:
            yield HoldJob(job_id=job.job_id, why=why.text)


def _not_held_when_due(intents: Iterable[Intent], context: CycleContext) -> Iterator[Intent]:
    """Yield the intents, with a release for each hold of a BE job for which TE jobs wait: no round keeps it waiting."""
    due = {} if context.deadlines is None else context.deadlines.due
    for one in intents:
        if isinstance(one, HoldJob) and one.job_id in due:
            why = "TE jobs may delay it no more (guard.bound), and wait for it: it is held for no round"
            yield ReleaseJob(job_id=one.job_id, why=why)
        else:
            yield one


def _in_order(context: CycleContext) -> Sequence[Action]:
    """Return the actions in the order in which they are sent: each takes its time, and some are too late soon.

    A BE job that is back in the queue starts by itself once its begin time has come, wherever there are free nodes:
    it is bound, or held, before that, or as soon as may be after it. And where a bound rests on it, jobs are held
    before victims leave, or they start in their places. Holds come after what is set of the same jobs' priorities: that
    would release them.
    """
    snapshot, jobs = context.snapshot, context.snapshot.jobs
    held = {one.job_id for one in context.actions if holds(one)}
    back = {
        one.job_id
        for one in context.actions
        if one.job_id in jobs and jobs[one.job_id].pending and jobs[one.job_id].restarts
        if (jobs[one.job_id].eligible_time or 0.0) > snapshot.taken_at - _STARTED_WITHIN_S
        if snapshot.job_class(one.job_id) is JobClass.BE
    }

    def rank(one: Action) -> int:
        raises = sets(one, Field.NICE, Field.PRIORITY)
        if context.deadlines is not None and (raises or holds(one)):
            return 0 if raises else 1
        soon = one.job_id in back and (sets(one, Field.NODES) or holds(one) or (raises and one.job_id in held))
        return 2 if soon else 3

    return sorted(context.actions, key=rank)


def _view(
    entry: PolicyEntry,
    served: Served,
    context: CycleContext,
    waiting: tuple[Job, ...],
    gains: Mapping[JobId, float],
) -> View:
    memory, limits, columns = served.memory, context.limits, context.columns
    if entry.policy.serves_te:
        memory = without_waiting_turns(memory, context)
    has_nodes = {plan.preemptor for plan in served.plans if isinstance(plan, MakeRoom)}
    return View(
        snapshot=context.snapshot,
        memory=memory,
        columns=columns,
        limits=limits,
        waiting=waiting,
        ahead=tuple(job for job in waiting if job.job_id not in has_nodes),
        scope=entry.scope,
        gains=gains,
        reserving=memory.open_orders(),
        deadlines=context.deadlines,
        find_eligible=lambda: eligible_victims(
            columns.running,
            memory,
            limits,
            context.now,
            columns.capacity.index,
            turns=entry.policy.turn_limits,
            deadlines=context.deadlines,
            snapshot=context.snapshot,
        ),
    )


def _admission(context: CycleContext, limits: TeLimits, *, is_counted: bool) -> Admission | None:
    """Return until when TE jobs may start by themselves: not at all where it matters which, or how many, do."""
    most, submitted = limits.max_submitted_per_user, None
    if most:
        submitted = SubmittedTe(most=most, by_user=submitted_by_user(context.snapshot))
    if is_counted:
        return Admission(until=0.0, most_s=0.0, submitted=submitted)
    if context.deadlines is not None:
        return replace(context.deadlines.admission(), submitted=submitted)
    return Admission(until=inf, most_s=inf, submitted=submitted) if submitted is not None else None


def _next_in_line(memory: Memory, context: CycleContext) -> Iterator[BoostJob]:
    """Yield a boost for each BE job for which a TE job has to wait; one that was its victim has its own."""
    if context.deadlines is None:
        return
    # One that is at the head already, and shows a limit there, stays there: elsewhere it would not show it, and TE jobs
    # would wait for it.
    boosted = [job_id for job_id in memory.raised(By.QUEUE) if context.deadlines.is_near(job_id)]
    for job_id in dict.fromkeys([*context.deadlines.due, *boosted]):
        if job_id not in context.deadlines.away and context.snapshot.jobs[job_id].pending:
            why = "TE jobs may delay it no more (guard.bound): it is next in line, and they wait for it"
            yield BoostJob(job_id=job_id, why=why, stays=True, is_due=True)


def _bound(late: Sequence[Refusal], context: CycleContext) -> BoundNow | None:
    if context.deadlines is None:
        return None
    return context.deadlines.summary(sum(one.code is RefusalCode.BOUND for one in late))


def _gains(policies: Sequence[PolicyEntry], memory: Memory) -> Mapping[JobId, float]:
    found: dict[JobId, float] = {}
    for entry in policies:
        with suppress(Exception):  # a site's own code; what it raises is reported when the policy proposes
            found |= entry.policy.gains(memory.policy_states.get(entry.policy.name))
    return found


def _is_left_to_slurm(job: Job | None) -> bool:
    return job is not None and job.left_to_slurm


def _carried_out(
    memory: Memory,
    states: Mapping[str, Any],
    intents: Sequence[Intent],
    context: CycleContext,
    levers: Sequence[Lever],
) -> Memory:
    """Return the memory after the levers have carried the intents out, and put back what is not wanted any more.

    The policies' `states` are as they are after this cycle.
    """
    orders, jobs = dict(memory.orders), context.snapshot.jobs
    # Slurm refuses each change of a job of a crontab, and a federated one's would be of other clusters' queues.
    intents = [one for one in intents if not (isinstance(one, LeverIntent) and _is_left_to_slurm(jobs.get(one.job_id)))]
    for lever in levers:
        lever.carry_out([one for one in intents if isinstance(one, lever.intents)], orders, context)
    return context.draft.written(replace(memory, orders=orders, policy_states=states))
