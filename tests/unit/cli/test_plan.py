"""What `tesched explain` says of a plan."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tesched_cli.plan import lines
from tesched_core.model.round_state import JobPlan, Option

CHOSEN = Option(nodes=2, rack="r2", wait_slots=6, slots=7, worth=84.7, price=0.44)
OTHER = Option(nodes=2, rack="", wait_slots=0, slots=25, worth=36.1, price=4.9)
#: from 00:10:00 to 00:11:10 on 2 January 1970
PLAN = JobPlan(planned_at=86_700.0, start_at=87_000.0, run_s=70.0, nodes=("n5", "n6"), option=CHOSEN, next_best=OTHER)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.localtime", time.gmtime)


def test_a_promise_is_shown_with_its_slots_its_nodes_its_price_and_the_next_best() -> None:
    assert list(lines(PLAN)) == [
        (
            "  plan    from 1970-01-02T00:10:00 to 1970-01-02T00:11:10 on n[5-6], which nobody else is promised; "
            "sooner if such nodes come free"
        ),
        (
            "          chosen: 2 nodes in rack r2 after 6 slots for 7 slots; its end is worth 84.7, the price is 0.44, "
            "so 84.26 is left"
        ),
        (
            "          next best: 2 nodes in several racks at once for 25 slots; its end is worth 36.1, "
            "the price is 4.9, so 31.2 is left"
        ),
    ]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (replace(PLAN, promised=False, nodes=()), "none: it starts when room is left over; since 1970-01-02T00:05:00"),
        (replace(PLAN, started=True), "it runs on n[5-6], by the plan from 1970-01-02T00:10:00"),
        (replace(PLAN, dropped=True, promised=False), "none any more; Slurm starts it when and where it likes"),
    ],
)
def test_who_has_no_promise_is_told_what_it_waits_for(changed: JobPlan, says: str) -> None:
    assert says in next(lines(changed))
