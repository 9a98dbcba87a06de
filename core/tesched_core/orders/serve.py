"""Serving: a policy is asked, the guard admits or refuses its plans, and each that is left becomes an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tesched_core.guard.admission import admitted, orders_under_way
from tesched_core.intake.pending_reason import has_reason
from tesched_core.levers.context import CycleContext
from tesched_core.levers.priority import outranked
from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.first_look import at_the_head_first
from tesched_core.orders.open import open_order
from tesched_core.orders.turnover import await_turnover
from tesched_core.policy import Intent, MakeRoom, Plan, Policy, Proposal, ThrottleArray, View


@dataclass
class Served:
    """Results of the policies of one cycle so far."""

    memory: Memory
    refusals: Refusals
    plans: list[Plan] = field(default_factory=list)
    #: victims that were asked in this cycle
    asked: int = 0

    def add_victims(self, memory: Memory, refusals: Refusals, asked: int) -> None:
        """Take in what was done for orders after others have taken their resources."""
        self.memory, self.refusals, self.asked = memory, self.refusals + refusals, self.asked + asked


def serve(policy: Policy[Any], state: object, view: View, served: Served, context: CycleContext) -> Proposal[Any]:
    """Ask the policy and open its orders; return its proposal with the other intents, which are for the levers."""
    if policy.serves_te:
        proposal, plans, refusals = _planned(policy, state, view, served.asked)
        plans, too_soon = _not_too_soon(plans, view.snapshot)
        behind = {plan.preemptor: why for plan in plans if (why := outranked(plan, context)) is not None}
        plans = tuple(plan for plan in plans if plan.preemptor not in behind)
        plans, awaiting = await_turnover(plans, view.memory, context)
        plans, not_seen = at_the_head_first(plans, view.memory, context, view.limits)
        served.refusals += refusals + Refusals(behind.values()) + too_soon + awaiting + not_seen
    else:
        proposal, strange = _of_its_own(policy.propose(view, state), view)
        dropped: list[Refusal] = []
        plans = admitted(
            proposal.plans, view, view.limits, dropped.append, asked=served.asked, turns=policy.turn_limits
        )
        served.refusals += proposal.refusals + Refusals([*strange, *dropped])
    for plan in plans:
        served.memory = open_order(plan, served.memory, context)
        served.asked += len(plan.victims) if isinstance(plan, MakeRoom) else 0
    served.plans += plans
    return proposal


def _of_its_own(proposal: Proposal[Any], view: View) -> tuple[Proposal[Any], list[Refusal]]:
    """Return the proposal without intents for jobs that the policy may not manage, and a refusal for each such job."""
    jobs = view.snapshot.jobs
    kept: list[Intent] = []
    strange: list[Refusal] = []
    for one in proposal.intents:
        if isinstance(one, ThrottleArray):
            kept.append(one)  # its tasks have ids of their own
            continue
        job_id: JobId = one.preemptor if isinstance(one, Plan) else one.job_id
        job = jobs.get(job_id)
        if job is not None and view.snapshot.job_class(job_id) is JobClass.BE and view.scope.covers(job):
            kept.append(one)
        else:
            text = "the policy may manage best-effort jobs of its own partitions and QOS alone"
            strange.append(Refusal(job_id=job_id, preemptor=job_id, code=RefusalCode.NOT_MANAGED, text=text))
    return replace(proposal, intents=tuple(kept)), strange


def _planned(
    policy: Policy[Any], state: object, view: View, asked: int
) -> tuple[Proposal[Any], tuple[Plan, ...], Refusals]:
    """Return the policy's last proposal, the plans of it that the guard admits, and the refusals of the others.

    A plan counts on what the victims of the plans before it leave over, and keeps them from the jobs after it. So where
    the guard drops one, the policy is asked anew without it, unless no further order may be opened anyway.
    """
    refusals = Refusals()
    limits = view.limits
    while True:
        proposal = policy.propose(view, state)
        dropped: list[Refusal] = []
        plans = admitted(proposal.plans, view, limits, dropped.append, asked=asked)
        full = orders_under_way(view.memory, view.snapshot, Purpose.TE) + len(plans) >= limits.max_open_orders
        if not dropped or (full and plans == proposal.plans[: len(plans)]):
            return proposal, plans, refusals + proposal.refusals + Refusals(dropped)
        gone = {refusal.preemptor for refusal in dropped}
        refusals += Refusals([part for part in proposal.refusals.parts if part.preemptor in gone]) + Refusals(dropped)
        view = replace(view, waiting=tuple(job for job in view.waiting if job.job_id not in gone))


def _not_too_soon(plans: Sequence[Plan], snapshot: Snapshot) -> tuple[tuple[Plan, ...], Refusals]:
    """Return the plans without those for which no victim is asked, of jobs that Slurm has not looked at: they start."""
    soon = [
        plan
        for plan in plans
        if isinstance(plan, MakeRoom) and not plan.victims and not has_reason(snapshot.jobs[plan.preemptor].reason)
    ]
    text = "there is room, and Slurm has not looked at it yet"
    refusals = [
        Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.NOT_CONSIDERED_YET, text=text)
        for plan in soon
    ]
    return tuple(plan for plan in plans if plan not in soon), Refusals(refusals)
