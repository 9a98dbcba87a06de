"""Bystanders: BE jobs that wait in the queue for what TE jobs hold.

Everywhere: node n1 is full. Job 20 is best effort and waits for 16 CPUs since 10 s before the first poll.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.bystander import Bystander, Share, TeRunInTheWay, ended
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_daemon.performing import watched

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

WAITS = JobId(20)


def site(*jobs: Job, waits: Job | None = None, user: str = "ada") -> Driver:
    """Return a node on which BE holds 16 CPUs for good, 16 are free, and TE wants them; WAITS wants them as well."""
    return Driver(
        [node("n1")],
        [
            running(BE, HALF),
            waiting(TE, cpus=16, user=user),
            waits or waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
            *jobs,
        ],
        run_times={WAITS: 1000, **{job.job_id: 1000 for job in jobs if job.pending}},
    )


def te_starts(drive: Driver, *, at_s: float = 0) -> None:
    """Run a cycle at 0, in which TE is waiting, and one a second after its start."""
    drive.cycle(0)
    drive.starts(TE, HALF, at_s=at_s)
    drive.cycle(at_s + 1)


def account(drive: Driver, job_id: int = WAITS) -> Bystander:
    """Return the delay of a job until the last poll."""
    return ended(drive.memory.bystanders[JobId(job_id)], NOW + drive.at_s)


def test_bystander_is_delayed_from_the_te_jobs_start_to_its_end() -> None:
    drive = site()
    drive.cycle(0)
    assert drive.memory.bystanders == {}, "it fits into what is free"
    drive.starts(TE, HALF, at_s=3)
    drive.cycle(5)
    drive.cycle(60)
    assert account(drive).delayed_s == 57
    drive.ends(TE)
    drive.change(TE, end_time=NOW + 63)
    drive.cycle(65)
    assert account(drive).delayed_s == 60
    drive.cycle(200)
    one = drive.memory.bystanders[WAITS]
    assert (one.since, one.delayed_s, one.until) == (None, 60, NOW + 63)
    assert one.shares == (Share(job_id=JobId(TE), user="ada", seconds=60),)


@pytest.mark.parametrize(("starts_s", "delayed_s"), [(None, 87), (85, 82)], ids=["waits on", "starts"])
def test_te_run_that_takes_long_to_leave_its_nodes_is_in_the_way_until_it_has_left(
    starts_s: int | None, delayed_s: int
) -> None:
    drive = site()
    te_starts(drive, at_s=3)
    drive.completing(TE, JobState.COMPLETED)
    drive.change(TE, end_time=NOW + 63)
    for at_s in (65, 80):
        drive.cycle(at_s)
    drive.ends(TE)
    drive.change(TE, end_time=NOW + 63)
    if starts_s is not None:
        drive.starts(WAITS, HALF, at_s=starts_s)
    drive.cycle(90)
    drive.cycle(200)
    assert account(drive).delayed_s == delayed_s


def test_bystander_that_starts_is_delayed_no_longer_and_keeps_its_account() -> None:
    drive = site()
    te_starts(drive, at_s=3)
    drive.ends(TE)
    drive.forgets(TE)
    drive.starts(WAITS, HALF, at_s=40)
    drive.cycle(42)
    assert account(drive).delayed_s == 37
    drive.cycle(500)
    assert account(drive).delayed_s == 37
    drive.ends(WAITS)
    drive.cycle(510)
    assert account(drive).delayed_s == 37


def test_two_te_jobs_in_the_way_count_once_in_equal_parts() -> None:
    drive = Driver(
        [node("n1")],
        [
            running(BE, share("n1", 24)),
            waiting(TE, cpus=4, user="ada"),
            waiting(8, cpus=4, user="cyd"),
            waiting(WAITS, cpus=8, user="bob", eligible_time=NOW - 10),
        ],
        run_times={WAITS: 1000},
    )
    drive.cycle(0)
    drive.starts(TE, share("n1", 4), at_s=0)
    drive.starts(8, share("n1", 4), at_s=0)
    drive.cycle(1)
    drive.cycle(101)
    one = account(drive)
    assert one.delayed_s == 101
    assert {share.user: share.seconds for share in one.shares} == {"ada": 50.5, "cyd": 50.5}


def test_te_job_that_started_before_a_job_was_eligible_delays_it_not() -> None:
    drive = site(waits=waiting(WAITS, cpus=16, user="bob", eligible_time=NOW + 4))
    drive.cycle(0)
    drive.starts(TE, HALF, at_s=3)
    for at_s in (5, 50):
        drive.cycle(at_s)
    assert drive.memory.bystanders == {}


def test_te_job_of_its_own_user_is_counted_apart() -> None:
    drive = site(user="bob")
    te_starts(drive)
    drive.cycle(31)
    assert (account(drive).delayed_s, account(drive).by_own_user_s) == (0, 31)


@pytest.mark.parametrize("reason", ["Dependency", "JobHeldUser", "QOSMaxJobsPerUserLimit"])
def test_job_that_waits_for_another_reason_is_no_bystander(reason: str) -> None:
    drive = site()
    drive.change(WAITS, reason=reason, priority=0 if "Held" in reason else 100)
    te_starts(drive)
    assert drive.memory.bystanders == {}


def test_bystander_without_a_reason_for_one_poll_is_delayed_on() -> None:
    drive = site()
    te_starts(drive)
    drive.change(WAITS, reason="None")
    drive.cycle(11)
    drive.change(WAITS, reason="Priority")
    drive.cycle(21)
    assert account(drive).delayed_s == 21


def test_bystander_that_one_answer_does_not_show_keeps_its_account() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(31)
    hidden = drive.jobs.pop(WAITS)
    drive.cycle(41)
    drive.jobs[WAITS] = hidden
    drive.cycle(51)
    drive.cycle(61)
    assert account(drive).delayed_s == 31 + 10, "of the time without it nothing is known"


def test_account_is_dropped_with_the_job_and_another_job_of_its_id_has_none() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(31)
    drive.change(WAITS, submit_time=NOW + 32, eligible_time=NOW + 32)
    drive.cycle(41)
    assert drive.memory.bystanders == {}
    drive.change(WAITS, submit_time=NOW - 10, eligible_time=NOW - 10)
    drive.cycle(51)
    drive.forgets(WAITS)
    drive.cycle(61)
    drive.cycle(61 + 601)
    assert drive.memory.bystanders == {}


def test_delay_goes_on_over_a_time_without_a_daemon_if_the_same_te_job_is_there_after_it() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(3601)
    assert account(drive).delayed_s == 3601


def test_time_without_a_daemon_counts_not_if_another_te_job_is_there_after_it() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(11)
    drive.forgets(TE)
    drive.submits(running(7, HALF, start_time=NOW + 3000, user="cyd"), like=TE)
    drive.cycle(3601)
    drive.cycle(3611)
    assert account(drive).delayed_s == 11 + 611


@pytest.mark.parametrize("user", ["ada", "bob"])
def test_victim_that_is_away_is_no_bystander_of_the_same_te_job(user: str) -> None:
    be = running(BE, share("n1", 32), user="ada")
    drive = Driver([node("n1")], [be, waiting(TE, cpus=32, user=user)], graces={BE: 0})
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.change(BE, reason="Resources", eligible_time=NOW + 1)
    drive.cycle(1)
    drive.starts(TE, share("n1", 32), at_s=2)
    drive.cycle(3)
    drive.cycle(50)
    assert drive.victim().state is VictimState.LEFT
    assert drive.memory.bystanders == {}


def test_task_that_starts_has_waited_as_its_array_has() -> None:
    array = waiting(
        WAITS, cpus=16, user="bob", array_job_id=WAITS, array_tasks="1-2", eligible_time=NOW - 10, submit_time=NOW - 10
    )
    drive = site(waits=array)
    te_starts(drive)
    drive.ends(TE)
    drive.change(TE, end_time=NOW + 30)
    task = running(21, HALF, array_job_id=WAITS, array_task_id=1, user="bob", start_time=NOW + 30, submit_time=NOW - 10)
    drive.submits(task, like=WAITS)
    drive.cycle(32)
    assert account(drive, 21).delayed_s == 30
    assert account(drive).delayed_s == 30


def test_task_that_ran_before_has_not_waited_with_the_rest_of_its_array() -> None:
    array = waiting(
        WAITS, cpus=16, user="bob", array_job_id=WAITS, array_tasks="2", eligible_time=NOW - 10, submit_time=NOW - 10
    )
    task = running(21, share("n1", 8), array_job_id=WAITS, array_task_id=1, user="bob", start_time=NOW - 5)
    drive = Driver(
        [node("n1")],
        [running(BE, share("n1", 8)), waiting(TE, cpus=16), array, task],
        run_times={WAITS: 1000},
    )
    te_starts(drive, at_s=3)
    drive.cycle(14)
    assert list(drive.memory.bystanders) == [WAITS]


def test_clock_that_is_set_moves_a_delay_that_goes_on() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(11)
    drive.memory = shift_times(drive.memory, 5000)
    drive.cycle(5021)
    assert account(drive).delayed_s == 21


def test_task_that_starts_in_the_second_of_the_last_poll_has_waited_as_its_array_has() -> None:
    array = waiting(
        WAITS, cpus=16, user="bob", array_job_id=WAITS, array_tasks="1-2", eligible_time=NOW - 10, submit_time=NOW - 10
    )
    drive = site(waits=array)
    te_starts(drive)
    drive.ends(TE)
    drive.change(TE, end_time=NOW + 30)
    drive.cycle(30.4)
    task = running(21, HALF, array_job_id=WAITS, array_task_id=1, user="bob", start_time=NOW + 30, submit_time=NOW - 10)
    drive.submits(task, like=WAITS)
    drive.cycle(31.4)
    assert account(drive, 21).delayed_s == 30


def test_te_job_that_was_requeued_while_no_daemon_ran_is_in_the_way_since_its_new_run_alone() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(11)
    drive.change(TE, start_time=NOW + 3590, restarts=1)
    drive.cycle(3601)
    drive.cycle(3611)
    assert account(drive).delayed_s == 11 + 21


def test_victim_of_a_withdrawn_order_is_no_bystander_while_it_is_away() -> None:
    drive = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=32)], graces={BE: 0})
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.change(BE, reason="Resources", submit_time=NOW + 1, eligible_time=NOW + 1)
    drive.cycle(1)
    drive.starts(TE, share("n1", 32), at_s=2)
    drive.cycle(3)
    # What `tesched undo` leaves: the order has ended, and the victim is in the queue.
    drive.memory = replace(drive.memory, orders={})
    drive.cycle(13)
    drive.cycle(50)
    assert drive.memory.bystanders == {}


def test_daemon_that_only_watches_ends_each_delay_at_the_last_poll_that_decided() -> None:
    drive = site()
    te_starts(drive)
    drive.cycle(11)
    for at_s in (20, 5000):
        drive.memory, _ = watched(drive.memory, drive.snapshot(at_s))
    drive.ends(TE)
    drive.forgets(TE)
    drive.starts(WAITS, HALF, at_s=30)
    drive.cycle(5010)
    assert account(drive).delayed_s == 11


def test_largest_parts_are_named() -> None:
    te = tuple(TeRunInTheWay(JobId(number), "ada", 0.0) for number in range(1, 11))
    one = Bystander(
        submitted_at=0.0, user="bob", since=0.0, by=te, shares=(Share(job_id=JobId(99), user="eve", seconds=50),)
    )
    after = ended(one, 100.0)
    assert [share.job_id for share in after.shares] == [99, *range(1, 8)]
    assert after.delayed_s == 100
