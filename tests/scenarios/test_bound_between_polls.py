"""The bound between two polls: what TE runs delay a BE job by that no poll has shown, and TE jobs that start then.

Everywhere: a node of 32 CPUs; WAITS is bob's BE job that wants 16 of them, and its KillWait is 30 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import OrderId, holds, kind_of
from tesched_core.model.bystander import ended
from tesched_core.model.change import LET_THROUGH, Change
from tesched_core.model.cluster import Job, JobState, NodeShare, Request
from tesched_core.model.decision import Admission
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory, Past
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, Driver
from tests.scenarios.driver import TE as TE_ID

WAITS, TE = JobId(20), JobId(TE_ID)
SHORT, LONG = JobId(8), JobId(9)
LATER, OTHER = JobId(30), JobId(31)
BOUND = Bound(slowdown=1.5, te_time_limit_s=600)


def site(*jobs: Job, user: str = "bob") -> Driver:
    """Return a node of which BE has half; SHORT and LONG are TE jobs of half a node, LONG of this user."""
    queue = [
        waiting(SHORT, cpus=16, time_limit_s=60, user="ada"),
        waiting(LONG, cpus=16, time_limit_s=600, user=user),
        waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
    ]
    drive = Driver([node("n1")], [*jobs, *queue], limits=Limits(bound=BOUND), run_times={WAITS: 100}, graces={WAITS: 0})
    drive.change(SHORT, reason="None")
    drive.change(LONG, reason="None")
    drive.longest_wait_s = 30
    return drive


def run_between_polls(drive: Driver, held: NodeShare = HALF, state: JobState = JobState.COMPLETED) -> None:
    """Let SHORT begin 5 s after the first poll and end 10 s later, before the next one."""
    drive.cycle(0)
    drive.starts(SHORT, held, at_s=5)
    drive.at_s = 15
    drive.ends(SHORT, state)


def delay_s(drive: Driver) -> float:
    """Return by how much other users' TE jobs have delayed WAITS as a bystander, as the next poll shows it."""
    one = drive.memory.bystanders.get(WAITS)
    return 0.0 if one is None else ended(one, NOW + drive.at_s).delayed_s


@pytest.mark.parametrize(
    ("state", "seconds"),
    # Until its nodes are free, as far as Slurm lets that be known: 2 s after its own end, KillWait after another.
    [(JobState.COMPLETED, 12), (JobState.TIMEOUT, 25)],
)
def test_te_run_that_begins_and_ends_between_two_polls_counts(state: JobState, seconds: float) -> None:
    drive = site(running(BE, HALF, user="eve"))
    run_between_polls(drive, state=state)
    drive.cycle(30)
    assert delay_s(drive) == seconds


def test_te_run_that_was_leaving_at_the_last_poll_counts_though_a_be_job_was_in_the_way_then_as_well() -> None:
    drive = site(running(BE, HALF, user="eve"))
    drive.change(WAITS, request=replace(drive.jobs[WAITS].request, cpus=32))
    drive.cycle(0)
    drive.starts(SHORT, HALF, at_s=5)
    drive.at_s = 15
    drive.completing(SHORT, JobState.COMPLETED)
    drive.change(SHORT, end_time=NOW + 15)
    drive.cycle(30)
    assert delay_s(drive) == 0
    drive.ends(BE)
    drive.ends(SHORT)
    drive.change(SHORT, end_time=NOW + 15)
    drive.cycle(60)
    assert delay_s(drive) == 30


def test_it_counts_though_another_job_has_its_place_by_then() -> None:
    drive = site(running(BE, HALF, user="eve"), user="eve")
    run_between_polls(drive)
    drive.jobs[LATER] = running(LATER, HALF, start_time=NOW + 16, user="eve")
    drive.cycle(30)
    assert delay_s(drive) == 12


def test_it_counts_from_when_the_job_is_eligible_and_only_if_it_began_since() -> None:
    drive = site(running(BE, HALF, user="eve"))
    run_between_polls(drive)
    drive.change(WAITS, eligible_time=NOW + 6)
    drive.cycle(30)
    assert delay_s(drive) == 0


def test_it_does_not_count_for_a_job_that_would_not_have_fitted_without_it() -> None:
    drive = site(running(BE, share("n1", 24), user="eve"))
    drive.change(SHORT, request=replace(drive.jobs[SHORT].request, cpus=8))
    run_between_polls(drive, share("n1", 8))
    drive.cycle(30)
    assert delay_s(drive) == 0


def test_of_te_jobs_that_follow_each_other_each_counts() -> None:
    drive = site(running(BE, HALF, user="eve"), user="eve")
    run_between_polls(drive)
    drive.starts(LONG, HALF, at_s=17)
    drive.cycle(30)
    assert delay_s(drive) == 25
    drive.cycle(60)
    assert delay_s(drive) == 55


def test_te_job_of_its_own_user_that_is_in_its_way_too_takes_no_part_of_a_second() -> None:
    drive = site()
    drive.cycle(0)
    drive.starts(SHORT, HALF, at_s=0)
    drive.starts(LONG, HALF, at_s=1)
    drive.cycle(2)
    drive.cycle(32)
    # Without SHORT it would fit, whatever its own user's LONG holds. What was before LONG started is a second too much.
    assert delay_s(drive) == 32


def test_te_jobs_of_its_own_user_alone_do_not_count() -> None:
    drive = site(running(BE, HALF, user="eve"))
    drive.cycle(0)
    drive.starts(LONG, HALF, at_s=1)
    drive.cycle(2)
    drive.cycle(32)
    assert delay_s(drive) == 0


def test_job_that_is_away_for_its_own_user_s_te_job_is_in_the_way_of_no_other() -> None:
    # LONG is bob's, and WAITS leaves for it; ada's SHORT starts in front of it then.
    waits = running(WAITS, share("n1", 32), start_time=NOW - 100, submit_time=NOW - 100, user="bob")
    drive = Driver(
        [node("n1")],
        [waits, waiting(LONG, cpus=32, time_limit_s=600, user="bob"), waiting(SHORT, cpus=32, user="ada")],
        limits=Limits(bound=BOUND),
        graces={WAITS: 0},
    )
    drive.change(SHORT, reason="None")
    drive.change(WAITS, request=Request(cpus=32, mem_per_node_mib=1))
    drive.longest_wait_s = 30
    drive.obeys(*drive.cycle(0))
    assert drive.jobs[WAITS].state is JobState.PENDING
    drive.starts(LONG, share("n1", 32), at_s=1)
    drive.cycle(2)
    drive.ends(LONG)
    drive.change(WAITS, eligible_time=NOW + 3, reason="Resources")
    drive.starts(SHORT, share("n1", 32), at_s=4)
    drive.cycle(30)
    assert delay_s(drive) == 26


def chosen(*, te_s: int, later_s: int, memory: Memory | None = None) -> Driver:
    """Return a node that WAITS fills, which has run for 60 s; TE wants all of it for `te_s`, LATER for `later_s`."""
    waits = running(WAITS, share("n1", 32), start_time=NOW - 60, submit_time=NOW - 60, user="bob")
    drive = Driver(
        [node("n1")],
        [
            waits,
            waiting(TE, cpus=32, time_limit_s=te_s, user="ada"),
            waiting(LATER, cpus=32, time_limit_s=later_s, user="ada"),
        ],
        limits=Limits(bound=BOUND),
        graces={WAITS: 0},
    )
    drive.change(LATER, reason="None")
    drive.memory = memory or drive.memory
    drive.cycle(0)
    assert drive.open_orders() == [1]
    return drive


@pytest.mark.parametrize(("later_s", "is_held"), [(751, False), (752, True)])
def test_te_job_that_would_keep_a_victim_of_this_cycle_away_is_held_before_it_leaves(
    later_s: int, is_held: bool
) -> None:
    # Without polls in between it may be delayed by 871 s, has lost 60, and TE jobs end within 60 s of their limits.
    drive = chosen(te_s=12, later_s=later_s)
    kinds = [kind_of(action) for action in drive.decision.actions if kind_of(action) in {"hold", "requeue"}]
    assert kinds == (["hold", "requeue"] if is_held else ["requeue"])


def test_one_that_an_operator_has_let_through_is_not_held_for_a_victim_of_this_cycle() -> None:
    free = Change(job_id=LATER, field=Field.HOLD, previous=0, value=LET_THROUGH, at=NOW, since=NOW, restored=True)
    drive = chosen(te_s=12, later_s=752, memory=Memory(changes={Field.HOLD: {LATER: free}}))
    assert not [action for action in drive.decision.actions if holds(action)]


def test_te_jobs_start_by_themselves_only_while_they_do_not_keep_a_victim_of_this_cycle_away() -> None:
    drive = chosen(te_s=12, later_s=12)
    assert drive.decision.admission == Admission(until=NOW + 871 - 60 - 660, most_s=600)


def test_te_job_that_would_keep_a_victim_away_is_held_while_that_saves_its_work() -> None:
    drive = chosen(te_s=12, later_s=12)
    drive.jobs[OTHER] = waiting(OTHER, cpus=32, time_limit_s=752, user="ada", reason="None")
    drive.start = drive.start.with_traits({**drive.start.traits, OTHER: drive.start.traits[TE]})
    drive.cycle(1)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == [OTHER]


def test_te_job_that_awaits_what_comes_free_is_held_before_a_victim_frees_more() -> None:
    drive = chosen(te_s=12, later_s=12)
    order = drive.order()
    drive.jobs[OTHER] = waiting(OTHER, cpus=32, time_limit_s=752, user="ada")
    drive.start = drive.start.with_traits({**drive.start.traits, OTHER: drive.start.traits[TE]})
    second = replace(order, order_id=OrderId(2), preemptor=OTHER, victims=(), size=None)
    drive.memory = replace(drive.memory, orders={**drive.memory.orders, OrderId(2): second}, next_order=OrderId(3))
    drive.cycle(1)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == [OTHER]


@pytest.mark.parametrize("by_us", [True, False], ids=["tesched", "its user"])
def test_te_job_waits_for_a_job_with_a_begin_time_that_tesched_has_put_off_and_may_lift(by_us: bool) -> None:
    queue = [
        waiting(TE, cpus=32, time_limit_s=600, user="ada", reason="None"),
        waiting(WAITS, cpus=32, user="bob", submit_time=NOW - 10, eligible_time=NOW + 100, reason="BeginTime"),
    ]
    drive = Driver([node("n1")], queue, limits=Limits(bound=BOUND), run_times={WAITS: 100}, graces={WAITS: 0})
    put_off = Change(job_id=WAITS, field=Field.BEGIN, previous=int(NOW), value=int(NOW) + 100, at=NOW, since=NOW)
    past = Past(submitted_at=NOW - 10, ran_s=0, delayed_s=500)
    changes = {str(Field.BEGIN): {WAITS: put_off}} if by_us else {}
    drive.memory = Memory(jobs={WAITS: JobMemory(past=past)}, changes=changes)
    drive.cycle(0)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == ([TE] if by_us else [])


@pytest.mark.parametrize("by_us", [True, False], ids=["tesched", "its user"])
def test_victim_with_a_begin_time_that_tesched_has_put_off_is_delayed_meanwhile(by_us: bool) -> None:
    be = running(BE, share("n1", 32), start_time=NOW - 60, submit_time=NOW - 60, user="bob")
    limits = Limits(bound=BOUND, order_timeout_s=1000)
    drive = Driver(
        [node("n1")], [be, waiting(TE, cpus=16, time_limit_s=600, user="ada")], limits=limits, graces={BE: 0}
    )
    # Slurm's own delay is shorter than what a begin time is put off by (SchedulerParameters=requeue_delay).
    drive.requeue_delay_s = 10
    drive.obeys(*drive.cycle(0))
    drive.cycle(10)
    begin = int(NOW) + 300
    drive.change(BE, reason="BeginTime", eligible_time=float(begin))
    one = Change(
        job_id=JobId(BE),
        field=Field.BEGIN,
        previous=int(NOW) + 10,
        value=begin if by_us else begin - 60,
        at=NOW + 10,
        since=NOW + 10,
        order_id=OrderId(1),
    )
    drive.memory = replace(drive.memory, changes={**drive.memory.changes, Field.BEGIN: {JobId(BE): one}})
    for at_s in range(20, 180, 10):
        drive.cycle(at_s)
    assert drive.decision.bound is not None
    assert [left.delayed_s for left in drive.decision.bound.jobs] == [60 + 170 if by_us else 60 + 10]
