"""Limits that count, once for eligibility before a plan, for the admission of plans, and for marks.

A count with so many more must not be above its limit. So a limit of whole numbers is reached where one more victim
would pass it; the day's budget is spent where nothing of it is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tesched_core.guard.budget import Counted, CountedBy, Tally, cost, counted
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, TurnLimits
from tesched_core.model.payment import HOUR_S, Paid

#: Setting of the day's budget, in both sets of limits.
_BUDGET = "max_lost_node_hours_per_day"


@dataclass(frozen=True, slots=True)
class CountLimit:
    """One limit of an hour: what it counts by, its key of the configuration, and the code of a refusal by it."""

    scope: CountedBy
    setting: str
    code: RefusalCode

    def most(self, limits: Limits | TurnLimits) -> int | None:
        """Most of one count; None: it has no limit."""
        most: int | None = getattr(limits, self.setting)
        return most


def _by_scope(*limits: CountLimit) -> dict[CountedBy, CountLimit]:
    return {limit.scope: limit for limit in limits}


#: Limits of what TE jobs cause, in the order in which a refusal names them.
_OF_TE = _by_scope(
    CountLimit(CountedBy.ALL, "max_preemptions_per_hour", RefusalCode.HOUR_LIMIT),
    CountLimit(CountedBy.USER, "max_preemptions_per_user_hour", RefusalCode.USER_LIMIT),
    CountLimit(CountedBy.ACCOUNT, "max_preemptions_per_account_hour", RefusalCode.ACCOUNT_LIMIT),
    CountLimit(CountedBy.NODE, "max_preemptions_per_node_hour", RefusalCode.NODE_LIMIT),
    CountLimit(CountedBy.TE_JOB, "max_victims_for_te_job_hour", RefusalCode.CAUSED_LIMIT),
    CountLimit(CountedBy.TE_USER, "max_victims_for_te_user_hour", RefusalCode.CAUSED_LIMIT),
    CountLimit(CountedBy.TE_ACCOUNT, "max_victims_for_te_account_hour", RefusalCode.CAUSED_LIMIT),
)
#: Limits of what the turns of a policy that goes in rounds cause.
_OF_ROUNDS = _by_scope(
    CountLimit(CountedBy.ALL, "max_preemptions_per_hour", RefusalCode.ROUND_LIMIT),
    CountLimit(CountedBy.VICTIM, "max_preemptions_per_job_hour", RefusalCode.ROUND_LIMIT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """One limit that is reached, or that payments would pass."""

    code: RefusalCode
    scope: CountedBy
    #: the key of the configuration, with its table
    key: str
    #: preemptions in an hour or, of the budget, node-hours in a day
    count: float
    most: float

    @property
    def of_budget(self) -> bool:
        """Whether it is the day's budget: `count` and `most` are node-hours."""
        return self.key.endswith(_BUDGET)


def reached(tally: Tally, by: Counted, limits: Limits | TurnLimits) -> Over | None:
    """Limit of this count that one more victim would pass; `count` is without it."""
    over = _over(tally, {by: 1}, limits)
    return None if over is None else replace(over, count=over.count - 1)


def passed(tally: Tally, payments: Sequence[Paid], limits: Limits | TurnLimits) -> Over | None:
    """Limit that these payments together would pass, the first in order; `count` is with them."""
    more = Counter(by for one in payments for by in counted(one))
    if (over := _over(tally, more, limits)) is not None:
        return over
    if (CountedBy.ALL, "") not in more:
        # All are of the TE job's own user, and take nothing of the budget.
        return None
    node_s, most = tally.node_s + sum(map(cost, payments)), limits.max_lost_node_hours_per_day
    return _of_budget(node_s, limits) if most is not None and node_s > most * HOUR_S else None


def budget_spent(tally: Tally, limits: Limits | TurnLimits) -> Over | None:
    """The day's budget, if nothing of it is left."""
    most = limits.max_lost_node_hours_per_day
    return _of_budget(tally.node_s, limits) if most is not None and tally.node_s >= most * HOUR_S else None


def _over(tally: Tally, more: Mapping[Counted, int], limits: Limits | TurnLimits) -> Over | None:
    rules = _OF_ROUNDS if isinstance(limits, TurnLimits) else _OF_TE
    found: dict[CountedBy, tuple[int, int]] = {}
    for by, number in more.items():
        limit = rules.get(by[0])
        most = None if limit is None else limit.most(limits)
        count = tally.counts.get(by, 0) + number
        if most is not None and count > max(most, found.get(by[0], (0, 0))[0]):
            found[by[0]] = count, most
    for scope, limit in rules.items():
        if scope in found:
            count, most = found[scope]
            return Over(code=limit.code, scope=scope, key=_key(limit.setting, limits), count=count, most=most)
    return None


def _of_budget(node_s: float, limits: Limits | TurnLimits) -> Over:
    return Over(
        code=RefusalCode.ROUND_LIMIT if isinstance(limits, TurnLimits) else RefusalCode.BUDGET,
        scope=CountedBy.ALL,
        key=_key(_BUDGET, limits),
        count=node_s / HOUR_S,
        most=getattr(limits, _BUDGET),
    )


def _key(setting: str, limits: Limits | TurnLimits) -> str:
    return f"{limits.table if isinstance(limits, TurnLimits) else 'guard'}.{setting}"
