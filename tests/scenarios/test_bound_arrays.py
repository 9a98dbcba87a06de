"""The bound and job arrays: tasks that leave their array's record take its delay along, and are held by themselves.

Everywhere: KillWait is 30 s and Slurm's requeue delay 121 s, so any job may be delayed by 600 + 211 s at least.
"""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.actions import holds, releases, sets
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Bound, Limits, TeLimits
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import HALF, TE, Driver

#: of a best-effort array, which waits for the whole node, and a task of it
ARRAY, TASK = JobId(20), JobId(21)
FIRST = 8
LIMITS = Limits(
    bound=Bound(slowdown=1.5, te_time_limit_s=600), min_run_time_s=0, cool_down_s=0, max_preemptions_per_job=100
)


def be_array() -> Job:
    return waiting(
        ARRAY,
        cpus=32,
        user="bob",
        array_job_id=ARRAY,
        array_tasks="1-2",
        eligible_time=NOW - 10,
        submit_time=NOW - 10,
    )


def delayed(*jobs: Job, seconds: float = 600) -> Driver:
    """Return the node of which a TE job has half, for which the array has waited so long."""
    first = waiting(FIRST, cpus=16, time_limit_s=600, user="ada", submit_time=NOW - 5)
    drive = Driver([node("n1")], [be_array(), first, *jobs], limits=LIMITS, run_times={ARRAY: 10}, graces={ARRAY: 0})
    drive.cycle(0)
    drive.starts(FIRST, HALF, at_s=0)
    drive.cycle(1)
    drive.cycle(seconds)
    return drive


def te_array(drive: Driver) -> None:
    """Let a TE array come of which its user has changed a task alone, and let tesched hold both."""
    rest = waiting(TE, cpus=16, time_limit_s=600, user="ada", array_job_id=JobId(TE), array_tasks="2")
    drive.submits(rest, like=FIRST)
    drive.submits(replace(rest, job_id=JobId(10), array_tasks="", array_task_id=1), like=FIRST)
    drive.obeys(*drive.cycle(drive.at_s + 1))
    drive.obeys(*drive.cycle(drive.at_s + 1))
    assert drive.jobs[JobId(TE)].held
    assert drive.jobs[JobId(10)].held


def with_limit(drive: Driver, job_id: int, seconds: int) -> None:
    drive.jobs[JobId(job_id)] = replace(drive.jobs[JobId(job_id)], time_limit_s=seconds)


def test_task_that_has_just_started_is_no_victim_before_it_may_be_delayed_again() -> None:
    drive = delayed()
    drive.ends(FIRST)
    # The other task waits for its turn (--array=1-2%1), so no TE job waits for that one.
    drive.change(ARRAY, reason="JobArrayTaskLimit", array_throttle=1)
    task = running(
        TASK,
        share("n1", 32),
        array_job_id=ARRAY,
        array_task_id=1,
        user="bob",
        start_time=NOW + 600,
        submit_time=NOW - 10,
    )
    drive.submits(task, like=ARRAY)
    drive.submits(waiting(TE, cpus=16, time_limit_s=600, user="ada"), like=FIRST)
    drive.cycle(601)
    assert drive.open_orders() == []
    assert drive.decision.bound is not None
    # The TE job was seen to leave at 600, and to have left at 601.
    assert [one.delayed_s for one in drive.decision.bound.jobs if one.job == f"{ARRAY}_1"] == [601]


def test_task_that_its_user_changes_alone_has_been_delayed_as_its_array() -> None:
    drive = delayed(seconds=300)
    task = waiting(
        TASK,
        cpus=32,
        array_job_id=ARRAY,
        array_task_id=1,
        user="bob",
        eligible_time=NOW - 10,
        submit_time=NOW - 10,
    )
    drive.submits(task, like=ARRAY)
    drive.cycle(310)
    assert drive.decision.bound is not None
    assert [one.delayed_s for one in drive.decision.bound.jobs] == [310, 310]


def test_task_that_was_held_apart_meanwhile_has_not_been_delayed() -> None:
    drive = delayed(seconds=300)
    task = waiting(TASK, cpus=32, array_job_id=ARRAY, array_task_id=1, user="bob", submit_time=NOW - 10)
    drive.submits(replace(task, priority=0, reason="JobHeldUser"), like=ARRAY)
    drive.cycle(310)
    # Slurm gives it another eligible time with its release.
    drive.change(TASK, priority=100, reason="Resources", eligible_time=NOW + 315)
    drive.cycle(320)
    assert TASK not in drive.memory.bystanders


def test_te_array_is_released_though_a_task_of_it_must_wait() -> None:
    drive = delayed(seconds=300)
    te_array(drive)
    # It would end in time; its task would not.
    with_limit(drive, TE, 60)
    actions = drive.cycle(310)
    assert [one.job_id for one in actions if releases(one)] == [TE]
    drive.obeys(*actions)
    assert drive.jobs[JobId(10)].held
    drive.ends(FIRST)
    drive.forgets(TE)
    drive.starts(ARRAY, share("n1", 32))
    assert [one.job_id for one in drive.cycle(320) if releases(one)] == [10]


def test_task_of_a_te_array_that_may_start_does_not_wait_for_the_others() -> None:
    drive = delayed(seconds=300)
    te_array(drive)
    with_limit(drive, 10, 60)
    actions = drive.cycle(310)
    assert [one.job_id for one in actions if releases(one)] == [10]


def test_te_array_that_is_not_held_does_not_wait_for_a_task_of_it() -> None:
    drive = delayed(seconds=300)
    rest = waiting(TE, cpus=16, time_limit_s=60, user="ada", array_job_id=JobId(TE), array_tasks="2")
    drive.submits(rest, like=FIRST)
    drive.submits(replace(rest, job_id=JobId(10), array_tasks="", array_task_id=1, time_limit_s=600), like=FIRST)
    assert [one.job_id for one in drive.cycle(310) if holds(one)] == [10]


def test_task_that_may_start_is_not_held_with_its_array() -> None:
    drive = delayed(seconds=300)
    rest = waiting(TE, cpus=16, time_limit_s=600, user="ada", array_job_id=JobId(TE), array_tasks="2")
    drive.submits(rest, like=FIRST)
    drive.submits(replace(rest, job_id=JobId(10), array_tasks="", array_task_id=1, time_limit_s=60), like=FIRST)
    actions = drive.cycle(310)
    assert [one.job_id for one in actions if holds(one)] == [TE]
    assert not any(releases(one) for one in actions)
    drive.obeys(*actions)
    assert (drive.jobs[JobId(TE)].held, drive.jobs[JobId(10)].held) == (True, False)
    assert not any(sets(one, Field.HOLD) for one in drive.cycle(320))


def test_task_that_an_operator_holds_stays_held_when_tesched_holds_its_array() -> None:
    drive = delayed(seconds=300)
    rest = waiting(TE, cpus=16, time_limit_s=600, user="ada", array_job_id=JobId(TE), array_tasks="2")
    drive.submits(rest, like=FIRST)
    task = replace(rest, job_id=JobId(10), array_tasks="", array_task_id=1, time_limit_s=60)
    drive.submits(replace(task, priority=0, reason="JobHeldAdmin"), like=FIRST)
    drive.obeys(*drive.cycle(310))
    assert not any(releases(one) for one in drive.cycle(320))


def test_te_array_above_the_limits_of_its_user_does_not_wait_for_its_own_task() -> None:
    drive = delayed(seconds=100)
    drive.limits = replace(LIMITS, bound=Bound(), te=TeLimits(max_running_per_user=2))
    drive.submits(
        waiting(TE, cpus=16, time_limit_s=600, user="ada", array_job_id=JobId(TE), array_tasks="2"), like=FIRST
    )
    drive.submits(waiting(10, cpus=16, time_limit_s=600, user="ada", array_job_id=JobId(TE)), like=FIRST)
    assert [one.job_id for one in drive.cycle(110) if holds(one)] == [10]


def components(drive: Driver) -> None:
    """Let a heterogeneous TE job come, and let tesched hold both of its components for as long as they stand."""
    first = waiting(TE, cpus=16, time_limit_s=600, user="ada", het_job_id=JobId(TE))
    drive.submits(first, like=FIRST)
    drive.submits(replace(first, job_id=JobId(10)), like=FIRST)
    for at_s in (310, 320, 330):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(TE)].held
    assert drive.jobs[JobId(10)].held


def test_first_component_stays_held_while_another_must_as_its_release_would_be_theirs() -> None:
    drive = delayed(seconds=300)
    components(drive)
    with_limit(drive, TE, 60)
    assert not any(releases(one) for one in drive.cycle(340))


def test_component_that_tesched_itself_has_released_was_not_let_through() -> None:
    drive = delayed(seconds=300)
    components(drive)
    # By another limit than the bound's it must wait, whereas the first need not.
    drive.limits = replace(LIMITS, bound=Bound(), te=TeLimits(max_running_per_user=2))
    assert [one.job_id for one in drive.cycle(340) if releases(one)] == [TE]
    for job_id in (TE, 10):
        drive.change(job_id, priority=100, reason="Resources")
    assert [one.job_id for one in drive.cycle(345) if holds(one)] == [10]


def test_component_above_another_limit_brings_no_best_effort_job_to_the_head_of_the_queue() -> None:
    drive = delayed(seconds=300)
    drive.limits = replace(LIMITS, te=TeLimits(max_node_minutes_per_user=12))
    drive.submits(waiting(22, cpus=32, user="cyd", priority=500), like=ARRAY)
    first = waiting(TE, cpus=16, time_limit_s=60, user="ada", het_job_id=JobId(TE))
    # The first one waits with the other: its release would be the other's, too.
    drive.submits(replace(first, priority=0, reason="JobHeldAdmin"), like=FIRST)
    drive.submits(replace(first, job_id=JobId(10), time_limit_s=600), like=FIRST)
    drive.cycle(310)
    assert drive.why_not(10) is RefusalCode.TE_LIMIT
    assert drive.why_not(TE) is RefusalCode.BOUND
    assert not any(one.job_id == ARRAY for one in drive.decision.actions)
