"""guard.lever = "plugin": which jobs are marked for Slurm's plugin, and what is made of what Slurm did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import FailureKind, MarkLine, SetMarks, Status
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import OrderState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo
from tesched_core.step import step

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import Driver

SMALL, LARGE, TE = 1, 2, 9


def site(**limits: Any) -> Driver:
    """Return two nodes with a small job and a large one."""
    jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n2", 32), user="bob")]
    return ordinary(Driver([node("n1"), node("n2")], jobs, limits=Limits(lever=YieldBy.PLUGIN, **limits)))


def ordinary(drive: Driver) -> Driver:
    """Return the cluster in which no job has declared a signal."""
    traits = {job_id: replace(one, notice_signal="") for job_id, one in drive.start.traits.items()}
    drive.start = drive.start.with_traits(traits)
    return drive


def marks(actions: tuple[Any, ...]) -> list[MarkLine]:
    """Return the lines of the file that is written, the first victim first."""
    (one,) = (action for action in actions if isinstance(action, SetMarks))
    return sorted(one.marks, key=lambda line: line.order)


def written(drive: Driver, at_s: float) -> list[int]:
    """Return the jobs that are marked in this cycle, first victim first; the file is written."""
    lines = marks(drive.cycle(at_s))
    drive.says(Status.SENT, *drive.decision.actions)
    return [line.job_id for line in lines]


def test_the_smallest_is_first_and_a_mark_is_for_one_run() -> None:
    drive = site()
    first, second = marks(drive.cycle(0))
    assert (first.job_id, second.job_id) == (SMALL, LARGE)
    assert (first.max_restarts, first.least_run_s) == (1, 60)
    assert first.after < drive.decision.at < first.until == drive.decision.at + 900


def test_it_is_written_when_it_changes_and_when_half_of_its_time_has_passed() -> None:
    drive = site()
    assert written(drive, 0) == [SMALL, LARGE]
    assert drive.cycle(2) == ()
    drive.ends(LARGE)
    assert written(drive, 4) == [SMALL]
    assert drive.cycle(400) == ()
    assert written(drive, 460) == [SMALL], "it is renewed"


def test_no_more_are_marked_than_the_limits_would_bear() -> None:
    assert written(site(max_preemptions_per_hour=1), 0) == [SMALL]
    assert site(max_preemptions_per_user_hour=0).cycle(0) == ()
    assert written(site(protected_users=("bob",)), 0) == [SMALL]
    assert site(max_lost_node_hours_per_day=0).cycle(0) == ()


def test_a_job_that_has_declared_a_signal_is_not_marked() -> None:
    drive = site()
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(SMALL): replace(traits[JobId(SMALL)], notice_signal="USR1")})
    assert written(drive, 0) == [LARGE]


@pytest.mark.parametrize("kind", [FailureKind.BUSY, FailureKind.REFUSED])
def test_a_file_that_was_not_written_is_written_at_the_next_poll(kind: FailureKind) -> None:
    drive = site()
    drive.says(Status.FAILED, *drive.cycle(0), kind=kind)
    assert written(drive, 2) == [SMALL, LARGE]


def test_a_pause_and_undo_take_all_marks_away() -> None:
    drive = site()
    written(drive, 0)
    _, decision = step(drive.memory, drive.snapshot(2), drive.entries(), drive.limits, paused="maintenance")
    assert marks(decision.actions) == []
    drive.memory, decision = undo(drive.memory, drive.snapshot(2), drive.limits)
    assert marks(decision.actions) == []
    assert changed_still(drive.memory, drive.snapshot(2)) > 0
    drive.says(Status.SENT, *decision.actions)
    assert changed_still(drive.memory, drive.snapshot(2)) == 0


def test_shadow_mode_leaves_nothing_to_undo() -> None:
    drive = site()
    drive.says(Status.WOULD, *drive.cycle(0))
    assert drive.cycle(2) == (), "it is recorded once"
    assert changed_still(drive.memory, drive.snapshot(2)) == 0
    drive.memory = drive.memory.without_dry_runs()
    assert written(drive, 4) == [SMALL, LARGE], "in mode enforce it is still to be done"


class TestWhatSlurmDid:
    """A marked job is back in the queue."""

    def site(self) -> Driver:
        jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n2", 32), user="bob"), waiting(TE, cpus=8)]
        drive = ordinary(Driver([node("n1"), node("n2")], jobs, limits=Limits(lever=YieldBy.PLUGIN)))
        written(drive, 0)
        return drive

    def back(self, drive: Driver, at_s: float) -> None:
        drive.requeued(SMALL)
        drive.change(SMALL, submit_time=drive.snapshot(at_s).taken_at)

    def test_a_te_job_in_its_place_makes_it_a_victim_that_pays_once(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        drive.starts(TE, share("n1", 8), at_s=11)
        drive.cycle(12)
        (order,) = drive.memory.open_orders()
        (victim,) = order.victims
        assert (order.preemptor, order.state, victim.job_id) == (TE, OrderState.SETTLING, SMALL)
        assert "Slurm preempted it" in victim.why
        assert drive.memory.preemptions == {SMALL: 1}
        assert len(drive.memory.paid) == 1
        drive.says(Status.SENT, *drive.decision.actions)
        drive.cycle(14)
        assert len(drive.memory.orders) == 1, "it is seen once"

    def test_the_te_job_may_be_seen_a_while_later(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        assert written(drive, 12) == [LARGE]
        drive.starts(TE, share("n1", 8), at_s=13)
        drive.cycle(14)
        assert drive.memory.preemptions == {SMALL: 1}

    def test_one_that_others_have_put_back_has_paid_nothing(self) -> None:
        drive = self.site()
        self.back(drive, 10)
        written(drive, 12)
        drive.cycle(100)
        assert (drive.memory.preemptions, drive.memory.open_orders()) == ({}, ())
        assert set(drive.memory.changes_of("mark")) == {LARGE}
