"""The clock is set while Slurm is polled: what is under way goes on as if it had not been."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Failure, kind_of
from tesched_core.model.snapshot import Snapshot

from tests.loop_parts import FULL_CLUSTER, VICTIM, Cluster, Notebook, loop_of


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_grace_period_lasts_as_long_as_it_was_given(jump_s: float) -> None:
    cluster, notebook = Cluster(), Notebook()
    loop = loop_of(cluster, notebook)
    now = {"wall": 1000.0, "steady": 50.0}
    loop.clock, loop.stopwatch = (lambda: now["wall"]), (lambda: now["steady"])
    answers = cluster.observe

    def turn(passed_s: float, jumped_s: float = 0.0) -> list[str]:
        now["steady"] += passed_s
        now["wall"] += passed_s

        def observe(*, whole: bool = True, ends: bool = True) -> Snapshot | Failure:
            cluster.seen = replace(FULL_CLUSTER, taken_at=now["wall"])
            now["wall"] += jumped_s
            return answers(whole=whole, ends=ends)

        cluster.observe = observe  # type: ignore[method-assign]
        cluster.acted.clear()
        loop.turn()
        return [kind_of(action) for action in cluster.acted if action.job_id == VICTIM.job_id]

    assert turn(0.0) == ["notify"]
    grace_s = loop.classes.default_grace_period_s
    assert turn(5.0) == []
    assert turn(2.0, jump_s) == []
    assert turn(grace_s - 8.0) == [], "a second is left"
    assert turn(1.0) == ["requeue"]
