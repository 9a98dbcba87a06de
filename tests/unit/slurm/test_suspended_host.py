"""What was read of Slurm is as old as it is for slurmctld: also while the daemon's host was suspended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tesched_core.model.cluster import SlurmSettings
from tesched_slurm.clear_of_limits import ClearOfLimits
from tesched_slurm.commands_observer import Settings
from tesched_slurm.resting_observer import RestingObserver
from tesched_slurm.right_before import NiceReleases
from tesched_slurm.sacctmgr_qos import QosInDatabase
from tesched_slurm.scontrol_limits import LimitsInForce
from tesched_slurm.submit_line import SubmitLines

from tests.builders import running, share
from tests.unit.slurm.queue_reading import Answering
from tests.unit.slurm.test_right_before import WithConfig

SLEPT_S = 3600.0


@pytest.fixture
def suspended(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let this host be suspended for an hour: CLOCK_BOOTTIME goes on, the monotonic clock stands still."""
    slept = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: 1000.0 + slept[0])

    def suspend() -> None:
        slept[0] += SLEPT_S

    return suspend


def test_limits_are_read_again(suspended: Callable[[], None]) -> None:
    limits = LimitsInForce(commands=Answering())
    settings = SlurmSettings(enforced=frozenset())
    limits.now(settings, [], [running(1, share("n1", 1))])
    assert not limits.are_due(settings)
    suspended()
    assert limits.are_due(settings)


def test_the_priority_type_is_read_again(suspended: Callable[[], None]) -> None:
    slurm = WithConfig(seen=[])
    nice_releases = NiceReleases(commands=slurm)
    nice_releases.now()
    nice_releases.now()
    assert len(slurm.reads) == 1
    suspended()
    nice_releases.now()
    assert len(slurm.reads) == 2


@pytest.mark.parametrize("of", [RestingObserver, QosInDatabase, Settings, ClearOfLimits, SubmitLines])
def test_the_stopwatch_goes_on(of: Any, suspended: Callable[[], None]) -> None:
    more = {"observer": None} if of is RestingObserver else {}
    stopwatch = of(commands=Answering(), **more).stopwatch
    before = stopwatch()
    suspended()
    assert stopwatch() - before == SLEPT_S
