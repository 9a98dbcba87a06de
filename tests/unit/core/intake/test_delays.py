"""Delay of a best-effort job by one preemption: counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.intake.delays import Delay, delay_by, ran_again, with_saved
from tesched_core.intake.job_times import StateChange
from tesched_core.model.actions import OrderId
from tesched_core.model.cluster import JobState
from tesched_core.model.job_report import Reported
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Order, OrderState, Purpose, Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_testcluster.harness.store_examples import victim

from tests.builders import running, share, waiting

#: it started at 100, had its notice at 160, left at 170 and ran again at 300
BACK = victim(1, VictimState.BACK, noticed_at=160, left_at=170, departure=Departure.REQUEUED, back_at=300)
AWAY = replace(BACK, state=VictimState.LEFT, back_at=None)


def test_what_was_lost_and_the_time_from_its_notice_until_it_runs_again_count() -> None:
    delay = delay_by(BACK, 1000)
    assert delay == Delay(lost_s=60, away_s=140)
    assert delay.total_s == 200


def test_one_that_waits_to_run_again_is_delayed_until_now() -> None:
    assert delay_by(AWAY, 400) == Delay(lost_s=60, away_s=240)


@pytest.mark.parametrize("departure", [Departure.REQUEUED_ITSELF, Departure.DIED_OF_NOTICE])
def test_what_it_may_have_saved_by_itself_counts_as_lost(departure: Departure) -> None:
    assert delay_by(replace(BACK, departure=departure), 1000) == Delay(lost_s=60, away_s=140)


def test_of_one_that_says_that_it_has_saved_nothing_is_lost() -> None:
    assert delay_by(replace(BACK, departure=Departure.SAVED), 1000) == Delay(away_s=140)


def test_what_was_saved_by_its_own_word_is_not_lost() -> None:
    assert delay_by(replace(BACK, saved_at=140), 1000) == Delay(lost_s=20, away_s=140)
    # In its grace period, or in the run before.
    assert delay_by(replace(BACK, saved_at=165), 1000) == Delay(away_s=140)
    assert delay_by(replace(BACK, saved_at=90), 1000) == Delay(lost_s=60, away_s=140)


def test_that_it_has_saved_may_be_reported_after_it_has_left_and_not_by_the_next_run() -> None:
    waits, runs = waiting(1), running(1, share("n1", 1), restarts=1, start_time=300.0)
    known = replace(AWAY, saved_at=140)
    for reported, job, saved_at in ((None, waits, 140), (130, waits, 140), (168, waits, 168), (299, runs, 299)):
        assert with_saved(known, job, Reported(saved_at=reported)).saved_at == saved_at
    assert with_saved(known, runs, Reported(saved_at=301)) == known
    assert with_saved(AWAY, None, None) == AWAY


def test_one_that_slurm_preempts_by_its_mark_runs_until_it_has_left() -> None:
    assert delay_by(replace(BACK, noticed_at=None), 1000) == Delay(lost_s=70, away_s=130)


def test_a_suspension_loses_nothing() -> None:
    suspended = replace(AWAY, state=VictimState.SUSPENDED, suspended_at=162, left_at=None, departure=None)
    assert delay_by(suspended, 200) == Delay(suspended_s=38)
    assert delay_by(replace(suspended, state=VictimState.BACK, back_at=190), 200) == Delay(suspended_s=28)
    # Let go, and when it went on is not known.
    assert delay_by(replace(suspended, state=VictimState.SPARED), 200) == Delay()


def test_one_that_is_requeued_while_it_is_suspended_loses_its_run() -> None:
    assert delay_by(replace(BACK, suspended_at=162), 1000) == Delay(lost_s=62, suspended_s=8, away_s=130)


@pytest.mark.parametrize("departure", [Departure.LOST, Departure.DIED, Departure.VANISHED])
def test_one_that_will_not_run_again_is_delayed_until_that_is_seen(departure: Departure) -> None:
    """Cancelled in the queue, for example: it waited until then."""
    assert delay_by(replace(AWAY, departure=departure, given_up_at=260), 9000) == Delay(lost_s=60, away_s=100)


def test_one_that_is_seen_late_had_left_before_it_ran_again() -> None:
    late = replace(BACK, noticed_at=None, left_at=1000)
    assert delay_by(late, 1000) == Delay(lost_s=200)
    assert delay_by(replace(late, suspended_at=162), 1000) == Delay(lost_s=62, suspended_s=138)


def test_a_clock_that_is_set_changes_nothing_of_one_that_is_back() -> None:
    order = Order(
        order_id=OrderId(1),
        preemptor=JobId(9),
        state=OrderState.SETTLING,
        created_at=150,
        expires_at=500,
        nodes=("n1",),
        victims=(BACK, AWAY),
    )
    (back, away) = shift_times(Memory(orders={OrderId(1): order}), 3600).orders[OrderId(1)].victims
    assert delay_by(back, 4600) == delay_by(BACK, 1000)
    assert delay_by(away, 4600).away_s == delay_by(AWAY, 1000).away_s


def test_one_of_an_order_that_has_ended_is_back_when_its_next_run_starts() -> None:
    def change(at: float, state: JobState, restarts: int, start_time: float) -> StateChange:
        return StateChange(at=at, state=state, restarts=restarts, start_time=start_time)

    waits = [change(90, JobState.RUNNING, 0, 100), change(180, JobState.PENDING, 1, 100)]
    assert ran_again(AWAY, waits) == AWAY
    back = ran_again(AWAY, [*waits, change(310, JobState.RUNNING, 1, 300), change(900, JobState.RUNNING, 2, 800)])
    assert (back.state, back.back_at) == (VictimState.BACK, 300)
    finished = replace(AWAY, departure=Departure.FINISHED)
    assert ran_again(finished, [change(310, JobState.RUNNING, 1, 300)]) == finished


@pytest.mark.parametrize(
    "other",
    [
        replace(AWAY, departure=Departure.FINISHED),
        replace(AWAY, departure=Departure.DIED),
        replace(AWAY, state=VictimState.NOTICED, left_at=None, departure=None),
        replace(AWAY, state=VictimState.SPARED, left_at=None, departure=None),
        replace(BACK, purpose=Purpose.ROUND),
    ],
)
def test_the_others_have_no_delay(other: Victim) -> None:
    assert delay_by(other, 1000) == Delay()


def test_no_part_is_below_zero_whatever_the_clocks() -> None:
    assert delay_by(replace(BACK, noticed_at=90, left_at=95, back_at=80), 50) == Delay()
    assert delay_by(AWAY, 50) == Delay(lost_s=60)


def test_delays_add_up() -> None:
    both = Delay(lost_s=60, away_s=140) + Delay(lost_s=1, suspended_s=5)
    assert (both, both.total_s) == (Delay(lost_s=61, away_s=140, suspended_s=5), 206)
