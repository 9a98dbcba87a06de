"""Deadlines: what it costs to hold many TE jobs against many BE jobs."""

from __future__ import annotations

import pytest
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Request
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement import places
from tesched_core.placement.alike import kind_of
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.deadlines import Deadline, Deadlines

from tests.builders import cluster, node, waiting

MANY = 20


def test_the_possible_starts_of_a_job_are_computed_once_and_not_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    def on(name: str) -> Request:
        return Request(cpus=1, mem_per_node_mib=1, required_nodes=(name,), max_nodes=1)

    te = [waiting(1 + number, on("n1"), user="ada", time_limit_s=600) for number in range(MANY)]
    be = [waiting(101 + number, on("n2"), user="bob") for number in range(MANY)]
    snapshot = cluster([node("n1"), node("n2")], [*te, *be])
    found = Deadlines.of(
        Memory(), snapshot, Limits(bound=Bound(slowdown=1.5, te_time_limit_s=600)), columns_of(snapshot).capacity, 1.0
    )
    assert found is not None
    found.waiting = tuple(Deadline(job=job, delayed_s=500.0, bound_s=600.0, at=found.now + 100) for job in be)
    asked: list[int] = []

    def kind(job: Job, snapshot: Snapshot, capacity: Capacity) -> object:
        asked.append(job.job_id)
        return kind_of(job, snapshot, capacity)

    monkeypatch.setattr(places, "kind_of", kind)
    assert [found.why_te_waits(job) for job in te] == [None] * MANY
    assert sorted(asked) == [job.job_id for job in (*te, *be)]
