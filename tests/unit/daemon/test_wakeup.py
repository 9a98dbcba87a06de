"""Pokes: when the polls that they ask for are due, how many there can be, and the socket's own life."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import resource
import socket
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_daemon import wakeup
from tesched_daemon.settings import Pace
from tesched_daemon.wakeup import AFTER_S, AGAIN_S, PAUSE_S, POLLS, Agenda, PokeError, listening, poke
from tesched_testcluster.patience import HANG_S, wait_for


@pytest.fixture
def path() -> Iterator[str]:
    """Give a short path: a socket's may have 107 bytes, which pytest's own folders can exceed."""
    with tempfile.TemporaryDirectory(prefix="poke-") as folder:
        yield f"{folder}/poke.sock"


def polled(at: float = 100.0, *, next_in_s: float = 30.0, took_s: float = 0.01, troubled: bool = False) -> Agenda:
    """Return an agenda after a turn that ended at `at`."""
    agenda = Agenda()
    agenda.ended(at, took_s=took_s, next_in_s=next_in_s, troubled=troubled)
    return agenda


def test_the_first_turn_is_due_at_once_and_a_poll_in_its_time() -> None:
    assert Agenda().wait_s(5.0) == 0
    assert polled().wait_s(110.0) == pytest.approx(20)


def test_a_poke_is_a_poll_as_soon_as_the_job_is_there_and_a_second_one_a_moment_later() -> None:
    agenda = polled()
    agenda.poke(110.0)
    assert agenda.wait_s(110.0) == pytest.approx(AFTER_S)
    assert not agenda.begins(110.0 + AFTER_S / 2), "the poll's turn: the job may not be there yet"
    assert agenda.wait_s(110.0 + AFTER_S) == 0
    assert agenda.begins(110.0 + AFTER_S)
    agenda.ended(110.05, took_s=0.05, next_in_s=30, troubled=False)
    assert agenda.wait_s(110.05) == pytest.approx(AGAIN_S - 0.05)
    assert agenda.begins(110.0 + AGAIN_S)
    agenda.ended(110.3, took_s=0.05, next_in_s=30, troubled=False)
    assert agenda.wait_s(110.3) == pytest.approx(30)
    assert not agenda.begins(140.3)


def test_a_job_that_is_found_is_one_poll_and_none_beside_the_hooks() -> None:
    agenda = polled()
    agenda.poke(110.0, again=False)
    assert agenda.begins(110.0 + AFTER_S)
    agenda.ended(110.05, took_s=0.02, next_in_s=30, troubled=False)
    assert agenda.wait_s(110.05) == pytest.approx(30)
    agenda.poke(120.0)
    agenda.begins(120.0 + AFTER_S)
    agenda.ended(120.05, took_s=0.02, next_in_s=30, troubled=False)
    agenda.poke(120.06, again=False)
    assert agenda.wait_s(120.06) == pytest.approx(AGAIN_S - 0.06)
    assert agenda.begins(120.0 + AGAIN_S)
    agenda.ended(120.3, took_s=0.02, next_in_s=30, troubled=False)
    assert agenda.wait_s(120.3) == pytest.approx(30)


def test_many_pokes_during_a_turn_are_one_more_turn_and_its_second_poll() -> None:
    agenda = polled()
    agenda.begins(110.0)
    for number in range(100):
        agenda.poke(110.0 + number / 1000)
    agenda.ended(110.1, took_s=0.1, next_in_s=30, troubled=False)
    looks = []
    at = 110.1
    while (wait := agenda.wait_s(at)) < 20:
        at += wait
        looks.append(at)
        agenda.begins(at)
        agenda.ended(at + 0.001, took_s=0.001, next_in_s=30, troubled=False)
        at += 0.001
    assert looks == pytest.approx([110.2, 110.099 + AGAIN_S], abs=0.003)


def test_a_poll_that_comes_late_is_the_second_one_as_well() -> None:
    agenda = polled(took_s=5.0)
    agenda.poke(100.0)
    assert agenda.wait_s(100.0) == pytest.approx(5)
    agenda.begins(105.0)
    agenda.ended(105.1, took_s=0.1, next_in_s=30, troubled=False)
    assert agenda.wait_s(105.1) == pytest.approx(30)


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.01, PAUSE_S), (2.0, 2.0)])
def test_however_many_pokes_come_half_of_the_time_is_left(took_s: float, pause_s: float) -> None:
    agenda, at = polled(took_s=took_s), 100.0
    for _ in range(POLLS.burst):
        agenda.poke(at)
        wait = agenda.wait_s(at)
        assert wait == pytest.approx(pause_s)
        at += wait
        agenda.begins(at)
        at += took_s
        agenda.ended(at, took_s=took_s, next_in_s=30, troubled=False)


def looks(agenda: Agenda, begin: float, end: float, *, every_s: float) -> list[float]:
    """Return when turns begin that are poked for, pokes each `every_s`, turns of 10 ms, a poll of an hour."""
    found, at, poke_at = [], begin, begin
    while at < end:
        while poke_at <= at:
            agenda.poke(poke_at)
            poke_at += every_s
        wait = agenda.wait_s(at)
        if wait > 0:
            at = min(at + wait, poke_at)
            continue
        found.append(at)
        agenda.begins(at)
        agenda.ended(at + 0.01, took_s=0.01, next_in_s=3600, troubled=False)
        at += 0.01
    return found


@pytest.mark.parametrize("every_s", [0.005, 0.1, 0.5])
def test_however_many_pokes_come_polls_are_bounded_by_the_minute(every_s: float) -> None:
    # The first turn is the poll.
    found = looks(polled(next_in_s=3600), 100.0, 700.0, every_s=every_s)
    assert len(found) <= POLLS.burst + 600 / POLLS.every_s + 1
    minute = [at for at in found if 600 <= at < 660]
    assert len(minute) == 60 / POLLS.every_s
    # A poll that was put off comes as soon as it may: no poke waits longer for one.
    assert max(after - before for before, after in itertools.pairwise(found)) <= POLLS.every_s + 0.02


def test_after_a_rest_a_burst_is_served_at_once_again() -> None:
    agenda = polled(next_in_s=3600)
    looks(agenda, 100.0, 400.0, every_s=0.1)
    rested_at = 400.0 + POLLS.burst * POLLS.every_s
    found = looks(agenda, rested_at, rested_at + 3.0, every_s=0.15)
    assert len(found) >= 15


def test_a_poll_uses_up_nothing_of_what_pokes_may_cause() -> None:
    agenda = polled(next_in_s=1.0)
    for at in range(101, 301):
        agenda.poke(at - 0.04)
        assert agenda.begins(float(at))
        agenda.ended(at + 0.01, took_s=0.01, next_in_s=0.99, troubled=False)
    agenda.poke(300.02)
    assert agenda.wait_s(300.02) == pytest.approx(PAUSE_S - 0.01)


def test_pokes_do_not_wear_down_a_slurm_that_does_not_answer() -> None:
    agenda = polled(next_in_s=8.0, troubled=True)
    agenda.poke(100.5)
    assert agenda.wait_s(100.5) == pytest.approx(7.5)


def test_a_poll_that_is_due_before_the_pause_is_over_keeps_its_time() -> None:
    assert polled(next_in_s=0.5, took_s=3.0).wait_s(100.0) == pytest.approx(0.5)


def test_a_poke_is_heard_and_what_it_says_is_not(path: str) -> None:
    heard = threading.Event()
    with listening(path, heard.set):
        # slurmctld's user is not the daemon's.
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o666
        poke(path)
        assert heard.wait(HANG_S)
        heard.clear()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(b"STOP\0" * 1000, path)
            assert heard.wait(HANG_S)
            heard.clear()
            channel.sendto(b"", path)
            assert heard.wait(HANG_S)
    assert not os.path.lexists(path)
    with pytest.raises(PokeError, match=f"^loop.socket {path}: no daemon listens there$"):
        poke(path)


def test_a_flood_never_makes_a_sender_wait_and_is_few_calls(path: str) -> None:
    calls: list[float] = []
    began = time.monotonic()
    with listening(path, lambda: calls.append(time.monotonic())):
        for _ in range(5000):
            poke(path)
        wait_for(lambda: calls)
    assert len(calls) <= (time.monotonic() - began) / (PAUSE_S / 2) + 2


def test_a_daemon_that_hangs_makes_no_sender_wait(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(path)
        for _ in range(2000):
            poke(path)


def test_an_error_over_one_poke_does_not_end_the_pokes(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wakeup, "BROKEN_S", 0.0)
    calls = iter((1, 0, 0))
    failed, heard = threading.Event(), threading.Event()

    def poked() -> None:
        if next(calls):
            failed.set()
            raise OSError(errno.ENOBUFS, "No buffer space available")
        heard.set()

    with listening(path, poked):
        poke(path)
        assert failed.wait(HANG_S)
        poke(path)
        assert heard.wait(HANG_S)
    assert "a new job waits for the next poll" in caplog.text


def test_a_descriptor_above_those_of_select_is_heard(path: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = 1100
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 20), hard))
    taken: list[int] = []
    try:
        while not taken or taken[-1] < high:
            taken.append(os.open("/dev/null", os.O_RDONLY))
        heard = threading.Event()
        with listening(path, heard.set):
            poke(path)
            assert heard.wait(HANG_S)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_stale_socket_is_replaced(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(path)
    with pytest.raises(PokeError, match=f"^loop.socket {path}: no daemon listens there$"):
        poke(path)
    heard = threading.Event()
    with listening(path, heard.set):
        poke(path)
        assert heard.wait(HANG_S)


def test_a_living_daemons_socket_is_left_to_it(path: str, caplog: pytest.LogCaptureFixture) -> None:
    first = threading.Event()
    with listening(path, first.set):
        with listening(path, lambda: pytest.fail("the second daemon was poked")):
            poke(path)
            assert first.wait(HANG_S)
        first.clear()
        poke(path)
        assert first.wait(HANG_S)
    assert "another daemon listens there" in caplog.text


def test_a_program_that_took_the_sockets_place_keeps_it(path: str) -> None:
    with listening(path, lambda: None):
        Path(path).unlink()
        Path(path).write_text("mine")
    assert Path(path).read_text() == "mine"


@pytest.mark.parametrize("obstacle", ["file", "no folder"])
def test_a_path_that_cannot_be_bound_is_a_warning(path: str, obstacle: str, caplog: pytest.LogCaptureFixture) -> None:
    if obstacle == "file":
        Path(path).write_text("precious")
    else:
        path = path.replace("poke.sock", "none/poke.sock")
    with listening(path, lambda: None):
        pass
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"loop.socket {path}" in record.getMessage()
    if obstacle == "file":
        assert Path(path).read_text() == "precious"


def test_no_path_is_no_socket_and_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with listening("", lambda: None):
        pass
    assert not caplog.records


@pytest.mark.parametrize("bad", ["poke.sock", "/run/\0", f"/run/{'x' * 110}"])
def test_a_path_that_no_socket_can_have_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="socket must be empty or an absolute path"):
        Pace(socket=bad)
