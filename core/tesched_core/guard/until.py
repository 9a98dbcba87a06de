"""End of what keeps a job: until when one refusal of the guard, or of the queue of TE jobs, stands.

Only what is known counts: a time that follows from the memory and the limits as they are. What ends with an event (a
job ends, an admin changes a setting) has no time, and neither has what never ends.

Worked example
    max_preemptions_per_user_hour = 2, and jobs of ada were preempted at 9:00, 9:20 and 9:30. At 9:40 a job of ada is no
    victim until 10:20, when one of the three is left in the last hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tesched_core.guard.budget import under_way
from tesched_core.guard.misuse import barred_users
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.payment import DAY_S, HOUR_S, Paid
from tesched_core.model.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedJob:
    """A job that was refused."""

    job_id: JobId
    #: of a job array
    array_job_id: JobId | None = None
    user: str
    account: str
    nodes: tuple[str, ...]
    #: None: it does not run
    started_at: UnixSeconds | None
    #: of a TE job: until when it has no victims, by its owner's word
    patience_until: UnixSeconds | None = None


def ends_at(code: RefusalCode, job: RefusedJob, memory: Memory, limits: Limits, now: UnixSeconds) -> UnixSeconds | None:
    """Return until when this refusal of a job stands, for a TE job; None: no time is known."""
    if code is RefusalCode.RETRY_LATER:
        ids = (job.array_job_id, job.job_id)
        times = (memory.job(one).retry_at for one in ids if one is not None)
        return max((at for at in times if at is not None), default=None)
    if code is RefusalCode.PATIENCE:
        return job.patience_until
    if code is RefusalCode.TE_LIMIT:
        barred = barred_users(memory.outlived, limits.te, now).get(job.user)
        return None if barred is None else barred.until
    if code is RefusalCode.MIN_RUN_TIME:
        return None if job.started_at is None else job.started_at + limits.min_run_time_s
    if code is RefusalCode.COOL_DOWN:
        asked = memory.job(job.job_id).last_preempted
        let_go = (one.at for one in memory.paid if one.withdrawn and one.job_id == job.job_id)
        return max((at + limits.cool_down_s for at in (*([] if asked is None else [asked]), *let_go)), default=None)
    paid = [one for one in (*memory.paid, *under_way(memory.open_orders(), now)) if _counts(one)]
    if code is RefusalCode.BUDGET:
        return _within_budget(paid, limits.max_lost_node_hours_per_day * HOUR_S, now)
    if code is RefusalCode.HOUR_LIMIT:
        return _fewer_than(limits.max_preemptions_per_hour, paid, now)
    if code is RefusalCode.USER_LIMIT:
        most, of_user = limits.max_preemptions_per_user_hour, (one for one in paid if one.user == job.user)
        return _fewer_than(most, of_user, now)
    if code is RefusalCode.ACCOUNT_LIMIT:
        most, of_account = limits.max_preemptions_per_account_hour, (one for one in paid if one.account == job.account)
        return _fewer_than(most, of_account, now)
    if code is RefusalCode.NODE_LIMIT:
        most = limits.max_preemptions_per_node_hour
        ends = (_fewer_than(most, (one for one in paid if node in one.nodes), now) for node in job.nodes)
        return max((at for at in ends if at is not None), default=None)
    return None


def _counts(one: Paid) -> bool:
    """As `budget.Tally` has it."""
    return one.purpose is Purpose.TE and not one.withdrawn and not one.of_own_user


def _fewer_than(most: int, paid: Iterable[Paid], now: UnixSeconds) -> UnixSeconds | None:
    """Time at which fewer than `most` of these are left in the last hour; None: never, or now."""
    times = sorted(one.at for one in paid if now - one.at < HOUR_S)
    too_many = len(times) - most
    return times[too_many] + HOUR_S if 0 <= too_many < len(times) else None


def _within_budget(paid: Iterable[Paid], most_node_s: float, now: UnixSeconds) -> UnixSeconds | None:
    lately = sorted((one for one in paid if now - one.at < DAY_S), key=lambda one: one.at)
    left = sum(one.node_s for one in lately)
    for one in lately:
        if left < most_node_s:
            break
        left -= one.node_s
        if left < most_node_s:
            return one.at + DAY_S
    return None
