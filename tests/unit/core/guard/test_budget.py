"""Cost of a victim: the node-seconds of the run that ends, on all of its nodes."""

from __future__ import annotations

from tesched_core.guard.budget import paying
from tesched_testcluster.harness.store_examples import victim


def test_a_run_of_a_hundred_seconds_on_two_nodes_costs_two_hundred_node_seconds() -> None:
    paid = paying(victim(1, nodes=("n1", "n2"), started_at=100.0, user="ada", account="lab"), 200.0)
    assert (paid.node_s, paid.nodes, paid.user, paid.account) == (200.0, ("n1", "n2"), "ada", "lab")


def test_a_run_that_started_after_now_by_slurms_clock_costs_nothing() -> None:
    assert paying(victim(1, started_at=100.0), 90.0).node_s == 0
