"""Final time-outs of the test clusters: strict on an idle machine, longer by the load on a busy one."""

from __future__ import annotations

import pytest
from tesched_testcluster.patience import Patience, slowness


class Machine:
    """A machine with two cores; a test sets its load and clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.load, self.now = 0.0, 100.0
        monkeypatch.setattr("tesched_testcluster.patience.os.getloadavg", lambda: (self.load, 0.0, 0.0))
        monkeypatch.setattr("tesched_testcluster.patience.os.cpu_count", lambda: 2)
        monkeypatch.setattr("tesched_testcluster.patience.time.monotonic", lambda: self.now)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize(("load", "times"), [(0.0, 1.0), (1.0, 1.0), (4.0, 4.0), (20.0, 20.0)])
def test_things_take_longer_by_the_load(machine: Machine, load: float, times: float) -> None:
    machine.load = load
    assert slowness() == times


def test_an_idle_machine_keeps_its_time_outs(machine: Machine) -> None:
    waiting = Patience(20)
    machine.now += 20
    assert not waiting.is_over()
    machine.now += 0.1
    assert waiting.is_over()


def test_a_machine_that_becomes_busy_has_more_time_and_keeps_it(machine: Machine) -> None:
    waiting = Patience(20)
    machine.load = 6.0
    machine.now += 100
    assert not waiting.is_over()
    machine.load = 0.0
    machine.now += 19
    assert not waiting.is_over()
    machine.now += 2
    assert waiting.is_over()
    assert waiting.waited_s == pytest.approx(121)
