"""Two partitions over the same nodes, one of whole nodes: what does not fit in the one says nothing of the other."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.cluster import Partition

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import Driver

STAYS, LEAVES, WHOLE, PART = 1, 2, 8, 9


def test_a_te_job_is_served_though_one_alike_that_wants_whole_nodes_cannot_be() -> None:
    jobs = [
        running(STAYS, share("n1", 16), requeueable=False),
        running(LEAVES, share("n1", 16)),
        waiting(WHOLE, cpus=16, partitions=("whole",), priority=200),
        waiting(PART, cpus=16, partitions=("p",)),
    ]
    drive = Driver([node("n1")], jobs)
    both = {name: Partition(name=name, nodes=frozenset({"n1"})) for name in ("p", "whole")}
    both["whole"] = replace(both["whole"], oversubscribe="EXCLUSIVE")
    drive.start = replace(drive.start, partitions=both)
    assert LEAVES in {action.job_id for action in drive.cycle(0)}
    assert drive.order().preemptor == PART
