"""The limits that no policy can pass. Only the guard excuses a job, or drops a plan, and it says why.

Two questions, asked at two moments of a cycle:

- `excuses`: may this running best-effort job be asked at all? Asked before the policy, so that it can choose among
  those who may.
- `admitted`: may this plan be carried out now? Asked after the policy, plan by plan, since limits that count (a cycle,
  the orders under way) depend on the plans before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_core.decision import Memory, Refusal, RefusalCode, Why
from tesched_core.orders import HOLDS_ROOM
from tesched_core.overview import BARS, Owner, Running
from tesched_core.policy import Excuses, Plan
from tesched_core.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The site's limits. Times in seconds; names are shell globs."""

    #: FitGpp's P: how often one job may be preempted in its life
    max_preemptions_per_job: int = 1
    #: a job is not asked before it has run this long since its last start
    min_run_time_s: float = 60.0
    #: nor this soon after it was last preempted
    cool_down_s: float = 600.0
    #: most jobs asked to yield in one cycle
    max_victims_per_cycle: int = 20
    #: most orders under way at once, those included whose victims are not back yet
    max_open_orders: int = 50
    protected_users: tuple[str, ...] = ()
    protected_accounts: tuple[str, ...] = ()
    protected_qos: tuple[str, ...] = ()
    protected_partitions: tuple[str, ...] = ()
    #: jobs that run inside these reservations
    protected_reservations: tuple[str, ...] = ()
    #: an order is given up this long after the last grace period and KillWait could have ended
    order_timeout_s: float = 60.0
    #: and its TE job is not tried again for this long
    retry_after_s: float = 300.0

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero."""
        for name in (
            "max_preemptions_per_job",
            "min_run_time_s",
            "cool_down_s",
            "max_victims_per_cycle",
            "max_open_orders",
            "order_timeout_s",
            "retry_after_s",
        ):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} must be a number of at least 0")


def excuses(running: Running, memory: Memory, limits: Limits, now: UnixSeconds) -> Excuses:
    """Return for each running BE job whether it may be asked, and why not: the most telling reason."""
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
    seconds = limits.cool_down_s
    text = f"it was preempted less than guard.cool_down_s, {seconds:.0f} s, ago"
    recent = {job_id for job_id, at in memory.last_preempted.items() if now - at < seconds}
    excuse_jobs(dict.fromkeys(recent, (RefusalCode.COOL_DOWN, text)))
    seconds = limits.min_run_time_s
    text = f"it has run for less than guard.min_run_time_s, {seconds:.0f} s"
    excuse(now - running.started < seconds, (RefusalCode.MIN_RUN_TIME, text))
    if limits.max_preemptions_per_job <= 0:
        excuse(np.ones(len(running), dtype=np.bool_), _too_often(0, limits))
    excuse_jobs(_often(memory, limits))
    for row, owner in enumerate(running.owners):
        protection = _protection(owner, limits)
        if protection:
            excuse(running.owner == row, protection)
    for row in np.unique(running.bar).tolist():
        bar = BARS[row]
        if bar is not None:
            excuse(running.bar == row, bar)
    leaving = {
        victim.job_id for order in memory.open_orders() for victim in order.victims if victim.state in HOLDS_ROOM
    }
    excuse_jobs(dict.fromkeys(leaving, _LEAVING))
    return Excuses(why=why, whys=tuple(whys))


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
    plans: Sequence[Plan], memory: Memory, limits: Limits, note: Callable[[Refusal], None]
) -> tuple[Plan, ...]:
    """Return the plans that the counting limits leave, in their order; `note` is told of each one dropped."""
    kept: list[Plan] = []
    victims = 0
    under_way = len(memory.open_orders())
    waiting = {order.preemptor for order in memory.open_orders() if order.waits}
    for plan in plans:
        if plan.preemptor in waiting and not plan.victims:
            kept.append(plan)
            continue
        if under_way + len(kept) >= limits.max_open_orders:
            text = f"{under_way + len(kept)} orders are under way; guard.max_open_orders is {limits.max_open_orders}"
        elif plan.victims and victims + len(plan.victims) > limits.max_victims_per_cycle:
            text = (
                f"this cycle has asked {victims} job(s); guard.max_victims_per_cycle is {limits.max_victims_per_cycle}"
            )
        else:
            kept.append(plan)
            victims += len(plan.victims)
            continue
        note(Refusal(job_id=plan.preemptor, preemptor=plan.preemptor, code=RefusalCode.CYCLE_LIMIT, text=text))
    return tuple(kept)
