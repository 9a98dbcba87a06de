"""The daemon's host is suspended in the middle of a grace period."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import pytest
from tesched_core.model.actions import kind_of
from tesched_daemon.loop import Loop

from tests.loop_parts import FULL_CLUSTER, VICTIM, Cluster, Notebook, loop_of


def test_a_grace_period_goes_on_while_the_host_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLOCK_MONOTONIC stands still then, and the clock of the day seems to have been set."""
    cluster, notebook = Cluster(), Notebook()
    loop = loop_of(cluster, notebook)
    defaults: dict[str, Any] = {one.name: one.default for one in fields(Loop)}
    loop.stopwatch = defaults["stopwatch"]
    passed_s = {"awake": 0.0, "suspended": 0.0}

    def clock_gettime(clock: int) -> float:
        return 50.0 + passed_s["awake"] + (passed_s["suspended"] if clock == time.CLOCK_BOOTTIME else 0.0)

    def victims_actions() -> list[str]:
        cluster.seen = replace(FULL_CLUSTER, taken_at=loop.clock())
        cluster.acted.clear()
        loop.turn()
        return [kind_of(action) for action in cluster.acted if action.job_id == VICTIM.job_id]

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    loop.clock = lambda: 1000.0 + sum(passed_s.values())
    assert victims_actions() == ["notify"]
    passed_s["awake"] += 1.0
    assert victims_actions() == []
    passed_s["suspended"] += loop.classes.default_grace_period_s
    assert victims_actions() == ["requeue"]
