"""A victim whose owner has said `preempted=end` ends when it is preempted, and does not run again; no other one does.

Job 1 holds the only node, with a notice of 30 s; the trial 9 wants half of it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.budget import CountedBy, Tally
from tesched_core.model.actions import (
    Action,
    Cancel,
    FailureKind,
    Notify,
    Record,
    Requeue,
    Rerun,
    SetMarks,
    Status,
    Suspend,
)
from tesched_core.model.cluster import JobState
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.notice import ExitZero
from tesched_core.model.order import Departure, OrderState, Purpose, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.departures import to_end
from tesched_core.orders.tell_users import Telling
from tesched_core.step import step

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, notice, requeue, requeue_at_once

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
END = "preempted=end"


def busy(comment: str = END, *, grace_s: float = 30.0, limits: Limits = LIMITS, signal: str = "USR1") -> Driver:
    jobs = [running(BE, share("n1", 32), comment=comment, user="ada"), waiting(TE, cpus=16, user="bob")]
    drive = Driver([node("n1")], jobs, graces={BE: grace_s}, limits=limits)
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits({**traits, JobId(BE): replace(traits[JobId(BE)], notice_signal=signal)})
    return drive


def of_the_victim(actions: tuple[Action, ...]) -> list[type[Action]]:
    return [type(one) for one in actions if isinstance(one, Notify | Requeue | Cancel | Rerun | Suspend)]


def asked(drive: Driver) -> None:
    """Let the cycles pass until its grace period is over."""
    assert notice() in drive.cycle(0)
    drive.obeys(*drive.decision.actions)


def test_it_has_its_notice_and_its_grace_period_and_is_cancelled_then() -> None:
    drive = busy()
    asked(drive)
    assert of_the_victim(drive.cycle(29)) == []
    (cancel,) = (one for one in drive.cycle(30) if isinstance(one, Cancel))
    assert (cancel.job_id, cancel.restarts) == (BE, 0)
    assert "cancelled, as its owner has said" in drive.decision.transitions[-1].text
    drive.completing(BE, JobState.CANCELLED)
    assert of_the_victim(drive.cycle(31)) == []
    drive.ends(BE, JobState.CANCELLED)
    drive.starts(TE, HALF, at_s=32)
    drive.cycle(33)
    victim = drive.victim()
    assert (victim.state, victim.departure, victim.awaited) == (VictimState.LEFT, Departure.ENDED, False)
    drive.obeys(*drive.decision.actions)
    drive.cycle(34)
    assert drive.order().state is OrderState.ENDED, "nothing is awaited of it"
    tally = Tally.of(drive.memory.paid, (), drive.snapshot(34).taken_at)
    assert (tally.counts[CountedBy.ALL, ""], tally.counts[CountedBy.USER, "ada"]) == (1, 1)
    assert tally.node_s > 0, "it counts in the hour and in the day's budget as any other victim"


def test_without_a_notice_it_is_cancelled_at_once() -> None:
    drive = busy(signal="")
    assert of_the_victim(drive.cycle(0)) == [Cancel]


@pytest.mark.parametrize(
    "comment", ["", "be end", "preempted=End", "preempted=end preempted=requeue", "preempted=kill"]
)
def test_by_any_other_word_it_is_requeued(comment: str) -> None:
    drive = busy(comment)
    asked(drive)
    assert drive.cycle(30) == (requeue(),)
    assert requeue_at_once() in busy(comment, grace_s=0).cycle(0)


def test_a_word_that_is_taken_back_counts_no_more_at_once() -> None:
    drive = busy()
    asked(drive)
    drive.change(BE, comment="")
    assert drive.cycle(30) == (requeue(),)
    # Also after it was to end, if that did not reach it.
    late = busy()
    asked(late)
    assert of_the_victim(late.cycle(30)) == [Cancel]
    late.says(Status.SKIPPED, *(one for one in late.decision.actions if isinstance(one, Cancel)))
    late.change(BE, comment="preempted=requeue")
    assert late.cycle(31) == (requeue(),)


@pytest.mark.parametrize(
    ("state", "comment", "departure"),
    [
        (JobState.FAILED, "", Departure.DIED_OF_NOTICE),
        (JobState.COMPLETED, "preempted=requeue", Departure.SAVED),
        (JobState.FAILED, END, Departure.ENDED),
        (JobState.COMPLETED, END, Departure.ENDED),
    ],
)
def test_a_word_taken_back_counts_when_the_run_ends_by_itself_before_a_cancel_has_arrived(
    state: JobState, comment: str, departure: Departure
) -> None:
    drive = busy()
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits({**traits, JobId(BE): replace(traits[JobId(BE)], exit0=ExitZero.AGAIN)})
    asked(drive)
    assert of_the_victim(drive.cycle(30)) == [Cancel]
    drive.change(BE, comment=comment, reason="NonZeroExitCode")
    drive.ends(BE, state)
    runs_again = departure is not Departure.ENDED
    assert of_the_victim(drive.cycle(31)) == ([Rerun] if runs_again else [])
    assert (drive.victim().departure, drive.victim().awaited) == (departure, runs_again)


def test_a_word_that_is_said_before_it_has_to_leave_counts_too() -> None:
    drive = busy("")
    asked(drive)
    drive.change(BE, comment=END)
    assert of_the_victim(drive.cycle(30)) == [Cancel]


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.COMPLETED])
def test_one_that_ends_of_its_notice_is_not_put_back(state: JobState) -> None:
    drive = busy()
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits({**traits, JobId(BE): replace(traits[JobId(BE)], exit0=ExitZero.AGAIN)})
    asked(drive)
    drive.change(BE, reason="NonZeroExitCode")
    drive.completing(BE, state)
    assert of_the_victim(drive.cycle(5)) == [], "nor early"
    drive.ends(BE, state)
    assert of_the_victim(drive.cycle(6)) == []
    assert drive.victim().departure is Departure.ENDED


def test_one_that_another_hand_cancels_has_died() -> None:
    drive = busy()
    asked(drive)
    drive.ends(BE, JobState.CANCELLED)
    drive.cycle(6)
    assert drive.victim().departure is Departure.DIED


def test_one_that_puts_itself_back_runs_again() -> None:
    drive = busy()
    asked(drive)
    drive.requeued(BE)
    assert of_the_victim(drive.cycle(6)) == []
    assert (drive.victim().departure, drive.victim().awaited) == (Departure.REQUEUED_ITSELF, True)


def test_one_that_is_not_needed_any_more_goes_on() -> None:
    drive = busy()
    asked(drive)
    drive.ends(TE, JobState.CANCELLED)
    for at_s in (5, 31):
        assert of_the_victim(drive.cycle(at_s)) == []
    assert drive.victim().state is VictimState.SPARED


def test_one_that_is_suspended_goes_on() -> None:
    drive = busy(limits=replace(LIMITS, lever=YieldBy.AUTO))
    assert of_the_victim(drive.cycle(0)) == [Suspend]


def test_what_slurm_refuses_lets_it_go() -> None:
    drive = busy()
    asked(drive)
    cancels = [one for one in drive.cycle(30) if isinstance(one, Cancel)]
    drive.says(Status.FAILED, *cancels, kind=FailureKind.DENIED)
    assert drive.victim().state is VictimState.SPARED


@pytest.mark.parametrize(("by_command", "told"), [(True, [("ended", Record.NONE)]), (False, [])])
def test_its_user_is_notified_by_the_sites_command(by_command: bool, told: list[tuple[str, Record]]) -> None:
    drive = busy(signal="")
    drive.obeys(*drive.cycle(0))
    drive.ends(BE, JobState.CANCELLED)
    telling = Telling(record=Record.ADMIN_COMMENT, by_command=by_command)
    _, decision = step(drive.memory, drive.snapshot(2), drive.entries(), drive.limits, telling=telling)
    tells = [one for one in decision.actions if type(one).__name__ == "TellUser"]
    assert [(one.departure, one.record) for one in tells] == told  # type: ignore[union-attr]


def test_one_that_leaves_for_another_jobs_turn_runs_again() -> None:
    drive = busy()
    drive.cycle(0)
    victim = drive.victim()
    assert (victim.ends, to_end(replace(victim, purpose=Purpose.ROUND), drive.jobs[JobId(BE)]).ends) == (True, False)


def test_what_slurm_preempts_by_its_mark_it_puts_back_itself() -> None:
    drive = busy(signal="", limits=replace(LIMITS, lever=YieldBy.PLUGIN))
    (marks,) = (one for one in drive.cycle(0) if isinstance(one, SetMarks))
    assert [line.job_id for line in marks.marks] == [BE], "the word is no way to be no victim"
    drive.says(Status.SENT, marks)
    drive.requeued(BE)
    drive.change(BE, submit_time=drive.snapshot(1).taken_at)
    drive.starts(TE, HALF, at_s=1)
    assert of_the_victim(drive.cycle(2)) == []
    assert drive.victim().departure is Departure.REQUEUED
