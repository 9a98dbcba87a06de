"""Turn of pdors: from the jobs of one poll and their plans to starts and holds (policy.py has the definitions).

In this order: what has become of the plans, what the calendar holds, what is reserved for arrivals, what starts now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from tesched_core.model.cluster import Job
from tesched_core.model.column_layout import vector
from tesched_core.model.order import OrderState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demand_of, share_of
from tesched_core.policy import HoldJob, Intent, MakeRoom, Proposal, ReleaseJob, View

from tesched_policies.pdors.best_run import RunPlan, best_runs
from tesched_policies.pdors.calendar import Calendar
from tesched_policies.pdors.describe import told
from tesched_policies.pdors.give_up import after_order
from tesched_policies.pdors.jobs import PdOrsJob, managed_jobs
from tesched_policies.pdors.model import Machines
from tesched_policies.pdors.parameters import PdOrsParameters
from tesched_policies.pdors.prices import PriceBounds
from tesched_policies.pdors.racks import racks_of
from tesched_policies.pdors.state import JobPlan, PdorsState
from tesched_policies.pdors.workload import UNKNOWN_RUN_S

#: Most jobs that are planned in one poll, and most for which runs are weighed in all; the others have their turn in the
#: next ones. Trials wait for a poll to end.
MOST_PLANNED = 30
MOST_WEIGHED = 60
#: So many of those that could start are tried at each poll, in their order; of the others, each time the next ones.
ALWAYS_TRIED = 30
#: Least part of a job's work that is believed to be left when it is back in the queue.
LEAST_REST = 0.05
_HELD = "it is planned by prices, and held so that it starts neither before its slot nor elsewhere"
_LET_GO = "Slurm did not start it as planned; it waits like any other"
_LEFT_ALONE = (
    "its last order came to nothing, as Slurm would not start it or did not in time; until guard.retry_after_s is over "
    "it waits like any other, and no nodes are reserved for it"
)


@dataclass(kw_only=True)
class PdOrsTurn:
    """One poll's proposal, while it is worked on."""

    parameters: PdOrsParameters
    view: View
    before: PdorsState | None
    members: dict[JobId, PdOrsJob] = field(init=False)
    plans: dict[JobId, JobPlan] = field(init=False)
    calendar: Calendar = field(init=False)
    bounds: PriceBounds | None = field(init=False, default=None)
    #: part of its work that is left, of those that came back; they keep their slots
    again: dict[JobId, float] = field(init=False, default_factory=dict)
    starting: list[MakeRoom] = field(init=False, default_factory=list)
    #: for how many runs were weighed
    weighed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        view, parameters = self.view, self.parameters
        self.members = managed_jobs(view, {one.name: one for one in parameters.workloads}, parameters.slot_s)
        known = self.before.plans if self.before is not None else {}
        jobs = view.snapshot.jobs
        self.plans = {job_id: plan for job_id, plan in known.items() if job_id in jobs and not jobs[job_id].finished}
        rack, names = racks_of(view.snapshot, view.capacity.names, parameters.rack_feature)
        self.calendar = Calendar(
            capacity=view.capacity,
            now=view.now,
            slot_s=parameters.slot_s,
            horizon=parameters.slots,
            rack=rack,
            names=names,
        )

    # What has become of the plans.

    def follow(self) -> None:
        """Take in what is seen: which jobs have started and where, which are back, which Slurm did not start."""
        for job_id, member in self.members.items():
            plan = self.plans.get(job_id)
            if member.job.on_nodes:
                if plan is None or not plan.started or plan.restarts != member.job.restarts:
                    self.plans[job_id] = self._begun(member, plan)
            elif plan is not None and plan.started:
                if member.left_alone:
                    continue  # it is planned anew, with what is left of its work, when it is tried again
                self.again[job_id] = self._left(member, plan)
                del self.plans[job_id]
            elif plan is not None and not plan.dropped:
                self.plans[job_id] = after_order(plan, member.order)

    def _begun(self, member: PdOrsJob, plan: JobPlan | None) -> JobPlan:
        """Return the plan of a job that runs now, where it does."""
        job, rest = member.job, plan.rest if plan else 1.0
        if plan is not None and plan.started:
            rest = self._left(member, plan)  # it was back in the queue meanwhile, left alone or between two polls
        nodes = job.nodes
        length = member.training.run_slots(max(len(nodes), 1), one_rack=self._one_rack(nodes), rest=rest)
        past = self.view.memory.job(job.job_id).past
        known = plan or JobPlan(
            planned_at=self.view.now,
            start_at=0.0,
            run_s=0.0,
            nodes=nodes,
            promised=False,
            note="Slurm started it before it was planned",
        )
        elsewhere = plan is not None and set(plan.nodes) != set(nodes)
        return replace(
            known,
            start_at=job.start_time if job.start_time is not None else self.view.now,
            run_s=length * self.parameters.slot_s,
            nodes=nodes,
            rest=rest,
            restarts=job.restarts,
            ran_before_s=past.ran_s if past else 0.0,
            started=True,
            dropped=False,
            note="Slurm started it on other nodes than planned" if elsewhere else known.note,
        )

    def _one_rack(self, nodes: tuple[str, ...]) -> bool:
        index = self.view.capacity.index
        return len({int(self.calendar.rack[index[name]]) for name in nodes if name in index}) <= 1

    def _left(self, member: PdOrsJob, plan: JobPlan) -> float:
        """Part of its work that is left, if it goes on from where it was when it left."""
        past = self.view.memory.job(member.job.job_id).past
        ran_s = (past.ran_s if past else 0.0) - plan.ran_before_s
        return max(plan.rest * (1 - max(ran_s, 0.0) / max(plan.run_s, 1.0)), LEAST_REST)

    def enter(self) -> None:
        """Fill the calendar: what is held, and what is reserved."""
        snapshot, now = self.view.snapshot, self.view.now
        resources = self.view.capacity.resources
        for job in snapshot.jobs.values():
            if job.on_nodes:
                held = np.array([vector(share.tres, resources) for share in job.allocation], dtype=np.float64)
                self.calendar.take(job.nodes, held, now, self._ends(job))
        for order in self.view.memory.open_orders():
            if order.state is OrderState.OPEN and order.preemptor not in self.members:
                self._promise_to_order(order.preemptor, order.nodes)
        for job_id, plan in self.plans.items():
            member = self.members.get(job_id)
            if member is None or plan.started or member.left_alone:
                continue
            if plan.promised or member.served:
                self._keep(member, plan)
        models = [member.training.model for member in self.members.values()]
        if models:
            machines = Machines.of(resources, self.calendar.rack_capacity())
            self.bounds = PriceBounds.of(models, machines, horizon=self.parameters.slots, floor=self.parameters.floor)

    def _ends(self, job: Job) -> UnixSeconds:
        plan = self.plans.get(job.job_id)
        if plan is not None and plan.started:
            return plan.start_at + plan.run_s
        expected = self.view.snapshot.expected_run(job.job_id)
        run_s = (expected and expected.median_s) or job.time_limit_s
        return inf if run_s is None or job.start_time is None else job.start_time + run_s

    def _promise_to_order(self, job_id: JobId, nodes: tuple[str, ...]) -> None:
        """Enter what an order keeps for a trial."""
        job, capacity, now = self.view.snapshot.jobs.get(job_id), self.view.capacity, self.view.now
        there = [name for name in nodes if name in capacity.index]
        if job is None or not job.pending or not there:
            return
        try:
            demand = demand_of(job, self.view.snapshot, capacity)
        except UnsupportedRequestError:
            return
        expected = self.view.snapshot.expected_run(job_id)
        run_s = (expected and expected.median_s) or job.time_limit_s or UNKNOWN_RUN_S
        share = share_of(demand, [capacity.index[name] for name in there]).astype(np.float64)
        self.calendar.take(there, share, now, now + run_s)

    def _keep(self, member: PdOrsJob, plan: JobPlan, sign: int = 1) -> None:
        """Enter what a plan reserves, or strike it out."""
        capacity = self.view.capacity
        there = [name for name in plan.nodes if name in capacity.index]
        share = share_of(member.demand, [capacity.index[name] for name in there]).astype(np.float64)
        begin = max(plan.start_at, self.view.now)
        self.calendar.take(there, share, begin, begin + plan.run_s, sign)

    # What is planned.

    def plan_arrivals(self) -> None:
        """Plan for those that have no plan, or none that can be kept."""
        patience_s = self.parameters.slots * self.parameters.slot_s
        late = [
            job_id
            for job_id, plan in self.plans.items()
            if self._may_start(job_id, plan) and not plan.promised and self.view.now - plan.planned_at > patience_s
        ]
        new = [job_id for job_id, member in self.members.items() if member.waits and job_id not in self.plans]
        # Either has half of the poll, and what the other leaves of its half.
        for job_id in late[: MOST_PLANNED - min(len(new), MOST_PLANNED // 2)]:
            self._plan(job_id, always=True, rest=self.plans[job_id].rest, note="it was left over for a whole horizon")
        for job_id in new[: MOST_PLANNED - self.weighed]:
            back = job_id in self.again
            note = "it was preempted, and is planned anew with the work that it has left" if back else ""
            self._plan(job_id, always=back, rest=self.again.get(job_id, 1.0), note=note)

    def _plan(self, job_id: JobId, *, always: bool, rest: float, note: str) -> None:
        member, now, slot_s = self.members[job_id], self.view.now, self.parameters.slot_s
        if self.bounds is None:
            return
        self.weighed += 1
        waited = max(now - member.since, 0.0) / slot_s
        runs = best_runs(member.training, self.calendar.slots(member.demand, self.bounds), waited=waited, rest=rest)
        past = self.view.memory.job(job_id).past
        plan = JobPlan(
            planned_at=now,
            start_at=now,
            run_s=0.0,
            nodes=(),
            promised=False,
            note=note,
            rest=rest,
            restarts=member.job.restarts,
            ran_before_s=past.ran_s if past else 0.0,
        )
        if not runs:
            self.plans[job_id] = replace(plan, note=note or "no run was found for it on resources that no job reserves")
            return
        best = runs[0]
        plan = replace(plan, option=best.option, next_best=runs[1].option if len(runs) > 1 else None)
        if best.option.payoff > 0 or always:
            plan = self._placed(plan, best, now + best.option.wait_slots * slot_s)
            plan = replace(plan, promised=True)
            self._keep(member, plan)
        self.plans[job_id] = plan

    def _placed(self, plan: JobPlan, run: RunPlan, start_at: UnixSeconds) -> JobPlan:
        names = tuple(self.view.capacity.names[row] for row in run.nodes.tolist())
        return replace(plan, nodes=names, start_at=start_at, run_s=run.length * self.parameters.slot_s)

    # Starts.

    def start(self) -> None:
        """Start the jobs that can start, those with reserved slots first."""
        waiting = [job_id for job_id, plan in self.plans.items() if self._may_start(job_id, plan)]
        waiting.sort(key=self._rank)
        first, others = waiting[:ALWAYS_TRIED], waiting[ALWAYS_TRIED:]
        begin = self.view.memory.cycle * ALWAYS_TRIED % max(len(others), 1)
        for job_id in (*first, *others[begin:], *others[:begin]):
            if self.weighed >= MOST_WEIGHED:
                break
            self._try(job_id)

    def _rank(self, job_id: JobId) -> tuple[bool, float, float, int]:
        plan, member = self.plans[job_id], self.members[job_id]
        return not plan.promised, plan.start_at if plan.promised else 0.0, member.since, job_id

    def _may_start(self, job_id: JobId, plan: JobPlan) -> bool:
        member = self.members.get(job_id)
        if member is None or not member.waits or plan.started or plan.dropped:
            return False
        if member.served or member.settling:
            return False
        # Slurm starts no job right after its requeue, and shows the time of that as its submission.
        ago_s = self.view.now - member.job.submit_time
        return not member.job.restarts or ago_s >= self.view.snapshot.settings.requeue_delay_s

    def _try(self, job_id: JobId) -> None:
        """Start the job if its reserved slots, or free resources, allow it; plan it again if it is late."""
        member, plan, now = self.members[job_id], self.plans[job_id], self.view.now
        fewest = plan.option.nodes if plan.promised and plan.option else member.training.fewest
        late = plan.promised and now - plan.start_at > self.parameters.slot_s
        if int(member.demand.fits(self.calendar.capacity).sum()) < fewest and not late:
            return
        if plan.promised:
            self._keep(member, plan, sign=-1)
        run = self._run_now(member, plan)
        if run is not None:
            plan = self._placed(plan, run, now)
            self.plans[job_id] = plan
            self._keep(member, plan)
            self._goes(member, run)
        elif late:
            del self.plans[job_id]
            self._plan(job_id, always=True, rest=plan.rest, note="its nodes were not free in its slot; planned anew")
        elif plan.promised:
            self._keep(member, plan)

    def _run_now(self, member: PdOrsJob, plan: JobPlan) -> RunPlan | None:
        if self.bounds is None:
            return None
        self.weighed += 1
        slots = self.calendar.slots(member.demand, self.bounds)
        waited = max(self.view.now - member.since, 0.0) / self.parameters.slot_s
        if plan.promised and plan.option is not None:
            counts, one_rack = [plan.option.nodes], True if plan.option.rack else None
            runs = best_runs(
                member.training,
                slots,
                waited=waited,
                rest=plan.rest,
                only_now=True,
                counts=counts,
                one_rack=one_rack,
            )
            return runs[0] if runs else None
        runs = best_runs(member.training, slots, waited=waited, rest=plan.rest, only_now=True)
        return min(runs, key=lambda run: (run.length, run.option.nodes), default=None)

    def _goes(self, member: PdOrsJob, run: RunPlan) -> None:
        rows = run.nodes.tolist()
        names = tuple(sorted(self.view.capacity.names[row] for row in rows))
        self.starting.append(MakeRoom(preemptor=member.job.job_id, nodes=names))
        self.calendar.capacity = self.calendar.capacity.changed(rows, -share_of(member.demand, rows))

    # The answer.

    def proposal(self) -> Proposal[PdorsState]:
        """Return the orders, holds and releases, and what to remember."""
        now = self.view.now
        begins = {plan.preemptor for plan in self.starting}
        intents: list[Intent] = [*self.starting]
        for job_id, member in self.members.items():
            plan = self.plans.get(job_id)
            dropped = plan is not None and plan.dropped
            if member.held and dropped:
                intents.append(ReleaseJob(job_id=job_id, why=_LET_GO))
            elif member.waits and not dropped and (member.held or not (member.served or job_id in begins)):
                intents.append(HoldJob(job_id=job_id, why=_HELD))
        before = self.before
        coming = [plan.start_at for plan in self.plans.values() if not plan.started and plan.start_at > now]
        # As long as nothing changes the state stays the same, and is not written again.
        same = before is not None and before.plans == self.plans and now < before.until
        until = before.until if before is not None and same else min([*coming, now + self.parameters.slot_s])
        return Proposal(
            intents=tuple(intents),
            notes=dict(self._why()),
            state=PdorsState(plans=self.plans, until=until),
            next_at=until,
        )

    def _why(self) -> Iterator[tuple[JobId, str]]:
        """Yield for each job what was planned; the same words as long as the plan stays."""
        for job_id, member in self.members.items():
            plan = self.plans.get(job_id)
            if member.left_alone and (plan is None or not plan.dropped):
                yield job_id, _LEFT_ALONE
            else:
                yield job_id, told(plan) if plan is not None else "it is not planned yet; there are many"
