"""Serving: a policy proposes, the guard admits or refuses its plans, and each that is left becomes an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.priority import outranked
from tesched_core.guard.admission import GuardAdmission, admitted, orders_under_way
from tesched_core.guard.eligibility import protected
from tesched_core.intake.patience import why_it_waits
from tesched_core.intake.pending_reason import has_reason
from tesched_core.model.decision import Part, Refusal, RefusalCode, Refusals, Why
from tesched_core.model.limits import YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.ask import ask
from tesched_core.orders.first_look import at_the_head_first
from tesched_core.orders.marking import marked
from tesched_core.orders.open import open_order
from tesched_core.orders.refused_changes import not_served
from tesched_core.orders.te_first import with_te_first
from tesched_core.orders.turnover import await_turnover
from tesched_core.placement.eligibility import Eligibility
from tesched_core.policy import (
    AwaitRoom,
    Intent,
    LeverIntent,
    MakeRoom,
    MarkJobs,
    Plan,
    Policy,
    Proposal,
    View,
)


@dataclass
class Served:
    """Results of the policies of one cycle so far."""

    memory: Memory
    refusals: Refusals
    plans: list[Plan] = field(default_factory=list)
    #: victims of this cycle's orders
    asked: int = 0
    #: policies that raised an error, in words
    failures: list[str] = field(default_factory=list)

    def add_victims(self, memory: Memory, refusals: Refusals, asked: int) -> None:
        """Take in what was done for orders after others have taken their resources."""
        self.memory, self.refusals, self.asked = memory, self.refusals + refusals, self.asked + asked


def serve(policy: Policy[Any], state: object, view: View, served: Served, context: CycleContext) -> Proposal[Any]:
    """Ask the policy and open its orders; return its proposal with the other intents, which are for the levers."""
    if policy.serves_te and view.limits.lever is YieldBy.PLUGIN:
        marks, not_marked, failed = marked(policy, state, view, context)
        served.refusals += not_marked
        served.failures += [failed] if failed else []
        return Proposal(intents=(marks,))
    if policy.serves_te and not view.waiting:
        return Proposal()
    if policy.serves_te:
        proposal, plans, refusals = _planned(policy, state, view, served)
        on_free = frozenset(one.preemptor for one in plans if isinstance(one, MakeRoom) and not one.victims)
        plans, too_soon = _not_too_soon(plans, view.snapshot)
        behind = {plan.preemptor: why for plan in plans if (why := outranked(plan, context)) is not None}
        plans = tuple(plan for plan in plans if plan.preemptor not in behind)
        plans, awaiting = await_turnover(plans, view.memory, context)
        plans, not_seen = at_the_head_first(plans, view.memory, context, view.limits, on_free)
        served.refusals += refusals + Refusals(behind.values()) + too_soon + awaiting + not_seen
        proposal = replace(proposal, intents=())  # it serves TE jobs, and changes nothing of others
    else:
        answer, failed = ask(policy, view, state)
        served.failures += [failed] if failed else []
        proposal, strange = _of_its_own(policy, answer, view, context)
        dropped: list[Refusal] = []
        plans = admitted(
            proposal.plans, view, view.limits, dropped.append, asked=served.asked, turns=policy.turn_limits
        )
        served.refusals += proposal.refusals + Refusals([*strange, *dropped])
    unserved = {plan.preemptor: why for plan in plans if (why := not_served(plan, context)) is not None}
    plans = tuple(plan for plan in plans if plan.preemptor not in unserved)
    served.refusals += Refusals(unserved.values())
    before = served.memory
    for plan in plans:
        served.memory = open_order(plan, served.memory, context)
        served.asked += len(plan.victims) if isinstance(plan, MakeRoom) else 0
    if policy.serves_te:
        served.memory = with_te_first(served.memory, before, context)
    served.plans += plans
    return proposal


def _of_its_own(
    policy: Policy[Any], proposal: Proposal[Any], view: View, context: CycleContext
) -> tuple[Proposal[Any], list[Refusal]]:
    """Return the proposal without intents for jobs that the policy may not manage, and a refusal for each such job."""
    kept: list[Intent] = []
    strange: list[Refusal] = []
    for one in proposal.intents:
        if isinstance(one, MarkJobs):
            continue  # victims of TE jobs are ranked by the policy for TE jobs
        job_id = one.preemptor if isinstance(one, Plan) else one.job_id
        why = _not_managed(one, job_id, view, context, has_limits=policy.turn_limits is not None)
        if why:
            strange.append(Refusal(job_id=job_id, preemptor=job_id, code=RefusalCode.NOT_MANAGED, text=why))
        else:
            kept.append(one)
    return replace(proposal, intents=tuple(kept)), strange


def _not_managed(intent: Intent, job_id: JobId, view: View, context: CycleContext, *, has_limits: bool) -> str:
    """Reason that the policy may not propose this for the job, or for the array; empty if it may."""
    known = view.snapshot.jobs.get(job_id)
    of_array = isinstance(intent, LeverIntent) and intent.of_array
    jobs = context.tasks_of(job_id) if of_array else [known] if known is not None else []
    if not jobs:
        return "a policy proposed an action for it, and Slurm does not show it"
    if not all(view.scope.covers(job) for job in jobs):
        return "the policy may manage jobs of its own partitions and QOS alone"
    if not of_array and view.snapshot.job_class(job_id) is not JobClass.BE:
        return "the policy may manage best-effort jobs alone"
    if isinstance(intent, Plan) and not has_limits:
        return "the policy has no limits for what it moves (`Policy.turn_limits`), so it moves none"
    if isinstance(intent, LeverIntent) and intent.keeps_waiting and any(protected(job, view.limits) for job in jobs):
        return "it is protected, so no policy holds or throttles it"
    if isinstance(intent, LeverIntent) and intent.keeps_waiting and any(job.deadline is not None for job in jobs):
        return "it must end by a time (--deadline), and might never start, so no policy holds or throttles it"
    return ""


def _planned(
    policy: Policy[Any], state: object, view: View, served: Served
) -> tuple[Proposal[Any], tuple[Plan, ...], Refusals]:
    """Return the policy's last proposal, the plans of it that the guard admits, and the refusals of the others.

    A plan counts on what the victims of the plans before it leave over, and keeps them from the jobs after it. So where
    the guard drops one, the policy proposes anew without it, unless no further order may be opened anyway. One that
    plans by the guard's word (`View.admission`), as `plan_all` does, proposes none that is dropped. Where its owner's
    patience is why, that is done once for all such jobs: as if no job might be their victim.
    """
    refusals, limits, deadlines = Refusals(), view.limits, view.deadlines
    view = replace(view, admission=partial(GuardAdmission.of, victims=served.asked))
    will_wait = deadlines.waiting if deadlines is not None else ()
    patient: Mapping[JobId, Why] = {}
    while True:
        if deadlines is not None:
            deadlines.waiting = will_wait  # the victims of an answer that is replaced do not leave
        proposal, failed = ask(policy, view, state)
        served.failures += [failed] if failed else []
        dropped: list[Refusal] = []
        waiting = {job.job_id for job in view.waiting}
        plans = admitted(
            [plan for plan in proposal.plans if plan.preemptor in waiting],
            view,
            limits,
            dropped.append,
            asked=served.asked,
        )
        full = orders_under_way(view.memory, view.snapshot, Purpose.TE) + len(plans) >= limits.max_open_orders
        planned = {plan.preemptor for plan in proposal.plans}
        unplanned = {one: why for one, why in patient.items() if one in waiting and one not in planned}
        said = _of_patient(proposal.refusals, unplanned)
        if not dropped or (full and plans == proposal.plans[: len(plans)]):
            # It refers to the view, and both would stay until a search for garbage.
            view.kept.clear()
            return proposal, plans, refusals + said + Refusals(dropped)
        is_early = any(refusal.code is RefusalCode.PATIENCE for refusal in dropped)
        if is_early and not patient:
            patient = _patient(view, proposal.plans)
            view = replace(view, find_eligible=partial(replace, view.eligibility, not_for=patient))
            continue
        gone = {refusal.preemptor for refusal in dropped}
        if is_early:  # the policy has selected others all the same
            gone |= unplanned.keys()
        refusals += Refusals([part for part in said.parts if part.preemptor in gone]) + Refusals(dropped)
        waiting_on = tuple(job for job in view.waiting if job.job_id not in gone)
        view = replace(view, waiting=waiting_on, find_eligible=partial(_same, view.eligibility))


def _same(eligibility: Eligibility) -> Eligibility:
    return eligibility


def _patient(view: View, plans: Sequence[Plan]) -> Mapping[JobId, Why]:
    """Return the TE jobs for which no other job is to leave yet, and why; without those that await resources anyway."""
    awaiting = {plan.preemptor for plan in plans if isinstance(plan, AwaitRoom)}
    traits = view.snapshot.traits
    found = ((job.job_id, why_it_waits(job, traits[job.job_id], view.now)) for job in view.waiting)
    return {job_id: why for job_id, why in found if why is not None and job_id not in awaiting}


def _of_patient(refusals: Refusals, unplanned: Mapping[JobId, Why]) -> Refusals:
    """Return the refusals, which say of each patient job without a plan that it has no victim by its owner's word."""
    if not unplanned:
        return refusals

    def own(part: Part) -> bool:
        return isinstance(part, Refusal) and part.job_id == part.preemptor and part.preemptor in unplanned

    kept = [
        part
        for part in refusals.parts
        if not (own(part) and isinstance(part, Refusal) and part.code is RefusalCode.NO_VICTIM)
    ]
    has_another = {part.preemptor for part in kept if own(part)}
    patience = (
        Refusal(job_id=job_id, preemptor=job_id, code=code, text=text)
        for job_id, (code, text) in unplanned.items()
        if job_id not in has_another
    )
    return Refusals([*kept, *patience])


def _not_too_soon(plans: Sequence[Plan], snapshot: Snapshot) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans but for those without victims of jobs that Slurm has not considered: these start."""
    soon = [
        plan
        for plan in plans
        if isinstance(plan, MakeRoom) and not plan.victims and not has_reason(snapshot.jobs[plan.preemptor].reason)
    ]
    text = "resources are free, and Slurm has not considered it yet"
    refusals = [
        Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.NOT_CONSIDERED_YET, text=text)
        for plan in soon
    ]
    return tuple(plan for plan in plans if plan not in soon), Refusals(refusals)
