"""A daemon is started again, and finds what it has done dated in the future: its clock was set back meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.change import FREE, HELD, NEVER, first_change
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import JUMP_S, shift_times, with_none_ahead
from tesched_core.orders.undo import changed_still, undo

from tests.builders import NOW
from tests.scenarios.driver import BE, TE, Driver, notice, one_node, requeue

HOUR_S = 3600


def started_again(*, an_hour_later: bool) -> Driver:
    """Return the smallest case after the notice at 0 s; its daemon knows what the store keeps."""
    drive = one_node()
    if an_hour_later:
        drive.cycle(HOUR_S)
        drive.memory = Memory()
    at_s = HOUR_S if an_hour_later else 0
    actions = drive.cycle(at_s)
    assert notice() in actions
    drive.obeys(*actions)
    drive.memory = replace(drive.memory, answers=None, seen_at=None)
    return drive


def test_a_grace_period_ends_though_the_clock_was_set_back_by_an_hour() -> None:
    drive = started_again(an_hour_later=True)
    assert requeue() not in drive.cycle(1)
    assert requeue() not in drive.cycle(29), "it is not known how long the daemon was away"
    assert requeue() in drive.cycle(31)


def test_undo_ends_though_the_clock_was_set_back_by_an_hour() -> None:
    drive = started_again(an_hour_later=True)
    drive.memory, drive.decision = undo(drive.memory, drive.snapshot(1), drive.limits)
    drive.obeys(*drive.decision.actions)
    drive.memory, _ = undo(drive.memory, drive.snapshot(20), drive.limits)
    assert changed_still(drive.memory, drive.snapshot(20)) == 0


def test_a_process_that_goes_on_leaves_the_times_to_the_loop() -> None:
    drive = started_again(an_hour_later=False)
    drive.cycle(1)
    before = drive.memory.orders[drive.order().order_id].victims[0].noticed_at
    drive.cycle(-5)
    assert drive.victim().noticed_at == before


@pytest.mark.parametrize(
    ("ahead_s", "by_s"), [(HOUR_S, HOUR_S), (JUMP_S + 1, JUMP_S + 1), (JUMP_S, 0.0), (-HOUR_S, 0.0)]
)
def test_a_memory_is_as_much_earlier_as_it_is_ahead(ahead_s: float, by_s: float) -> None:
    one = JobMemory(last_preempted=NOW + ahead_s, retry_at=NOW + 9000)
    found = with_none_ahead(Memory(jobs={JobId(BE): one}), NOW).job(JobId(BE))
    assert (found.last_preempted, found.retry_at) == (NOW + ahead_s - by_s, NOW + 9000 - by_s)


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
def test_a_hold_that_the_hook_alone_has_set_has_no_time_to_shift(by_s: float) -> None:
    one = first_change(JobId(TE), Field.HOLD, FREE, HELD, NOW)
    known = {JobId(TE): replace(one, at=NEVER), JobId(BE): replace(one, job_id=JobId(BE))}
    found = shift_times(Memory(changes={Field.HOLD: known}), by_s).changes_of(Field.HOLD)
    assert {job_id: one.at for job_id, one in found.items()} == {TE: NEVER, BE: NOW + by_s}


def test_a_memory_of_nothing_is_left() -> None:
    bare = Memory(jobs={JobId(TE): JobMemory(retry_at=NOW + 9000)})
    assert with_none_ahead(bare, NOW) is bare
