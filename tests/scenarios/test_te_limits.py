"""Limits on what TE jobs hold at once: those above them wait, held, until others have ended."""

from __future__ import annotations

from dataclasses import replace
from math import isinf

import pytest
from tesched_core.model.actions import holds, releases, sets
from tesched_core.model.cluster import Job, NodeShare, Request
from tesched_core.model.decision import Admission, RefusalCode, SubmittedTe
from tesched_core.model.field import Field
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, share, waiting
from tests.scenarios.driver import TE, Driver


def site(*jobs: Job, limits: TeLimits) -> Driver:
    """Return two empty nodes of 32 CPUs and four GPUs, and TE jobs that wait."""
    nodes = [node(name, gres={"gpu": 4}) for name in ("n1", "n2")]
    return Driver(nodes, jobs, limits=Limits(te=limits))


def te(job_id: int, *, at: float = 0.0, user: str = "ada", limit_s: int = 600, request: Request | None = None) -> Job:
    """Return a TE job that was submitted so long before now."""
    request = request or Request(cpus=1, mem_per_node_mib=1)
    return waiting(job_id, request, user=user, time_limit_s=limit_s, submit_time=NOW - 100 + at)


def held(drive: Driver, at_s: float) -> list[int]:
    """Return the jobs that are held in a cycle; Slurm holds them."""
    actions = drive.cycle(at_s)
    drive.obeys(*[one for one in actions if sets(one, Field.HOLD)])
    return sorted(one.job_id for one in actions if holds(one))


def released(drive: Driver) -> list[int]:
    """Return the jobs that the last cycle has released."""
    return sorted(one.job_id for one in drive.decision.actions if releases(one))


def test_of_one_users_te_jobs_so_many_run_at_once_first_come_first_served() -> None:
    jobs = [te(11, at=2), te(12, at=1), te(13, at=3), te(14, at=4, user="bob")]
    drive = site(*jobs, limits=TeLimits(max_running_per_user=1))
    assert held(drive, 0) == [11, 13]
    assert drive.why_not(11) is RefusalCode.TE_LIMIT
    drive.starts(12, share("n1", 1), at_s=1)
    assert held(drive, 2) == []
    assert released(drive) == []
    drive.ends(12)
    assert held(drive, 3) == []
    assert released(drive) == [11]
    # It may start at any time from now on.
    assert held(drive, 4) == []
    assert released(drive) == []


@pytest.mark.parametrize(("in_s", "late"), [(60, [12]), (61, [])])
def test_one_with_a_begin_time_within_two_polls_may_start_before_its_hold_arrives(in_s: int, late: list[int]) -> None:
    drive = site(te(11), te(12, at=1), limits=TeLimits(max_running_per_user=1))
    drive.longest_wait_s = 30
    # Its user has requeued it, or has said when it is to begin.
    drive.change(12, reason="BeginTime", eligible_time=NOW + in_s)
    assert held(drive, 0) == late


@pytest.mark.parametrize(("second_s", "above"), [(600, False), (660, True)])
def test_node_minutes_are_nodes_times_time_limits(second_s: int, above: bool) -> None:
    two_nodes = Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    jobs = [te(11, request=two_nodes), te(12, at=1, limit_s=second_s)]
    drive = site(*jobs, limits=TeLimits(max_node_minutes_per_user=30))
    assert held(drive, 0) == ([12] if above else [])
    drive.starts(11, share("n1", 1), share("n2", 1), at_s=1)
    assert held(drive, 2) == []
    assert (drive.why_not(12) is RefusalCode.TE_LIMIT) is above


@pytest.mark.parametrize(
    ("runs", "wants", "above"),
    [
        (share("n1", 16), Request(cpus=16, mem_per_node_mib=1), False),
        (share("n1", 17), Request(cpus=16, mem_per_node_mib=1), True),
        (share("n1", 1), Request(cpus=1, mem_per_node_mib=1, exclusive=True), True),
        (share("n1", 1, gres={"gpu": 2}), Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 2),)), False),
        (share("n1", 1, gres={"gpu": 3}), Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 2),)), True),
    ],
    ids=["CPUs", "a CPU more", "a whole node", "GPUs", "a GPU more"],
)
def test_te_jobs_hold_a_share_of_the_cluster_together(runs: NodeShare, wants: Request, above: bool) -> None:
    jobs = [te(11, user="bob"), te(12, request=wants, at=1)]
    drive = site(*jobs, limits=TeLimits(max_cluster_share=0.5))
    drive.starts(11, runs, at_s=0)
    assert held(drive, 0) == ([12] if above else [])


def test_of_a_job_array_the_tasks_that_may_run_at_once_count() -> None:
    array = replace(te(12, at=1), array_job_id=JobId(12), array_tasks="0-7%3", array_throttle=3)
    assert held(site(array, limits=TeLimits(max_running_per_user=3)), 0) == []
    assert held(site(array, limits=TeLimits(max_running_per_user=2)), 0) == [12]


def test_tasks_of_an_array_that_run_leave_less_of_its_throttle() -> None:
    array = replace(te(12, at=1), array_job_id=JobId(12), array_tasks="1-7%3", array_throttle=3)
    task = replace(te(13, at=1), array_job_id=JobId(12), array_task_id=0)
    drive = site(array, task, limits=TeLimits(max_running_per_user=3))
    drive.starts(13, share("n1", 1), at_s=0)
    assert held(drive, 1) == []


@pytest.mark.parametrize(
    ("job", "limits", "said"),
    [
        (
            replace(te(12), array_job_id=JobId(12), array_tasks="0-9"),
            TeLimits(max_running_per_user=3),
            "never starts as it is: as --array=0-9%3 it would",
        ),
        (te(12, limit_s=6000), TeLimits(max_node_minutes_per_user=90), "alone it is above that, and never starts"),
    ],
    ids=["an array", "a job"],
)
def test_a_job_that_is_above_the_limits_alone_never_starts_and_has_that_reason(
    job: Job, limits: TeLimits, said: str
) -> None:
    drive = site(job, limits=limits)
    assert held(drive, 0) == [12]
    (why,) = (one.text for one in drive.decision.refusals if one.job_id == 12)
    assert said in why


@pytest.mark.parametrize(("reason", "priority"), [("Dependency", 100), ("JobHeldUser", 0)])
def test_of_those_in_the_queue_the_first_so_many_are_served_whatever_they_wait_for(reason: str, priority: int) -> None:
    later = replace(te(11), reason=reason, priority=priority)
    jobs = [later, te(12, at=1), te(13, at=2), te(14, at=3, user="bob")]
    drive = site(*jobs, limits=TeLimits(max_submitted_per_user=2))
    assert held(drive, 0) == [13]
    (why,) = (one for one in drive.decision.refusals if one.job_id == 13)
    assert (why.code, why.text) == (
        RefusalCode.TE_LIMIT,
        "it is one of 3 TE jobs of ada in the queue; guard.te.max_submitted_per_user is 2",
    )
    drive.starts(12, share("n1", 1), at_s=1)
    assert held(drive, 2) == []
    assert released(drive) == []
    drive.ends(12)
    assert held(drive, 3) == []
    assert released(drive) == [13]


def test_a_job_that_is_above_it_leaves_its_share_to_a_smaller_one() -> None:
    array = replace(te(12, at=1), array_job_id=JobId(12), array_tasks="0-2")
    drive = site(te(11), array, te(13, at=2), limits=TeLimits(max_submitted_per_user=2))
    assert held(drive, 0) == [12]
    (why,) = (one.text for one in drive.decision.refusals if one.job_id == 12)
    assert why.endswith("alone it is above that, and never starts as it is")


@pytest.mark.parametrize("others", [TeLimits(), TeLimits(max_running_per_user=9)], ids=["it alone", "beside another"])
def test_the_hook_learns_how_many_each_user_has(others: TeLimits) -> None:
    array = replace(te(12, at=1), array_job_id=JobId(12), array_tasks="0-2%1", array_throttle=1)
    drive = site(te(11), array, te(13, user="bob"), limits=replace(others, max_submitted_per_user=9))
    drive.starts(13, share("n1", 1), at_s=0)
    drive.cycle(1)
    admission = drive.decision.admission
    assert admission is not None
    assert admission.submitted == SubmittedTe(most=9, by_user={"ada": 4, "bob": 1})
    # How many there are says nothing about when each may start.
    assert isinf(admission.until) is (others == TeLimits())


@pytest.mark.parametrize("reason", ["JobHeldUser", "BeginTime", "Reservation", "PartitionTimeLimit"])
def test_one_that_does_not_start_by_itself_takes_no_place_and_is_left_alone(reason: str) -> None:
    first = replace(te(11), reason=reason, priority=0 if reason == "JobHeldUser" else 100, eligible_time=NOW + 100)
    drive = site(first, te(12, at=1), limits=TeLimits(max_running_per_user=1))
    assert held(drive, 0) == []
    drive.starts(12, share("n1", 1), at_s=1)
    assert held(drive, 2) == []


def behind(job: Job) -> Job:
    """Return the job as one that depends on another, and is held by the submission hook."""
    return replace(job, dependency="afterany:1(unfulfilled)", priority=0, reason="JobHeldUser", admin_comment=HOOK_MARK)


def let_go(drive: Driver) -> list[int]:
    """Return what the last cycle has released; Slurm does so, and says what each waits for."""
    found = released(drive)
    for job_id in found:
        drive.change(job_id, priority=100, admin_comment="")
        drive.change(job_id, reason="Dependency" if drive.jobs[JobId(job_id)].dependency else "Priority")
    return found


def test_of_jobs_behind_one_dependency_no_more_are_released_than_may_run_at_once() -> None:
    drive = site(*[behind(te(11 + at, at=at)) for at in range(6)], limits=TeLimits(max_running_per_user=2))
    free = list[int]()
    for at_s in range(8):
        held(drive, at_s)
        free += let_go(drive)
    assert free == [11, 12]


@pytest.mark.parametrize("reason", ["Licenses", "AssocGrpCpuLimit", "QOSMaxCpuPerUserLimit"])
def test_one_that_its_user_may_free_at_any_time_takes_a_place_in_its_turn(reason: str) -> None:
    first = replace(te(11), reason=reason)
    drive = site(first, te(12, at=1), te(13, at=2, user="bob"), limits=TeLimits(max_running_per_user=1))
    assert held(drive, 0) == [12]
    drive.starts(11, share("n1", 1), at_s=1)
    drive.ends(11)
    assert held(drive, 2) == []
    assert released(drive) == [12]


@pytest.mark.parametrize("reason", ["Licenses", "AssocGrpCpuLimit"])
def test_one_that_waits_for_a_limit_keeps_no_share_of_the_cluster_from_others(reason: str) -> None:
    large = Request(cpus=32, mem_per_node_mib=1)
    first = replace(te(11, request=large), reason=reason)
    drive = site(first, te(12, at=1, user="bob", request=large), limits=TeLimits(max_cluster_share=0.5))
    assert held(drive, 0) == []


def test_a_job_waits_for_no_job_that_depends_on_it() -> None:
    # The first has been given its dependency since; Slurm calls it so whether it is held or not.
    first = replace(te(11), dependency="afterok:12(unfulfilled)", reason="Dependency")
    drive = site(first, te(12, at=1), limits=TeLimits(max_running_per_user=1))
    assert held(drive, 0) == [11]
    assert held(drive, 1) == []
    drive.starts(12, share("n1", 1), at_s=2)
    drive.ends(12)
    drive.change(11, dependency="")
    assert held(drive, 3) == []
    assert released(drive) == [11]


def test_of_hundreds_that_are_admitted_at_once_fifty_are_released_in_a_poll() -> None:
    jobs = [te(20 + number, at=number) for number in range(120)]
    drive = site(*jobs, limits=TeLimits(max_running_per_user=1))
    for at_s in range(4):
        held(drive, at_s)
    assert len(drive.memory.changes_of("hold")) == 119
    drive.limits = Limits()
    counts = []
    for at_s in range(4, 8):
        held(drive, at_s)
        counts.append(len(released(drive)))
    assert counts == [50, 50, 19, 0]


def test_where_it_matters_how_many_start_none_starts_without_being_admitted() -> None:
    drive = site(te(TE), limits=TeLimits(max_running_per_user=1))
    drive.cycle(0)
    assert drive.decision.admission == Admission(until=0.0, most_s=0.0)


def test_without_limits_no_te_job_is_held() -> None:
    drive = site(te(11), te(12), limits=TeLimits())
    assert held(drive, 0) == []
    assert drive.decision.admission is None
