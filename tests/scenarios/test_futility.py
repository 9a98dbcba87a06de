"""A TE job with a futile order is tried again later and later, and after two orders only after a change.

Everywhere: job 1 holds the only node, with no grace period unless said otherwise; job 9 wants half of it. The wait
begins at 300 s (guard.retry_after_s).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.actions import Failure, FailureKind, Outcome, Requeue, Status, sets
from tesched_core.model.cluster import JobState, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.job_memory import Futility
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.orders.outcomes import learned

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, one_node

LIMITS = Limits(max_preemptions_per_job=9, max_lost_runs_per_job=9, min_run_time_s=0, cool_down_s=0, max_slowdown=1e9)
LIMITED = "QOSMaxCpuPerUserLimit"


def asked(drive: Driver) -> list[int]:
    """Jobs that the last cycle notified."""
    return [action.job_id for action in drive.decision.actions if isinstance(action, Requeue)]


def futile(drive: Driver, at_s: float, reason: str = LIMITED) -> float:
    """Let the victim leave for nothing, and run again; return when the order had ended."""
    drive.change(TE, reason="Resources")
    drive.obeys(*drive.cycle(at_s))
    assert asked(drive) == [BE], drive.decision.summary
    drive.change(TE, reason=reason)
    drive.obeys(*drive.cycle(at_s + 1))
    drive.starts(BE, share("n1", 32), at_s=at_s + 2)
    drive.change(TE, reason="Priority")
    drive.obeys(*drive.cycle(at_s + 3))
    return at_s + 1


def two_futile(drive: Driver) -> float:
    """Return when the second futile order had ended."""
    return futile(drive, futile(drive, 0) + 300)


def small() -> Driver:
    return one_node(grace_s=0, limits=LIMITS)


def test_the_wait_doubles_and_then_the_job_is_left_alone() -> None:
    drive = small()
    first = futile(drive, 0)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + first + 300}
    drive.change(TE, reason="Resources")
    drive.cycle(first + 299)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.RETRY_LATER)
    second = futile(drive, first + 300)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + second + 600}
    drive.change(TE, reason="Resources")
    for at_s in (second + 599, second + 601, second + 100_000):
        drive.cycle(at_s)
        assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.FUTILE)


def test_the_refusal_says_how_many_orders_came_to_nothing_and_what_is_awaited() -> None:
    drive = small()
    at_s = two_futile(drive)
    drive.change(TE, reason="Resources")
    drive.cycle(at_s + 700)
    (text,) = [one.text for one in drive.decision.refusals if one.job_id == one.preemptor == TE]
    assert text.startswith(f"2 orders for it came to nothing (the last: blocked, Slurm said {LIMITED})")
    assert "until what it asks for, the nodes of its partitions or its limits change" in text


def smaller(drive: Driver) -> None:
    drive.change(TE, request=Request(cpus=8, mem_per_node_mib=1))


def another_qos(drive: Driver) -> None:
    drive.change(TE, qos="debug")


def other_nodes(drive: Driver) -> None:
    drive.nodes["n1"] = replace(drive.nodes["n1"], features=frozenset({"new"}))


def held_for_a_while(drive: Driver) -> None:
    drive.change(TE, reason="JobHeldUser", priority=0)
    drive.cycle(drive.at_s + 1)
    drive.change(TE, priority=100)


def another_job_of_its_user_ends(drive: Driver) -> None:
    del drive.jobs[JobId(5)]


CHANGES: list[Callable[[Driver], None]] = [
    smaller,
    another_qos,
    other_nodes,
    held_for_a_while,
    another_job_of_its_user_ends,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_mattered_gives_it_one_more_try_after_its_wait(change: Callable[[Driver], None]) -> None:
    fellow = running(5, share("n1", 0), name="other", user="ada")
    drive = one_node(fellow, grace_s=0, limits=replace(LIMITS, protected_names=("other",)))
    drive.change(TE, user="ada")
    at_s = two_futile(drive)
    drive.cycle(at_s + 100)
    change(drive)
    drive.change(TE, reason="Resources")
    drive.cycle(at_s + 500)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.RETRY_LATER), "the wait has not passed"
    third = futile(drive, at_s + 601)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + third + 1200}
    drive.change(TE, reason="Resources")
    drive.cycle(third + 1300)
    assert drive.why_not(TE) is RefusalCode.FUTILE


def test_a_node_that_is_only_full_or_empty_is_no_change() -> None:
    drive = small()
    at_s = two_futile(drive)
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="ALLOCATED")
    drive.change(TE, reason="Resources", priority=70, nice=5)
    drive.cycle(at_s + 700)
    assert drive.why_not(TE) is RefusalCode.FUTILE


def test_the_nodes_to_which_tesched_bound_it_are_no_change() -> None:
    jobs = [running(BE, share("n1", 32)), waiting(TE, cpus=16)]
    limits = replace(LIMITS, bind_for_s=10_000)
    drive = Driver([node("n1")], jobs, graces={BE: 0}, limits=limits, binds=True)
    at_s = two_futile(drive)
    drive.obeys(*drive.cycle(at_s + 10))
    drive.change(TE, reason="Resources")
    drive.cycle(at_s + 700)
    assert drive.why_not(TE) is RefusalCode.FUTILE


def test_it_is_forgotten_when_the_job_starts() -> None:
    drive = small()
    at_s = two_futile(drive)
    drive.ends(BE)
    drive.starts(TE, HALF, at_s=at_s + 10)
    drive.cycle(at_s + 11)
    assert by_job(drive.memory, "futile") == {}


def test_it_is_forgotten_when_the_job_is_cancelled_and_kept_when_one_answer_lacks_it() -> None:
    drive = small()
    at_s = two_futile(drive)
    job = drive.jobs[JobId(TE)]
    drive.forgets(TE)
    drive.cycle(at_s + 10)
    assert set(by_job(drive.memory, "futile")) == {TE}
    drive.jobs[job.job_id] = job
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(at_s + 12)
    assert by_job(drive.memory, "futile") == {}


def test_of_a_job_array_the_array_counts() -> None:
    drive = small()
    drive.change(TE, array_job_id=JobId(TE), array_tasks="0-9")
    at_s = two_futile(drive)
    # A task that was held and released alone has a record of its own.
    task = replace(drive.jobs[JobId(TE)], job_id=JobId(20), array_task_id=3, array_tasks="", reason="Resources")
    drive.jobs[task.job_id] = task
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(20): drive.start.traits[JobId(TE)]})
    drive.cycle(at_s + 700)
    assert (asked(drive), drive.why_not(20), drive.why_not(TE)) == ([], RefusalCode.FUTILE, RefusalCode.FUTILE)


def test_a_task_with_a_record_of_its_own_counts_for_its_array() -> None:
    drive = small()
    drive.change(TE, array_job_id=JobId(4), array_task_id=3)
    at_s = futile(drive, 0)
    assert (set(by_job(drive.memory, "futile")), by_job(drive.memory, "retry_at")) == ({4}, {4: NOW + at_s + 300})
    drive.change(TE, reason="Resources")
    drive.cycle(at_s + 299)
    assert drive.why_not(TE) is RefusalCode.RETRY_LATER
    futile(drive, at_s + 301)
    assert by_job(drive.memory, "futile")[JobId(4)].count == 2


def test_a_victim_that_was_notified_and_released_counts_too() -> None:
    drive = one_node(grace_s=30, limits=LIMITS)
    drive.obeys(*drive.cycle(0))
    drive.change(TE, reason=LIMITED)
    drive.cycle(2)
    assert drive.order().ending is Ending.BLOCKED
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 302}


def test_a_node_that_goes_before_its_victims_have_left_lets_other_nodes_be_tried_at_once_and_then_no_more() -> None:
    jobs = [*(running(number, share(f"n{number}", 32)) for number in (1, 2, 3)), waiting(TE, cpus=16)]
    drive = Driver([node("n1"), node("n2"), node("n3")], jobs, limits=LIMITS)
    drive.obeys(*drive.cycle(0))
    drive.nodes["n1"] = replace(drive.nodes["n1"], state="DOWN")
    drive.obeys(*drive.cycle(2))
    assert (drive.order().ending, by_job(drive.memory, "retry_at")) == (Ending.NODE_GONE, {})
    drive.obeys(*drive.cycle(4))
    assert drive.order(2).nodes == ("n2",)
    drive.nodes["n2"] = replace(drive.nodes["n2"], state="DOWN")
    drive.obeys(*drive.cycle(6))
    drive.cycle(8)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 606}
    assert drive.open_orders() == []


def test_an_order_that_notified_no_victim_is_no_futile_one() -> None:
    drive = one_node()
    drive.ends(BE)
    drive.obeys(*drive.cycle(0))
    drive.cycle(91)
    assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.EXPIRED, {})
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 391}


def test_a_raise_that_slurm_refuses_asks_no_victim_and_counts_as_no_futile_order() -> None:
    drive = one_node(grace_s=0)
    raised, gone = drive.cycle(0)
    assert sets(raised, Field.NICE)
    no = Failure(kind=FailureKind.DENIED, message="no")
    outcomes = [
        Outcome(action=raised, status=Status.FAILED, at=NOW, failure=no),
        Outcome(action=gone, status=Status.SKIPPED, at=NOW),
    ]
    drive.memory, _ = learned(drive.memory, outcomes, NOW, drive.limits)
    assert (by_job(drive.memory, "futile"), by_job(drive.memory, "retry_at")) == ({}, {})


def test_a_requeue_that_slurm_refuses_after_the_notice_counts() -> None:
    drive = one_node(limits=LIMITS)
    drive.obeys(*drive.cycle(0))
    (gone,) = drive.cycle(30)
    drive.says(Status.FAILED, gone, kind=FailureKind.REFUSED)
    assert by_job(drive.memory, "futile") == {TE: Futility(count=1, ending=Ending.REFUSED)}
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 330}


def test_what_shadow_mode_records_is_no_try() -> None:
    drive = small()
    drive.says(Status.WOULD, *drive.cycle(0))
    assert (by_job(drive.memory, "futile"), by_job(drive.memory, "retry_at")) == ({}, {})
    drive.cycle(2)
    assert drive.why_not(TE) is RefusalCode.RETRY_LATER, "else the store would get an order in each cycle"
    drive.cycle(300)
    assert drive.open_orders() == [2]
