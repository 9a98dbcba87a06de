"""Until when a refusal stands: worked out from the memory and the limits, and only where it is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.until import RefusedJob, ends_at
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.outlived import Outlived
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId

NOW = 100_000.0
JOB = RefusedJob(job_id=JobId(7), user="ada", account="phys", nodes=("n1", "n2"), started_at=NOW - 20)


def paid(at: float, *, job_id: int = 1, user: str = "ada", nodes: tuple[str, ...] = ("n1",), **more: object) -> Paid:
    values: dict[str, object] = {"account": "phys", "node_s": 3600.0, **more}
    return Paid(at=NOW + at, job_id=JobId(job_id), user=user, nodes=nodes, **values)  # type: ignore[arg-type]


def ends(code: RefusalCode, memory: Memory, job: RefusedJob = JOB, **limits: float) -> float | None:
    found = ends_at(code, job, memory, Limits(**limits), NOW)  # type: ignore[arg-type]
    return None if found is None else found - NOW


def test_a_young_run_is_kept_until_it_has_run_long_enough() -> None:
    assert ends(RefusalCode.MIN_RUN_TIME, Memory(), min_run_time_s=60.0) == 40.0


def test_a_cool_down_ends_after_the_last_preemption_or_letting_go() -> None:
    memory = Memory(jobs={JobId(7): JobMemory(last_preempted=NOW - 500)}, paid=(paid(-100, job_id=7, withdrawn=True),))
    assert ends(RefusalCode.COOL_DOWN, memory, cool_down_s=600.0) == 500.0
    assert (
        ends(RefusalCode.COOL_DOWN, Memory(jobs={JobId(7): JobMemory(last_preempted=NOW - 500)}), cool_down_s=600.0)
        == 100.0
    )
    assert ends(RefusalCode.COOL_DOWN, Memory(jobs={JobId(8): JobMemory(last_preempted=NOW - 500)})) is None


def test_a_te_job_is_tried_again_at_its_time_or_its_arrays() -> None:
    memory = Memory(jobs={JobId(7): JobMemory(retry_at=NOW + 9), JobId(5): JobMemory(retry_at=NOW + 90)})
    assert ends(RefusalCode.RETRY_LATER, memory) == 9.0
    task = RefusedJob(job_id=JobId(6), array_job_id=JobId(5), user="ada", account="", nodes=(), started_at=None)
    assert ends(RefusalCode.RETRY_LATER, memory, task) == 90.0


#: three that count for the user, the account and node n1; one each that counts for none of them
LATELY = (
    paid(-3000),
    paid(-2400, job_id=2),
    paid(-600, job_id=3),
    paid(-100, job_id=4, user="bob", account="bio", nodes=("n9",)),
    paid(-90, job_id=5, withdrawn=True),
    paid(-80, job_id=6, for_user="ada"),
    paid(-70, job_id=7, purpose=Purpose.ROUND),
    paid(-3700, job_id=8),
)


@pytest.mark.parametrize(
    ("code", "setting", "most", "until"),
    [
        (RefusalCode.USER_LIMIT, "max_preemptions_per_user_hour", 3, 600.0),
        (RefusalCode.USER_LIMIT, "max_preemptions_per_user_hour", 2, 1200.0),
        (RefusalCode.USER_LIMIT, "max_preemptions_per_user_hour", 4, None),
        (RefusalCode.USER_LIMIT, "max_preemptions_per_user_hour", 0, None),
        (RefusalCode.ACCOUNT_LIMIT, "max_preemptions_per_account_hour", 1, 3000.0),
        (RefusalCode.NODE_LIMIT, "max_preemptions_per_node_hour", 3, 600.0),
        (RefusalCode.HOUR_LIMIT, "max_preemptions_per_hour", 4, 600.0),
    ],
)
def test_a_limit_by_hour_ends_when_enough_preemptions_are_an_hour_old(
    code: RefusalCode, setting: str, most: int, until: float | None
) -> None:
    found = ends_at(code, JOB, Memory(paid=LATELY), replace(Limits(), **{setting: most}), NOW)  # type: ignore[arg-type]
    assert (None if found is None else found - NOW) == until


def test_the_days_budget_ends_when_enough_node_hours_are_a_day_old() -> None:
    memory = Memory(paid=(paid(-80_000), paid(-50_000, job_id=2), paid(-9, job_id=3)))
    assert ends(RefusalCode.BUDGET, memory, max_lost_node_hours_per_day=2.5) == 6_400.0
    assert ends(RefusalCode.BUDGET, memory, max_lost_node_hours_per_day=1.5) == 36_400.0
    assert ends(RefusalCode.BUDGET, memory, max_lost_node_hours_per_day=4.0) is None


def test_a_user_with_te_jobs_that_outlived_their_limits_waits_until_enough_of_them_are_a_day_old() -> None:
    runs = tuple(Outlived(job_id=JobId(number), at=NOW - 1000 * number, user="ada") for number in (1, 2))
    memory = Memory(outlived=runs)
    two, three = (replace(Limits(), te=TeLimits(max_outlived_per_user_day=most)) for most in (2, 3))
    assert ends_at(RefusalCode.TE_LIMIT, JOB, memory, two, NOW) == NOW - 2000 + 86_400
    assert ends_at(RefusalCode.TE_LIMIT, JOB, memory, three, NOW) is None


def test_what_ends_with_an_event_has_no_time() -> None:
    for code in (RefusalCode.PROTECTED_USER, RefusalCode.FUTILE, RefusalCode.SLOWDOWN, RefusalCode.MAX_PREEMPTIONS):
        assert ends(code, Memory(paid=LATELY)) is None


def test_its_owners_patience_ends_at_its_time() -> None:
    assert ends(RefusalCode.PATIENCE, Memory(), replace(JOB, patience_until=NOW + 70)) == 70.0
    assert ends(RefusalCode.PATIENCE, Memory()) is None
