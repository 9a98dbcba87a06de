"""A hold of an operator's between a poll and tesched's own command: it stays, and stays that operator's."""

from __future__ import annotations

import pytest
from tesched_core.fields.hold import HOLD_RULE
from tesched_core.model.actions import Action, FailureKind, Status, kind_of
from tesched_core.model.limits import Limits
from tesched_core.orders.undo import undo

from tests.builders import remembered
from tests.scenarios.driver import TE, Driver
from tests.scenarios.test_held_by_hook import BE_WAITS, TOO_LONG_S, held, of, past, site
from tests.scenarios.test_let_through import SECOND, trial
from tests.scenarios.test_let_through import site as with_limit

NOT_SENT = [
    (Status.FAILED, FailureKind.ALREADY_DONE),
    (Status.FAILED, FailureKind.REFUSED),
    (Status.FAILED, FailureKind.DENIED),
    (Status.FAILED, FailureKind.BUSY),
    (Status.SKIPPED, None),
]


def is_held_by_an_operator(drive: Driver, job_id: int) -> None:
    drive.change(job_id, priority=0, reason="JobHeldAdmin")


def the_hold(actions: tuple[Action, ...]) -> Action:
    (one,) = [action for action in actions if kind_of(action) == "hold"]
    return one


def limited() -> tuple[Driver, Action]:
    """Return a TE job that is to be held for its user's limit, and the hold that is not yet sent."""
    drive = with_limit()
    drive.submits(trial(SECOND + 1), like=SECOND)
    return drive, the_hold(drive.cycle(11))


def is_wanted_no_more(drive: Driver) -> None:
    """Lift all limits."""
    drive.limits = Limits(max_preemptions_per_job=0)


@pytest.mark.parametrize(("status", "kind"), NOT_SENT)
def test_where_tescheds_own_hold_was_not_sent_the_operators_is_left(status: Status, kind: FailureKind | None) -> None:
    drive, hold = limited()
    drive.says(status, hold, kind=kind)
    is_held_by_an_operator(drive, hold.job_id)
    is_wanted_no_more(drive)
    assert of(hold.job_id, undo(drive.memory, drive.snapshot(12), drive.limits)[1].actions) == []
    assert of(hold.job_id, drive.cycle(12)) == []
    assert HOLD_RULE.outstanding(drive.memory, drive.snapshot(12)) == 1  # the other one's
    assert of(hold.job_id, drive.cycle(40)) == []


def test_it_is_left_for_as_long_as_the_job_must_wait_too() -> None:
    drive, hold = limited()
    drive.says(Status.FAILED, hold, kind=FailureKind.ALREADY_DONE)
    is_held_by_an_operator(drive, hold.job_id)
    for at_s in (12, 20, 40):
        assert of(hold.job_id, drive.cycle(at_s)) == []
    is_wanted_no_more(drive)
    assert of(hold.job_id, drive.cycle(41)) == []


def test_one_that_was_not_sent_is_sent_at_the_next_poll() -> None:
    drive, hold = limited()
    drive.says(Status.SKIPPED, hold)
    assert of(hold.job_id, drive.cycle(12)) == ["hold"]


def test_a_hold_without_an_answer_may_be_tescheds_and_is_ended() -> None:
    drive, hold = limited()
    drive.says(Status.FAILED, hold, kind=FailureKind.UNREACHABLE)
    is_held_by_an_operator(drive, hold.job_id)
    is_wanted_no_more(drive)
    assert of(hold.job_id, drive.cycle(12)) == ["release"]


def hooked() -> tuple[Driver, Action]:
    """Return a TE job that the submission hook holds, and the operator's hold that tesched is about to send."""
    drive = site(held(TE), delayed_s=TOO_LONG_S)
    return drive, the_hold(drive.cycle(0))


def is_admitted(drive: Driver) -> None:
    drive.forgets(BE_WAITS)


def test_an_operators_hold_of_a_job_that_the_hook_holds_is_left_too() -> None:
    drive, hold = hooked()
    drive.says(Status.FAILED, hold, kind=FailureKind.ALREADY_DONE)
    is_held_by_an_operator(drive, TE)
    for at_s in (1, 20, 40):
        assert of(TE, drive.cycle(at_s)) == []
    is_admitted(drive)
    assert of(TE, drive.cycle(41)) == []
    assert of(TE, undo(drive.memory, drive.snapshot(42), drive.limits)[1].actions) == []
    # Once that operator lets it go on, it is a job as any.
    drive.change(TE, priority=100, reason="Resources", admin_comment="")
    assert of(TE, drive.cycle(43)) == []
    assert HOLD_RULE.outstanding(drive.memory, drive.snapshot(43)) == 0


@pytest.mark.parametrize(("status", "kind"), NOT_SENT[1:])
def test_the_hooks_own_hold_is_ended_where_tescheds_was_not_sent(status: Status, kind: FailureKind | None) -> None:
    drive, hold = hooked()
    drive.says(status, hold, kind=kind)
    is_admitted(drive)
    # What Slurm has refused of this user is tried again after a while.
    assert "release" in [kind for at_s in (1, 100, 1000, 10_000) for kind in of(TE, drive.cycle(at_s))]


def test_where_the_mark_stays_an_operators_hold_after_one_that_was_not_sent_is_left() -> None:
    drive = site(held(TE))
    drive.obeys(*(action for action in drive.cycle(0) if action.job_id == TE))
    drive.cycle(1)  # its mark stays: Slurm lets no operator remove it
    drive.memory = remembered(drive.memory, BE_WAITS, past=past(TOO_LONG_S))
    drive.says(Status.SKIPPED, the_hold(drive.cycle(3)))
    is_held_by_an_operator(drive, TE)
    is_admitted(drive)
    for at_s in (4, 40):
        assert of(TE, drive.cycle(at_s)) == []


def test_a_second_command_may_find_the_hold_of_the_first_which_got_no_answer() -> None:
    drive, hold = hooked()
    drive.says(Status.FAILED, hold, kind=FailureKind.UNREACHABLE)
    again = the_hold(drive.cycle(20))
    drive.says(Status.FAILED, again, kind=FailureKind.ALREADY_DONE)
    is_held_by_an_operator(drive, TE)
    is_admitted(drive)
    assert of(TE, drive.cycle(21)) == ["release"]


def test_a_hold_without_an_answer_is_awaited_and_not_sent_again_at_once() -> None:
    drive, hold = limited()
    drive.says(Status.FAILED, hold, kind=FailureKind.UNREACHABLE)
    assert of(hold.job_id, drive.cycle(12)) == []
    is_held_by_an_operator(drive, hold.job_id)  # it has arrived
    is_wanted_no_more(drive)
    assert of(hold.job_id, drive.cycle(13)) == ["release"]


def test_where_it_got_no_answer_and_its_user_holds_the_job_it_is_not_held_anew() -> None:
    drive, hold = limited()
    drive.says(Status.FAILED, hold, kind=FailureKind.UNREACHABLE)
    drive.change(hold.job_id, priority=0, reason="JobHeldUser")
    for at_s in (12, 60):
        assert of(hold.job_id, drive.cycle(at_s)) == []
