"""Fields that would stay changed for ever, or be left too early: raises by turns, absent arrays, unreadable records.

Times are seconds after the first poll.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.fields.nice import MOST_AGAIN
from tesched_core.model.actions import FailureKind, Status, sets
from tesched_core.model.change import By, Change
from tesched_core.model.cluster import HELD_BY_US, JobState
from tesched_core.model.field import Field
from tesched_core.model.order import OrderState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo
from tesched_policies.baselines import NoPreemption
from tesched_policies.fill import Fill

from tests.builders import NOW, node, running, share, view_of, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, nice_back, one_node
from tests.scenarios.test_shares import EARLY, Site, grown, throttles, two_arrays
from tests.scenarios.test_two_raises import BOOST, FIRST, MOVES, TURN, Wants, boosted


@pytest.mark.parametrize("status", [Status.SKIPPED, Status.FAILED, Status.WOULD])
def test_a_boost_that_could_not_be_made_again_is_put_back_all_the_same(status: Status) -> None:
    jobs = [running(1, share("n1", 16), start_time=NOW - 100, time_limit_s=700)]
    jobs += [waiting(2, cpus=32, priority=99), waiting(3, cpus=16, priority=98)]
    drive = Driver([node("n1")], jobs, policy=NoPreemption(), best_effort=Fill(), run_times={1: 700, 2: 60, 3: 60})
    drive.obeys(*drive.cycle(0))
    drive.change(3, priority=98)  # backfill's
    again = drive.cycle(2)
    assert [action.job_id for action in again] == [3]
    drive.says(status, *again, kind=FailureKind.BUSY if status is Status.FAILED else None)
    drive.starts(3, share("n1", 16), at_s=3)
    for at_s in (4, 6, 8):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(3)].nice == 0
    assert drive.memory.changes_of(Field.NICE) == {}


def test_what_backfill_has_done_to_a_boost_does_not_count_against_the_raise_of_a_preemptor() -> None:
    drive = boosted()
    one: Change[int] = drive.memory.changes_of(Field.NICE)[JobId(MOVES)]
    often = replace(one, undone=MOST_AGAIN)
    drive.memory = replace(drive.memory, changes={Field.NICE: {JobId(MOVES): often}})
    drive.best_effort = Wants(intents=(BOOST, TURN))
    drive.change(FIRST, priority=5000)
    drive.obeys(*drive.cycle(2))
    raised: Change[int] = drive.memory.changes_of(Field.NICE)[JobId(MOVES)]
    assert raised.by is By.PREEMPTOR
    drive.change(MOVES, priority=raised.shown or 0)  # backfill's
    again = drive.cycle(4)
    assert drive.order().state is OrderState.OPEN
    assert any(sets(action, Field.NICE) and action.job_id == MOVES for action in again)


def test_the_throttle_of_an_array_that_one_answer_does_not_show_is_put_back_later() -> None:
    site = two_arrays()
    site.obeys(*grown(site))
    shown = dict(site.jobs)
    site.jobs = {job_id: job for job_id, job in shown.items() if job.array_job_id != EARLY}
    site.obeys(*site.cycle(32))
    assert EARLY in site.memory.changes_of(Field.THROTTLE)
    site.jobs = {**shown, **site.jobs}
    site.best_effort = None
    assert throttles(site.cycle(34))[EARLY] == (3, 0)


def with_one_that_ended() -> Site:
    """Return the site as all tasks of an array have ended, of which the throttle was set to 3."""
    site = two_arrays()
    site.obeys(*grown(site))
    for job in list(site.jobs.values()):
        if job.array_job_id == EARLY:
            site.ends(job.job_id, JobState.CANCELLED)
    return site


def test_that_of_an_array_of_which_all_tasks_have_ended_is_put_back_too() -> None:
    site = with_one_that_ended()
    actions = site.cycle(31)
    assert throttles(actions)[EARLY] == (3, 0)
    assert changed_still(site.memory, site.snapshot(31)) == 2, "that of the other array is set as well"
    site.obeys(*actions)
    site.cycle(36)
    assert EARLY not in site.memory.changes_of(Field.THROTTLE)


def test_a_task_that_has_ended_does_not_speak_for_those_that_have_not() -> None:
    """A record of which scontrol's details are missing is read as without a throttle."""
    site = two_arrays()
    site.obeys(*grown(site))
    ended = next(job for job in site.jobs.values() if job.array_task_id is not None and job.array_job_id == EARLY)
    site.ends(ended.job_id, JobState.COMPLETED)
    site.change(ended.job_id, array_throttle=0)
    site.jobs = {ended.job_id: site.jobs[ended.job_id], **site.jobs}
    site.cycle(31)
    assert site.memory.changes_of(Field.THROTTLE)[JobId(EARLY)].previous == 0
    site.best_effort = Wants()
    assert throttles(site.cycle(36))[EARLY] == (3, 0)


def test_where_slurm_takes_none_of_an_array_that_has_ended_it_is_over() -> None:
    site = with_one_that_ended()
    site.says(Status.FAILED, *site.cycle(31), kind=FailureKind.BUSY)
    assert EARLY in site.memory.changes_of(Field.THROTTLE)
    site.says(Status.FAILED, *site.cycle(36), kind=FailureKind.ALREADY_DONE)
    assert EARLY not in site.memory.changes_of(Field.THROTTLE)


def test_that_of_an_array_that_slurm_has_forgotten_is_forgotten() -> None:
    site = with_one_that_ended()
    site.jobs = {}
    site.cycle(32)
    assert EARLY in site.memory.changes_of(Field.THROTTLE)
    site.cycle(700)
    assert site.memory.changes == {}
    assert site.memory.jobs == {}


def test_a_job_that_a_requeue_has_left_held_is_not_held_for_a_policy() -> None:
    job = waiting(BE, cpus=1, priority=0, reason=HELD_BY_US)
    drive = Driver([node("n1")], [job])
    view = view_of(drive.start)
    hold = Change(job_id=job.job_id, field=Field.HOLD, previous=0, value=1, at=NOW, since=NOW)

    def held(one: Change[int]) -> bool:
        memory = replace(view.memory, changes={Field.HOLD: {job.job_id: one}})
        return replace(view, memory=memory).held_by_us(job)

    assert (held(hold), held(replace(hold, by=By.REQUEUE))) == (True, False)


def test_undo_concludes_nothing_from_a_record_that_could_not_be_read() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    drive.cycle(6)
    read = drive.jobs[JobId(TE)]
    drive.jobs[JobId(TE)] = replace(read, doubt="its record could not be read", priority=0, nice=0)
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(8), drive.limits)
    assert drive.decision.actions == ()
    assert changed_still(drive.memory, drive.snapshot(8)) > 0
    drive.jobs[JobId(TE)] = read
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(10), drive.limits)
    assert drive.decision.actions == (nice_back(0, now=-1001),)
