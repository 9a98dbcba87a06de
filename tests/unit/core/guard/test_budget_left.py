"""What is left of the day's budget: a job that alone may lose more is no victim, and others are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.eligibility import Eligibility

from tests.builders import NOW, cluster, node, running, share, waiting

SAVES, LOSES, OWN = JobId(1), JobId(2), JobId(3)
#: an hour's run of each: the first saves it in 30 s
RAN_S = 3600.0
LIMITS = Limits(min_run_time_s=0, cool_down_s=0, max_slowdown=1e9, max_lost_node_hours_per_day=1.5)


def site(**users: str) -> Snapshot:
    """Return a cluster of three jobs on a node each, of which the first alone declared a signal."""
    jobs = [
        running(job_id, share(f"n{job_id}", 1), start_time=NOW - RAN_S, user=users.get(f"of_{job_id}", "ada"))
        for job_id in (SAVES, LOSES, OWN)
    ]
    snapshot = cluster([node(f"n{job_id}") for job_id in (SAVES, LOSES, OWN)], jobs)
    bare = {one: replace(snapshot.traits[one], notice_signal="", grace_period_s=0.0) for one in (LOSES, OWN)}
    return snapshot.with_traits({**snapshot.traits, **bare})


def found_in(snapshot: Snapshot, limits: Limits, memory: Memory) -> Eligibility:
    columns = columns_of(snapshot)
    return eligible_victims(columns.running, memory, limits, snapshot.taken_at, columns.capacity.index)


def victims(snapshot: Snapshot, found: Eligibility) -> list[int]:
    """Return the jobs that may be victims."""
    ids = columns_of(snapshot).running.job_id.tolist()
    return [job_id for job_id, may in zip(ids, found.may_be_asked.tolist(), strict=True) if may]


def spent(node_hours: float) -> Memory:
    one = Paid(at=NOW - 5000, job_id=JobId(9), user="eve", account="", nodes=("n9",), node_s=3600.0 * node_hours)
    return Memory(paid=(one,))


@pytest.mark.parametrize(
    ("hours", "may"),
    [(0.0, [1, 2, 3]), (0.49, [1, 2, 3]), (0.5, [1]), (1.4, [1]), (1.5, [])],
)
def test_one_that_may_lose_more_than_is_left_is_no_victim_and_one_that_saves_is(hours: float, may: list[int]) -> None:
    snapshot = site()
    # KillWait is counted: an hour and 30 s.
    found = found_in(snapshot, LIMITS, spent(hours))
    assert victims(snapshot, found) == may
    row = columns_of(snapshot).running.row_of[LOSES]
    code, text = found.whys[found.why[row]] if found.why[row] >= 0 else (None, "")
    assert code is (None if 2 in may else RefusalCode.BUDGET)
    if may == [1]:
        left = f"{1.5 - hours:.1f} node-hours that are left in 24 h of guard.max_lost_node_hours_per_day, 1.5"
        assert text == f"it may lose more than the {left}"


def test_a_te_job_of_its_own_user_may_have_it_all_the_same_as_that_costs_nothing_of_the_budget() -> None:
    snapshot = site(of_3="bob")
    found = found_in(snapshot, LIMITS, spent(1.0))
    by = {user: victims(snapshot, found.by(waiting(10, user=user))) for user in ("ada", "bob", "carl", "")}
    assert by == {"ada": [1, 2], "bob": [1, 3], "carl": [1], "": [1]}
    unknown = site(of_1="", of_2="", of_3="")
    assert victims(unknown, found_in(unknown, LIMITS, spent(1.0)).by(waiting(10, user=""))) == [1]


def test_where_victims_may_be_suspended_all_may_be_victims_as_that_costs_nothing() -> None:
    snapshot = site()
    auto = replace(LIMITS, lever=YieldBy.AUTO)
    assert victims(snapshot, found_in(snapshot, auto, spent(1.0))) == [1, 2, 3]


def test_all_nodes_of_a_job_count() -> None:
    wide = running(LOSES, share("n1", 1), share("n2", 1), start_time=NOW - RAN_S)
    snapshot = cluster([node("n1"), node("n2")], [wide])
    bare = replace(snapshot.traits[LOSES], notice_signal="", grace_period_s=0.0)
    snapshot = snapshot.with_traits({LOSES: bare})
    assert victims(snapshot, found_in(snapshot, LIMITS, Memory())) == []
    assert victims(snapshot, found_in(snapshot, replace(LIMITS, max_lost_node_hours_per_day=2.1), Memory())) == [2]
