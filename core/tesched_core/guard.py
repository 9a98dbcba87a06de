"""The limits that no policy can pass. Only the guard excuses a job, or drops a plan, and it says why.

There are two sets of limits that count: `Limits` for what TE jobs cause, `RoundLimits` for the turns of a BE policy
that goes in rounds. Neither uses up the other's. Protection, and the bound on the slowdown, hold for both.

Two questions, asked at two moments of a cycle:

- `excuses`: may this running best-effort job be asked at all? Asked before the policy, so that it can choose among
  those who may.
- `admitted`: may this plan be carried out now? Asked after the policy, plan by plan, since limits that count (a cycle,
  the orders under way) depend on the plans before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.budget import HOUR_S, Paid, Tally
from tesched_core.cluster import Job
from tesched_core.decision import Memory, Refusal, RefusalCode, Why
from tesched_core.metrics import BOUND_S
from tesched_core.orders import HOLDS_ROOM, Purpose, VictimState
from tesched_core.overview import BARS, Owner, Running
from tesched_core.policy import Excuses, Plan, View
from tesched_core.resources import JobId, UnixSeconds
from tesched_core.snapshot import JobClass, Snapshot


class YieldBy(StrEnum):
    """How victims make room."""

    #: they are put back in the queue, which frees all that they hold
    REQUEUE = "requeue"
    #: where their CPUs are enough they are suspended, and lose nothing; else they are requeued
    AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The site's limits. Times in seconds; names are shell globs."""

    #: FitGpp's P: how often one job may be preempted in its life
    max_preemptions_per_job: int = 1
    #: a job is not asked before it has run this long since its last start
    min_run_time_s: float = 60.0
    #: nor this soon after it was last preempted, or had its notice and was let go
    cool_down_s: float = 600.0
    #: nor if the waiting that it has behind it makes its slowdown more than this, by its expected run time
    max_slowdown: float = 10.0
    #: most jobs asked to yield in one cycle
    max_victims_per_cycle: int = 20
    #: most preemptions in any hour: in all, of one user's jobs, of one account's, and on one node
    max_preemptions_per_hour: int = 200
    max_preemptions_per_user_hour: int = 50
    max_preemptions_per_account_hour: int = 100
    max_preemptions_per_node_hour: int = 20
    #: most jobs that one TE job, the TE jobs of one user, and those of one account cause to leave in any hour
    max_victims_for_te_job_hour: int = 20
    max_victims_for_te_user_hour: int = 40
    max_victims_for_te_account_hour: int = 80
    #: most node-hours of runs that are ended in any 24 hours, as if nothing of them had been saved
    max_lost_node_hours_per_day: float = 500.0
    #: most orders at once for which room is being made; those whose victims only wait to run again do not count
    max_open_orders: int = 50
    protected_users: tuple[str, ...] = ()
    protected_accounts: tuple[str, ...] = ()
    protected_qos: tuple[str, ...] = ()
    protected_partitions: tuple[str, ...] = ()
    #: jobs that run inside these reservations
    protected_reservations: tuple[str, ...] = ()
    #: jobs of these names
    protected_names: tuple[str, ...] = ()
    #: a TE job that has asked somebody to leave waits so long for that room, though other room comes free: else who was
    #: asked leaves for nothing. 0: it takes what comes first
    bind_for_s: float = 60.0
    #: where resources that a TE job fits into come free by themselves within so many seconds, with 95 %, going by what
    #: ended in the last 30 s, it awaits them at the head of its queue before a victim is asked. 0: it never does
    wait_for_free_s: float = 10.0
    #: room is made only after Slurm has said that a TE job waits for room. A site without limits on users and accounts
    #: may switch that off: then a new job that asks for nothing but nodes does not wait for slurmctld's next pass
    await_first_look: bool = True
    #: how victims make room
    lever: YieldBy = YieldBy.REQUEUE
    #: a suspended victim goes on as soon as its CPUs are free and promised to nobody; after this long, as soon as they
    #: are free, and `tesched status` points it out
    suspend_for_s: float = 3600.0
    #: an order is given up this long after the last grace period and KillWait could have ended
    order_timeout_s: float = 60.0
    #: and its TE job is not tried again for this long
    retry_after_s: float = 300.0
    #: a victim that does not run again within this time is pointed out by `tesched status`
    return_within_s: float = 3600.0

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero, or a slowdown that no job can have."""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not 0 <= value < inf:
                raise ValueError(f"{one.name} must be a number of at least 0")
        if self.max_slowdown < 1:
            raise ValueError("max_slowdown must be at least 1: no slowdown is below")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLimits:
    """The limits of a policy that goes in rounds: its turns cost preemptions by design, and they count by themselves.

    Times in seconds. What is protected, `max_victims_per_cycle` and `max_slowdown` are the guard's for both.
    """

    #: how often one job may give its place to another's turn, or move to another one, in any hour
    max_preemptions_per_job_hour: int = 60
    #: a job is not asked before it has run this long since its last start
    min_run_time_s: float = 0.0
    #: most preemptions in any hour, and most node-hours of runs ended in any 24 hours; None: no limit of its own
    max_preemptions_per_hour: int | None = None
    max_lost_node_hours_per_day: float | None = None

    @staticmethod
    def of_round(round_s: float) -> RoundLimits:
        """Return the limits that fit rounds of so many seconds: one turn a round for each job, after half of one."""
        return RoundLimits(max_preemptions_per_job_hour=ceil(HOUR_S / round_s), min_run_time_s=min(60.0, round_s / 2))

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero."""
        for one in fields(self):
            value = getattr(self, one.name)
            if value is not None and not 0 <= value < inf:
                raise ValueError(f"{one.name} must be a number of at least 0")


def excuses(
    running: Running,
    memory: Memory,
    limits: Limits,
    now: UnixSeconds,
    nodes: Mapping[str, int],
    *,
    newcomers: Collection[JobId] = (),
    rounds: RoundLimits | None = None,
) -> Excuses:
    """Return for each running BE job whether it may be asked, and why not: the most telling reason.

    `nodes` are the rows of the room by name. `newcomers` may be asked before they have run for `min_run_time_s`.
    Asked for a TE job, or with `rounds` for the turn of another BE job.
    """
    whys: dict[Why, int] = {}
    why = np.full(len(running), -1, dtype=np.intp)

    def excuse(rows: NDArray[np.intp] | NDArray[np.bool_], because: Why) -> None:
        why[rows] = whys.setdefault(because, len(whys))

    def excuse_jobs(because: Mapping[JobId, Why]) -> None:
        for job_id, reason in because.items():
            row = running.row_of.get(job_id)
            if row is not None:
                why[row] = whys.setdefault(reason, len(whys))

    # The last word stays, so the least telling comes first.
    tally = Tally.of(memory.paid, memory.open_orders(), now, Purpose.ROUND if rounds else Purpose.TE)
    spent = _spent(running, tally, limits, nodes) if rounds is None else _spent_by_rounds(running, tally, rounds)
    for rows, because in spent:
        excuse(rows, because)
    over = np.flatnonzero(slowdowns(running, memory) > limits.max_slowdown)
    text = f"it has waited so long that its slowdown is above guard.max_slowdown, {limits.max_slowdown:g}"
    excuse(over, (RefusalCode.SLOWDOWN, text))
    if rounds is None:
        seconds = limits.cool_down_s
        text = f"it was asked to yield less than guard.cool_down_s, {seconds:.0f} s, ago"
        recent = {job_id for job_id, at in memory.last_preempted.items() if now - at < seconds}
        excuse_jobs(dict.fromkeys(recent, (RefusalCode.COOL_DOWN, text)))
    setting = "guard.min_run_time_s" if rounds is None else "policy.round_min_run_time_s"
    seconds = (rounds or limits).min_run_time_s
    text = f"it has run for less than {setting}, {seconds:g} s"
    new = np.isin(running.job_id, list(newcomers))
    excuse((now - running.started < seconds) & ~new, (RefusalCode.MIN_RUN_TIME, text))
    if rounds is None and limits.max_preemptions_per_job <= 0:
        excuse(np.ones(len(running), dtype=np.bool_), _too_often(0, limits))
    if rounds is None:
        excuse_jobs(_often(memory, limits))
    for row, owner in enumerate(running.owners):
        protection = _protection(owner, limits)
        if protection:
            excuse(running.owner == row, protection)
    for row, name in enumerate(running.names if limits.protected_names else ()):
        if any(fnmatchcase(name, glob) for glob in limits.protected_names):
            why[row] = whys.setdefault(_PROTECTED_NAME, len(whys))
    for row in np.unique(running.bar).tolist():
        bar = BARS[row]
        if bar is not None:
            excuse(running.bar == row, bar)
    leaving = {
        victim.job_id for order in memory.open_orders() for victim in order.victims if victim.state in HOLDS_ROOM
    }
    excuse_jobs(dict.fromkeys(leaving, _LEAVING))
    # Slurm leaves a job held that is requeued while it is suspended.
    suspended = {
        victim.job_id
        for order in memory.open_orders()
        for victim in order.victims
        if victim.state is VictimState.SUSPENDED
    }
    excuse_jobs(dict.fromkeys(suspended, _SUSPENDED))
    return Excuses(why=why, whys=tuple(whys))


def slowdowns(running: Running, memory: Memory) -> NDArray[np.float64]:
    """Return for each running BE job what its slowdown will be if it waits no more: 1 + waited / expected run time.

    Both are over all its runs, as far as tesched ended them; to be suspended by tesched is to wait. Where nothing is
    known of its run time, not even a limit, it is 1: nobody can say.
    """
    queued, ran_s, suspended_s = running.queued.copy(), np.zeros(len(running)), np.zeros(len(running))
    for job_id, past in memory.past.items():
        row = running.row_of.get(job_id)
        if row is not None:
            queued[row], ran_s[row], suspended_s[row] = past.submitted_at, past.ran_s, past.suspended_s
    waited_s = np.maximum(running.started - queued - ran_s, 0) + suspended_s
    run_s = np.maximum(running.ends_at - running.started, 0) + ran_s
    slowdown: NDArray[np.float64] = 1 + waited_s / np.maximum(run_s, BOUND_S)
    return slowdown


def _spent(
    running: Running, tally: Tally, limits: Limits, nodes: Mapping[str, int]
) -> Iterator[tuple[NDArray[np.bool_], Why]]:
    """Yield who may not be asked because others have paid enough lately."""
    for row, owner in enumerate(running.owners):
        if tally.by_account[owner.account] >= limits.max_preemptions_per_account_hour:
            what = f"its account {owner.account}", "max_preemptions_per_account_hour"
            yield running.owner == row, (RefusalCode.ACCOUNT_LIMIT, _this_hour(tally.by_account[owner.account], what))
        if tally.by_user[owner.user] >= limits.max_preemptions_per_user_hour:
            what = f"its user {owner.user}", "max_preemptions_per_user_hour"
            yield running.owner == row, (RefusalCode.USER_LIMIT, _this_hour(tally.by_user[owner.user], what))
    for name, count in tally.by_node.items():
        if count >= limits.max_preemptions_per_node_hour and name in nodes:
            there = np.zeros(len(running), dtype=np.bool_)
            there[running.share_job[running.share_node == nodes[name]]] = True
            text = _this_hour(count, (f"jobs on its node {name}", "max_preemptions_per_node_hour"))
            yield there, (RefusalCode.NODE_LIMIT, text)
    everybody = np.ones(len(running), dtype=np.bool_)
    if tally.count >= limits.max_preemptions_per_hour:
        text = _this_hour(tally.count, ("all users together", "max_preemptions_per_hour"))
        yield everybody, (RefusalCode.HOUR_LIMIT, text)
    hours = tally.node_s / HOUR_S
    if hours >= limits.max_lost_node_hours_per_day:
        most = limits.max_lost_node_hours_per_day
        text = f"{hours:.1f} node-hours of runs were ended in 24 h; guard.max_lost_node_hours_per_day is {most:g}"
        yield everybody, (RefusalCode.BUDGET, text)


def _spent_by_rounds(running: Running, tally: Tally, limits: RoundLimits) -> Iterator[tuple[NDArray[np.bool_], Why]]:
    """Yield the jobs that may not be asked because rounds have cost enough lately."""
    most = limits.max_preemptions_per_job_hour
    for job_id, count in tally.by_job.items():
        row = running.row_of.get(job_id)
        if row is not None and count >= most:
            text = f"it gave way to a turn {count} time(s) in the last hour; policy.round_max_preemptions_per_job_hour"
            yield np.arange(len(running)) == row, (RefusalCode.ROUND_LIMIT, f"{text} is {most}")
    if over := _rounds_over(tally, limits, "rounds have cost"):
        yield np.ones(len(running), dtype=np.bool_), over


def _rounds_over(tally: Tally, limits: RoundLimits, what: str, *, more: int = 0) -> Why | None:
    """Return which limit of all rounds together is reached, or with `more` 1 would be passed."""
    most, hours = limits.max_preemptions_per_hour, tally.node_s / HOUR_S
    if most is not None and tally.count >= most + more:
        text = f"{what} {tally.count} preemption(s) in an hour; policy.round_max_preemptions_per_hour is {most}"
        return RefusalCode.ROUND_LIMIT, text
    budget = limits.max_lost_node_hours_per_day
    if budget is not None and (hours > budget or (hours >= budget and not more)):
        text = f"{what} {hours:.1f} node-hours in 24 h; policy.round_max_lost_node_hours_per_day is {budget:g}"
        return RefusalCode.ROUND_LIMIT, text
    return None


def _this_hour(count: int, what: tuple[str, str]) -> str:
    return f"{what[0]} paid {count} time(s) in the last hour; that is all that guard.{what[1]} allows"


_PROTECTED_NAME: Why = (RefusalCode.PROTECTED_NAME, "its name is protected (guard.protected_names)")
_SUSPENDED: Why = (RefusalCode.SUSPENDED, "it is suspended for another trial-and-error job, and will go on")
_LEAVING: Why = (RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job")


def _too_often(count: int, limits: Limits) -> Why:
    most = limits.max_preemptions_per_job
    text = f"it was preempted {count} time(s); guard.max_preemptions_per_job is {most}"
    return RefusalCode.MAX_PREEMPTIONS, text


def _often(memory: Memory, limits: Limits) -> Mapping[JobId, Why]:
    return {
        job_id: _too_often(count, limits)
        for job_id, count in memory.preemptions.items()
        if count >= limits.max_preemptions_per_job
    }


def protected(job: Job, limits: Limits) -> bool:
    """Return whether the site protects the job by its user, account, QOS, partition, reservation or name."""
    owner = Owner(job.user, job.account, job.qos, job.partitions, job.reservation)
    named = any(fnmatchcase(job.name, glob) for glob in limits.protected_names)
    return named or _protection(owner, limits) is not None


def _protection(owner: Owner, limits: Limits) -> Why | None:
    for code, word, setting, values in (
        (RefusalCode.PROTECTED_USER, "user", "protected_users", (owner.user,)),
        (RefusalCode.PROTECTED_ACCOUNT, "account", "protected_accounts", (owner.account,)),
        (RefusalCode.PROTECTED_QOS, "QOS", "protected_qos", (owner.qos,)),
        (RefusalCode.PROTECTED_PARTITION, "partition", "protected_partitions", owner.partitions),
        (RefusalCode.PROTECTED_RESERVATION, "reservation", "protected_reservations", (owner.reservation,)),
    ):
        globs: tuple[str, ...] = getattr(limits, setting)
        for value in values:
            if value and any(fnmatchcase(value, glob) for glob in globs):
                return code, f"its {word} {value} is protected (guard.{setting})"
    return None


def admitted(
    plans: Sequence[Plan],
    view: View,
    limits: Limits,
    note: Callable[[Refusal], None],
    *,
    asked: int = 0,
    rounds: RoundLimits | None = None,
) -> tuple[Plan, ...]:
    """Return the plans that the counting limits leave, in their order; `note` is told of each one dropped.

    `asked` is how many this cycle has asked to yield before. The plans are for TE jobs, or with `rounds` for turns.
    """
    kept: list[Plan] = []
    victims = asked
    now = view.snapshot.taken_at
    purpose = Purpose.ROUND if rounds else Purpose.TE
    under_way = orders_under_way(view.memory, view.snapshot, purpose)
    waiting = {order.preemptor for order in view.memory.open_orders() if order.waits}
    tally = Tally.of(view.memory.paid, view.memory.open_orders(), now, purpose)
    for plan in plans:
        if plan.preemptor in waiting and not plan.victims:
            kept.append(plan)
            continue
        payments = [_payment(view, job_id, plan.preemptor, now) for job_id, _ in plan.victims]
        if plan.by_suspending:
            payments = [replace(one, node_s=0.0) for one in payments]  # no run ends
        code = RefusalCode.CYCLE_LIMIT
        if under_way + len(kept) >= limits.max_open_orders:
            text = f"{under_way + len(kept)} orders are under way; guard.max_open_orders is {limits.max_open_orders}"
        elif plan.victims and victims + len(plan.victims) > limits.max_victims_per_cycle:
            text = (
                f"this cycle has asked {victims} job(s); guard.max_victims_per_cycle is {limits.max_victims_per_cycle}"
            )
        elif (
            over := _over(tally, payments, limits, now) if rounds is None else _turns_over(tally, payments, rounds, now)
        ):
            code, text = over
        else:
            kept.append(plan)
            victims += len(plan.victims)
            for one in payments:
                tally.add(one, now)
            continue
        note(Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=code, text=text))
    return tuple(kept)


def orders_under_way(memory: Memory, snapshot: Snapshot, purpose: Purpose) -> int:
    """Return how many orders of this purpose make room now."""
    turn = purpose is Purpose.ROUND
    return sum(
        order.makes_room and (snapshot.job_class(order.preemptor) is JobClass.BE) is turn
        for order in memory.open_orders()
    )


def _payment(view: View, job_id: JobId, preemptor: JobId, now: UnixSeconds) -> Paid:
    """Return what the job pays if it leaves at the end of its grace period."""
    running = view.running
    row = running.row_of[job_id]
    owner = running.owners[running.owner[row]]
    nodes = tuple(view.room.names[node] for node in running.share_node[running.shares_of(row)].tolist())
    held_s = max(now - float(running.started[row]), 0.0) + float(running.grace_s[row])
    node_s = len(nodes) * held_s
    trial = view.snapshot.jobs[preemptor] if view.snapshot.job_class(preemptor) is JobClass.TE else None
    return Paid(
        at=now,
        job_id=job_id,
        user=owner.user,
        account=owner.account,
        nodes=nodes,
        node_s=node_s,
        preemptor=preemptor,
        for_user=trial.user if trial else "",
        for_account=trial.account if trial else "",
        purpose=Purpose.TE if trial else Purpose.ROUND,
    )


def _over(tally: Tally, payments: Sequence[Paid], limits: Limits, now: UnixSeconds) -> Why | None:
    """Return which limit these payments together would pass."""
    if not payments:
        return None
    after = tally.copy()
    for one in payments:
        after.add(one, now)
    hours = after.node_s / HOUR_S
    for code, count, setting in (
        (RefusalCode.HOUR_LIMIT, after.count, "max_preemptions_per_hour"),
        (RefusalCode.USER_LIMIT, max(after.by_user[one.user] for one in payments), "max_preemptions_per_user_hour"),
        (
            RefusalCode.ACCOUNT_LIMIT,
            max(after.by_account[one.account] for one in payments),
            "max_preemptions_per_account_hour",
        ),
        (
            RefusalCode.NODE_LIMIT,
            max((after.by_node[node] for one in payments for node in one.nodes), default=0),
            "max_preemptions_per_node_hour",
        ),
    ):
        if count > getattr(limits, setting):
            return code, f"its victims would make it {count} preemptions in an hour; guard.{setting} allows no more"
    if caused := _caused_too_much(after, payments[0], limits):
        return RefusalCode.CAUSED_LIMIT, caused
    if hours > limits.max_lost_node_hours_per_day:
        most = limits.max_lost_node_hours_per_day
        text = (
            f"its victims would make it {hours:.1f} node-hours in 24 h; guard.max_lost_node_hours_per_day is {most:g}"
        )
        return RefusalCode.BUDGET, text
    return None


def _turns_over(tally: Tally, payments: Sequence[Paid], limits: RoundLimits, now: UnixSeconds) -> Why | None:
    """Return which limit of the rounds these payments together would pass."""
    if not payments:
        return None
    after = tally.copy()
    for one in payments:
        after.add(one, now)
    return _rounds_over(after, limits, "its turn would make it", more=1)


def _caused_too_much(after: Tally, one: Paid, limits: Limits) -> str:
    """Return which limit of what a TE job, its user and its account may cause would be passed; empty for none."""
    if one.preemptor is None or not one.for_user:
        return ""
    for who, count, setting in (
        ("it", after.by_preemptor[one.preemptor], "max_victims_for_te_job_hour"),
        (f"jobs of its user {one.for_user}", after.by_te_user[one.for_user], "max_victims_for_te_user_hour"),
        (
            f"jobs of its account {one.for_account}",
            after.by_te_account[one.for_account],
            "max_victims_for_te_account_hour",
        ),
    ):
        most = getattr(limits, setting)
        if count > most:
            return f"{who} would have caused {count} jobs to leave in an hour; guard.{setting} is {most}"
    return ""
