"""guard.lever = "plugin": which TE jobs came back from their starts, as the plugin's file names them.

Everywhere: job 1 holds a node; job 9 is a TE job that wants half of one. A useful run takes 60 s, or a tenth of the
job's time limit; the first wait is of 300 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import CameBack, SetMarks
from tesched_core.model.cluster import JobState, PluginSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory, TeRun
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.clock_jump import shift_times

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver
from tests.scenarios.test_marking import ordinary

HALF = share("n2", 16, 1)
#: of an array: the record of its waiting tasks, and that of the task that has started
ARRAY, TASK = 20, 21
#: no mark ends before this
MARKED_S = 100_000


def site(*more: Any, **limits: Any) -> Driver:
    """Return two nodes, one with a best-effort job, and a TE job that waits."""
    trials = more or (waiting(TE, cpus=16),)
    given: dict[str, Any] = {"mark_for_s": MARKED_S, **limits}
    drive = Driver(
        [node("n1"), node("n2")],
        [running(BE, share("n1", 32)), *trials],
        limits=Limits(lever=YieldBy.PLUGIN, **given),
        on_trial=True,
    )
    drive.plugin = PluginSettings(marks="", te_partitions=frozenset({"p"}))
    return ordinary(drive)


def said(drive: Driver, at_s: float) -> Sequence[CameBack]:
    """Return what is in the file after this poll."""
    drive.cycle(at_s)
    return drive.memory.te_rules.came_back


def returns(drive: Driver, at_s: float, *, ran_s: float = 2, job: int = TE) -> None:
    """Let the job run for so long, seen each second to do so, and be back in the queue at this time."""
    drive.starts(job, HALF, at_s=at_s - ran_s)
    for passed_s in range(int(ran_s)):
        drive.cycle(at_s - ran_s + passed_s + 0.5)
    drive.requeued(job)
    drive.change(job, submit_time=NOW + at_s)


def test_the_wait_doubles_and_after_two_returns_it_lasts_until_its_user_changes_the_request() -> None:
    drive = site()
    assert said(drive, 0) == ()
    returns(drive, 10)
    assert said(drive, 11) == (CameBack(job_id=JobId(TE), restarts=0, until=int(NOW) + 311),)
    drive.change(TE, reason="Resources")
    assert said(drive, 310) != ()
    assert drive.why_not(TE) is RefusalCode.RETRY_LATER
    assert said(drive, 312) == ()
    assert drive.why_not(TE) is RefusalCode.SLURM_DECIDES
    returns(drive, 400)
    assert said(drive, 401) == (CameBack(job_id=JobId(TE), restarts=0, until=None),)
    drive.change(TE, reason="Resources")
    for at_s in (2000, 90_000):
        assert said(drive, at_s) == (CameBack(job_id=JobId(TE), restarts=0, until=None),)
        assert drive.why_not(TE) is RefusalCode.FUTILE
    drive.change(TE, time_limit_s=600)
    assert said(drive, 90_001) == ()
    returns(drive, 90_010)
    assert said(drive, 90_011) == (CameBack(job_id=JobId(TE), restarts=0, until=None),), "it was one more try"


def test_more_returns_are_allowed_where_the_site_says_so_and_each_doubles_the_wait() -> None:
    drive = site(max_futile_orders_per_job=9)
    said(drive, 0)
    until = []
    for number in range(4):
        returns(drive, 1000.0 * number + 10)
        (one,) = said(drive, 1000.0 * number + 11)
        until.append((one.until or 0) - int(NOW) - 1000 * number - 11)
    assert until == [300, 600, 1200, 2400]


def test_its_line_ends_with_the_marks_and_is_renewed_with_them() -> None:
    drive = site(mark_for_s=100)
    said(drive, 0)
    returns(drive, 10)
    (action,) = (one for one in drive.cycle(11) if isinstance(one, SetMarks))
    assert [(one.job_id, one.until) for one in action.came_back] == [(TE, int(NOW) + 111)]
    (action,) = (one for one in drive.cycle(70) if isinstance(one, SetMarks))
    assert [(one.job_id, one.until) for one in action.came_back] == [(TE, int(NOW) + 170)]


@pytest.mark.parametrize("how", ["long", "a tenth of its limit", "unseen, for a minute", "useful_run_s = 0"])
def test_a_job_that_may_have_had_a_useful_run_is_not_named(how: str) -> None:
    drive = site(**({"useful_run_s": 0} if how == "useful_run_s = 0" else {}))
    said(drive, 0)
    if how == "a tenth of its limit":
        drive.change(TE, time_limit_s=150)
        returns(drive, 100, ran_s=15)
    elif how == "unseen, for a minute":
        drive.cycle(39)
        drive.requeued(TE)
    else:
        returns(drive, 100, ran_s=61 if how == "long" else 2)
    assert said(drive, 101) == ()


def test_a_run_that_no_poll_saw_was_a_short_one() -> None:
    drive = site()
    said(drive, 0)
    drive.requeued(TE)
    drive.requeued(TE)
    assert said(drive, 2) == (CameBack(job_id=JobId(TE), restarts=0, until=None),), "twice"


def test_a_useful_run_ends_it_and_the_next_return_is_the_first_one() -> None:
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    assert said(drive, 11) != ()
    drive.starts(TE, HALF, at_s=20)
    assert said(drive, 21) != (), "it may come back between two polls"
    assert said(drive, 82) == ()
    assert drive.memory.job(JobId(TE)) == JobMemory(), "its wait would have lasted until 311"
    returns(drive, 100)
    said(drive, 101)
    assert said(drive, 102) == (), "that was the end of its useful run"
    returns(drive, 110)
    # Victims of the run before, with one restart, have served.
    assert said(drive, 111) == (CameBack(job_id=JobId(TE), restarts=2, until=int(NOW) + 411),)


@pytest.mark.parametrize(("polled_s", "named"), [(30, True), (65, False)])
def test_an_epilog_is_no_part_of_its_run(polled_s: float, named: bool) -> None:
    drive = site()
    said(drive, 0)
    drive.starts(TE, HALF, at_s=0.5)
    said(drive, 1)
    said(drive, polled_s)
    drive.completing(TE, JobState.RUNNING)
    said(drive, polled_s + 1)
    said(drive, 200)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 200)
    assert bool(said(drive, 201)) is named


def test_slurm_counts_the_return_while_the_job_is_completing_yet_and_its_next_run_counts_for_itself() -> None:
    drive = site()
    said(drive, 0)
    drive.starts(TE, HALF, at_s=1)
    said(drive, 2)
    drive.change(TE, state=JobState.PENDING, flags=frozenset({"COMPLETING"}), restarts=1)
    assert said(drive, 3) == (CameBack(job_id=JobId(TE), restarts=0, until=int(NOW) + 303),)
    said(drive, 4)
    drive.jobs[JobId(TE)] = replace(drive.jobs[JobId(TE)], flags=frozenset(), allocation=(), start_time=None)
    said(drive, 5)
    returns(drive, 100, ran_s=70)
    assert said(drive, 101) == ()


@pytest.mark.parametrize(("state", "named"), [(JobState.FAILED, True), (JobState.COMPLETED, False)])
def test_one_that_ended_and_was_put_back_by_its_user_came_back_unless_it_ended_with_success(
    state: JobState, named: bool
) -> None:
    drive = site()
    said(drive, 0)
    drive.starts(TE, HALF, at_s=1)
    said(drive, 2)
    drive.at_s = 3
    drive.ends(TE, state)
    said(drive, 90)
    said(drive, 100)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 101)
    assert bool(said(drive, 101)) is named


def test_while_nodes_boot_it_does_not_run() -> None:
    drive = site()
    said(drive, 0)
    drive.starts(TE, HALF, at_s=1)
    drive.change(TE, flags=frozenset({"CONFIGURING"}))
    for at_s in range(2, 120, 10):
        said(drive, at_s)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 120)
    assert len(said(drive, 120)) == 1


def test_a_best_effort_job_that_comes_back_is_not_named() -> None:
    drive = site()
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(TE): replace(traits[JobId(TE)], job_class=JobClass.BE)})
    said(drive, 0)
    returns(drive, 10)
    assert said(drive, 11) == ()


def test_of_a_job_array_the_task_that_came_back_is_named_and_not_the_tasks_that_wait() -> None:
    array = waiting(ARRAY, cpus=16, array_job_id=JobId(ARRAY), array_tasks="0-3")
    drive = site(array)
    said(drive, 0)
    # It started and came back between two polls: its record is new, and was the array's before.
    task = replace(waiting(TASK, cpus=16, array_job_id=JobId(ARRAY), array_task_id=0), restarts=1, submit_time=NOW + 3)
    drive.jobs[JobId(TASK)] = task
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(TASK): traits[JobId(ARRAY)]})
    assert said(drive, 4) == (CameBack(job_id=JobId(TASK), restarts=0, until=int(NOW) + 304),)
    drive.change(TASK, reason="Resources")
    drive.change(ARRAY, reason="Resources")
    said(drive, 6)
    assert drive.why_not(TASK) is RefusalCode.RETRY_LATER
    assert drive.why_not(ARRAY) is RefusalCode.SLURM_DECIDES


def test_a_task_that_starts_has_the_restarts_of_its_array_and_has_not_come_back() -> None:
    array = waiting(ARRAY, cpus=16, array_job_id=JobId(ARRAY), array_tasks="0-3", restarts=5)
    drive = site(array)
    said(drive, 0)
    drive.jobs[JobId(TASK)] = replace(array, job_id=JobId(TASK), array_tasks="", array_task_id=0)
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(TASK): traits[JobId(ARRAY)]})
    drive.starts(TASK, HALF, at_s=1)
    assert said(drive, 2) == ()


def test_a_new_job_may_have_been_restarted_before_it_was_seen_and_is_not_named() -> None:
    drive = site()
    drive.change(TE, restarts=7)
    assert said(drive, 0) == ()
    returns(drive, 10)
    assert said(drive, 11) == (CameBack(job_id=JobId(TE), restarts=7, until=int(NOW) + 311),)


def test_one_that_was_submitted_and_came_back_between_two_polls_is_named() -> None:
    drive = site()
    said(drive, 0)
    drive.jobs[JobId(ARRAY)] = replace(waiting(ARRAY, cpus=16), restarts=1)
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(ARRAY): traits[JobId(TE)]})
    assert said(drive, 2) == (CameBack(job_id=JobId(ARRAY), restarts=0, until=int(NOW) + 302),)


def test_an_older_job_that_becomes_a_te_job_is_not_named_for_its_earlier_runs() -> None:
    drive = site(waiting(TE, cpus=16, restarts=3), waiting(ARRAY, cpus=16))
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(TE): replace(traits[JobId(TE)], job_class=JobClass.BE)})
    said(drive, 0)
    drive.start = drive.start.with_traits(traits)
    assert said(drive, 2) == ()


def test_one_that_an_answer_lacks_stays_in_the_file() -> None:
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    before = said(drive, 11)
    kept = drive.jobs.pop(JobId(TE))
    assert said(drive, 12) == before
    drive.jobs[JobId(TE)] = kept
    assert said(drive, 13) == before


def test_a_new_process_goes_on_where_the_last_one_was() -> None:
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    before = said(drive, 11)
    drive.memory = replace(drive.memory, te_runs={}, te_poll=None)  # not in the store
    assert said(drive, 12) == before


def test_another_job_with_its_id_is_not_named() -> None:
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    said(drive, 11)
    drive.change(TE, restarts=0)
    assert said(drive, 12) == ()


def test_another_lever_takes_no_notice_of_it() -> None:
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    drive.change(TE, reason="Resources")
    assert len(said(drive, 11)) == 1
    drive.limits = replace(drive.limits, lever=YieldBy.REQUEUE)
    drive.cycle(12)
    assert drive.why_not(TE) not in {RefusalCode.FUTILE, RefusalCode.RETRY_LATER}
    assert (drive.memory.te_runs, drive.memory.te_poll) == ({}, None)


def test_a_set_clock_makes_no_short_run_long() -> None:
    run = TeRun(restarts=1, at=NOW, running_since=NOW - 2, began=NOW - 3)
    memory = shift_times(Memory(te_runs={JobId(TE): run}, te_poll=(NOW, JobId(TE))), 3600)
    later = replace(run, at=NOW + 3600, running_since=NOW + 3598)
    assert (memory.te_runs, memory.te_poll) == ({JobId(TE): later}, (NOW + 3600, JobId(TE)))


def test_returns_that_no_poll_saw_lift_no_bar() -> None:
    """The plugin has given it victims in one of the runs that count; its later ones are of no more use."""
    drive = site()
    said(drive, 0)
    returns(drive, 10)
    said(drive, 11)
    returns(drive, 400)
    assert said(drive, 401) == (CameBack(job_id=JobId(TE), restarts=0, until=None),)
    for _ in range(2):
        drive.requeued(TE)
    assert said(drive, 1000) == (CameBack(job_id=JobId(TE), restarts=0, until=None),)


def test_one_that_fails_and_that_its_user_puts_back_counts_on() -> None:
    drive = site()
    said(drive, 0)
    for number, until in ((0, int(NOW) + 312), (1, None)):
        at_s = 400.0 * number + 10
        drive.starts(TE, HALF, at_s=at_s - 2)
        drive.cycle(at_s - 1)
        drive.at_s = at_s
        drive.ends(TE, JobState.FAILED)
        drive.cycle(at_s + 0.5)
        drive.requeued(TE)
        drive.change(TE, submit_time=NOW + at_s + 1, end_time=None)
        (one,) = said(drive, at_s + 2)
        assert (one.restarts, one.until) == (0, until)
