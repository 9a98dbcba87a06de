"""How many nodes are examined for a job that may await a reservation, and for how many shapes of jobs in a poll."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Request, Reservation
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.awaits_reservation import MOST_SHAPES, ReservationsAhead

from tests.builders import NOW, cluster, node, running, share

LEFT = 50


class Counted(dict[str, Any]):
    """Nodes, and how many were read."""

    read = 0

    def get(self, name: str, default: Any = None) -> Any:
        self.read += 1
        return super().get(name, default)


def site(left_cpus: int) -> tuple[Snapshot, Counted]:
    """Return n1, which is reserved soon, and others of this size that are not."""
    maintenance = Reservation(name="m", start_time=NOW + 60, end_time=NOW + 9999, nodes=frozenset({"n1"}))
    others = [node(f"n{number}", cpus=left_cpus) for number in range(2, 2 + LEFT)]
    seen = cluster([node("n1"), *others], [running(1, share("n1", 32))], reservations=[maintenance])
    nodes = Counted(seen.nodes)
    return replace(seen, nodes=nodes), nodes


@pytest.mark.parametrize("wanted", [1, 3, LEFT])
def test_no_more_nodes_are_examined_than_it_wants(wanted: int) -> None:
    seen, nodes = site(left_cpus=32)
    job = replace(running(1, share("n1", 32)), request=Request(cpus=32, min_nodes=wanted))
    assert ReservationsAhead.of(seen).awaited_by(job, 30) == ""
    assert nodes.read == wanted


def test_above_so_many_shapes_a_job_may_be_a_victim() -> None:
    seen, nodes = site(left_cpus=1)
    ahead = ReservationsAhead.of(seen)
    named = Counter(
        ahead.awaited_by(replace(running(1, share("n1", 2 + number)), request=Request(cpus=2)), 30)
        for number in range(MOST_SHAPES + 5)
    )
    assert named == {"m": MOST_SHAPES, "": 5}
    assert nodes.read == MOST_SHAPES * LEFT
    # those that were weighed are remembered
    assert ahead.awaited_by(replace(running(1, share("n1", 2)), request=Request(cpus=2)), 30) == "m"
