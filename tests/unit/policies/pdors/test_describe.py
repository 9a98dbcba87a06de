"""Description of a plan, as `tesched explain` prints it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from tesched_policies.pdors.describe import in_detail
from tesched_policies.pdors.state import JobPlan, Option

CHOSEN = Option(nodes=2, rack="r2", wait_slots=6, slots=7, worth=84.7, price=0.44)
OTHER = Option(nodes=2, rack="", wait_slots=0, slots=25, worth=36.1, price=4.9)
#: from 00:10:00 to 00:11:10 on 2 January 1970
PLAN = JobPlan(planned_at=86_700.0, start_at=87_000.0, run_s=70.0, nodes=("n5", "n6"), option=CHOSEN, next_best=OTHER)


class Plain:
    """Times in seconds, nodes one by one."""

    def time(self, at: float) -> str:
        return f"{at:.0f}"

    def nodes(self, names: Iterable[str]) -> str:
        return ",".join(names)


def lines(plan: JobPlan) -> list[str]:
    return list(in_detail(plan, Plain()))


def test_a_reservation_is_shown_with_its_slots_its_nodes_its_price_and_the_next_best() -> None:
    assert lines(PLAN) == [
        ("  plan    from 87000 to 87070 on n5,n6, reserved for it; sooner if such nodes come free"),
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
        (replace(PLAN, promised=False, nodes=()), "none: it starts when resources are left over; since 86700"),
        (replace(PLAN, started=True), "it runs on n5,n6, by the plan from 87000"),
        (replace(PLAN, dropped=True, promised=False), "none any more; Slurm starts it when and where it likes"),
    ],
)
def test_a_job_without_a_reservation_is_shown_with_what_it_waits_for(changed: JobPlan, says: str) -> None:
    assert says in lines(changed)[0]
