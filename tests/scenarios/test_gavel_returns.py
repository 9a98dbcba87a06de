"""Jobs of Gavel's rounds that are back in the queue: Slurm starts none of them elsewhere, or on another one's nodes.

Everywhere: two nodes of one GPU each, v is a v100 and k a k80; a round takes 360 s, and Slurm starts a job that was put
back in the queue no sooner than 121 s later. Seen on a real Slurm by `python -m benchmarks.twin --policy fitgpp+gavel`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, kind_of
from tesched_core.model.change import first_change
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_policies.gavel.jobs import is_away
from tesched_policies.put_off import is_put_off

from tests.builders import NOW, cluster, nodes_set, share, view_of, waiting
from tests.scenarios.test_gavel_rounds import GPU, A, B, C, Site, kinds, on, queued

#: it has just been submitted
NEWCOMER = 4
ON_V, ON_K = share("v", 1, 1, {"gpu:v100": 1}), share("k", 1, 1, {"gpu:k80": 1})
DELAY_S = 121


def put_back(site: Site, job_id: int, at_s: float) -> None:
    site.requeued(job_id)
    site.change(job_id, eligible_time=NOW + at_s + DELAY_S)


def noticed(site: Site) -> list[int]:
    return [int(action.job_id) for action in site.decision.actions if isinstance(action, Notify)]


def bound_to(site: Site) -> dict[int, tuple[str, ...]]:
    return {int(job_id): nodes.names for job_id, nodes in nodes_set(site.decision.actions)}


def moving() -> Site:
    """Return the site where A is to leave k for v, which is free, and is back in the queue after 5 s."""
    site = Site(on(A, "k"), speeds={A: {"v100": 4, "k80": 1}})
    site.obeys(*site.cycle(0))
    assert noticed(site) == [A]
    put_back(site, A, 5)
    site.obeys(*site.cycle(6))
    assert bound_to(site) == {A: ("v",)}
    return site


def test_a_hold_that_came_as_it_started_does_not_end_its_move() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.cycle(0)
    assert kinds(site) == [("hold", C)]
    site.ends(B)
    site.starts(C, ON_K, at_s=1)
    site.change(C, priority=0, reason="JobHeldAdmin")
    site.obeys(*site.cycle(2))
    site.ends(A)
    site.obeys(*site.cycle(361))
    assert noticed(site) == [C]
    (order,) = site.memory.open_orders()
    put_back(site, C, 365)
    site.change(C, reason="NonZeroExitCode")
    site.cycle(365.5)
    assert bound_to(site) == {C: ("v",)}, "what Slurm says is of its last run, for a moment"
    site.obeys(*site.decision.actions)
    site.change(C, reason="JobHeldAdmin")
    site.obeys(*site.cycle(366))
    assert site.order(order.order_id).state is OrderState.OPEN
    assert kinds(site) == [("release", C)]
    site.starts(C, ON_V, at_s=487)
    site.cycle(488)
    assert site.order(order.order_id).ending is Ending.STARTED_HERE


def test_one_without_a_turn_is_held_before_slurm_may_start_it_again() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    site.obeys(*site.cycle(360))
    site.obeys(*site.cycle(361))
    assert noticed(site) == [A]
    put_back(site, A, 362)
    site.change(A, reason="NonZeroExitCode")
    site.obeys(*site.cycle(363))
    assert ("hold", A) in kinds(site)
    site.starts(C, ON_V, at_s=364)
    assert ("release", A) not in [(kind_of(one), one.job_id) for one in site.cycle(365)]


def test_one_with_a_turn_is_held_until_it_is_bound_to_its_nodes() -> None:
    site = Site(on(A, "v"), speeds={A: {"v100": 4, "k80": 1}})
    site.obeys(*site.cycle(0))
    put_back(site, A, 10)
    site.obeys(*site.cycle(11))
    assert kinds(site) == [("hold", A)], "Slurm would start it on the first node, of whatever type"
    assert site.decision.next_at == NOW + 10 + DELAY_S
    assert site.cycle(60) == (), "it keeps no nodes from others for as long"
    site.obeys(*site.cycle(10 + DELAY_S))
    assert kinds(site) == [("setnodes", A), ("release", A)]
    assert bound_to(site) == {A: ("v",)}


def test_a_begin_time_of_its_users_is_left() -> None:
    site = Site(on(A, "v"), speeds={A: {"v100": 4, "k80": 1}})
    site.obeys(*site.cycle(0))
    site.requeued(A)
    site.change(A, eligible_time=NOW + 3600)
    assert site.cycle(11) == ()


def put_off_by_a_begin_time(site: Site, reason: str) -> None:
    site.requeued(A)
    site.change(A, eligible_time=NOW + 3600, reason=reason)


def put_off_by_a_hold(site: Site, reason: str) -> None:
    put_back(site, A, 5)
    site.change(A, priority=0, reason=reason)


@pytest.mark.parametrize(
    ("put_off", "reason"),
    [
        (put_off_by_a_begin_time, "BeginTime"),
        # Slurm has not come to it since.
        (put_off_by_a_begin_time, "Resources"),
        (put_off_by_a_hold, "JobHeldUser"),
        (put_off_by_a_hold, "BeginTime"),
    ],
)
def test_one_that_its_user_has_put_off_has_no_turn(put_off: Callable[[Site, str], None], reason: str) -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), queued(C), speeds={A: alike, C: alike})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    put_off(site, reason)
    site.cycle(11)
    assert kinds(site) == [("setnodes", C), ("release", C)], "the turn is that of the next one"


@pytest.mark.parametrize("restarts", [0, 1])
def test_one_that_is_held_and_that_its_user_puts_off_is_let_go(restarts: int) -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), queued(C), speeds={A: alike, C: alike})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.change(C, eligible_time=NOW + 3600, restarts=restarts)
    site.obeys(*site.cycle(11))
    assert kinds(site) == [("release", C)]
    site.change(C, reason="BeginTime")
    site.cycle(360)
    assert site.decision.actions == (), "A goes on"


@pytest.mark.parametrize(("restored", "is_its_users"), [(False, False), (True, True)])
def test_a_begin_time_that_tesched_has_set_is_none_of_its_users(restored: bool, is_its_users: bool) -> None:
    job = waiting(A, GPU, restarts=1, eligible_time=NOW + 3600)
    change = replace(first_change(job.job_id, Field.BEGIN, 0, int(NOW) + 3600, NOW), restored=restored)
    view = replace(view_of(cluster([], [job])), memory=Memory(changes={Field.BEGIN: {job.job_id: change}}))
    assert is_put_off(job, view) is is_its_users
    assert not is_away(job, view.snapshot), "a requeue gives no such time"


@pytest.mark.parametrize(("restarts", "eligible_s"), [(0, 5), (1, DELAY_S + 5)], ids=["submitted", "put back"])
def test_one_is_not_put_off_as_slurms_clock_is_five_seconds_ahead(restarts: int, eligible_s: float) -> None:
    job = waiting(A, GPU, restarts=restarts, eligible_time=NOW + eligible_s)
    later = replace(job, eligible_time=NOW + eligible_s + 20)
    assert not is_put_off(job, view_of(cluster([], [job])))
    assert is_put_off(later, view_of(cluster([], [later])))


def test_one_gets_other_nodes_where_another_has_taken_its_own() -> None:
    site = moving()
    site.submits(waiting(NEWCOMER, GPU), like=A)
    site.starts(NEWCOMER, ON_V, at_s=20)
    site.obeys(*site.cycle(21))
    assert (site.order(1).ending, site.order(1).futile) == (Ending.OVERTAKEN, True)
    assert site.memory.job(JobId(A)).retry_at is None, "no wait for a turn that it has not had"
    site.obeys(*site.cycle(5 + DELAY_S))
    site.obeys(*site.cycle(6 + DELAY_S))
    assert site.jobs[JobId(A)].request.required_nodes == ("k",)
    site.starts(A, ON_K, at_s=7 + DELAY_S)
    site.cycle(8 + DELAY_S)
    assert [order.ending for order in site.memory.orders.values()][-1] is Ending.STARTED_HERE


def test_one_that_only_completes_there_has_taken_nothing() -> None:
    site = moving()
    site.submits(waiting(NEWCOMER, GPU), like=A)
    site.starts(NEWCOMER, ON_V, at_s=20)
    site.change(NEWCOMER, flags=frozenset({"COMPLETING"}))
    site.cycle(21)
    assert site.open_orders() == [1]


def test_one_that_was_to_move_and_finishes_has_paid_nothing() -> None:
    site = Site(on(A, "k"), speeds={A: {"v100": 4, "k80": 1}})
    site.obeys(*site.cycle(0))
    assert noticed(site) == [A]
    site.ends(A)
    site.cycle(5)
    assert (site.order(1).ending, site.order(1).futile) == (Ending.PREEMPTOR_GONE, False)


@pytest.mark.parametrize(("begins_s", "is_first"), [(126, True), (7, True), (-3, True), (-5, False)])
def test_it_is_bound_before_other_commands_are_sent(begins_s: float, is_first: bool) -> None:
    site = Site(on(A, "k"), speeds={A: {"v100": 4, "k80": 1}})
    site.obeys(*site.cycle(0))
    put_back(site, A, 5)
    site.change(A, eligible_time=NOW + begins_s, reason="None")
    site.submits(queued(B), like=A)
    site.change(B, priority=200)
    site.cycle(6)
    assert ("setnice", A) in kinds(site), "another one is ahead of it"
    assert (kinds(site)[0] == ("setnodes", A)) is is_first, "it may start as soon as its begin time has come"
