"""Time-outs of the test clusters' waits: long on any machine, and longer while processes wait for a core."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_testcluster.patience import HANG_S, Patience, slowness


class Machine:
    """A machine with two cores; a test sets its load, its clock, and how much its processes wait for a core."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pressure: Path) -> None:
        self.load, self.now = 0.0, 100.0
        self.pressure = pressure
        self.stalled(0.0)
        monkeypatch.setattr("tesched_testcluster.patience.os.getloadavg", lambda: (self.load, 0.0, 0.0))
        monkeypatch.setattr("tesched_testcluster.patience.os.cpu_count", lambda: 2)
        monkeypatch.setattr("tesched_testcluster.patience.time.monotonic", lambda: self.now)
        monkeypatch.setattr("tesched_testcluster.patience._PRESSURE", pressure)

    def stalled(self, percent: float) -> None:
        """Let some process have waited for a core in this part of the last ten seconds."""
        self.pressure.write_text(f"some avg10={percent:.2f} avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(monkeypatch, tmp_path / "pressure")


@pytest.mark.parametrize(("load", "times"), [(0.0, 1.0), (1.0, 1.0), (4.0, 4.0), (20.0, 20.0)])
def test_waits_take_longer_by_the_load(machine: Machine, load: float, times: float) -> None:
    machine.load = load
    assert slowness() == times


@pytest.mark.parametrize(("percent", "times"), [(0.0, 1.0), (50.0, 2.0), (90.0, 10.0), (100.0, 20.0)])
def test_waits_take_longer_where_processes_wait_though_the_load_is_low(
    machine: Machine, percent: float, times: float
) -> None:
    machine.stalled(percent)
    assert slowness() == pytest.approx(times)


@pytest.mark.parametrize("text", ["", "some", "some avg10=x avg60=0"])
def test_a_kernel_without_figures_of_waiting_leaves_the_load(machine: Machine, text: str) -> None:
    machine.pressure.write_text(text)
    machine.load = 3.0
    assert slowness() == 3.0
    machine.pressure.unlink()
    assert slowness() == 3.0


def test_what_must_come_has_minutes_on_an_idle_machine_and_more_on_a_very_busy_one(machine: Machine) -> None:
    waiting = Patience()
    machine.now += HANG_S
    assert not waiting.is_over()
    machine.now += 0.1
    assert waiting.is_over()
    machine.load = 20.0
    assert not waiting.is_over()


def test_a_time_out_of_its_own_is_kept_on_an_idle_machine(machine: Machine) -> None:
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
