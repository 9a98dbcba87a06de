"""Notifications of victims' users, and when: once for each preemption, after all else, and never in place of it.

Everywhere: job 1 holds the only node, job 9 wants half of it, as in `test_victim`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, FailureKind, Record, Rerun, Status, TellUser
from tesched_core.model.cluster import JobState
from tesched_core.model.limits import Limits
from tesched_core.model.order import Departure, VictimState
from tesched_core.orders.tell_users import MOST_NOTES, Telling, is_note, note, tell_users
from tesched_core.orders.undo import changed_still, undo
from tesched_core.step import step

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, one_node

HOW = Telling(record=Record.ADMIN_COMMENT, by_command=True, limits=Limits(max_preemptions_per_job=1))


def cycle(drive: Driver, at_s: float, how: Telling | None = HOW) -> tuple[Action, ...]:
    """Poll at this time; return what is to be done."""
    drive.memory, drive.decision = step(drive.memory, drive.snapshot(at_s), drive.entries(), drive.limits, telling=how)
    return drive.decision.actions


def tells(actions: tuple[Action, ...]) -> list[TellUser]:
    return [action for action in actions if isinstance(action, TellUser)]


def requeued_at_once() -> Driver:
    """Return the case after a victim without a grace period was requeued at 0 s."""
    drive = one_node(grace_s=0)
    actions = cycle(drive, 0)
    assert not tells(actions)
    drive.obeys(*actions)
    return drive


def test_a_preemption_by_its_own_users_job_is_reported_as_such_and_counts_as_none_of_so_many() -> None:
    drive = one_node(grace_s=0)
    drive.change(BE, user="ada")
    drive.change(TE, user="ada")
    drive.obeys(*cycle(drive, 0))
    (told,) = tells(cycle(drive, 2))
    assert (told.times, told.cause) == (0, "a trial-and-error job of its own user")
    assert note(told, "now") == (
        "tesched: preempted now for a trial-and-error job of its own user; put back in the queue"
    )


def test_the_user_of_a_victim_that_is_back_in_the_queue_is_notified_once_after_all_other_actions() -> None:
    drive = requeued_at_once()
    actions = cycle(drive, 2)
    (told,) = tells(actions)
    assert actions[-1] is told
    assert (told.job_id, told.at, told.times, told.most, told.lost) == (BE, NOW + 2, 1, 1, False)
    assert (told.cause, told.departure, told.record) == (
        "a trial-and-error job",
        "requeued",
        Record.ADMIN_COMMENT,
    )
    assert told.reason.order_id is None
    for at_s in (4, 6):
        assert not tells(cycle(drive, at_s))
    drive.starts(TE, HALF)
    assert not tells(cycle(drive, 8))
    drive.ends(TE)
    drive.starts(BE, share("n1", 32), at_s=10)
    assert not tells(cycle(drive, 10))


def test_the_user_of_a_job_that_runs_again_before_the_next_poll_is_notified_all_the_same() -> None:
    drive = requeued_at_once()
    drive.starts(TE, HALF, at_s=1)
    drive.ends(TE)
    drive.starts(BE, share("n1", 32), at_s=2)
    assert [one.job_id for one in tells(cycle(drive, 3))] == [BE]


@pytest.mark.parametrize("kind", [FailureKind.DENIED, FailureKind.REFUSED, FailureKind.UNREACHABLE])
def test_that_a_note_cannot_be_written_changes_nothing_else(kind: FailureKind) -> None:
    drive = requeued_at_once()
    actions = cycle(drive, 2)
    before = drive.memory
    drive.says(Status.FAILED, *tells(actions), kind=kind)
    assert drive.memory == before
    assert drive.open_orders() == [1]
    assert not tells(cycle(drive, 4))


def test_the_user_of_a_job_that_finishes_or_stays_is_not_notified() -> None:
    for end in (JobState.COMPLETED, JobState.CANCELLED):
        drive = one_node(grace_s=0)
        drive.obeys(*(one for one in cycle(drive, 0) if one.job_id == TE))
        drive.ends(BE, end)
        assert not tells(cycle(drive, 2))


def test_the_user_of_a_victim_that_died_of_its_notice_is_notified_and_once_more_if_it_is_lost() -> None:
    drive = one_node()
    drive.obeys(*cycle(drive, 0))
    drive.ends(BE, JobState.FAILED)
    actions = cycle(drive, 2)
    (told,) = tells(actions)
    assert (told.lost, told.departure) == (False, "died_of_notice")
    drive.says(Status.FAILED, *(one for one in actions if isinstance(one, Rerun)), kind=FailureKind.REFUSED)
    (again,) = tells(cycle(drive, 4))
    assert (again.lost, again.departure, again.times) == (True, "lost", 1)
    assert not tells(cycle(drive, 6))


def test_the_user_of_a_victim_that_slurm_forgot_before_it_was_put_back_is_notified_of_its_loss() -> None:
    drive = one_node()
    drive.obeys(*cycle(drive, 0))
    drive.ends(BE, JobState.FAILED)
    assert [one.lost for one in tells(cycle(drive, 2))] == [False]
    drive.forgets(BE)
    # Missing in one answer is not gone: that is believed after MinJobAge.
    assert not tells(cycle(drive, 4))
    assert [one.lost for one in tells(cycle(drive, 4 + 301))] == [True]


def test_no_user_is_notified_where_nothing_is_configured() -> None:
    for how in (None, Telling()):
        drive = requeued_at_once()
        assert not tells(cycle(drive, 2, how))


def test_shadow_modes_outcome_changes_nothing() -> None:
    drive = requeued_at_once()
    actions = cycle(drive, 2)
    before = drive.memory
    drive.says(Status.WOULD, *tells(actions))
    assert drive.memory == before


def test_undo_notifies_no_user_and_leaves_nothing_to_do_for_a_note() -> None:
    drive = requeued_at_once()
    drive.says(Status.SENT, *tells(cycle(drive, 2)))
    drive.obeys(*(one for one in drive.decision.actions if not isinstance(one, TellUser)))
    for at_s in range(4, 12, 2):
        drive.memory, decision = undo(drive.memory, drive.snapshot(at_s), drive.limits)
        assert not tells(decision.actions)
        drive.obeys(*decision.actions)
    assert changed_still(drive.memory, drive.snapshot(12)) == 0


def test_of_many_victims_in_one_poll_the_first_get_a_note_and_all_go_to_the_command() -> None:
    count = MOST_NOTES + 5
    nodes = [node(f"n{number}") for number in range(1, count + 1)]
    jobs = [running(number, share(f"n{number}", 32)) for number in range(1, count + 1)]
    trials = [waiting(1000 + number, cpus=32) for number in range(1, count + 1)]
    drive = Driver(
        nodes,
        [*jobs, *trials],
        graces={job.job_id: 0.0 for job in jobs},
        limits=Limits(
            max_victims_per_cycle=count,
            max_open_orders=count,
            max_preemptions_per_user_hour=count,
            max_preemptions_per_account_hour=count,
            max_victims_for_te_user_hour=count,
            max_victims_for_te_account_hour=count,
        ),
    )
    drive.obeys(*cycle(drive, 0))
    told = tells(cycle(drive, 2))
    assert len(told) == count
    assert [one.record for one in told].count(Record.ADMIN_COMMENT) == MOST_NOTES
    without = tell_users(drive.memory, drive.memory, drive.snapshot(4), HOW)
    assert without == ()


def test_the_note_is_one_line_that_is_known_again() -> None:
    drive = requeued_at_once()
    (told,) = tells(cycle(drive, 2))
    text = note(told, "2026-11-22T14:03")
    assert text == ("tesched: preempted 2026-11-22T14:03 for a trial-and-error job; put back in the queue; 1 of 1")
    assert is_note(text)
    assert is_note(note(replace(told, lost=True, times=2, most=3), "2026-11-22T14:03"))
    for other in ("", "the site's own", "see tesched: preempted", f"{text}\nmore", "tesched:yield=5"):
        assert not is_note(other)


def test_a_second_run_that_was_over_within_a_second_was_a_run() -> None:
    drive = requeued_at_once()
    assert len(tells(cycle(drive, 2))) == 1
    # Slurm's times are whole seconds.
    drive.change(BE, state=JobState.COMPLETED, start_time=NOW + 3, end_time=NOW + 3)
    cycle(drive, 4)
    assert drive.victim().state is VictimState.BACK
    assert drive.victim().departure is Departure.REQUEUED


@pytest.mark.parametrize(
    ("release", "record"),
    [
        ("22.05.8", Record.ADMIN_COMMENT),
        ("23.11.1", Record.EXTRA),
        ("26.05.5", Record.EXTRA),
        ("", Record.ADMIN_COMMENT),
    ],
)
def test_the_note_goes_where_an_operator_may_write_it(release: str, record: Record) -> None:
    drive = requeued_at_once()
    drive.release = release
    how = replace(HOW, record=Record.AUTO)
    drive.memory, drive.decision = step(drive.memory, drive.snapshot(2), drive.entries(), drive.limits, telling=how)
    (told,) = tells(drive.decision.actions)
    assert told.record is record
