"""Limits that count: one answer for eligibility, plans and marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.guard.budget import Counted, CountedBy, Tally
from tesched_core.guard.count_limits import budget_spent, passed, reached
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, TurnLimits
from tesched_core.model.payment import HOUR_S, Paid
from tesched_core.model.resources import JobId

NOW = 1_000_000.0
ONE = Paid(
    at=NOW,
    job_id=JobId(1),
    user="ada",
    account="lab",
    nodes=("n1", "n2"),
    node_s=HOUR_S,
    preemptor=JobId(9),
    for_user="bob",
    for_account="dept",
)
SETTINGS: list[tuple[str, Counted]] = [
    ("max_preemptions_per_hour", (CountedBy.ALL, "")),
    ("max_preemptions_per_user_hour", (CountedBy.USER, "ada")),
    ("max_preemptions_per_account_hour", (CountedBy.ACCOUNT, "lab")),
    ("max_preemptions_per_node_hour", (CountedBy.NODE, "n2")),
    ("max_victims_for_te_job_hour", (CountedBy.TE_JOB, JobId(9))),
    ("max_victims_for_te_user_hour", (CountedBy.TE_USER, "bob")),
    ("max_victims_for_te_account_hour", (CountedBy.TE_ACCOUNT, "dept")),
]


def tally_of(*paid: Paid) -> Tally:
    return Tally.of(paid, (), NOW)


def limits_of(**settings: Any) -> Limits:
    high: dict[str, Any] = {name: 1000 for name, _ in SETTINGS}
    return Limits(**(high | settings))


@pytest.mark.parametrize(("setting", "by"), SETTINGS)
def test_a_limit_that_is_reached_is_one_that_the_next_victim_would_pass(setting: str, by: Counted) -> None:
    limits = limits_of(**{setting: 2})
    for before, is_over in ((0, False), (1, False), (2, True)):
        tally = tally_of(*[ONE] * before)
        full, plan = reached(tally, by, limits), passed(tally, [ONE], limits)
        assert (full is not None, plan is not None) == (is_over, is_over), before
    assert full is not None
    assert plan is not None
    assert (full.key, full.count, full.most) == (f"guard.{setting}", 2, 2)
    assert (plan.key, plan.count, plan.scope) == (f"guard.{setting}", 3, by[0])


@pytest.mark.parametrize(
    ("setting", "without"),
    [
        ("max_preemptions_per_user_hour", {"user": ""}),
        ("max_preemptions_per_account_hour", {"account": ""}),
        ("max_victims_for_te_account_hour", {"for_account": ""}),
    ],
)
def test_jobs_of_no_account_or_of_an_unknown_user_are_not_taken_for_one_users(
    setting: str, without: dict[str, str]
) -> None:
    limits, one = limits_of(**{setting: 1}), replace(ONE, **without)  # type: ignore[arg-type]
    assert passed(tally_of(one, one), [one], limits) is None
    assert passed(tally_of(ONE), [ONE], limits) is not None


def test_a_te_job_has_its_own_limit_though_its_user_is_not_known() -> None:
    one, limits = replace(ONE, for_user="", for_account=""), limits_of(max_victims_for_te_job_hour=1)
    over = passed(tally_of(one), [one], limits)
    assert over is not None
    assert over.scope is CountedBy.TE_JOB


def test_victims_of_one_plan_count_together() -> None:
    limits = limits_of(max_preemptions_per_user_hour=2)
    others = [replace(ONE, job_id=JobId(number)) for number in range(2, 5)]
    assert passed(tally_of(), others[:2], limits) is None
    over = passed(tally_of(), others, limits)
    assert over is not None
    assert (over.code, over.count) == (RefusalCode.USER_LIMIT, 3)


def test_the_fullest_of_several_nodes_is_named() -> None:
    limits = limits_of(max_preemptions_per_node_hour=1)
    tally = tally_of(replace(ONE, nodes=("n2",)), replace(ONE, nodes=("n2",)))
    over = passed(tally, [replace(ONE, nodes=("n1", "n2", "n3"))], limits)
    assert over is not None
    assert over.count == 3


def test_a_preemption_of_an_hour_ago_counts_for_the_budget_alone() -> None:
    limits = limits_of(max_preemptions_per_hour=1, max_lost_node_hours_per_day=1.5)
    old = replace(ONE, at=NOW - HOUR_S)
    assert reached(tally_of(old), (CountedBy.ALL, ""), limits) is None
    over = passed(tally_of(old), [ONE], limits)
    assert over is not None
    assert over.of_budget
    assert (over.code, over.count) == (RefusalCode.BUDGET, 2.0)


@pytest.mark.parametrize(
    ("hours", "spent", "next_passes"), [(0.0, False, False), (1.0, False, False), (2.0, True, True)]
)
def test_the_budget_is_spent_when_nothing_is_left_and_passed_by_what_is_more(
    hours: float, spent: bool, next_passes: bool
) -> None:
    limits = limits_of(max_lost_node_hours_per_day=2.0)
    tally = tally_of(replace(ONE, node_s=hours * HOUR_S))
    assert (budget_spent(tally, limits) is not None) is spent
    assert (passed(tally, [ONE], limits) is not None) is next_passes


def test_a_victim_of_the_te_jobs_own_user_is_held_to_that_users_limits_alone() -> None:
    own = replace(ONE, for_user="ada", for_account="lab")
    limits = limits_of(max_preemptions_per_user_hour=0, max_lost_node_hours_per_day=0.5)
    assert passed(tally_of(), [own], limits) is None
    assert passed(tally_of(ONE), [own], limits) is None, "it takes nothing of a budget that is spent"
    over = passed(tally_of(), [own], replace(limits, max_victims_for_te_user_hour=0))
    assert over is not None
    assert over.scope is CountedBy.TE_USER


def test_rounds_have_limits_of_their_own() -> None:
    turn = replace(ONE, preemptor=JobId(9), for_user="", for_account="")
    limits = TurnLimits(table="policy.gavel", max_preemptions_per_job_hour=2)
    assert passed(tally_of(turn), [turn], limits) is None
    over = passed(tally_of(turn, turn), [turn], limits)
    assert over is not None
    assert (over.code, over.key) == (
        RefusalCode.ROUND_LIMIT,
        "policy.gavel.max_preemptions_per_job_hour",
    )
    assert reached(tally_of(turn, turn), (CountedBy.ALL, ""), limits) is None, "None is no limit"
    of_all = replace(limits, max_preemptions_per_hour=1, max_lost_node_hours_per_day=0.0)
    assert (over := reached(tally_of(turn), (CountedBy.ALL, ""), of_all)) is not None
    assert over.count == 1
    assert (over := budget_spent(tally_of(turn), of_all)) is not None
    assert over.code is RefusalCode.ROUND_LIMIT
