"""A victim that has left does not start again while another one of its order holds its nodes: its begin time is later.

Everywhere: job 1 and job 2 hold half of n1 each, job 9 wants all of it. Both have had their notice at 0 s, with a grace
period of 600 s; KillWait is 30 s. Job 1 has left at 5 s, and Slurm lets it start again from 126 s on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.context import CycleContext
from tesched_core.fields.begin_time import BEGIN_TIME_RULE
from tesched_core.model.actions import Action, FailureKind, Status, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, OrderState
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver

OTHER, OTHER_HALF = 2, share("n1", 16)
#: seconds: when job 1 may start again by Slurm, when that comes within half a step of 60 s, and one step after that
OWN, SOON, UNTIL = 126, 96, 156


def one_has_left() -> Driver:
    """Return the case right after job 1 has been seen to have left."""
    graces: dict[int, float] = {BE: 600, OTHER: 600}
    drive = Driver([node("n1")], [running(BE, HALF), running(OTHER, OTHER_HALF), waiting(TE, cpus=32)], graces=graces)
    drive.obeys(*[one for one in drive.cycle(0) if one.job_id == TE])
    drive.requeued(BE)
    drive.change(BE, eligible_time=NOW + OWN)
    assert begins(drive.cycle(5)) == []
    return drive


def deferred() -> Driver:
    """Return the case right after job 1's begin time was put later, and that is seen."""
    drive = one_has_left()
    drive.obeys(*drive.cycle(SOON))
    assert begins(drive.cycle(SOON + 1)) == []
    return drive


def begins(actions: tuple[Action, ...]) -> list[tuple[int, int, int]]:
    """Return the job, the new begin time and the one before, of each change, in seconds."""
    return [
        (one.job_id, value - int(NOW), previous - int(NOW))
        for one in actions
        if sets(one, Field.BEGIN)
        if isinstance(value := one.value, int) and isinstance(previous := one.previous, int)
    ]


def changes(drive: Driver) -> dict[JobId, Change[int]]:
    return dict(drive.memory.changes_of(Field.BEGIN))


def test_its_begin_time_is_put_later_when_it_is_about_to_come() -> None:
    drive = one_has_left()
    assert begins(drive.cycle(SOON - 1)) == []
    assert begins(drive.cycle(SOON)) == [(BE, UNTIL, OWN)]
    assert (changes(drive)[JobId(BE)].previous, changes(drive)[JobId(BE)].value) == (NOW + OWN, NOW + UNTIL)


def test_nothing_is_changed_where_all_have_left() -> None:
    drive = one_has_left()
    drive.requeued(OTHER)
    assert begins(drive.cycle(SOON)) == []


@pytest.mark.parametrize("change", [{"priority": 0}, {"eligible_time": None}])
def test_one_that_would_not_start_by_itself_is_left_alone(change: dict[str, int | None]) -> None:
    drive = one_has_left()
    drive.change(BE, **change)  # type: ignore[arg-type]
    assert begins(drive.cycle(SOON)) == []


@pytest.mark.parametrize(("at_s", "begin"), [(SOON + 5, OWN), (127, 127)])
def test_once_the_te_job_waits_no_more_it_may_start_when_it_could_have_or_now(at_s: int, begin: int) -> None:
    drive = deferred()
    drive.requeued(OTHER)
    assert begins(drive.cycle(SOON + 4)) == [], "the TE job has not started"
    drive.starts(TE, share("n1", 32), at_s=at_s)
    actions = drive.cycle(at_s)
    assert begins(actions) == [(BE, begin, UNTIL)]
    assert changes(drive), "it is believed when it is seen"
    drive.obeys(*actions)
    assert begins(drive.cycle(at_s + 1)) == []
    assert changes(drive) == {}


def test_it_is_put_later_step_by_step_when_less_than_half_a_step_is_left() -> None:
    drive, until = deferred(), UNTIL
    for _ in range(5):
        assert begins(drive.cycle(until - 31)) == []
        actions = drive.cycle(until - 30)
        assert begins(actions) == [(BE, until + 30, until)]
        drive.obeys(*actions)
        until += 30


@pytest.mark.parametrize(("longest_wait_s", "soon", "until"), [(10, 96, 156), (30, 81, 171), (50, 61, 191)])
def test_half_a_step_outlasts_the_longest_time_between_two_polls(longest_wait_s: int, soon: int, until: int) -> None:
    drive = one_has_left()
    drive.longest_wait_s = longest_wait_s
    assert begins(drive.cycle(soon - 1)) == []
    assert begins(drive.cycle(soon)) == [(BE, until, OWN)]


def test_an_order_that_goes_on_for_longer_keeps_it_away_step_by_step() -> None:
    drive = deferred()
    drive.completing(OTHER, JobState.FAILED)
    assert begins(drive.cycle(UNTIL - 31)) == []
    actions = drive.cycle(UNTIL - 30)
    assert begins(actions) == [(BE, UNTIL + 30, UNTIL)]
    drive.obeys(*actions)
    drive.ends(TE, JobState.CANCELLED)
    assert begins(drive.cycle(UNTIL - 29)) == [(BE, UNTIL - 29, UNTIL + 30)]


@pytest.mark.parametrize("set_to", [SOON + 2, 5000])
def test_a_begin_time_that_others_have_set_is_left(set_to: int) -> None:
    drive = deferred()
    drive.change(BE, eligible_time=NOW + set_to)
    assert begins(drive.cycle(SOON + 3)) == []
    drive.ends(TE, JobState.CANCELLED)
    assert begins(drive.cycle(SOON + 9)) == []
    assert changes(drive) == {}


def test_one_that_runs_again_is_forgotten() -> None:
    drive = deferred()
    drive.starts(BE, HALF, at_s=SOON + 2)
    assert begins(drive.cycle(SOON + 3)) == []
    assert changes(drive) == {}


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BUSY])
def test_a_command_that_did_not_arrive_is_sent_again_after_a_while(kind: FailureKind) -> None:
    drive = one_has_left()
    actions = drive.cycle(SOON)
    drive.says(Status.FAILED, *actions, kind=kind)
    assert drive.moves()
    assert begins(drive.cycle(SOON + 5)) == [], "it may have arrived, or Slurm is too busy"
    assert begins(drive.cycle(SOON + 6)) == [(BE, UNTIL + 6, OWN)]
    drive.says(Status.FAILED, *drive.decision.actions, kind=kind)
    assert begins(drive.cycle(SOON + 11)) == []
    assert drive.moves() == [], "that it stays away is said once"
    drive.requeued(OTHER)
    assert begins(drive.cycle(SOON + 12)) == [], "the other one has left, and nothing is in place"
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(SOON + 13)
    assert changes(drive) == {}, "nothing is to be put back"


def test_a_command_that_may_yet_arrive_is_not_forgotten_when_the_order_ends() -> None:
    drive = one_has_left()
    actions = drive.cycle(SOON)
    drive.says(Status.FAILED, *actions, kind=FailureKind.UNREACHABLE)
    drive.ends(TE, JobState.CANCELLED)
    assert begins(drive.cycle(SOON + 1)) == []
    drive.obeys(*actions)
    assert begins(drive.cycle(SOON + 2)) == [(BE, OWN, UNTIL)]


def test_a_site_that_refuses_it_keeps_its_order() -> None:
    drive = one_has_left()
    drive.says(Status.FAILED, *drive.cycle(SOON), kind=FailureKind.REFUSED)
    assert changes(drive) == {}
    assert begins(drive.cycle(SOON + 10)) == []
    assert drive.order().state is OrderState.OPEN
    assert Field.BEGIN in drive.memory.refused


def test_in_shadow_mode_nothing_is_to_be_put_back() -> None:
    drive = one_has_left()
    drive.says(Status.WOULD, *[one for one in drive.cycle(SOON) if sets(one, Field.BEGIN)])
    assert changes(drive) == {}


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BUSY])
def test_a_later_one_that_was_not_taken_leaves_the_earlier_one_to_be_put_back(kind: FailureKind) -> None:
    drive = deferred()
    actions = drive.cycle(UNTIL - 30)
    drive.says(Status.FAILED, *[one for one in actions if sets(one, Field.BEGIN)], kind=kind)
    assert begins(drive.cycle(UNTIL - 30)) == []
    drive.ends(TE, JobState.CANCELLED)
    assert begins(drive.cycle(UNTIL - 29)) == [(BE, UNTIL - 29, UNTIL)]


def test_one_that_an_answer_does_not_show_is_kept_in_mind() -> None:
    drive = deferred()
    shown = drive.jobs[JobId(BE)]
    drive.forgets(BE)
    drive.ends(TE, JobState.CANCELLED)
    assert begins(drive.cycle(SOON + 2)) == []
    drive.jobs[JobId(BE)] = shown
    assert begins(drive.cycle(SOON + 3)) == [(BE, OWN, UNTIL)]


def test_undo_puts_it_back_and_counts_it_until_that_is_seen() -> None:
    drive = deferred()
    drive.memory, decision = undo(drive.memory, drive.snapshot(SOON + 2), drive.limits)
    assert begins(decision.actions) == [(BE, OWN, UNTIL)]
    assert BEGIN_TIME_RULE.outstanding(drive.memory, drive.snapshot(SOON + 2)) == 1
    drive.obeys(*decision.actions)
    drive.memory, decision = undo(drive.memory, drive.snapshot(SOON + 3), drive.limits)
    assert begins(decision.actions) == []
    assert BEGIN_TIME_RULE.outstanding(drive.memory, drive.snapshot(SOON + 3)) == 0
    assert drive.order().ending is Ending.WITHDRAWN


def test_the_job_for_which_the_others_leave_is_not_kept_away() -> None:
    """In a round a job may leave its nodes for others, which further victims are yet to leave."""
    drive = one_has_left()
    snapshot = drive.snapshot(SOON)
    orders = {drive.order().order_id: replace(drive.order(), preemptor=JobId(BE))}
    context = CycleContext.of(replace(drive.memory, orders=orders), snapshot, columns_of(snapshot), drive.limits)
    context.preemptors = {JobId(BE)}
    BEGIN_TIME_RULE.carry_out((), orders, context)
    assert context.actions == []
