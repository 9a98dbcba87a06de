"""Cost of a victim: the node-seconds of the run that ends, on all of its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.admission import admitted
from tesched_core.guard.budget import CountedBy, Tally, paying
from tesched_core.model.limits import Limits
from tesched_core.model.order import Departure, VictimState
from tesched_core.model.resources import JobId
from tesched_core.policy import ChosenVictim, MakeRoom
from tesched_testcluster.harness.store_examples import victim

from tests.builders import cluster, node, running, share, view_of, waiting


def test_a_run_of_a_hundred_seconds_on_two_nodes_costs_two_hundred_node_seconds() -> None:
    notified = victim(1, nodes=("n1", "n2"), started_at=100.0, user="ada", account="lab")
    paid = paying(replace(notified, notice_signal="", grace_period_s=0.0), 200.0)
    assert (paid.node_s, paid.nodes, paid.user, paid.account) == (200.0, ("n1", "n2"), "ada", "lab")


def test_a_run_that_started_after_now_by_slurms_clock_costs_nothing() -> None:
    assert paying(victim(1, started_at=100.0, notice_signal="", grace_period_s=0.0), 90.0).node_s == 0


@pytest.mark.parametrize(
    ("departure", "node_s"),
    [
        # It ran from 100, has its notice at 190, and leaves at 200.
        (Departure.REQUEUED_ITSELF, 20.0),
        (Departure.REQUEUED, 20.0),
        (Departure.SAVED, 20.0),
        (Departure.DIED_OF_NOTICE, 200.0),
        (Departure.VANISHED, 200.0),
        (Departure.FINISHED, 0.0),
    ],
)
def test_of_a_run_that_saves_on_its_notice_what_it_ran_after_that_is_lost(departure: Departure, node_s: float) -> None:
    notified = victim(1, nodes=("n1", "n2"), started_at=100.0, noticed_at=190.0, grace_period_s=30.0)
    left = replace(notified, departure=departure)
    assert paying(left, 200.0).node_s == node_s
    # Until it has left, its whole grace period may be.
    assert paying(notified, 200.0).node_s == 60.0


def test_of_one_that_stays_beyond_its_grace_period_the_time_that_it_stays_counts() -> None:
    notified = victim(1, VictimState.REQUEUING, nodes=("n1",), started_at=100.0, noticed_at=190.0, grace_period_s=30.0)
    assert [paying(notified, at).node_s for at in (200.0, 220.0, 290.0)] == [30.0, 30.0, 100.0]


def test_one_without_a_grace_period_is_not_sent_the_signal_that_it_declared_and_all_of_its_run_counts() -> None:
    notified = victim(1, VictimState.REQUEUING, nodes=("n1",), started_at=100.0, noticed_at=190.0, grace_period_s=0.0)
    assert paying(notified, 192.0).node_s == 92.0
    assert paying(replace(notified, departure=Departure.REQUEUED), 195.0).node_s == 95.0


@pytest.mark.parametrize(("grace_s", "kept"), [(30.0, True), (0.0, False)])
def test_a_plan_is_admitted_by_what_its_victim_may_lose(grace_s: float, kept: bool) -> None:
    jobs = [running(1, share("n1", 1)), waiting(9)]  # it has run for 10,000 s, and has declared a signal
    view = view_of(cluster([node("n1")], jobs, graces={1: grace_s}))
    plans = [MakeRoom(preemptor=JobId(9), nodes=("n1",), victims=(ChosenVictim(job_id=JobId(1), score=0.5),))]
    assert bool(admitted(plans, view, Limits(max_lost_node_hours_per_day=2.7), lambda _: None)) is kept


def test_one_that_is_let_go_after_its_notice_counts_nowhere() -> None:
    notified = victim(1, nodes=("n1",), user="ada", account="lab", for_user="bob", for_account="lab", noticed_at=150.0)
    for withdrawn, count in ((True, 0), (False, 1)):
        tally = Tally.of([paying(notified, 200.0, JobId(9), withdrawn=withdrawn)], (), 200.0)
        counts = (CountedBy.ALL, ""), (CountedBy.USER, "ada"), (CountedBy.TE_USER, "bob"), (CountedBy.NODE, "n1")
        assert [tally.counts[by] for by in counts] == [count] * 4
        assert (tally.node_s > 0) is not withdrawn
