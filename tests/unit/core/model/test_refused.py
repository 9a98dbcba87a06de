"""What is learned of changes that Slurm refuses."""

from __future__ import annotations

from collections.abc import Mapping

from tesched_core.model.actions import Failure, FailureKind, Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.refused import FIRST_S, LONGEST_S, RefusedChange, after, recent
from tesched_core.model.resources import JobId

Refused = Mapping[Field, RefusedChange]
NO, UNCLEAR = FailureKind.REFUSED, FailureKind.UNKNOWN


def learned(refused: Refused, *answers: tuple[float, str, FailureKind | None]) -> Refused:
    """Return what is known after changes of nice: when, of whose job, and what became of each."""
    reason = Reason(code=ReasonCode.MAKE_ROOM_FIRST, text="")
    for at, user, kind in answers:
        outcome = Outcome(
            action=SetField(job_id=JobId(1), reason=reason, field=Field.NICE, value=-1, previous=0),
            status=Status.FAILED if kind else Status.SENT,
            at=at,
            failure=Failure(kind=kind, message="no") if kind else None,
        )
        refused = after(refused, outcome, user, at)
    return refused


def nice(*answers: tuple[float, str, FailureKind | None]) -> RefusedChange:
    return learned({}, *answers)[Field.NICE]


class TestUsers:
    """One of two users' jobs is the site's, if they are not far apart."""

    def test_two_users_within_an_hour(self) -> None:
        assert nice((0, "ann", NO), (LONGEST_S, "bob", NO)).everywhere
        assert not nice((0, "ann", NO), (LONGEST_S + 1, "bob", NO)).everywhere

    def test_one_user_s_refusals_between_do_not_bring_another_s_nearer(self) -> None:
        assert not nice((0, "bob", NO), (3700.0, "ann", NO), (7300.0, "ann", NO)).everywhere

    def test_a_month_later_the_first_one_of_another_user_is_the_first(self) -> None:
        times = [(LONGEST_S * count, "ann", NO) for count in range(8)]
        one = nice(*times, (30 * 86_400, "bob", NO))
        assert (one.users, one.everywhere, one.count, one.since) == (("bob",), False, 1, 30 * 86_400)

    def test_two_hours_later_it_is_not_shown(self) -> None:
        refused = learned({}, (0, "ann", NO))
        assert recent(refused, 2 * LONGEST_S) == refused
        assert recent(refused, 2 * LONGEST_S + 1) == {}


class TestUnclear:
    """An answer that is not understood counts from the second poll in a row."""

    def test_two_in_one_poll_are_one(self) -> None:
        assert nice((0, "ann", UNCLEAR), (0, "ann", UNCLEAR)).count == 0
        assert nice((0, "ann", UNCLEAR), (2, "ann", UNCLEAR), (2, "ann", UNCLEAR)).count == 1

    def test_a_refusal_in_the_same_poll_counts(self) -> None:
        assert nice((0, "ann", UNCLEAR), (0, "ann", NO)).count == 1

    def test_of_two_users_it_is_not_the_site_s(self) -> None:
        one = nice((0, "ann", UNCLEAR), (0, "bob", UNCLEAR), (2, "ann", UNCLEAR), (2, "bob", UNCLEAR))
        assert (one.count, one.everywhere) == (1, False)
        assert not nice((0, "ann", UNCLEAR), (2, "ann", UNCLEAR), (4, "bob", NO)).everywhere
        assert not nice((0, "ann", NO), (2, "bob", UNCLEAR), (4, "ann", NO)).everywhere
        assert not nice((0, "ann", NO), (2, "bob", UNCLEAR)).everywhere

    def test_one_is_forgotten_after_a_minute(self) -> None:
        assert nice((0, "ann", UNCLEAR), (FIRST_S, "ann", UNCLEAR)).count == 1
        assert nice((0, "ann", UNCLEAR), (FIRST_S + 1, "ann", UNCLEAR)).count == 0


class TestClock:
    """A clock that was ahead."""

    def test_a_refusal_of_a_time_to_come_is_none(self) -> None:
        refused = learned({}, (86_400, "ann", NO))
        one = refused[Field.NICE]
        assert not one.holds("ann", 86_400 - FIRST_S - 1)
        assert one.holds("ann", 86_400 - FIRST_S)
        again = learned(refused, (0, "ann", NO))[Field.NICE]
        assert (again.at, again.count, again.holds("ann", 59)) == (0, 1, True)
