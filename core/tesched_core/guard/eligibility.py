"""The limits that no policy can pass. Only the guard excuses a job, or drops a plan, and it says why.

There are two sets of limits that count: `Limits` for what TE jobs cause, `TurnLimits` for the turns of a BE policy
that goes in rounds. Neither uses up the other's. Protection, and the bound on the slowdown, hold for both.

Two checks, at two moments of a cycle:

- `eligibility`: may this running best-effort job be a victim at all? Before the policy, so that it can choose among
  the eligible ones.
- `admitted`: may this plan be carried out now? After the policy, plan by plan, since limits that count (a cycle,
  the orders under way) depend on the plans before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from tesched_core.guard.budget import CountedBy, Tally
from tesched_core.guard.count_limits import Over, budget_spent, reached
from tesched_core.intake.job_times import BOUND_S
from tesched_core.model.cluster import Job
from tesched_core.model.columns import INELIGIBLE, Owner, Running
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.limits import Limits, TurnLimits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import HOLDS_RESOURCES, OrderState, Purpose, VictimState
from tesched_core.model.payment import HOUR_S
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.deadlines import Deadlines
from tesched_core.placement.eligibility import Eligibility
from tesched_core.placement.latest_start import leaves_too_late


def eligible_victims(
    running: Running,
    memory: Memory,
    limits: Limits,
    now: UnixSeconds,
    nodes: Mapping[str, int],
    *,
    newcomers: Collection[JobId] = (),
    turns: TurnLimits | None = None,
    deadlines: Deadlines | None = None,
    snapshot: Snapshot | None = None,
) -> Eligibility:
    """Eligibility of each running BE job as a victim, with the most important reason against it.

    `nodes` are the nodes' rows by name. `newcomers` may be victims before they have run for `min_run_time_s`.
    For a TE job, or with `turns` for the turn of another BE job. `deadlines` bound what TE jobs may cost it.
    With the `snapshot` those that leave too late for a TE job are none of its victims.
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

    # A later reason replaces an earlier one.
    tally = Tally.of(memory.paid, memory.open_orders(), now, Purpose.ROUND if turns else Purpose.TE)
    spent = _spent(running, tally, limits, nodes) if turns is None else _spent_by_turns(running, tally, turns)
    for rows, because in spent:
        excuse(rows, because)
    over = np.flatnonzero(slowdowns(running, memory) > limits.max_slowdown)
    text = f"it has waited so long that its slowdown is above guard.max_slowdown, {limits.max_slowdown:g}"
    excuse(over, (RefusalCode.SLOWDOWN, text))
    if turns is None:
        seconds = limits.cool_down_s
        text = f"it was last preempted less than guard.cool_down_s, {seconds:.0f} s, ago"
        lately = ((job_id, one.last_preempted) for job_id, one in memory.jobs.items())
        recent = {job_id for job_id, at in lately if at is not None and now - at < seconds}
        excuse_jobs(dict.fromkeys(recent, (RefusalCode.COOL_DOWN, text)))
    setting = "guard.min_run_time_s" if turns is None else f"{turns.table}.min_run_time_s"
    seconds = (turns or limits).min_run_time_s
    text = f"it has run for less than {setting}, {seconds:g} s"
    new = np.isin(running.job_id, list(newcomers))
    excuse((now - running.started < seconds) & ~new, (RefusalCode.MIN_RUN_TIME, text))
    if turns is None and limits.max_preemptions_per_job <= 0:
        excuse(np.ones(len(running), dtype=np.bool_), _too_often(0, limits))
    elif turns is None and limits.max_lost_runs_per_job <= 0:
        excuse(~running.gets_notice, _lost_too_often(0, limits))
    if turns is None:
        excuse_jobs(_often(running, memory, limits))
    for row, owner in enumerate(running.owners):
        protection = _protection(owner, limits)
        if protection:
            excuse(running.owner == row, protection)
    for row, name in enumerate(running.names if limits.protected_names else ()):
        if any(fnmatchcase(name, glob) for glob in limits.protected_names):
            why[row] = whys.setdefault(_PROTECTED_NAME, len(whys))
    excuse_jobs({job_id: _awaits(name) for job_id, name in running.awaits.items()})
    for row in np.unique(running.ineligible).tolist():
        ineligible = INELIGIBLE[row]
        if ineligible is not None:
            excuse(running.ineligible == row, ineligible)
    # An order has one run of a job: by the job its commands' answers, and what its user is notified of, are known.
    asked = {
        victim.job_id for order in memory.open_orders() if order.state is OrderState.OPEN for victim in order.victims
    }
    excuse_jobs(dict.fromkeys(asked, _WAS_ASKED))
    leaving = {
        victim.job_id for order in memory.open_orders() for victim in order.victims if victim.state in HOLDS_RESOURCES
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
    if turns is not None:
        return Eligibility(why=why, whys=tuple(whys))
    # Last of all: to those of its own user nothing else stands against it.
    dear = np.flatnonzero((why < 0) & _dear(running, tally, limits, now))
    if len(dear):
        excuse(dear, (RefusalCode.BUDGET, f"it may lose more than {_left(tally, limits)}"))
    by_own: dict[str, list[int]] = {}
    for row in dear.tolist():
        # What a TE job of its own user costs it is none of the budget's; where no user is known, none is its own.
        if user := running.owners[running.owner[row]].user:
            by_own.setdefault(user, []).append(row)
    return Eligibility(
        why=why,
        whys=tuple(whys),
        not_by=_let_go_for(running, memory, limits, now),
        why_not_by=_let_go(limits),
        most_te_s=deadlines.most_te_s(running) if deadlines is not None else None,
        users=[running.owners[row].user for row in running.owner.tolist()] if deadlines is not None else (),
        by_own=by_own,
        too_late=_leaves_too_late(running, snapshot, limits, nodes),
    )


def _leaves_too_late(
    running: Running, snapshot: Snapshot | None, limits: Limits, nodes: Mapping[str, int]
) -> Callable[[Job], Iterator[tuple[NDArray[np.intp], Why]]] | None:
    """Search for victims that leave too late. A suspended one leaves at once: there the guard alone finds it."""
    if snapshot is None or limits.lever is YieldBy.AUTO:
        return None
    return leaves_too_late(running, snapshot, nodes)


def _dear(running: Running, tally: Tally, limits: Limits, now: UnixSeconds) -> NDArray[np.bool_]:
    """Check of each whether it alone may lose more than the day's budget has left: then others are to be victims.

    None where victims may be suspended, which costs nothing: the guard has the last word on each plan in any case.
    """
    if limits.lever is YieldBy.AUTO:
        return np.zeros(len(running), dtype=np.bool_)
    nodes = np.bincount(running.share_job, minlength=len(running))
    lost_node_s = nodes * running.lost_s(now)
    dear: NDArray[np.bool_] = lost_node_s + tally.node_s > limits.max_lost_node_hours_per_day * HOUR_S
    return dear


def _left(tally: Tally, limits: Limits) -> str:
    most = limits.max_lost_node_hours_per_day
    left = max(most - tally.node_s / HOUR_S, 0.0)
    return f"the {left:.1f} node-hours that are left in 24 h of guard.max_lost_node_hours_per_day, {most:g}"


def _let_go_for(running: Running, memory: Memory, limits: Limits, now: UnixSeconds) -> dict[str, list[int]]:
    """Return the rows of jobs that were given notice for a TE job and let go a moment ago, by the TE job's user."""
    found: dict[str, list[int]] = {}
    for one in memory.paid:
        row = running.row_of.get(one.job_id)
        if one.withdrawn and row is not None and now - one.at < limits.cool_down_s:
            found.setdefault(one.for_user, []).append(row)
    return found


def _let_go(limits: Limits) -> Why:
    seconds = f"less than guard.cool_down_s, {limits.cool_down_s:.0f} s, ago"
    return RefusalCode.COOL_DOWN, f"it was given notice for a job of the same user, and let go, {seconds}"


def slowdowns(running: Running, memory: Memory) -> NDArray[np.float64]:
    """Return for each running BE job what its slowdown will be if it waits no more: 1 + waited / expected run time.

    Both are over all its runs, as far as tesched ended them; to be suspended by tesched is to wait. Where nothing is
    known of its run time, not even a limit, it is 1. Of a learned run time the low quantile counts: the shorter a job
    is taken to be, the sooner it has waited enough. A wait that its own user has let it have before its first run
    (`intake/own_waits.py`) is none, unless a policy may have held it meanwhile.
    """
    queued = (running.queued if memory.policies_hold else running.eligible).copy()
    ran_s, suspended_s = np.zeros(len(running)), np.zeros(len(running))
    for job_id, one in memory.jobs.items():
        row, past = running.row_of.get(job_id), one.past
        if row is not None and past is not None:
            queued[row], ran_s[row], suspended_s[row] = past.submitted_at, past.ran_s, past.suspended_s
    waited_s = np.maximum(running.started - queued - ran_s, 0) + suspended_s
    run_s = np.maximum(running.may_end_at - running.started, 0) + ran_s
    slowdown: NDArray[np.float64] = 1 + waited_s / np.maximum(run_s, BOUND_S)
    return slowdown


def _spent(
    running: Running, tally: Tally, limits: Limits, nodes: Mapping[str, int]
) -> Iterator[tuple[NDArray[np.bool_], Why]]:
    """Yield the jobs that may not be victims because the limits over all victims are reached."""
    for row, owner in enumerate(running.owners):
        for scope, name, word in ((CountedBy.ACCOUNT, owner.account, "account"), (CountedBy.USER, owner.user, "user")):
            if over := reached(tally, (scope, name), limits):
                yield running.owner == row, _this_hour(over, f"its {word} {name}")
    for by in [by for by in tally.counts if by[0] is CountedBy.NODE and by[1] in nodes]:
        if over := reached(tally, by, limits):
            there = np.zeros(len(running), dtype=np.bool_)
            there[running.share_job[running.share_node == nodes[str(by[1])]]] = True
            yield there, _this_hour(over, f"jobs on its node {by[1]}")
    everybody = np.ones(len(running), dtype=np.bool_)
    if over := reached(tally, (CountedBy.ALL, ""), limits):
        yield everybody, _this_hour(over, "all users together")
    if over := budget_spent(tally, limits):
        text = f"{over.count:.1f} node-hours of runs may have been lost in 24 h; {over.key} is {over.most:g}"
        yield everybody, (over.code, text)


def _spent_by_turns(running: Running, tally: Tally, limits: TurnLimits) -> Iterator[tuple[NDArray[np.bool_], Why]]:
    """Yield the jobs that may not be victims because the limits over all rounds are reached."""
    for by in [by for by in tally.counts if by[0] is CountedBy.VICTIM]:
        row = running.row_of.get(JobId(int(by[1])))
        if row is not None and (over := reached(tally, by, limits)):
            text = f"it gave way to a turn {over.count:g} time(s) in the last hour; {over.key} is {over.most:g}"
            yield np.arange(len(running)) == row, (over.code, text)
    if over := reached(tally, (CountedBy.ALL, ""), limits) or budget_spent(tally, limits):
        cost = f"{over.count:.1f} node-hours in 24 h" if over.of_budget else f"{over.count:g} preemption(s) in an hour"
        text = f"rounds have cost {cost}; {over.key} is {over.most:g}"
        yield np.ones(len(running), dtype=np.bool_), (over.code, text)


def _this_hour(over: Over, what: str) -> Why:
    return over.code, f"{what} paid {over.count:g} time(s) in the last hour; that is all that {over.key} allows"


_PROTECTED_NAME: Why = (RefusalCode.PROTECTED_NAME, "its name is protected (guard.protected_names)")


def _awaits(reservation: str) -> Why:
    return RefusalCode.CANNOT_RETURN, f"back in the queue it would wait for the end of reservation {reservation}"


_SUSPENDED: Why = (RefusalCode.SUSPENDED, "it is suspended for another trial-and-error job, and will go on")


_LEAVING: Why = (RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job")
_WAS_ASKED: Why = (RefusalCode.COOL_DOWN, "it has left, or was let go, for a job that still waits")


def _too_often(count: int, limits: Limits) -> Why:
    text = f"it was preempted {count} time(s); guard.max_preemptions_per_job is {limits.max_preemptions_per_job}"
    return RefusalCode.MAX_PREEMPTIONS, text


def _lost_too_often(count: int, limits: Limits) -> Why:
    lost = f"it has lost {count} run(s) by preemptions" if count else "it is sent no signal, and would lose its run"
    return RefusalCode.MAX_PREEMPTIONS, f"{lost}; guard.max_lost_runs_per_job is {limits.max_lost_runs_per_job}"


def _often(running: Running, memory: Memory, limits: Limits) -> Mapping[JobId, Why]:
    """Return the jobs that were preempted as often as the site allows, or as their owners do where that is less."""
    own = {
        job_id: _by_its_owner(memory.job(job_id).preemptions, most, running.most_said.get(job_id, most))
        for job_id, most in running.most_preemptions.items()
        if most < limits.max_preemptions_per_job and memory.job(job_id).preemptions >= most
    }
    site: dict[JobId, Why] = {}
    for job_id, one in memory.jobs.items():
        if one.preemptions < 1 or job_id not in running.row_of:
            continue
        # One that has died of its notice loses its run the next time, too, whatever it declares.
        if one.lost_runs >= max(limits.max_lost_runs_per_job, 1):
            site[job_id] = _lost_too_often(one.lost_runs, limits)
        if one.preemptions >= limits.max_preemptions_per_job:
            site[job_id] = _too_often(one.preemptions, limits)
    return own | site


def _by_its_owner(count: int, most: int, word: int) -> Why:
    counts = "" if word == most else f"; {most} counts"
    said = f"by its owner's word it may be preempted {most} time(s) (preemptions={word}{counts})"
    return RefusalCode.MAX_PREEMPTIONS, f"it was preempted {count} time(s); {said}" if most else said


def protected(job: Job, limits: Limits) -> bool:
    """Check whether the site protects the job by its user, account, QOS, partition, reservation or name."""
    owner = Owner(job.user, job.account, job.qos, job.partitions, job.reservation)
    named = any(fnmatchcase(job.name, glob) for glob in limits.protected_names)
    return named or _protection(owner, limits) is not None


def _protection(owner: Owner, limits: Limits) -> Why | None:
    # Of a job that names several reservations Slurm does not say in which it runs.
    for code, word, setting, values in (
        (RefusalCode.PROTECTED_USER, "user", "protected_users", (owner.user,)),
        (RefusalCode.PROTECTED_ACCOUNT, "account", "protected_accounts", (owner.account,)),
        (RefusalCode.PROTECTED_QOS, "QOS", "protected_qos", owner.qos.split(",")),
        (RefusalCode.PROTECTED_PARTITION, "partition", "protected_partitions", owner.partitions),
        (RefusalCode.PROTECTED_RESERVATION, "reservation", "protected_reservations", owner.reservation.split(",")),
    ):
        globs: tuple[str, ...] = getattr(limits, setting)
        for value in values:
            if value and any(fnmatchcase(value, glob) for glob in globs):
                return code, f"its {word} {value} is protected (guard.{setting})"
    return None
