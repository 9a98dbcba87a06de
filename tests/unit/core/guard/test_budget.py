"""Cost of a victim: the node-seconds of the run that ends, on all of its nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.guard.budget import CountedBy, Tally, paying
from tesched_core.model.order import Departure
from tesched_core.model.resources import JobId
from tesched_testcluster.harness.store_examples import victim


def test_a_run_of_a_hundred_seconds_on_two_nodes_costs_two_hundred_node_seconds() -> None:
    told = victim(1, nodes=("n1", "n2"), started_at=100.0, user="ada", account="lab")
    paid = paying(replace(told, notice_signal="", grace_period_s=0.0), 200.0)
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
        (Departure.LOST, 200.0),
        (Departure.FINISHED, 0.0),
    ],
)
def test_of_a_run_that_saves_on_its_notice_what_it_ran_after_that_is_lost(departure: Departure, node_s: float) -> None:
    told = victim(1, nodes=("n1", "n2"), started_at=100.0, noticed_at=190.0, grace_period_s=30.0)
    left = replace(told, departure=departure)
    assert paying(left, 200.0).node_s == node_s
    # Until it has left, its whole grace period may be.
    assert paying(told, 200.0).node_s == 60.0


def test_one_that_is_let_go_after_its_notice_counts_nowhere() -> None:
    told = victim(1, nodes=("n1",), user="ada", account="lab", for_user="bob", for_account="lab", noticed_at=150.0)
    for withdrawn, count in ((True, 0), (False, 1)):
        tally = Tally.of([paying(told, 200.0, JobId(9), withdrawn=withdrawn)], (), 200.0)
        counts = (CountedBy.ALL, ""), (CountedBy.USER, "ada"), (CountedBy.TE_USER, "bob"), (CountedBy.NODE, "n1")
        assert [tally.counts[by] for by in counts] == [count] * 4
        assert (tally.node_s > 0) is not withdrawn
