"""Admission: the plans of a policy that stay within every limit, and the refusals of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from tesched_core.guard.budget import CountedBy, Tally
from tesched_core.guard.count_limits import Over, passed
from tesched_core.intake.patience import why_it_waits
from tesched_core.intake.pending_reason import why_left_to_slurm
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.limits import Limits, TurnLimits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.deadlines import Deadlines
from tesched_core.placement.latest_start import late_nodes, leaves_within_s, why_too_late
from tesched_core.policy import AwaitRoom, MakeRoom, Plan, View


def admitted(
    plans: Sequence[Plan],
    view: View,
    limits: Limits,
    note: Callable[[Refusal], None],
    *,
    asked: int = 0,
    turns: TurnLimits | None = None,
) -> tuple[Plan, ...]:
    """Plans that the limits admit, in their order; `note` receives a refusal for each of the others.

    `asked` is the number of victims of this cycle so far. The plans are for TE jobs, or with `turns` for BE jobs.
    """
    admission = GuardAdmission(view, limits, victims=asked, turns=turns, deadlines=view.deadlines)
    kept: list[Plan] = []
    for plan in plans:
        why = admission.admit(plan)
        if why is None:
            kept.append(plan)
        else:
            note(why)
    return tuple(kept)


class GuardAdmission:
    """The guard's word on plan after plan: each that is admitted counts for those after it."""

    def __init__(
        self,
        view: View,
        limits: Limits,
        *,
        victims: int = 0,
        turns: TurnLimits | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        """Begin without a plan; so many victims are this cycle's already. The deadlines take in whose victims wait."""
        purpose = Purpose.ROUND if turns else Purpose.TE
        orders = view.memory.open_orders()
        self._view, self._limits, self._turns, self._deadlines = view, limits, turns, deadlines
        self._orders = orders_under_way(view.memory, view.snapshot, purpose)
        self._victims = victims
        self._waiting = {order.preemptor for order in orders if order.waits}
        # An order that is to have further victims is no other one (`orders/reinforce.py`).
        self._served = {order.preemptor for order in view.reserving if order.frees_resources}
        self._leaving: set[JobId] = set()
        self._tally = Tally.of(view.memory.paid, orders, view.now, purpose)

    @classmethod
    def of(cls, view: View, victims: int = 0) -> GuardAdmission:
        """Begin for a policy for TE jobs, which may be called again: the view's own deadlines are left as they are."""
        return cls(view, view.limits, victims=victims, deadlines=copy(view.deadlines))

    def waits(self, preemptor: JobId) -> bool:
        """Check whether the job waits by an order that is open: it may go on, however many there are."""
        return preemptor in self._waiting

    def full(self, preemptor: JobId, victims: int = 0) -> Refusal | None:
        """Return a refusal if no plan of this job can be admitted, or none with so many victims or more."""
        why = self._full(preemptor, victims)
        # That its owner wants no victim yet is said first.
        return None if why is None else _too_early(preemptor, self._view) or why

    def _full(self, preemptor: JobId, victims: int) -> Refusal | None:
        most = self._limits.max_victims_per_cycle
        if self._orders >= self._limits.max_open_orders:
            most_orders = self._limits.max_open_orders
            text = f"{self._orders} order(s) free resources for others now; guard.max_open_orders is {most_orders}"
        elif victims and self._victims + victims > most:
            text = f"this cycle has {self._victims} victim(s); guard.max_victims_per_cycle is {most}"
        else:
            return None
        return Refusal(job_id=preemptor, preemptor=preemptor, code=RefusalCode.CYCLE_LIMIT, text=text)

    def late_nodes(self, plan: MakeRoom) -> frozenset[str]:
        """Nodes that the plan's victims leave too late for its job: without these another plan may be admitted."""
        job = self._view.snapshot.jobs.get(plan.preemptor)
        if job is None or not plan.victims or _not_in_time(plan, self._view) is None:
            return frozenset()
        return late_nodes(job, _starts_by(plan, self._view), self._view.snapshot)

    def admit(self, plan: Plan) -> Refusal | None:
        """Return a refusal if the plan may not be carried out, or would pass a limit; else count it."""
        preemptor = self._view.snapshot.jobs.get(plan.preemptor)
        if preemptor is not None and preemptor.left_to_slurm:
            return _of(plan, RefusalCode.UNSUPPORTED, why_left_to_slurm(preemptor))
        if (why := self._strange(plan)) is not None:
            return why
        if isinstance(plan, AwaitRoom) and self.waits(plan.preemptor):
            self._orders += 1
            self._served.add(plan.preemptor)
            return None
        chosen = plan.victim_ids if isinstance(plan, MakeRoom) else ()
        view, deadlines = self._view, self._deadlines
        if (why := _unfit(plan, view, deadlines) or self._full(plan.preemptor, len(chosen))) is not None:
            return why
        payments = [_payment(view, job_id, plan.preemptor, view.now) for job_id in chosen]
        if isinstance(plan, MakeRoom) and plan.by_suspending:
            payments = [replace(one, node_s=0.0) for one in payments]  # no run ends
        if payments and (over := passed(self._tally, payments, self._turns or self._limits)) is not None:
            return _of(plan, over.code, _text(over, payments[0]))
        self._orders += 1
        self._victims += len(chosen)
        self._served.add(plan.preemptor)
        self._leaving.update(chosen)
        for one in payments:
            self._tally.add(one, view.now)
        _note_victims(plan, view, deadlines)
        return None

    def _strange(self, plan: Plan) -> Refusal | None:
        """Return a refusal of what no policy should propose: no job leaves twice, or for no nodes."""
        if plan.preemptor in self._served:
            return _of(
                plan, RefusalCode.ORDER_OPEN, "the policy planned for it, and resources are freed for it already"
            )
        if not isinstance(plan, MakeRoom):
            return None
        known, names = self._view.columns.capacity.index, set(plan.nodes)
        if not names or len(names) < len(plan.nodes) or not names <= known.keys():
            text = (
                f"the policy chose no nodes for it, or one twice, or an unknown one: {','.join(plan.nodes) or 'none'}"
            )
            return _of(plan, RefusalCode.NOT_MANAGED, text)
        for job_id, times in Counter(plan.victim_ids).items():
            if job_id in self._leaving or times > 1:
                text = f"the policy chose job {job_id} as a victim, which may be none: it is one already in this cycle"
                return _of(plan, RefusalCode.ALREADY_LEAVING, text)
        return None


def _of(plan: Plan, code: RefusalCode, text: str) -> Refusal:
    return Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=code, text=text)


def _unfit(plan: Plan, view: View, deadlines: Deadlines | None) -> Refusal | None:
    """Return a refusal if its victims may not leave for this job, or not now."""
    if not isinstance(plan, MakeRoom) or not plan.victims:
        return None
    return _too_early(plan.preemptor, view) or _ineligible(plan, view) or _too_late(plan, view, deadlines)


def _too_early(preemptor: JobId, view: View) -> Refusal | None:
    """Return a refusal if no other is to leave for a TE job yet, by its owner's word."""
    te = view.snapshot.jobs.get(preemptor)
    why = None if te is None else why_it_waits(te, view.snapshot.traits[preemptor], view.now)
    return None if why is None else Refusal(job_id=preemptor, preemptor=preemptor, code=why[0], text=why[1])


def _ineligible(plan: MakeRoom, view: View) -> Refusal | None:
    """Return a refusal if a victim may not be one: a policy should not propose it, and no policy is trusted in that."""
    eligibility = view.eligibility
    trial = view.snapshot.jobs.get(plan.preemptor)
    if trial is not None:
        eligibility = eligibility.by(trial)
    for job_id in plan.victim_ids:
        row = view.running.row_of.get(job_id)
        if row is None:
            code, why = RefusalCode.NOT_MANAGED, "it is no best-effort job that holds nodes"
        elif eligibility.why[row] >= 0:
            code, why = eligibility.whys[int(eligibility.why[row])]
        else:
            continue
        text = f"the policy chose job {job_id} as a victim, which may be none: {why}"
        return _of(plan, code, text)
    return None


def _not_in_time(plan: MakeRoom, view: View) -> Refusal | None:
    """Return a refusal if its victims leave so late that the job would not end before a reservation or its deadline."""
    job = view.snapshot.jobs.get(plan.preemptor)
    why = None if job is None else why_too_late(job, plan.nodes, _starts_by(plan, view), view.snapshot)
    return None if why is None else _of(plan, *why)


def _starts_by(plan: MakeRoom, view: View) -> UnixSeconds:
    """Unix seconds within which the plan's victims have left; there is at least one."""
    settings, traits = view.snapshot.settings, view.snapshot.traits
    if plan.by_suspending:
        return view.now
    moves_s = settings.requeue_delay_s if plan.preemptor in plan.victim_ids else 0
    return view.now + max(leaves_within_s(traits[one], settings.kill_wait_s) for one in plan.victim_ids) + moves_s


def _too_late(plan: MakeRoom, view: View, deadlines: Deadlines | None) -> Refusal | None:
    """Return a refusal if its victims leave so late that it could not start, or would delay a BE job too long."""
    if (why := _not_in_time(plan, view)) is not None:
        return why
    te = view.snapshot.jobs.get(plan.preemptor)
    if deadlines is None or te is None or view.snapshot.job_class(plan.preemptor) is not JobClass.TE:
        return None
    return deadlines.why_no_victims(te, [view.snapshot.jobs[job_id] for job_id in plan.victim_ids], plan.nodes)


def _note_victims(plan: Plan, view: View, deadlines: Deadlines | None) -> None:
    """Let the TE jobs after it be admitted only if they end before what the plan's victims may yet be delayed by."""
    te = view.snapshot.jobs.get(plan.preemptor)
    if deadlines is None or te is None or not isinstance(plan, MakeRoom):
        return
    if view.snapshot.job_class(plan.preemptor) is JobClass.TE:
        for job_id in plan.victim_ids:
            victim = view.snapshot.jobs[job_id]
            deadlines.will_wait(victim, of_own_user=victim.user == te.user)


def orders_under_way(memory: Memory, snapshot: Snapshot, purpose: Purpose) -> int:
    """Number of orders of this purpose whose victims are leaving."""
    turn = purpose is Purpose.ROUND
    return sum(
        order.frees_resources and (snapshot.job_class(order.preemptor) is JobClass.BE) is turn
        for order in memory.open_orders()
    )


def _payment(view: View, job_id: JobId, preemptor: JobId, now: UnixSeconds) -> Paid:
    """Cost of the job if it leaves at the end of its grace period."""
    running = view.running
    row = running.row_of[job_id]
    owner = running.owners[running.owner[row]]
    nodes = tuple(view.columns.capacity.names[node] for node in running.share_node[running.shares_of(row)].tolist())
    lost = running.lost_s(now, row)
    trial = view.snapshot.jobs[preemptor] if view.snapshot.job_class(preemptor) is JobClass.TE else None
    return Paid(
        at=now,
        job_id=job_id,
        user=owner.user,
        account=owner.account,
        nodes=nodes,
        node_s=len(nodes) * float(lost),
        preemptor=preemptor,
        for_user=trial.user if trial else "",
        for_account=trial.account if trial else "",
        purpose=Purpose.TE if trial else Purpose.ROUND,
    )


def _text(over: Over, one: Paid) -> str:
    """Text of a refusal by a limit that counts; `one` is the payment of one of the plan's victims."""
    if over.of_budget:
        return f"its victims would make it {over.count:.1f} node-hours in 24 h; {over.key} is {over.most:g}"
    cause = {
        CountedBy.TE_JOB: "it",
        CountedBy.TE_USER: f"jobs of its user {one.for_user}",
        CountedBy.TE_ACCOUNT: f"jobs of its account {one.for_account}",
    }.get(over.scope)
    if cause is not None:
        return f"{cause} would have caused {over.count:g} jobs to leave in an hour; {over.key} is {over.most:g}"
    return f"its victims would make it {over.count:g} preemptions in an hour; {over.key} is {over.most:g}"
