"""A TE job awaits what comes free by itself, at the head of its queue, before a victim is notified.

Everywhere: job 1 holds n1 and job 2 holds n2, with 60 s and 30 s of grace; job 9 wants half a node. Jobs that held a
node each have ended in the last 30 s. guard.wait_for_free_s is 10 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify
from tesched_core.model.cluster import Job, JobState, Request, Reservation
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.turnover import LEAST_ENDS

from tests.builders import NOW, node, running, share, traits, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, first_in_queue, nice_back, notice

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
RIVAL = 5
WHOLE = Request(cpus=32, mem_per_node_mib=1000)
SHORT = {BE: 60.0, 2: 30.0}


def ended(number: int, *, at_s: float = -1.0, request: Request = WHOLE, on: str = "n1") -> Job:
    """Return a job that has ended by itself after a minute, on this node."""
    job = waiting(100 + number, request, start_time=NOW + at_s - 60, end_time=NOW + at_s)
    return replace(job, state=JobState.COMPLETED, ran_on=(on,))


def busy(*jobs: Job, graces: dict[int, float] | None = None, limits: Limits = LIMITS) -> Driver:
    full = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
    queue = [waiting(TE, cpus=16, submit_time=NOW), waiting(RIVAL, cpus=32, priority=100)]
    drive = Driver([node("n1"), node("n2")], [*full, *queue, *jobs], graces=graces or SHORT, limits=limits)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(RIVAL): traits(JobClass.BE)})
    return drive


def asked(drive: Driver) -> list[int]:
    return [action.job_id for action in drive.decision.actions if isinstance(action, Notify)]


def test_it_is_put_at_the_head_at_the_first_poll_and_starts_on_what_comes_free_without_a_victim() -> None:
    drive = busy(*map(ended, range(15)))
    assert drive.cycle(0) == (first_in_queue(-1001, free=True),)
    assert drive.why_not(TE) is RefusalCode.AWAITS_FREE
    # 3 * 30 s / 15 ends
    assert drive.order().waits_until == NOW + 6
    drive.obeys(*drive.decision.actions)
    drive.ends(2)
    drive.starts(TE, HALF, at_s=2)
    drive.cycle(2.5)
    assert (drive.order().ending, drive.order().victims) == (Ending.STARTED_HERE, ())
    assert drive.decision.actions == (nice_back(0, now=-1001),)


def test_when_nothing_has_come_free_in_that_time_the_same_order_asks() -> None:
    drive = busy(*map(ended, range(15)))
    drive.obeys(*drive.cycle(0))
    drive.cycle(5.5)
    assert asked(drive) == []
    drive.cycle(6)
    assert drive.decision.actions == (notice(job=2),)
    assert drive.open_orders() == [1]


@pytest.mark.parametrize("ends", [0, LEAST_ENDS - 1, 8])
def test_its_victim_is_notified_at_once_where_little_comes_free(ends: int) -> None:
    # of 8 ends in 30 s the next one comes within 11.25 s with 95 %: longer than 10 s
    drive = busy(*map(ended, range(ends)))
    drive.cycle(0)
    assert asked(drive) == [2]


@pytest.mark.parametrize(("ended_s", "counts"), [(-31.0, False), (-29.0, True), (-1.0, True)])
def test_of_jobs_known_as_of_an_earlier_poll_those_count_that_ended_in_the_last_time_before_it(
    ended_s: float, *, counts: bool
) -> None:
    """Job 9 came 25 s after the poll, which is that much older for an early turn."""
    drive = busy(*(ended(number, at_s=-25.0 + ended_s) for number in range(15)))
    drive.start = replace(drive.start, jobs_at=NOW - 25)
    drive.cycle(0)
    assert asked(drive) == ([] if counts else [2])


@pytest.mark.parametrize("why", ["excluded", "feature", "reserved", "nowhere"])
def test_ends_on_nodes_where_it_may_not_run_do_not_count(why: str) -> None:
    drive = busy(*[ended(number, on="n2") for number in range(15)])
    half = Request(cpus=16, mem_per_node_mib=1)
    if why == "excluded":
        drive.change(TE, request=replace(half, excluded_nodes=("n2",)))
    elif why == "feature":
        drive.nodes["n1"] = replace(drive.nodes["n1"], features=frozenset({"fast"}))
        drive.change(TE, request=replace(half, features="fast"))
    elif why == "reserved":
        others = Reservation(name="r", start_time=NOW, end_time=NOW + 900, nodes=frozenset({"n2"}))
        drive.start = replace(drive.start, reservations={"r": others})
    else:
        drive.jobs |= {one: replace(job, ran_on=()) for one, job in drive.jobs.items() if job.finished}
    drive.cycle(0)
    assert asked(drive) == ([2] if why == "nowhere" else [BE])


@pytest.mark.parametrize("why", ["where it may run", "of many nodes"])
def test_ends_on_a_node_where_it_may_run_count(why: str) -> None:
    jobs = [ended(number, on="n1") for number in range(15)]
    if why == "of many nodes":
        jobs = [replace(job, ran_on=("n2", "n1")) for job in jobs]
    drive = busy(*jobs)
    drive.change(TE, request=Request(cpus=16, mem_per_node_mib=1, excluded_nodes=("n2",)))
    drive.cycle(0)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.AWAITS_FREE)


def test_a_cancelled_job_does_not_count() -> None:
    drive = busy(*(replace(ended(number), state=JobState.CANCELLED) for number in range(15)))
    drive.cycle(0)
    assert asked(drive) == [2]


def test_what_ended_longer_ago_does_not_count() -> None:
    drive = busy(*(ended(number, at_s=-31) for number in range(15)))
    drive.cycle(0)
    assert asked(drive) == [2]


@pytest.mark.parametrize(
    "held", [Request(cpus=15, mem_per_node_mib=1), Request(cpus=32, min_nodes=4, max_nodes=4, mem_per_node_mib=1)]
)
def test_only_what_it_would_fit_into_counts(held: Request) -> None:
    drive = busy(*(ended(number, request=held) for number in range(15)))
    drive.cycle(0)
    assert asked(drive) == [2]


def test_a_victim_that_leaves_sooner_is_notified_at_once() -> None:
    drive = busy(*map(ended, range(15)), graces={BE: 60.0, 2: 5.0})
    drive.cycle(0)
    assert asked(drive) == [2]


def test_a_second_one_awaits_what_comes_free_after_that_for_the_first() -> None:
    drive = busy(*map(ended, range(15)), waiting(10, cpus=32, submit_time=NOW + 1))
    drive.cycle(0)
    # The first one's within 6 s, the second one's within 12 s, which is too long.
    assert (drive.why_not(TE), drive.why_not(10)) == (RefusalCode.AWAITS_FREE, None)
    assert len(asked(drive)) == 1


def test_a_site_can_have_victims_notified_at_once() -> None:
    drive = busy(*map(ended, range(15)), limits=replace(LIMITS, wait_for_free_s=0))
    drive.cycle(0)
    assert asked(drive) == [2]
