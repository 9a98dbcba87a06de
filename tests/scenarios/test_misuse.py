"""A user whose TE jobs outlive their time limits has none for a while: they wait, and stay TE jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.misuse import barred_users
from tesched_core.model.actions import kind_of, sets
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Admission, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, TeLimits, YieldBy
from tesched_core.model.outlived import OUTLIVED, Outlived
from tesched_core.model.payment import DAY_S
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

TWO_A_DAY = Limits(te=TeLimits(max_outlived_per_user_day=2), max_preemptions_per_job=0)
LONG, WAITS, OTHERS = 1, 11, 12


def site(*, limits: Limits = TWO_A_DAY) -> Driver:
    """Return a run of ada's that may outlive its limit of 60 s, and a TE job of ada's, and of bob's, that wait."""
    jobs = [
        running(LONG, share("n1", 1), user="ada", start_time=NOW, time_limit_s=600),
        waiting(WAITS, cpus=1, user="ada", time_limit_s=60),
        waiting(OTHERS, cpus=1, user="bob", time_limit_s=60),
    ]
    return Driver([node("n1")], jobs, limits=limits)


def outlives(drive: Driver, job_id: int = LONG) -> None:
    """Let a run be one that outlived its limit, as `classify` has it."""
    one = replace(
        drive.start.traits[JobId(job_id)], job_class=JobClass.BE, rule=OUTLIVED, time_limit_s=60, notice_signal=""
    )
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(job_id): one})


def another(drive: Driver, job_id: int, *, at_s: float) -> Job:
    """Let another run of ada's begin, which outlives its limit a minute later."""
    drive.submits(running(job_id, share("n1", 1), user="ada", start_time=NOW + at_s, time_limit_s=600), like=LONG)
    outlives(drive, job_id)
    return drive.jobs[JobId(job_id)]


def holds(drive: Driver, at_s: float) -> list[int]:
    """Return the jobs that are held in a cycle; Slurm holds and releases them."""
    actions = drive.cycle(at_s)
    drive.obeys(*[one for one in actions if sets(one, Field.HOLD)])
    return sorted(one.job_id for one in actions if kind_of(one) == "hold")


def test_after_so_many_in_a_day_its_te_jobs_wait_until_there_are_fewer() -> None:
    drive = site()
    outlives(drive)
    assert holds(drive, 70) == []
    another(drive, 2, at_s=100)
    assert holds(drive, 170) == [WAITS]
    assert drive.why_not(WAITS) is RefusalCode.TE_LIMIT
    (why,) = (one.text for one in drive.decision.refusals if one.job_id == WAITS)
    assert why == (
        "2 TE jobs of ada outlived the time limits with which they started in the last 24 h; "
        "guard.te.max_outlived_per_user_day is 2"
    )
    (barred,) = barred_users(drive.memory.outlived, drive.limits.te, NOW + 170).values()
    assert (barred.user, barred.count, barred.until) == ("ada", 2, NOW + 60 + DAY_S)
    assert holds(drive, 60 + DAY_S - 1) == []
    assert drive.jobs[JobId(WAITS)].held
    holds(drive, 60 + DAY_S)
    assert not drive.jobs[JobId(WAITS)].held
    # It has run on for all of the day: that counts once.
    assert holds(drive, 60 + DAY_S + 10) == []
    assert [one.at - NOW for one in drive.memory.outlived] == [160]


def test_a_run_counts_once_also_for_a_new_daemon() -> None:
    drive = site()
    outlives(drive)
    for at_s in (70, 80):
        assert holds(drive, at_s) == []
    drive.memory = replace(drive.memory, outlived=())
    assert holds(drive, 90) == []
    assert drive.memory.outlived == (Outlived(job_id=JobId(LONG), at=NOW + 60, user="ada"),)
    # It is requeued, and its next run outlives the limit too.
    drive.change(LONG, restarts=1, start_time=NOW + 200)
    assert holds(drive, 270) == [WAITS]


@pytest.mark.parametrize("seen", [("ada", "nobody", "1001"), ("nobody", "ada", "nobody")])
def test_a_run_counts_once_for_the_user_under_which_it_was_seen_first_by_name(seen: tuple[str, ...]) -> None:
    # The name service is away for a while.
    drive = site()
    outlives(drive)
    for user in seen:
        drive.change(LONG, user=user)
        assert holds(drive, 80) == []
        assert [one.at - NOW for one in drive.memory.outlived] == [60]
    assert [one.user for one in drive.memory.outlived] == ["ada"]


def test_runs_that_the_site_counts_not_are_no_misuse() -> None:
    drive = site(limits=Limits(te=TeLimits(max_running_per_user=9), max_preemptions_per_job=0))
    outlives(drive)
    another(drive, 2, at_s=0)
    assert holds(drive, 70) == []
    assert drive.memory.outlived == ()


def test_its_jobs_stay_te_jobs() -> None:
    # As BE jobs of the partition of TE jobs they would start first, and not count.
    drive = site(limits=replace(TWO_A_DAY, te=TeLimits(max_outlived_per_user_day=1, max_running_per_user=1)))
    outlives(drive)
    assert holds(drive, 70) == [WAITS]
    assert drive.snapshot(70).job_class(JobId(WAITS)) is JobClass.TE


def test_the_hook_holds_te_jobs_only_while_a_user_has_none() -> None:
    drive = site()
    drive.cycle(0)
    assert drive.decision.admission is None
    outlives(drive)
    another(drive, 2, at_s=0)
    drive.cycle(70)
    assert drive.decision.admission == Admission(until=0.0, most_s=0.0)


@pytest.mark.parametrize("most", [1, 2])
def test_with_the_plugin_slurm_preempts_for_none_of_them(most: int) -> None:
    drive = site(limits=Limits(te=TeLimits(max_outlived_per_user_day=most), lever=YieldBy.PLUGIN))
    outlives(drive)
    drive.submits(running(2, share("n1", 8), user="eve"), like=LONG)
    ordinary = replace(drive.start.traits[JobId(2)], rule="", notice_signal="")
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(2): ordinary})
    drive.cycle(70)
    assert drive.memory.te_rules.barred == (frozenset({"ada"}) if most == 1 else frozenset())


def test_users_are_excluded_for_themselves() -> None:
    runs = [Outlived(job_id=JobId(number), at=NOW + number, user=user) for number, user in enumerate("aabbbc")]
    barred = barred_users(runs, TeLimits(max_outlived_per_user_day=2), NOW + 10)
    assert {user: (one.count, one.until - NOW - DAY_S) for user, one in barred.items()} == {"a": (2, 0), "b": (3, 3)}
    later = barred_users(runs, TeLimits(max_outlived_per_user_day=2), NOW + DAY_S + 2)
    assert {user: (one.count, one.until - NOW - DAY_S) for user, one in later.items()} == {"b": (2, 3)}
    assert not barred_users(runs, TeLimits(), NOW + 10)
