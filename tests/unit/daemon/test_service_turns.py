"""The service's turns: when the next one comes, whatever the clock and pokes do, and what does not interrupt one."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import inf

import pytest
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.service import Service
from tesched_daemon.wakeup import AGAIN_S, PAUSE_S, Agenda
from tesched_testcluster.patience import HANG_S, wait_for


class Turning(Loop):
    """A loop that only notes its turns, which may be held up."""

    def __init__(self) -> None:
        """Make no parts: none is used."""
        self.began: list[float] = []
        self.asked: list[bool] = []
        self.ended: list[float] = []
        self.hold = threading.Event()
        self.hold.set()
        self.inside = threading.Semaphore(0)

    def turn(self, *, asked: bool = False) -> CycleResult:
        self.began.append(time.monotonic())
        self.asked.append(asked)
        self.inside.release()
        assert self.hold.wait(HANG_S)
        self.ended.append(time.monotonic())
        return CycleResult(summary="looked", next_in_s=3600.0)

    def wait_turn(self) -> None:
        assert self.inside.acquire(timeout=HANG_S)


def wait_for_the_poll(service: Service) -> None:
    """Wait until the poll is what comes next, an hour away: no poke's poll is due any more."""

    def in_s() -> float:
        planned = service._scheduler.get_job("turn")
        return (planned.next_run_time - datetime.now(UTC)).total_seconds() if planned else 0.0

    wait_for(lambda: in_s() > 1800)


@pytest.fixture
def turning() -> Iterator[tuple[Turning, Service]]:
    """Give a service after its first turn, with its next poll an hour away."""
    loop = Turning()
    service = Service(loop, reload=lambda _: "")
    thread = threading.Thread(target=service.run)
    thread.start()
    loop.wait_turn()
    wait_for_the_poll(service)
    yield loop, service
    service.stop()
    thread.join(HANG_S)
    assert not thread.is_alive()


def test_a_clock_that_is_set_back_puts_off_no_turn(turning: tuple[Turning, Service]) -> None:
    loop, service = turning
    with service._planning:
        # What is due now by the stopwatch is due in an hour by the clock on the wall.
        service._agenda.ended(time.monotonic(), took_s=0.0, next_in_s=0.0, troubled=True)
        service._scheduler.modify_job("turn", next_run_time=datetime.now(UTC) + timedelta(hours=1))
    loop.wait_turn()
    assert loop.asked == [False, False]


def test_a_poke_makes_the_service_poll_twice_and_then_wait_again(turning: tuple[Turning, Service]) -> None:
    loop, service = turning
    poked = time.monotonic()
    service.poke()
    loop.wait_turn()
    wait_for_the_poll(service)
    first, *second = loop.began[1:]
    # On a machine that was busy for that long, the first poll is the second one as well.
    assert len(second) == 1 or (not second and first >= poked + AGAIN_S)
    assert loop.began[-1] >= poked + AGAIN_S
    assert loop.asked == [False, *[True] * len(loop.began[1:])]


def test_pokes_during_a_turn_do_not_add_up_and_keep_the_pause(turning: tuple[Turning, Service]) -> None:
    loop, service = turning
    loop.hold.clear()
    service.poke()
    loop.wait_turn()
    for _ in range(199):
        service.poke()
    poked = time.monotonic()
    service.poke()
    loop.hold.set()
    loop.wait_turn()
    wait_for_the_poll(service)
    first, *second = loop.began[2:]
    assert len(second) == 1 or (not second and first >= poked + AGAIN_S)
    assert loop.began[-1] >= poked + AGAIN_S
    assert all(next_ - end >= PAUSE_S for end, next_ in zip(loop.ended, loop.began[1:], strict=False))


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note of each time that the main thread has woken how many messages its watchdog had from there until then."""
    messages: list[threading.Thread] = []
    noted: list[int] = []
    catch_up = Service._catch_up

    def counted(service: Service) -> None:
        catch_up(service)
        noted.append(messages.count(threading.current_thread()))

    def hears(**fields: str) -> None:
        messages.extend([threading.current_thread()] if "WATCHDOG" in fields else [])

    monkeypatch.setattr("tesched_daemon.service.WAKES_S", 0.01)
    monkeypatch.setattr("tesched_daemon.service.notify", hears)
    monkeypatch.setattr(Service, "_catch_up", counted)
    return noted


def wakes(woken: list[int]) -> list[int]:
    """Return, of the next five times that the main thread wakes, how many messages each had sent."""
    begin = len(woken)
    wait_for(lambda: len(woken) > begin + 5)
    return [later - before for before, later in pairwise(woken[begin : begin + 6])]


def test_a_daemon_that_waits_for_an_hour_is_no_dead_one(woken: list[int], turning: tuple[Turning, Service]) -> None:
    assert wakes(woken) == [1] * 5


def test_a_turn_that_hangs_is_not_hidden_from_the_watchdog(woken: list[int], turning: tuple[Turning, Service]) -> None:
    loop, service = turning
    loop.hold.clear()
    service.poke()
    loop.wait_turn()
    try:
        assert wakes(woken) == [0] * 5
    finally:
        loop.hold.set()


def test_a_turn_that_is_due_and_does_not_begin_is_not_hidden_from_the_watchdog(
    monkeypatch: pytest.MonkeyPatch, woken: list[int], turning: tuple[Turning, Service]
) -> None:
    _, service = turning
    monkeypatch.setattr(service, "_plan", lambda: None)
    with service._planning:
        service._agenda.ended(time.monotonic(), took_s=0.0, next_in_s=0.0, troubled=True)
        begin = len(woken)
    wait_for(lambda: len(woken) > begin + 1)
    assert wakes(woken) == [0] * 5


def test_a_service_that_stops_takes_no_more_pokes(turning: tuple[Turning, Service]) -> None:
    _, service = turning
    service.stop()
    for _ in range(100):
        service.poke()


def test_no_search_for_garbage_interrupts_a_turn_and_all_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, frozen, during = Turning(), [], []
    turn = loop.turn

    def noted(*, asked: bool = False) -> CycleResult:
        during.append(gc.isenabled())
        result = turn(asked=asked)
        return replace(result, saw=len(during) > 1)

    monkeypatch.setattr(loop, "turn", noted)
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(during)))
    service = Service(loop, reload=lambda _: "")
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        for _ in range(3):
            loop.wait_turn()
            wait_for(gc.isenabled)
            service.reload()
    finally:
        service.stop()
        thread.join(HANG_S)
    assert during[:3] == [False] * 3
    assert frozen == [2], "once, after the first turn that has seen the cluster"


class Early(Turning):
    """One that takes early turns, and notes what came in which order."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        #: what an early turn comes to; None: it does nothing
        self.makes: CycleResult | None = None

    @property
    def early_counts_as(self) -> int:
        return 3

    def turn(self, *, asked: bool = False) -> CycleResult:
        self.order.append("poll")
        return replace(super().turn(asked=asked), early=True)

    def early_turn(self) -> CycleResult | None:
        self.order.append("early turn")
        return self.makes


def test_a_poke_brings_an_early_turn_and_the_watchdog_hears_of_it_before_the_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = Early()

    def hears(**fields: str) -> None:
        # Of a turn: it hears of waits as well, in the main thread.
        loop.order += ["watchdog"] if "WATCHDOG" in fields and threading.current_thread() is not thread else []

    monkeypatch.setattr("tesched_daemon.service.notify", hears)
    service = Service(loop, reload=lambda _: "")
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        loop.wait_turn()
        wait_for(lambda: "watchdog" in loop.order)
        service.poke(again=False)
        loop.wait_turn()
    finally:
        service.stop()
        thread.join(HANG_S)
    assert loop.order[:5] == ["poll", "watchdog", "early turn", "watchdog", "poll"]


@pytest.mark.parametrize(("makes", "next_in_s"), [(None, inf), (CycleResult(summary="acted", next_in_s=7.0), 7.0)])
def test_a_grace_period_that_an_early_turn_began_is_planned_for(
    monkeypatch: pytest.MonkeyPatch, makes: CycleResult | None, next_in_s: float
) -> None:
    loop = Early()
    loop.makes = makes
    planned: list[tuple[float, int]] = []
    ended_early = Agenda.ended_early

    def plans(agenda: Agenda, at: float, *, took_s: float, next_in_s: float = inf, counts_as: int = 1) -> None:
        planned.append((next_in_s, counts_as))
        ended_early(agenda, at, took_s=took_s, next_in_s=next_in_s, counts_as=counts_as)

    monkeypatch.setattr(Agenda, "ended_early", plans)
    service = Service(loop, reload=lambda _: "")
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        loop.wait_turn()
        service.poke(again=False)
        loop.wait_turn()
    finally:
        service.stop()
        thread.join(HANG_S)
    assert planned == [(next_in_s, 3)]
