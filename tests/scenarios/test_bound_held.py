"""The bound of a victim that gavel holds: it waits for BE jobs then, unless a TE job is in its way.

Two nodes of one GPU each, v is a v100 and k a k80; a round takes 360 s. A ran on v, the only node where it fits, and
left for a trial of another user's; it is away, and held. It may be delayed by 901 s: 600 s for a TE job, 211 s and its
grace period for a preemption, and 60 s of guard.min_run_time_s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, holds, releases
from tesched_core.model.cluster import HELD_BY_US, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Bound
from tesched_core.model.resources import JobId

from tests.builders import NOW, waiting
from tests.scenarios.test_gavel_returns import ON_K, ON_V, put_back
from tests.scenarios.test_gavel_rounds import GPU, LIMITS, TRIAL, A, B, C, Site, on, queued

V100 = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu:v100", 1),))
LATER = 10
#: it had run for 100 s, and had its notice at 0
LOST_S = 100.0


def site(*, own: bool = False) -> Site:
    """Return the site where A has left for the trial, which has started at 10, and is held; C waits for a turn."""
    drive = Site(
        replace(on(A, "v"), user="bob", request=V100),
        replace(on(B, "k"), user="cyd", requeueable=False),
        replace(queued(C), user="cyd", request=V100),
        waiting(TRIAL, V100, user="bob" if own else "ada", time_limit_s=500),
        speeds={job_id: {"v100": 2, "k80": 1} for job_id in (A, B, C)},
    )
    drive.limits = replace(LIMITS, bound=Bound(slowdown=1.1, te_time_limit_s=600), max_slowdown=1e6, min_run_time_s=60)
    drive.obeys(*drive.cycle(0))
    assert [one.job_id for one in drive.decision.actions if isinstance(one, Notify)] == [A]
    put_back(drive, A, 5)
    drive.obeys(*drive.cycle(6))
    drive.starts(TRIAL, ON_V, at_s=10)
    polls(drive, 10, 20)
    assert drive.jobs[JobId(A)].reason == HELD_BY_US
    return drive


def polls(drive: Site, since: int, until: int) -> None:
    """Poll each 10 s."""
    for at_s in range(since, until + 1, 10):
        drive.obeys(*drive.cycle(at_s))


def delayed_s(drive: Site) -> float:
    assert drive.decision.bound is not None
    return next((one.delayed_s for one in drive.decision.bound.jobs if one.job == str(A)), 0.0)


def with_c_in_its_place() -> Site:
    """Return the site where the trial has ended at 200, and C has its GPU from 203 on; it is 220."""
    drive = site()
    polls(drive, 30, 200)
    drive.ends(TRIAL)
    drive.change(C, priority=100)
    drive.starts(C, ON_V, at_s=203)
    polls(drive, 210, 220)
    assert drive.jobs[JobId(A)].reason == HELD_BY_US
    return drive


def test_what_a_trial_in_its_place_delays_it_by_counts() -> None:
    drive = site()
    polls(drive, 30, 200)
    assert delayed_s(drive) == LOST_S + 200


def test_what_the_rounds_delay_it_by_does_not() -> None:
    drive = with_c_in_its_place()
    before = delayed_s(drive)
    polls(drive, 230, 300)
    assert delayed_s(drive) == before


def test_nor_as_a_trial_runs_where_it_could_not() -> None:
    drive = with_c_in_its_place()
    drive.ends(B)
    drive.submits(waiting(LATER, GPU, user="ada", time_limit_s=60), like=TRIAL)
    drive.starts(LATER, ON_K, at_s=225)
    before = delayed_s(drive)
    polls(drive, 230, 300)
    assert delayed_s(drive) == before


@pytest.mark.parametrize(("user", "counts"), [("ada", True), ("bob", False)])
def test_trial_that_has_its_place_by_another_order_counts_unless_it_is_its_own_users(user: str, counts: bool) -> None:
    drive = with_c_in_its_place()
    drive.ends(C)
    drive.submits(waiting(LATER, V100, user=user, time_limit_s=60), like=TRIAL)
    drive.starts(LATER, ON_V, at_s=225)
    before = delayed_s(drive)
    polls(drive, 230, 300)
    assert (delayed_s(drive) == before + 80) is counts
    assert (delayed_s(drive) == before) is not counts


@pytest.mark.parametrize(("user", "on_v", "counts"), [("ada", True, True), ("bob", True, False), ("ada", False, False)])
def test_trial_between_two_polls_counts_where_it_may_run(user: str, on_v: bool, counts: bool) -> None:
    drive = with_c_in_its_place()
    before = delayed_s(drive)
    drive.submits(waiting(LATER, V100 if on_v else GPU, user=user, time_limit_s=60), like=TRIAL)
    drive.starts(LATER, ON_V if on_v else ON_K, at_s=222)
    drive.at_s = 228
    drive.ends(LATER)
    polls(drive, 230, 230)
    assert delayed_s(drive) == before + (10 if counts else 0)
    polls(drive, 240, 240)
    assert delayed_s(drive) == before + (10 if counts else 0)


def test_wait_for_a_round_takes_nothing_from_what_trials_have_delayed_it_by() -> None:
    drive = site()
    polls(drive, 30, 200)
    drive.ends(TRIAL)
    polls(drive, 201, 201)
    drive.starts(A, ON_V, at_s=203)
    polls(drive, 210, 570)
    before = delayed_s(drive)
    asked = [one.job_id for order in drive.memory.open_orders() for one in order.victims]
    assert asked == [A], "it leaves for the turn of C"
    put_back(drive, A, 570)
    drive.starts(C, ON_V, at_s=575)
    polls(drive, 580, 700)
    assert delayed_s(drive) == before


def test_a_trial_waits_for_it_near_its_bound_and_it_is_held_no_more() -> None:
    drive = with_c_in_its_place()
    polls(drive, 230, 300)
    drive.submits(waiting(LATER, V100, user="ada", time_limit_s=590), like=TRIAL)
    drive.cycle(301)
    assert drive.why_not(LATER) is RefusalCode.BOUND
    assert LATER in [one.job_id for one in drive.decision.actions if holds(one)]
    assert [one.job_id for one in drive.decision.actions if releases(one)] == [A]
    (why,) = [one.reason.text for one in drive.decision.actions if releases(one)]
    assert "guard.bound" in why
    drive.obeys(*drive.decision.actions)
    drive.cycle(310)
    assert A not in [one.job_id for one in drive.decision.actions if holds(one)]


def test_a_trial_waits_for_one_with_the_reason_of_its_last_run() -> None:
    drive = with_c_in_its_place()
    polls(drive, 230, 300)
    drive.change(A, reason="NonZeroExitCode")
    drive.submits(waiting(LATER, V100, user="ada", time_limit_s=590), like=TRIAL)
    drive.cycle(301)
    assert drive.why_not(LATER) is RefusalCode.BOUND


@pytest.mark.parametrize("reason", ["JobHeldUser", "BadConstraints"])
def test_but_not_for_one_that_another_holds(reason: str) -> None:
    """Slurm holds a job itself that it says BadConstraints of; waited for, it would keep all trials for ever."""
    drive = with_c_in_its_place()
    polls(drive, 230, 300)
    drive.change(A, reason=reason)
    drive.submits(waiting(LATER, V100, user="ada", time_limit_s=590), like=TRIAL)
    drive.cycle(301)
    assert drive.why_not(LATER) is not RefusalCode.BOUND


def test_begin_time_of_its_users_is_no_delay_though_it_is_held() -> None:
    drive = site()
    drive.change(A, eligible_time=NOW + 10_000)
    before = delayed_s(drive)
    for at_s in range(30, 101, 10):
        drive.cycle(at_s)  # its release does not arrive
    assert delayed_s(drive) == before
