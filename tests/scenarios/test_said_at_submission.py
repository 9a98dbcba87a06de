"""A job that takes whole nodes has the reason Resources from its submission on, before Slurm has considered it.

Everywhere: job 1 holds n1 and job 2 holds n2, without grace periods, and job 9, just submitted, wants a whole node.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.slurms_word import LOOK_WITHIN_S
from tesched_core.model.actions import Requeue, Status
from tesched_core.model.change import By
from tesched_core.model.cluster import Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.orders.first_look import awaiting_limits

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import TE, Driver

WHOLE = Request(exclusive=True)


def site(*, whole_partition: bool = False, priority: int = 100) -> Driver:
    """Return a full cluster whose Slurm enforces limits; job 9 takes whole nodes by itself, or by its partition."""
    request = Request(cpus=1) if whole_partition else WHOLE
    jobs = [
        running(1, share("n1", 32)),
        running(2, share("n2", 32)),
        waiting(TE, request, reason="Resources", submit_time=NOW, eligible_time=NOW, priority=priority),
    ]
    drive = Driver([node("n1"), node("n2")], jobs, graces={1: 0, 2: 0}, limits=Limits(min_run_time_s=0, cool_down_s=0))
    if whole_partition:
        parts = {name: replace(part, oversubscribe="EXCLUSIVE") for name, part in drive.start.partitions.items()}
        drive.start = replace(drive.start, partitions=parts)
    return drive


def victims(drive: Driver) -> int:
    return sum(isinstance(action, Requeue) for action in drive.decision.actions)


def raised(drive: Driver) -> None:
    """Obey the first cycle's raise; Slurm says None of the job until its next pass."""
    (action,) = drive.cycle(0)
    drive.obeys(action)
    drive.says(Status.SENT, action)
    drive.change(TE, reason="None")


@pytest.mark.parametrize("priority", [100, 100_000])
@pytest.mark.parametrize("whole_partition", [False, True])
def test_it_is_raised_first_also_if_it_is_at_the_head_and_its_victim_is_notified_after_the_next_pass(
    priority: int, *, whole_partition: bool
) -> None:
    drive = site(whole_partition=whole_partition, priority=priority)
    raised(drive)
    assert drive.why_not(TE) is RefusalCode.NOT_CONSIDERED_YET
    drive.cycle(1)
    assert victims(drive) == 0
    drive.change(TE, reason="Resources")
    drive.cycle(2)
    assert victims(drive) == 1


@pytest.mark.parametrize("reason", ["QOSMaxGRESPerUser", "Licenses"])
def test_a_limit_or_a_licence_that_its_next_pass_shows_costs_no_victim(reason: str) -> None:
    drive = site()
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], licenses="matlab:1")
    raised(drive)
    drive.change(TE, reason=reason)
    drive.cycle(1)
    assert victims(drive) == 0


def test_until_the_raise_is_in_force_what_slurm_says_is_of_its_submission() -> None:
    drive = site()
    (action,) = drive.cycle(0)
    drive.says(Status.SENT, action)
    drive.cycle(1)
    assert victims(drive) == 0


def test_where_it_can_wait_for_resources_alone_it_is_served_at_once() -> None:
    drive = site()
    drive.start = replace(drive.start, unlimited=frozenset({JobId(TE)}))
    drive.cycle(0)
    assert victims(drive) == 1


def test_where_limits_are_enforced_they_are_read_of_it() -> None:
    drive = site()
    assert [job.job_id for job in awaiting_limits(drive.snapshot(0), Limits())[0]] == [TE]


def test_once_a_pass_must_have_come_its_reason_is_slurms_word() -> None:
    drive = site(priority=100_000)
    drive.cycle(LOOK_WITHIN_S + 1)
    assert victims(drive) == 1
    assert not drive.memory.raised(By.PREEMPTOR)


def test_a_job_that_shares_nodes_has_that_reason_from_a_pass_alone() -> None:
    drive = site()
    drive.change(TE, request=Request(cpus=32))
    drive.cycle(0)
    assert victims(drive) == 1
