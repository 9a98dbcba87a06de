"""Early turns on the agenda: when they come, how many, and the polls that follow them."""

from __future__ import annotations

import pytest
from tesched_daemon.wakeup import AFTER_S, EARLY, PAUSE_S, Agenda


def early(at: float = 100.0, *, took_s: float = 5.0, **more: float) -> Agenda:
    """Return an agenda after a poll that ended at `at`, where early turns are worth it."""
    agenda = Agenda()
    agenda.ended(at, took_s=took_s, next_in_s=30.0, troubled=False, takes_early=True, **more)
    return agenda


def test_a_poke_is_an_early_turn_and_then_its_poll() -> None:
    agenda = early()
    agenda.poke(110.0)
    assert agenda.wait_s(110.0) == pytest.approx(AFTER_S)
    assert not agenda.begins_early(110.0)
    assert agenda.begins_early(110.0 + AFTER_S)
    assert not agenda.begins_early(110.0 + AFTER_S), "once"
    agenda.ended_early(110.5, took_s=0.0)
    assert agenda.wait_s(110.5) == 0
    assert agenda.begins(110.5)


def test_an_early_turn_is_not_put_off_by_the_poll_before_and_its_poll_is() -> None:
    agenda = early()
    agenda.poke(99.0)
    assert agenda.wait_s(100.0) == pytest.approx(PAUSE_S)
    assert agenda.begins_early(100.0 + PAUSE_S)
    agenda.ended_early(100.5, took_s=0.0)
    assert agenda.wait_s(100.5) == pytest.approx(4.5)
    agenda.poke(101.0)
    assert agenda.begins_early(101.0 + AFTER_S), "another job, while the poll must wait"


def test_an_early_turn_puts_off_a_poll_that_is_due_once_however_many_pokes_come() -> None:
    agenda = early()
    agenda.poke(110.0)
    assert agenda.begins_early(111.0)
    agenda.poke(111.5)
    agenda.ended_early(112.0, took_s=0.0)
    assert not agenda.begins_early(113.0)
    assert agenda.begins(113.0)
    agenda.ended(118.0, took_s=5.0, next_in_s=30.0, troubled=False, takes_early=True)
    agenda.poke(118.0)
    assert agenda.begins_early(119.0)


def test_a_poll_in_its_time_is_not_kept_waiting_by_early_turns() -> None:
    agenda = early()
    agenda.poke(129.98)
    assert agenda.wait_s(129.98) == pytest.approx(0.02)
    assert not agenda.begins_early(130.0)


@pytest.mark.parametrize(
    ("takes_early", "troubled", "pause_s"), [(False, False, 0.0), (True, True, 0.0), (True, False, 1.0)]
)
def test_there_is_no_early_turn_where_polls_are_short_or_a_turn_was_troubled(
    takes_early: bool, troubled: bool, pause_s: float
) -> None:
    agenda = Agenda()
    agenda.ended(100.0, took_s=5, next_in_s=30, troubled=troubled, pause_s=pause_s, takes_early=takes_early)
    agenda.poke(101.0)
    assert not agenda.begins_early(120.0)


def test_a_slow_slurmctld_has_as_long_a_rest_after_an_early_turn() -> None:
    agenda = early()
    agenda.poke(110.0)
    assert agenda.begins_early(110.0 + AFTER_S)
    agenda.ended_early(114.0, took_s=4.0)
    assert agenda.wait_s(114.0) == pytest.approx(4.0)
    assert agenda.begins(118.0)


@pytest.mark.parametrize(("next_in_s", "waits_s"), [(10.0, 10.0), (30.0, 24.0), (-1.0, 0.0)])
def test_a_grace_period_of_an_early_turn_brings_the_poll_forward_and_nothing_puts_it_off(
    next_in_s: float, waits_s: float
) -> None:
    """The last poll took longer, and so long is a rest after it; the next one was announced for 130 s."""
    agenda = early(took_s=60.0)
    agenda.poke(105.0)
    assert agenda.begins_early(105.0 + AFTER_S)
    agenda.ended_early(106.0, took_s=1.0, next_in_s=next_in_s)
    assert agenda.wait_s(106.0) == pytest.approx(waits_s)
    assert agenda.begins(106.0 + waits_s), "a poll, no probe"


@pytest.mark.parametrize("counts_as", [1, 3])
def test_early_turns_are_bounded_whatever_pokes_come(counts_as: int) -> None:
    agenda, now, count = early(), 100.0, 0
    while now < 100.0 + 600:
        agenda.poke(now)
        now += max(agenda.wait_s(now), 0.001)
        if agenda.begins_early(now):
            count += 1
            agenda.ended_early(now, took_s=0.0, counts_as=counts_as)
        elif agenda.begins(now) or now >= 130:
            agenda.ended(now, took_s=5.0, next_in_s=30.0, troubled=False, takes_early=True)
    assert EARLY.burst < count * counts_as <= EARLY.burst + 600 / EARLY.every_s + counts_as


def test_a_poll_comes_after_each_early_turn_though_the_pokes_have_had_theirs() -> None:
    agenda = early()
    agenda.poke(110.0, again=False)
    assert agenda.begins_early(110.0 + AFTER_S)
    agenda.ended_early(110.1, took_s=0.0)
    agenda.poke(110.1, again=False)
    assert agenda.begins(110.12), "the next poke's job may not be there yet"
    agenda.ended(115.0, took_s=5.0, next_in_s=30.0, troubled=False, takes_early=True)
    assert agenda.begins_early(115.0 + PAUSE_S)
    agenda.ended_early(115.2, took_s=0.0)
    assert agenda.wait_s(115.2) == pytest.approx(4.8)
