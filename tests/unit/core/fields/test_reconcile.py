"""Reconciliation of one field: what is set, sent again, put back and left, by what is wanted, was set and is shown.

The field is a throttle: 0 is the job's own value, 2 was set first, 3 after it, 77 is of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.reconcile import FieldState, Want, state_of, unsent, unwanted, wanted
from tesched_core.fields.throttle import THROTTLE_RULE
from tesched_core.model.actions import Failure, FailureKind, Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.change import Change
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, cluster, node, waiting

ARRAY = JobId(10)
OWN, FIRST, SECOND, OTHERS = 0, 2, 3, 77
LATE = NOW + RESEND_AFTER_S + 1
WHY = Reason(code=ReasonCode.GETS_SHARE, text="its share")


def change(value: int = FIRST, **over: Any) -> Change[int]:
    one = Change(job_id=ARRAY, field=Field.THROTTLE, previous=OWN, value=value, at=NOW, since=NOW)
    return replace(one, **over)


def want(value: int) -> Want[int]:
    return Want(job_id=ARRAY, value=value, why=WHY)


@pytest.mark.parametrize(
    ("one", "shown", "where"),
    [
        (change(), OWN, FieldState.OWN),
        (change(), FIRST, FieldState.IN_PLACE),
        (change(SECOND, before=FIRST), FIRST, FieldState.EARLIER),
        (change(SECOND), FIRST, FieldState.OTHERS),
        (change(), OTHERS, FieldState.OTHERS),
    ],
)
def test_a_field_stands_where_slurm_shows_it(one: Change[int], shown: int, where: FieldState) -> None:
    assert state_of(one, shown) is where


@pytest.mark.parametrize(
    ("one", "shown", "at", "is_kept", "is_put_back"),
    [
        (change(), FIRST, NOW + 1, True, True),
        (change(SECOND, before=FIRST), FIRST, LATE, True, True),
        (change(), OWN, NOW + 1, True, False),  # the command may yet arrive
        (change(), OWN, LATE, False, False),
        (change(taken_at=NOW), OWN, NOW + 1, False, False),  # it was in place, and is back
        (change(OWN), OWN, NOW + 1, False, False),  # refused: nothing was set
        (change(), OTHERS, NOW + 1, False, False),
        (change(dry=True), OWN, NOW + 1, False, False),
        (change(dry=True), FIRST, NOW + 1, False, False),  # others have set what shadow mode would have
        (change(restored=True), FIRST, NOW + 1, False, False),
    ],
)
def test_what_is_not_wanted_any_more(
    one: Change[int], shown: int, at: float, *, is_kept: bool, is_put_back: bool
) -> None:
    after, sent = unwanted(one, state_of(one, shown), at)
    assert (after is not None, sent) == (is_kept, is_put_back)


@pytest.mark.parametrize(
    ("one", "shown", "at", "value", "is_set"),
    [
        (change(), FIRST, LATE, FIRST, False),
        (change(), FIRST, LATE, SECOND, True),
        (change(), OWN, NOW + 1, FIRST, False),  # on its way
        (change(), OWN, LATE, FIRST, True),  # lost
        (change(), OWN, NOW + 1, SECOND, True),  # wanted otherwise meanwhile
        (change(), OWN, NOW + 1, OWN, False),
        (change(dry=True), OWN, LATE, FIRST, False),  # shadow mode says it once
        (change(dry=True), OWN, LATE, SECOND, True),
        (change(restored=True), OTHERS, LATE, FIRST, False),  # left to others
    ],
)
def test_wanted_value_is_set(one: Change[int], shown: int, at: float, value: int, *, is_set: bool) -> None:
    where = state_of(one, shown)
    after = wanted(want(value), one, where, shown, now=at)
    assert (after != one) is is_set
    if is_set:
        assert (after.value, after.at, after.previous) == (value, at, OWN)
        assert after.before == (shown if where.is_ours else None)


def test_a_command_that_was_not_carried_out_leaves_the_value_before_it() -> None:
    assert unsent(change(SECOND, before=FIRST), dry=False).value == FIRST
    assert unsent(change(), dry=False).value == OWN
    assert unsent(change(), dry=True).dry


@dataclass
class Site:
    """One array whose throttle Slurm shows, and a cycle over it."""

    shown: int = OWN
    refused: dict[Field, RefusedChange] = field(default_factory=dict)
    absent: frozenset[JobId] = frozenset()
    changes: Mapping[str, Mapping[JobId, Change[Any]]] = field(default_factory=dict)

    def reconciled(self, *wants: Want[int], at: float = NOW) -> list[tuple[object, object]]:
        """Return what is set in a cycle: the value, and the one before."""
        array = waiting(ARRAY, array_job_id=ARRAY, array_tasks="0-9")
        seen = cluster([node("n1")], [replace(array, array_throttle=self.shown)], exempt=[ARRAY], at=at)
        context = CycleContext.of(Memory(changes=self.changes, refused=self.refused), seen, columns_of(seen), Limits())
        context.absent = self.absent
        THROTTLE_RULE.follow(context)
        THROTTLE_RULE.reconcile({one.job_id: one for one in wants}, context)
        self.changes = context.draft.written(Memory()).changes
        return [(one.value, one.previous) for one in context.actions if isinstance(one, SetField)]

    def learns(self, status: Status, kind: FailureKind | None = None, code: ReasonCode = ReasonCode.GETS_SHARE) -> None:
        """Let this become of the command."""
        seen = cluster([node("n1")], [], at=NOW)
        context = CycleContext.of(Memory(changes=self.changes), seen, columns_of(seen), Limits())
        action = SetField(
            job_id=ARRAY, reason=replace(WHY, code=code), field=Field.THROTTLE, value=FIRST, previous=self.shown
        )
        failure = None if kind is None else Failure(kind=kind, message="no")
        THROTTLE_RULE.learned([Outcome(action=action, status=status, at=NOW, failure=failure)], {}, context)
        self.changes = context.draft.written(Memory()).changes


def test_a_value_is_set_seen_and_put_back() -> None:
    site = Site()
    assert site.reconciled(want(FIRST)) == [(FIRST, OWN)]
    site.shown = FIRST
    assert site.reconciled(want(FIRST), at=NOW + 1) == []
    assert site.reconciled(at=NOW + 2) == site.reconciled(at=NOW + 3) == [(OWN, FIRST)]
    site.shown = OWN
    assert (site.reconciled(at=NOW + 4), site.changes) == ([], {})


def test_what_others_have_set_since_is_the_jobs_own() -> None:
    site = Site()
    site.reconciled(want(FIRST))
    site.shown = OTHERS
    assert site.reconciled(want(FIRST), at=NOW + 1) == [(FIRST, OTHERS)]
    site.shown = FIRST
    assert site.reconciled(at=NOW + 2) == [(OTHERS, FIRST)]


def test_a_job_that_is_not_shown_is_left_alone() -> None:
    site = Site()
    site.reconciled(want(FIRST))
    before = site.changes
    site.absent = frozenset({ARRAY})
    assert (site.reconciled(at=LATE), site.changes) == ([], before)


def test_what_slurm_refuses_is_left_for_a_while_and_put_back_sooner() -> None:
    no = RefusedChange(users=("u1",), everywhere=True, last="u1", count=4, since=NOW - 500, at=NOW, said="no")
    site = Site(refused={Field.THROTTLE: no})
    assert (site.reconciled(want(FIRST), at=NOW + 70), site.changes) == ([], {})
    site = Site(refused={Field.THROTTLE: no}, shown=FIRST, changes={Field.THROTTLE: {ARRAY: change()}})
    assert site.reconciled(at=NOW + 30) == []
    assert site.reconciled(at=NOW + 70) == [(OWN, FIRST)]


@pytest.mark.parametrize(
    ("status", "kind", "is_left"),
    [
        (Status.SENT, None, True),
        (Status.FAILED, FailureKind.UNREACHABLE, True),  # it may have arrived
        (Status.FAILED, FailureKind.DENIED, False),
        (Status.FAILED, FailureKind.NOT_FOUND, False),
        (Status.SKIPPED, None, False),
        (Status.WOULD, None, False),
    ],
)
def test_a_command_that_certainly_did_not_arrive_leaves_nothing_to_put_back(
    status: Status, kind: FailureKind | None, *, is_left: bool
) -> None:
    site = Site()
    site.reconciled(want(FIRST))
    site.learns(status, kind)
    one = site.changes[Field.THROTTLE][ARRAY]
    assert (one.value == FIRST and not one.dry) is is_left


def test_a_single_answer_that_there_is_no_such_job_leaves_the_value_before_it() -> None:
    site = Site(shown=FIRST, changes={Field.THROTTLE: {ARRAY: change()}})
    site.reconciled(want(SECOND), at=LATE)
    site.learns(Status.FAILED, FailureKind.NOT_FOUND)
    assert site.reconciled(at=LATE + 1) == [(OWN, FIRST)]


@pytest.mark.parametrize("kind", [FailureKind.DENIED, FailureKind.NOT_FOUND])
def test_an_answer_to_the_command_that_puts_back_says_nothing_of_the_value_that_was_set(kind: FailureKind) -> None:
    site = Site(shown=FIRST, changes={Field.THROTTLE: {ARRAY: change()}})
    site.learns(Status.FAILED, kind, ReasonCode.SHARE_ENDED)
    assert site.reconciled(at=LATE) == [(OWN, FIRST)]


def test_a_command_of_a_time_that_has_not_come_is_not_awaited() -> None:
    """A clock was set back while no daemon ran: else `tesched undo` would wait until it is that time again."""
    one = change(at=NOW + 3600)
    assert unwanted(one, FieldState.OWN, NOW) == (None, False)
    again = wanted(want(FIRST), one, FieldState.OWN, OWN, now=NOW)
    assert (again.at, again.value) == (NOW, FIRST)


def test_in_one_poll_as_many_are_set_as_slurm_can_take_and_the_others_follow() -> None:
    ids = [JobId(number) for number in range(1, 61)]
    arrays = [waiting(one, array_job_id=one, array_tasks="0-9") for one in ids]
    seen = cluster([node("n1")], arrays, exempt=ids, at=NOW)
    context = CycleContext.of(Memory(), seen, columns_of(seen), Limits())
    THROTTLE_RULE.reconcile({one: replace(want(FIRST), job_id=one) for one in ids}, context)
    first = [one.job_id for one in context.actions]
    assert (len(first), set(context.changes_of(Field.THROTTLE))) == (50, set(first))
    context.actions.clear()
    left = {one: replace(want(FIRST), job_id=one) for one in ids if one not in first}
    THROTTLE_RULE.reconcile(left, context)
    assert {one.job_id for one in context.actions} >= set(left)


def test_one_that_arrives_late_is_put_back_though_its_repetition_was_not_sent() -> None:
    site = Site()
    site.reconciled(want(FIRST))
    site.learns(Status.FAILED, FailureKind.UNREACHABLE)
    assert site.reconciled(want(FIRST), at=LATE) == [(FIRST, OWN)]
    site.learns(Status.SKIPPED)
    site.shown = FIRST
    assert site.reconciled(at=LATE + 1) == [(OWN, FIRST)]
