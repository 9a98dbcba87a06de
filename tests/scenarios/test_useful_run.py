"""A preemption has served when its TE job had a useful run: a start alone does not justify a victim.

Everywhere: job 1 holds the only node, without a grace period; job 9 wants half of it. A useful run takes 60 s, or a
tenth of the job's time limit.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Requeue
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_core.orders.futility import useful_run_s

from tests.builders import NOW, by_job, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

LIMITS = Limits(max_preemptions_per_job=9, max_lost_runs_per_job=9, min_run_time_s=0, cool_down_s=0, max_slowdown=1e9)
FREE_AGAIN = share("n1", 32)


def small() -> Driver:
    """Return the smallest case."""
    jobs = [running(BE, FREE_AGAIN), waiting(TE, cpus=16)]
    return Driver([node("n1")], jobs, graces={BE: 0.0}, limits=LIMITS, on_trial=True)


def asked(drive: Driver) -> list[int]:
    """Jobs that the last cycle notified."""
    return [action.job_id for action in drive.decision.actions if isinstance(action, Requeue)]


def started(drive: Driver, at_s: float = 0) -> Driver:
    """Let the victim leave, and the TE job start in its place 2 s later."""
    drive.change(TE, reason="Resources")
    drive.obeys(*drive.cycle(at_s))
    assert asked(drive) == [BE], drive.decision.summary
    drive.starts(TE, HALF, at_s=at_s + 2)
    drive.obeys(*drive.cycle(at_s + 3))
    return drive


def comes_back(drive: Driver, at_s: float) -> None:
    """Put the TE job back in the queue, as RequeueExit or a failed Prolog does; its victim runs again."""
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + at_s)
    drive.starts(BE, FREE_AGAIN, at_s=at_s)
    drive.obeys(*drive.cycle(at_s + 1))


def test_a_job_that_comes_back_from_its_start_has_made_its_victim_leave_for_nothing() -> None:
    drive = started(small())
    assert (drive.order().state, drive.order().ending) == (OrderState.SETTLING, Ending.STARTED_HERE)
    comes_back(drive, 10)
    assert (drive.order().ending, drive.order().futile) == (Ending.NO_RUN, True)
    assert any("is back in the queue 8 s after its start" in one.text for one in drive.decision.transitions)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 11 + 300}


def test_the_wait_for_its_next_victims_doubles_and_then_it_has_none() -> None:
    drive = started(small())
    comes_back(drive, 10)
    drive.change(TE, reason="Resources")
    drive.cycle(310)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.RETRY_LATER)
    comes_back(started(drive, 312), 320)
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 321 + 600}
    drive.change(TE, reason="Resources")
    for at_s in (400, 1000, 100_000):
        drive.cycle(at_s)
        assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.FUTILE)
    # What a failed Prolog does to nodes is no change for it; what its user asks for is.
    drive.nodes["n2"] = node("n2")
    drive.cycle(100_001)
    assert drive.why_not(TE) is RefusalCode.FUTILE
    drive.change(TE, time_limit_s=600)
    drive.cycle(100_002)
    assert asked(drive) == [BE]


def test_neither_a_drained_node_nor_another_word_of_slurms_gives_it_one_more_try() -> None:
    """A failed Prolog drains its node, and Slurm may say of the job whatever it likes meanwhile."""
    drive = started(small())
    comes_back(drive, 10)
    drive.change(TE, reason="Resources")
    drive.cycle(310)
    comes_back(started(drive, 312), 320)
    drive.change(TE, reason="Resources")
    drive.cycle(1000)
    drive.nodes["n1"] = replace(node("n1"), flags=frozenset({"DRAIN"}))
    drive.cycle(1001)
    drive.nodes["n1"] = node("n1")
    drive.change(TE, reason="Licenses")
    drive.cycle(1002)
    drive.change(TE, reason="Resources")
    drive.cycle(1003)
    assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.FUTILE)


def test_a_start_without_a_victim_in_between_does_not_make_it_forget() -> None:
    drive = started(small())
    comes_back(drive, 10)
    for at_s in (20, 30, 40):
        drive.ends(BE)
        drive.starts(TE, HALF, at_s=at_s)
        drive.cycle(at_s + 1)
        drive.requeued(TE)
        drive.cycle(at_s + 5)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 11 + 300}


def test_it_is_forgotten_once_it_had_a_useful_run() -> None:
    drive = started(small())
    comes_back(drive, 10)
    started(drive, 312)
    drive.starts(BE, share("n1", 16), at_s=316)
    drive.cycle(374)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    assert drive.order(2).state is OrderState.SETTLING, "it is seen to run for 59 s"
    drive.cycle(375)
    assert (drive.order(2).state, drive.order(2).ending) == (OrderState.ENDED, Ending.STARTED_HERE)
    assert by_job(drive.memory, "futile") == {}


@pytest.mark.parametrize(
    ("state", "at_s", "ending"),
    [
        (JobState.COMPLETED, 3, Ending.STARTED_HERE),
        (JobState.FAILED, 12, Ending.NO_RUN),
        (JobState.NODE_FAIL, 12, Ending.NO_RUN),
        (JobState.CANCELLED, 12, Ending.NO_RUN),
        (JobState.FAILED, 70, Ending.STARTED_HERE),
        (JobState.TIMEOUT, 70, Ending.STARTED_HERE),
    ],
)
def test_an_end_is_a_useful_run_with_success_or_after_a_while(state: JobState, at_s: float, ending: Ending) -> None:
    drive = started(small())
    drive.at_s = at_s
    drive.ends(TE, state)
    drive.cycle(at_s + 1)
    assert drive.order().ending is ending
    assert drive.order().run_seen_at is None


@pytest.mark.parametrize("held", [False, True], ids=["requeue", "requeuehold"])
def test_what_happened_between_two_polls_is_seen_all_the_same(held: bool) -> None:
    drive = small()
    drive.obeys(*drive.cycle(0))
    drive.requeued(TE)  # it has started and come back since
    if held:
        drive.change(TE, priority=0, reason="JobHeldUser")
    drive.cycle(5)
    assert (drive.order().ending, by_job(drive.memory, "futile")[JobId(TE)].count) == (Ending.NO_RUN, 1)

    # And it came back, and started again.
    drive = started(small())
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 5)
    drive.starts(TE, HALF, at_s=6)
    drive.cycle(7)
    assert (drive.order().ending, by_job(drive.memory, "futile")[JobId(TE)].count) == (Ending.NO_RUN, 1)

    # It came back after a useful run: while no daemon polled.
    drive = started(small())
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 500)
    drive.cycle(501)
    assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.STARTED_HERE, {})


def test_while_nodes_boot_or_a_prolog_runs_it_has_not_begun() -> None:
    drive = started(small())
    drive.change(TE, flags=frozenset({"CONFIGURING"}))
    drive.cycle(300)
    assert drive.order().run_seen_at is not None
    # When they are ready Slurm sets the start anew.
    drive.change(TE, flags=frozenset(), start_time=NOW + 300)
    drive.cycle(359)
    assert drive.order().run_seen_at is not None
    drive.cycle(360)
    assert drive.order().run_seen_at is None


def test_a_prolog_that_fails_after_a_minute_was_no_run() -> None:
    drive = started(small())
    drive.change(TE, flags=frozenset({"CONFIGURING"}))
    drive.cycle(62)
    drive.change(TE, flags=frozenset())
    comes_back(drive, 70)
    assert drive.order().ending is Ending.NO_RUN
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1


def test_a_record_that_is_missing_decides_nothing_and_one_that_slurm_forgot_nothing_either() -> None:
    drive = started(small())
    drive.forgets(TE)
    drive.cycle(5)
    assert drive.order().run_seen_at is not None
    drive.cycle(100_000)
    assert (drive.order().run_seen_at, drive.order().ending) == (None, Ending.STARTED_HERE)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_this_hosts_clock_and_slurms_are_not_compared(ahead_s: float) -> None:
    drive = small()
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, HALF, at_s=2 - ahead_s)  # by slurmctld's clock
    drive.cycle(3)
    drive.cycle(62)
    assert drive.order().run_seen_at is not None
    drive.cycle(63)
    assert drive.order().run_seen_at is None


def test_one_that_starts_elsewhere_and_comes_back_waits_too() -> None:
    drive = Driver(
        [node("n1"), node("n2")],
        [running(BE, FREE_AGAIN), running(2, share("n2", 32), batch=False), waiting(TE, cpus=16)],
        graces={BE: 0.0},
        limits=LIMITS,
        on_trial=True,
    )
    drive.obeys(*drive.cycle(0))
    drive.ends(2)
    drive.starts(TE, share("n2", 16), at_s=2)
    drive.cycle(3)
    comes_back(drive, 10)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    assert by_job(drive.memory, "retry_at") == {TE: NOW + 11 + 300}


@pytest.mark.parametrize(
    ("limit_s", "useful_s", "wanted_s"),
    [(None, 60, 60), (3600, 60, 60), (300, 60, 30), (60, 60, 10), (60, 5, 5), (300, 0, 0)],
)
def test_how_long_a_useful_run_takes(limit_s: int | None, useful_s: float, wanted_s: float) -> None:
    job = waiting(TE, time_limit_s=limit_s)
    assert useful_run_s(job, Limits(useful_run_s=useful_s)) == wanted_s


def ends_to_come_back(drive: Driver, *, restarts: int = 0) -> None:
    """Let the TE job's run end with RequeueExit: while its Epilog takes its time it is no state that squeue names."""
    drive.requeue_exit = frozenset({99})
    drive.completing(TE, JobState.UNKNOWN)
    drive.change(TE, reason="NonZeroExitCode", exit_status=99, restarts=restarts)


def test_its_epilog_is_no_part_of_a_run() -> None:
    drive = started(small())
    ends_to_come_back(drive)
    drive.cycle(10)
    assert (drive.order().ending, drive.order().futile) == (Ending.NO_RUN, True)
    assert any("goes back to the queue 7 s after its start" in one.text for one in drive.decision.transitions)
    drive.cycle(500)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1, "remembered for as long as the Epilog takes"
    comes_back(drive, 501)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1


def test_a_run_that_was_long_enough_before_its_epilog_has_served() -> None:
    drive = started(small())
    ends_to_come_back(drive)
    drive.cycle(63)
    assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.STARTED_HERE, {})


@pytest.mark.parametrize(("exit_status", "restarts"), [(99, 0), (99, 1), (0, 1)])
def test_one_that_began_and_is_completing_by_the_next_poll_has_started(exit_status: int, restarts: int) -> None:
    drive = small()
    drive.change(TE, reason="Resources")
    drive.obeys(*drive.cycle(0))
    drive.starts(TE, HALF, at_s=2)
    ends_to_come_back(drive, restarts=restarts)
    drive.change(TE, exit_status=exit_status)
    drive.cycle(3)
    assert (drive.order().state, drive.order().ending) == (OrderState.SETTLING, Ending.NO_RUN)
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1


def in_its_epilog(drive: Driver, exit_status: int) -> Driver:
    """Let the TE job's run end after 17 s, of which 16 s are seen; its Epilog takes longer than a useful run."""
    drive.requeue_exit = frozenset({99})
    drive.completing(TE, JobState.UNKNOWN)
    drive.change(TE, reason="" if exit_status == 0 else "NonZeroExitCode", exit_status=exit_status)
    for at_s in (19, 30, 500):
        drive.cycle(at_s)
        assert (drive.order().ending, by_job(drive.memory, "futile")) == (Ending.STARTED_HERE, {}), (
            "how it ended is not known"
        )
        assert drive.order().state is OrderState.SETTLING
    return drive


def test_a_short_run_with_success_that_is_seen_in_its_epilog_has_served() -> None:
    drive = in_its_epilog(started(small()), 0)
    drive.at_s = 19
    drive.ends(TE)
    drive.starts(BE, FREE_AGAIN, at_s=501)
    drive.cycle(501)
    assert (drive.order().ending, drive.order().futile, by_job(drive.memory, "futile")) == (
        Ending.STARTED_HERE,
        False,
        {},
    )
    assert drive.order().state is OrderState.ENDED


@pytest.mark.parametrize(
    ("exit_status", "state", "ended_at_s", "ending"),
    [
        (1, JobState.FAILED, 19, Ending.NO_RUN),
        (0, JobState.CANCELLED, 19, Ending.NO_RUN),
        (1, JobState.FAILED, 67, Ending.STARTED_HERE),
    ],
)
def test_how_a_run_ended_is_judged_after_its_epilog_by_slurms_times(
    exit_status: int, state: JobState, ended_at_s: float, ending: Ending
) -> None:
    drive = in_its_epilog(started(small()), exit_status)
    drive.at_s = ended_at_s  # it may be seen late: 17 s of it then
    drive.ends(TE, state)
    drive.cycle(501)
    assert (drive.order().ending, drive.order().run_seen_at) == (ending, None)


@pytest.mark.parametrize("still_completing", [True, False])
def test_one_that_its_user_requeues_in_its_epilog_has_come_back_from_a_short_run(still_completing: bool) -> None:
    drive = in_its_epilog(started(small()), 1)
    if still_completing:
        drive.completing(TE, JobState.PENDING)
        drive.change(TE, restarts=1)
    else:
        drive.requeued(TE)
        drive.change(TE, submit_time=NOW + 501)
    drive.cycle(501)
    assert drive.order().ending is Ending.NO_RUN
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    assert any("soon after its start" in one.text for one in drive.decision.transitions)


def test_what_is_remembered_lasts_through_an_epilog_until_it_shows_how_the_run_ended() -> None:
    drive = started(small())
    comes_back(drive, 10)
    started(drive, 312)
    drive.completing(TE, JobState.UNKNOWN)
    for at_s in (320, 1000):
        drive.cycle(at_s)
        assert by_job(drive.memory, "futile")[JobId(TE)].count == 1
    drive.at_s = 320
    drive.ends(TE)
    drive.cycle(1001)
    assert (drive.order(2).ending, by_job(drive.memory, "futile")) == (Ending.STARTED_HERE, {})
